//! The bridge with a Telegram that somebody else wrote: npm's `telegram-test-api`.
//!
//! It knows neither limits nor drafts nor files, but nobody here wrote it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use test_support::packages::{self, OptionalPackages};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::time::{Instant, sleep, timeout};

use crate::stage::{ANN, PATIENCE, Stage};

const PACKAGE: &str = "telegram-test-api@4.2.1";
const TOKEN: &str = "666:smoke";

/// Somebody in a chat of that Telegram.
struct Person {
    http: Client,
    url: String,
}

impl Person {
    async fn post(&self, method: &str, body: Value) -> Value {
        let sent = self.http.post(format!("{}/{method}", self.url)).json(&body).send().await;
        sent.expect("an answer").json().await.expect("JSON")
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

    /// Waits until a message of the bot's is as wanted; it, and its number.
    async fn sees(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> (Value, i64) {
        let until = Instant::now() + PATIENCE;
        loop {
            let history = self.post("getUpdatesHistory", json!({ "token": TOKEN })).await;
            let all = history["result"].as_array().cloned().unwrap_or_default();
            let mut sent = all.iter().filter(|it| it["message"]["chat_id"] == ANN.0);
            if let Some(found) = sent.find(|it| wanted(&it["message"])) {
                let number = found["messageId"].as_i64().expect("a number");
                return (found["message"].clone(), number);
            }
            assert!(Instant::now() < until, "no `{what}` in {all:#?}");
            // It tells nobody when something comes.
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn a_telegram_that_somebody_else_wrote_is_spoken_to() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("telegram-test-api");
    if packages::or_skip(packages::npm(&place, &[PACKAGE], OptionalPackages::Install)).is_none() {
        return;
    }
    // A module finds its packages beside itself.
    let script = place.join("smoke.mjs");
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/telegram/smoke.mjs");
    std::fs::copy(own, &script).expect("a copy");
    let mut node = tokio::process::Command::new("node");
    node.arg(script).stdout(Stdio::piped()).kill_on_drop(true);
    let mut node = node.spawn().expect("node starts");
    let mut stdout = BufReader::new(node.stdout.take().expect("a pipe"));
    let mut line = String::new();
    timeout(PATIENCE, stdout.read_line(&mut line)).await.expect("in time").expect("a line");
    let ready: Value = serde_json::from_str(&line).expect("JSON");
    let url = ready["url"].as_str().expect("a URL").to_owned();
    let http = test_support::http_client();
    let ann = Person { http, url: url.clone() };

    let mut stage = Stage::new(
        "api tool Bash {\"command\":\"touch done\",\"description\":\"d\"}\napi text \"Made **it**.\"",
    )
    .await;
    stage.elsewhere = Some((url, TOKEN.to_owned()));
    let bridge = stage.bridge().await;
    assert_eq!(bridge.ready["bot"], "TestNameBot");
    ann.post("sendMessage", Person::message("make it")).await;
    let allow = |it: &Value| it["reply_markup"].to_string().contains("Allow");
    let (card, number) = ann.sees("a card", allow).await;
    let data = card["reply_markup"]["inline_keyboard"][0][0]["callback_data"].clone();
    let mut tap = Person::message("");
    tap["message_id"] = json!(number);
    let tap = json!({ "botToken": TOKEN, "from": tap["from"], "message": tap, "data": data });
    ann.post("sendCallback", tap).await;
    let (answer, _) = ann
        .sees("an answer", |it| {
            it["text"].as_str().is_some_and(|it| it.contains("Made <b>it</b>."))
        })
        .await;
    assert_eq!(answer["parse_mode"], "HTML");
    ann.sees("an edit", |it| it["text"].as_str().is_some_and(|it| it.contains("Allowed by Ann")))
        .await;
    assert!(stage.path("project/done").exists());
    assert!(!stage.log().contains("smoke"), "{}", stage.log());
}
