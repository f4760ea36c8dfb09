//! The bridge inside `serve`: one session in the browser and in Telegram.

use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};

use crate::stage::{ANN, Bridge, PATIENCE, Stage};

const TOUCH: &str = "api tool Bash {\"command\":\"touch one\",\"description\":\"d\"}\napi text \"First done.\"\n\
                     api tool Bash {\"command\":\"touch two\",\"description\":\"d\"}\napi text \"Second done.\"";

/// It takes well under a second; a machine that does ten other things is given more.
const SOON: Duration = Duration::from_secs(10);

struct Browser<'a> {
    http: Client,
    serving: &'a Bridge,
}

impl Browser<'_> {
    fn url(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.serving.ready["url"].as_str().expect("a URL"))
    }

    fn token(&self) -> &str {
        self.serving.ready["token"].as_str().expect("a token")
    }

    async fn get(&self, path: &str) -> Value {
        let sent = self.http.get(self.url(path)).bearer_auth(self.token()).send().await;
        sent.expect("an answer").json().await.expect("JSON")
    }

    async fn post(&self, path: &str, body: Value) -> u16 {
        let sent =
            self.http.post(self.url(path)).bearer_auth(self.token()).json(&body).send().await;
        sent.expect("an answer").status().as_u16()
    }

    /// The one session there is, and what it asks.
    async fn request(&self) -> (String, String) {
        let until = Instant::now() + PATIENCE;
        loop {
            let sessions = self.get("/sessions").await;
            let session = sessions["sessions"][0]["id"].as_str().expect("a session").to_owned();
            let requests = self.get(&format!("/sessions/{session}/requests")).await;
            if let Some(id) = requests["requests"][0]["id"].as_str() {
                return (session, id.to_owned());
            }
            assert!(Instant::now() < until, "nothing is asked");
        }
    }
}

#[tokio::test]
async fn what_is_answered_in_the_browser_is_settled_in_the_chat_and_the_other_way_round() {
    let stage = Stage::new(TOUCH).await;
    let serving = stage.run("serve", &["--listen", "127.0.0.1:0", "--telegram"]).await;
    let http = test_support::http_client();
    let browser = Browser { http, serving: &serving };
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "first");
    let card = stage.button(chat, "Allow").await;
    let (session, request) = browser.request().await;
    let path = format!("/sessions/{session}/requests/{request}");
    let answered = Instant::now();
    assert!(browser.post(&path, json!({ "decision": "allow" })).await < 300);
    let settled = |seen: &[test_support::bot_api::Seen]| {
        seen.iter().any(|it| it.message_id == card && it.markup.is_empty())
    };
    let seen = stage.telegram.wait_until(chat, settled, PATIENCE).await;
    seen.unwrap_or_else(|not| panic!("{not}\n{}", stage.log()));
    // The chat's clock runs faster, but what was said in it last is long ago either way.
    assert!(answered.elapsed() < SOON, "{:?}", answered.elapsed());
    stage.says(chat, "First done.").await;

    stage.telegram.user_says(chat, ANN, "second");
    stage.button(chat, "Allow").await;
    let (_, request) = browser.request().await;
    let answered = Instant::now();
    stage.tap(chat, ANN, "Allow").await;
    loop {
        let requests = browser.get(&format!("/sessions/{session}/requests")).await;
        let open = requests["requests"]
            .as_array()
            .expect("requests")
            .iter()
            .any(|it| it["id"] == request.as_str());
        if !open {
            break;
        }
        assert!(answered.elapsed() < SOON, "it is still asked");
    }
    stage.says(chat, "Second done.").await;
    assert!(
        browser
            .post(
                &format!("/sessions/{session}/prompts"),
                json!({ "id": uuid::Uuid::new_v4(), "text": "from the browser" })
            )
            .await
            < 300
    );
    stage
        .bot_message(chat, "what was said elsewhere", |it| it.text.contains("from the browser"))
        .await;
    stage.check();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_and_a_server_do_not_share_data() {
    let stage = Stage::new("api text \"x\"").await;
    let _bridge = stage.bridge().await;
    let output = stage
        .command(&[
            "serve",
            "--demo",
            "--listen",
            "127.0.0.1:0",
            "--data",
            &stage.path("data").display().to_string(),
        ])
        .output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("already"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_or_with_a_wrong_one_it_says_what_to_do() {
    let stage = Stage::new("api text \"x\"").await;
    let url = stage.telegram.url.clone();
    let run = |token: Option<&str>| {
        let mut command = stage.command(&["telegram", "--demo", "--api-url", &url]);
        match token {
            Some(token) => command.env("TOWPATH_TELEGRAM_TOKEN", token),
            None => command.env_remove("TOWPATH_TELEGRAM_TOKEN"),
        };
        let output = command.output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(run(None).contains("@BotFather"));
    assert!(run(Some("nonsense")).contains("TOWPATH_TELEGRAM_TOKEN"));
    let unknown = run(Some("1:wrong-but-secret"));
    assert!(
        unknown.contains("does not know this token") && !unknown.contains("secret"),
        "{unknown}"
    );
}

#[tokio::test]
async fn a_deleted_session_is_said_and_the_next_message_begins_another() {
    let stage = Stage::new("api text \"Hello.\"").await;
    let serving = stage.run("serve", &["--listen", "127.0.0.1:0", "--telegram"]).await;
    let http = test_support::http_client();
    let browser = Browser { http, serving: &serving };
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "one");
    stage.says(chat, "Hello.").await;
    let session =
        browser.get("/sessions").await["sessions"][0]["id"].as_str().expect("an id").to_owned();
    let url = browser.url(&format!("/sessions/{session}"));
    let deleted = browser.http.delete(url).bearer_auth(browser.token()).send().await;
    assert!(deleted.expect("an answer").status().is_success());
    stage.says(chat, "deleted").await;
    stage.telegram.user_says(chat, ANN, "two");
    let again = |seen: &[test_support::bot_api::Seen]| {
        seen.iter().filter(|it| it.text.contains("Hello.")).count() == 2
    };
    let seen = stage.telegram.wait_until(chat, again, PATIENCE).await;
    seen.unwrap_or_else(|not| panic!("{not}\n{}", stage.log()));
    stage.check();
}
