//! The bridge inside `towpath serve`: one session in the browser and in Telegram.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reqwest::Client;
use serde_json::{Value, json};
use test_support::bot_api::MessageSnapshot;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::time::timeout;

use crate::browser::{prepare, scripts as script_directory};
use crate::fixture::{ANN, BridgeProcess, Fixture, TIMEOUT};
use crate::texts::{ALLOW, DATA_IN_USE, SESSION_DELETED, UNKNOWN_TOKEN};

const TOUCH: &str = "api tool Bash {\"command\":\"touch one\",\"description\":\"d\"}\napi text \"First done.\"\n\
                     api tool Bash {\"command\":\"touch two\",\"description\":\"d\"}\napi text \"Second done.\"";

/// How long an answer may take to the other side. It takes well under a second on an idle machine.
const SYNC_LIMIT: Duration = Duration::from_secs(30);

/// A client of the server's HTTP API.
struct ApiClient<'a> {
    http: Client,
    server: &'a BridgeProcess,
}

impl<'a> ApiClient<'a> {
    fn new(server: &'a BridgeProcess) -> Self {
        Self { http: test_support::http_client(), server }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/api/v1{path}", self.base_url())
    }

    fn base_url(&self) -> &str {
        self.server.ready["url"].as_str().expect("a URL")
    }

    fn token(&self) -> &str {
        self.server.ready["token"].as_str().expect("a token")
    }

    async fn get(&self, path: &str) -> Value {
        let response = self.http.get(self.url(path)).bearer_auth(self.token()).send().await;
        response.expect("a response").json().await.expect("JSON")
    }

    async fn post(&self, path: &str, body: Value) {
        let request = self.http.post(self.url(path)).bearer_auth(self.token()).json(&body);
        let status = request.send().await.expect("a response").status();
        assert!(status.is_success(), "{path}: {status}");
    }

    async fn delete(&self, path: &str) {
        let request = self.http.delete(self.url(path)).bearer_auth(self.token());
        let status = request.send().await.expect("a response").status();
        assert!(status.is_success(), "{path}: {status}");
    }

    /// The id of the only session.
    async fn session(&self) -> String {
        self.get("/sessions").await["sessions"][0]["id"].as_str().expect("a session").to_owned()
    }

    /// The ids of the open requests of a session.
    async fn requests(&self, session: &str) -> Vec<String> {
        let requests = self.get(&format!("/sessions/{session}/requests")).await;
        let requests = requests["requests"].as_array().expect("requests").clone();
        requests.iter().map(|it| it["id"].as_str().expect("an id").to_owned()).collect()
    }

    /// Waits for an open request of a session.
    async fn wait_for_request(&self, session: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(id) = self.requests(session).await.pop() {
                return id;
            }
            assert!(Instant::now() < deadline, "no request");
        }
    }
}

#[tokio::test]
async fn an_answer_over_http_reaches_the_chat_and_an_answer_in_the_chat_reaches_http() {
    let fixture = Fixture::new(TOUCH).await;
    let server = fixture.start_server().await;
    let api = ApiClient::new(&server);
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "first");
    let card = fixture.wait_for_button(chat, ALLOW).await;
    let session = api.session().await;
    let request = api.wait_for_request(&session).await;
    let start = Instant::now();
    let path = format!("/sessions/{session}/requests/{request}");
    api.post(&path, json!({ "decision": "allow" })).await;
    let is_closed = |it: &MessageSnapshot| it.message_id == card && it.buttons.is_empty();
    fixture.wait_for_message(chat, "a card without buttons", is_closed).await;
    // The clock of the chat runs faster, but its last message is long enough ago either way.
    assert!(start.elapsed() < SYNC_LIMIT, "{:?}", start.elapsed());
    fixture.wait_for_text(chat, "First done.").await;

    fixture.telegram.user_sends(chat, ANN, "second");
    fixture.wait_for_button(chat, ALLOW).await;
    let request = api.wait_for_request(&session).await;
    let start = Instant::now();
    fixture.tap(chat, ANN, ALLOW).await;
    while api.requests(&session).await.contains(&request) {
        assert!(start.elapsed() < SYNC_LIMIT, "the request is still open");
    }
    fixture.wait_for_text(chat, "Second done.").await;
    let prompt = json!({ "id": uuid::Uuid::new_v4(), "text": "from the browser" });
    api.post(&format!("/sessions/{session}/prompts"), prompt).await;
    fixture.wait_for_text(chat, "from the browser").await;
    fixture.assert_correct();
}

#[tokio::test]
async fn an_answer_in_chromium_reaches_the_chat_and_an_answer_in_the_chat_reaches_chromium() {
    let Some(scripts) = script_directory() else { return };
    // In real time, because the test measures it.
    let fixture = Fixture::with_speed(TOUCH, 1).await;
    let server = fixture.start_server().await;
    let api = ApiClient::new(&server);
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "first");
    fixture.wait_for_button(chat, ALLOW).await;
    let mut node = Command::new("node");
    let _scratch = prepare(&mut node);
    node.arg(scripts.join("telegram.mjs")).stdin(Stdio::piped()).stdout(Stdio::piped());
    node.env("ADDRESS", api.base_url()).env("TOKEN", api.token());
    node.env("SESSION", api.session().await);
    let mut node = tokio::process::Command::from(node).kill_on_drop(true).spawn().expect("node");
    let mut page = BufReader::new(node.stdout.take().expect("a pipe")).lines();

    wait_for_line(&mut page, "asked").await;
    let start = Instant::now();
    fixture.tap(chat, ANN, ALLOW).await;
    wait_for_line(&mut page, "settled").await;
    let in_browser = start.elapsed();
    fixture.wait_for_text(chat, "First done.").await;

    fixture.telegram.user_sends(chat, ANN, "second");
    wait_for_line(&mut page, "asked again").await;
    fixture.wait_for_button(chat, ALLOW).await;
    let mut stdin = node.stdin.take().expect("a pipe");
    stdin.write_all(b"answer\n").await.expect("the script reads stdin");
    wait_for_line(&mut page, "answered").await;
    let start = Instant::now();
    fixture.wait_for_no_button(chat, ALLOW).await;
    let in_chat = start.elapsed();
    fixture.wait_for_text(chat, "Second done.").await;
    println!("answers took {in_browser:?} to the browser and {in_chat:?} to the chat");
    assert!(in_browser < SYNC_LIMIT && in_chat < SYNC_LIMIT, "{in_browser:?} {in_chat:?}");
    let status = timeout(TIMEOUT, node.wait()).await.expect("node ends").expect("a status");
    assert!(status.success(), "the script failed: {status}");
    fixture.assert_correct();
}

async fn wait_for_line(page: &mut Lines<BufReader<ChildStdout>>, expected: &str) {
    let line = timeout(TIMEOUT, page.next_line()).await;
    let line = line.unwrap_or_else(|_| panic!("the script did not print `{expected}`"));
    assert_eq!(line.expect("a line").as_deref(), Some(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bridge_and_a_server_cannot_use_the_same_data() {
    let fixture = Fixture::new("api text \"x\"").await;
    let _bridge = fixture.start_bridge().await;
    let data = fixture.path("data").display().to_string();
    let arguments = ["serve", "--demo", "--listen", "127.0.0.1:0", "--data", &data];
    let output = fixture.command(&arguments).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains(DATA_IN_USE), "{output:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_or_wrong_token_is_an_error_with_a_remedy() {
    let fixture = Fixture::new("api text \"x\"").await;
    let url = fixture.telegram.url.clone();
    let run = |token: Option<&str>| {
        let mut command = fixture.command(&["telegram", "--demo", "--api-url", &url]);
        match token {
            Some(token) => command.env("TOWPATH_TELEGRAM_TOKEN", token),
            None => command.env_remove("TOWPATH_TELEGRAM_TOKEN"),
        };
        let output = command.output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(run(None).contains("@BotFather"));
    assert!(run(Some("nonsense")).contains("TOWPATH_TELEGRAM_TOKEN"));
    let unknown = run(Some("1:wrong-but-secret"));
    assert!(unknown.contains(UNKNOWN_TOKEN) && !unknown.contains("secret"), "{unknown}");
}

#[tokio::test]
async fn a_chat_whose_session_is_deleted_starts_another_with_the_next_message() {
    let fixture = Fixture::new("api text \"Hello.\"").await;
    let server = fixture.start_server().await;
    let api = ApiClient::new(&server);
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "one");
    fixture.wait_for_text(chat, "Hello.").await;
    let session = api.session().await;
    api.delete(&format!("/sessions/{session}")).await;
    fixture.wait_for_text(chat, SESSION_DELETED).await;
    fixture.telegram.user_sends(chat, ANN, "two");
    fixture.wait_for_texts(chat, "Hello.", 2).await;
    fixture.assert_correct();
}
