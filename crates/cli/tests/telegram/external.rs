//! The bridge with programs of others: the real CLI, and npm's `telegram-test-api`.
//!
//! `telegram-test-api` supports neither limits nor drafts nor files, but its authors read Telegram's
//! documentation independently of us.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use test_support::packages::{self, OptionalPackages};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::{Instant, sleep, timeout};

use crate::fixture::{ANN, BOB, Fixture, TIMEOUT};
use crate::real_cli;
use crate::texts::{ALLOW, ALLOWED, STOP};

const PACKAGE: &str = "telegram-test-api@4.2.1";
const SECRET: &str = "third-party-secret";
const TOKEN: &str = "666:third-party-secret";

#[tokio::test]
async fn a_conversation_with_the_real_cli_survives_a_killed_bridge() {
    match real_cli::command().await {
        Ok(_) => real_cli::without_network("external::conversation_with_the_real_cli"),
        Err(reason) => real_cli::skip(&reason),
    }
}

#[tokio::test]
#[ignore = "the test above runs it without a network"]
async fn conversation_with_the_real_cli() {
    let command = real_cli::command().await.expect("the real CLI");
    let fixture = Fixture::new(
        "api for \"make it\" tool Bash {\"command\":\"touch done\",\"description\":\"make a file\"}\n\
         api for \"tell\" text \"alpha beta gamma delta epsilon\" hold gate after 2\n\
         api for \"tool_result\" text \"Made it.\"\n\
         api text \"Made it.\"",
    )
    .await;
    let quote = |word: &OsString| format!("'{}'", word.to_string_lossy());
    let command = command.iter().map(quote).collect::<Vec<_>>().join(" ");
    fixture.set_agent(&format!(
        "#!/bin/sh\nexport IS_SANDBOX=1 LANG=C.UTF-8 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
         CLAUDE_CODE_MAX_RETRIES=1 DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1\nexec {command} \"$@\"\n"
    ));
    let bridge = fixture.start_bridge().await;
    let group = fixture.telegram.create_group(&[ANN, BOB]);
    fixture.telegram.user_sends(group, ANN, "make it");
    let card = fixture.wait_for_button(group, ALLOW).await;
    fixture.wait_until_stored(card).await;
    bridge.kill().await;
    let bridge = fixture.start_bridge().await;
    assert!(fixture.tap(group, BOB, ALLOW).await.contains(ALLOWED));
    fixture.wait_for_text(group, "Made it.").await;
    assert!(fixture.path("project/done").exists());
    assert_eq!(fixture.wait_for_text(group, "Bob").await.message_id, card);

    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "tell");
    let progress = fixture.wait_for_button(chat, STOP).await;
    fixture.wait_until_stored(progress).await;
    bridge.kill().await;
    let _bridge = fixture.start_bridge().await;
    fixture.api.open("gate");
    fixture.wait_for_text(chat, "alpha beta gamma delta epsilon").await;
    assert_eq!(fixture.count_texts(chat, "alpha"), 1, "{:?}", fixture.bot_texts(chat));
    let requests = fixture.model_requests();
    assert_eq!(requests.iter().filter(|it| it.contains("\"tell\"")).count(), 1, "{requests:#?}");
    fixture.assert_correct();
}

/// The user Ann in a private chat of `telegram-test-api`.
struct ThirdPartyUser {
    http: Client,
    url: String,
}

impl ThirdPartyUser {
    async fn post(&self, method: &str, body: Value) -> Value {
        let response = self.http.post(format!("{}/{method}", self.url)).json(&body).send().await;
        response.expect("a response").json().await.expect("JSON")
    }

    fn message(text: &str) -> Value {
        json!({
            "botToken": TOKEN,
            "from": { "id": ANN.0, "first_name": "Ann", "username": "ann", "is_bot": false },
            "chat": { "id": ANN.0, "first_name": "Ann", "type": "private" },
            "date": 1_700_000_000,
            "text": text,
        })
    }

    /// Waits for a message of the bot. Returns it with its number.
    async fn wait_for_message(
        &self,
        what: &str,
        condition: impl Fn(&Value) -> bool,
    ) -> (Value, i64) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let history = self.post("getUpdatesHistory", json!({ "token": TOKEN })).await;
            let updates = history["result"].as_array().cloned().unwrap_or_default();
            let mut messages = updates.iter().filter(|it| it["message"]["chat_id"] == ANN.0);
            if let Some(update) = messages.find(|it| condition(&it["message"])) {
                let number = update["messageId"].as_i64().expect("a number");
                return (update["message"].clone(), number);
            }
            assert!(Instant::now() < deadline, "no `{what}` in {updates:#?}");
            // The package has no way to wait for a message.
            sleep(Duration::from_millis(50)).await;
        }
    }

    async fn wait_for_text(&self, words: &str) -> Value {
        let has = |it: &Value| it["text"].as_str().is_some_and(|it| it.contains(words));
        self.wait_for_message(words, has).await.0
    }
}

#[tokio::test]
async fn the_bridge_works_with_a_third_party_bot_api() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("telegram-test-api");
    let installed = packages::npm(&directory, &[PACKAGE], OptionalPackages::Install);
    if packages::or_skip(installed).is_none() {
        return;
    }
    // Node looks for packages next to the script.
    let script = directory.join("third_party.mjs");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/telegram/third_party.mjs");
    std::fs::copy(source, &script).expect("a copy");
    let mut node = tokio::process::Command::new("node");
    node.arg(script).stdout(Stdio::piped()).kill_on_drop(true);
    let mut node = node.spawn().expect("node starts");
    let mut stdout = BufReader::new(node.stdout.take().expect("a pipe"));
    let mut line = String::new();
    timeout(TIMEOUT, stdout.read_line(&mut line)).await.expect("a line in time").expect("a line");
    let ready: Value = serde_json::from_str(&line).expect("JSON");
    let url = ready["url"].as_str().expect("a URL").to_owned();
    let ann = ThirdPartyUser { http: test_support::http_client(), url: url.clone() };

    let mut fixture = Fixture::new(
        "api tool Bash {\"command\":\"touch done\",\"description\":\"d\"}\napi text \"Made **it**.\"",
    )
    .await;
    fixture.other_api = Some((url, TOKEN.to_owned()));
    let bridge = fixture.start_bridge().await;
    assert_eq!(bridge.ready["bot"], "TestNameBot");
    ann.post("sendMessage", ThirdPartyUser::message("make it")).await;
    let has_button = |it: &Value| it["reply_markup"].to_string().contains(ALLOW);
    let (card, number) = ann.wait_for_message("a card", has_button).await;
    let data = card["reply_markup"]["inline_keyboard"][0][0]["callback_data"].clone();
    let mut message = ThirdPartyUser::message("");
    message["message_id"] = json!(number);
    let from = message["from"].clone();
    let tap = json!({ "botToken": TOKEN, "from": from, "message": message, "data": data });
    ann.post("sendCallback", tap).await;
    let answer = ann.wait_for_text("Made <b>it</b>.").await;
    assert_eq!(answer["parse_mode"], "HTML");
    let card = ann.wait_for_text("by Ann").await;
    assert!(card["text"].to_string().contains(ALLOWED), "{card}");
    assert!(fixture.path("project/done").exists());
    assert!(!fixture.log().contains(SECRET), "the token is in the log: {}", fixture.log());
}
