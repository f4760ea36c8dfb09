//! One session in a real browser and in Telegram at once.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::ChildStdout;
use tokio::time::timeout;

use crate::browser::{prepare, scripts as script_directory};
use crate::stage::{ANN, PATIENCE, Stage};

const TOUCH: &str = "api tool Bash {\"command\":\"touch one\",\"description\":\"d\"}\napi text \"First done.\"\n\
                     api tool Bash {\"command\":\"touch two\",\"description\":\"d\"}\napi text \"Second done.\"";

/// It takes well under a second; a machine that does ten other things is given more.
const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn what_is_answered_in_chromium_is_settled_in_the_chat_and_the_other_way_round() {
    let Some(scripts) = script_directory() else { return };
    // The world's own clock: a second is a second here.
    let stage = Stage::with(TOUCH, Stage::options(1)).await;
    let serving = stage.run("serve", &["--listen", "127.0.0.1:0", "--telegram"]).await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "first");
    stage.button(chat, "Allow").await;
    let ready = |name: &str| serving.ready[name].as_str().expect("a text").to_owned();
    let http = reqwest::Client::builder().no_proxy().build().expect("a client");
    let sessions =
        http.get(format!("{}/api/v1/sessions", ready("url"))).bearer_auth(ready("token"));
    let sessions: serde_json::Value =
        sessions.send().await.expect("an answer").json().await.expect("JSON");
    let mut node = Command::new("node");
    let _scratch = prepare(&mut node);
    node.arg(scripts.join("telegram.mjs"))
        .env("ADDRESS", ready("url"))
        .env("TOKEN", ready("token"));
    node.env("SESSION", sessions["sessions"][0]["id"].as_str().expect("a session"));
    node.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut node = tokio::process::Command::from(node).kill_on_drop(true).spawn().expect("node");
    let mut page = BufReader::new(node.stdout.take().expect("a pipe")).lines();

    hear(&mut page, "asked").await;
    let tapped = Instant::now();
    stage.tap(chat, ANN, "Allow").await;
    hear(&mut page, "settled").await;
    let in_browser = tapped.elapsed();
    stage.says(chat, "First done.").await;

    stage.telegram.user_says(chat, ANN, "second");
    hear(&mut page, "asked again").await;
    stage.button(chat, "Allow").await;
    let mut stdin = node.stdin.take().expect("a pipe");
    stdin.write_all(b"answer\n").await.expect("it listens");
    hear(&mut page, "answered").await;
    let clicked = Instant::now();
    stage.no_button(chat, "Allow").await;
    let in_chat = clicked.elapsed();
    stage.says(chat, "Second done.").await;
    println!("settled in the browser after {in_browser:?}, in the chat after {in_chat:?}");
    assert!(in_browser < SOON && in_chat < SOON, "{in_browser:?} {in_chat:?}");
    let ended = timeout(PATIENCE, node.wait()).await.expect("it ends").expect("it ran");
    assert!(ended.success(), "the page failed: {ended}");
    stage.check();
}

async fn hear(page: &mut Lines<BufReader<ChildStdout>>, words: &str) {
    let line = timeout(PATIENCE, page.next_line()).await;
    let line = line.unwrap_or_else(|_| panic!("the page never says `{words}`")).expect("a line");
    assert_eq!(line.as_deref(), Some(words));
}
