//! One session in four places at once: a page in Chromium, a terminal, an editor, and Telegram.

use std::process::Stdio;

use serde_json::Value;
use test_support::bot_api::{BotApi, BotApiOptions, BotApiUserId, MessageSnapshot};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;

use crate::browser;
use crate::environment::TIMEOUT;
use crate::fixture::Fixture;
use crate::programs;

const ANN: BotApiUserId = BotApiUserId(11);
const ROUNDS: usize = 4;
const ALLOW: &str = "Allow";

/// How much faster than real time Telegram's clock runs.
const SPEED: u32 = 8;

/// A program that shows the session and says what it shows, line by line.
struct View {
    name: &'static str,
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl View {
    fn start(name: &'static str, mut command: tokio::process::Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.kill_on_drop(true).spawn().expect("the view starts");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { name, child, stdin, stdout }
    }

    async fn line(&mut self) -> String {
        let line = timeout(2 * TIMEOUT, self.stdout.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("{} is silent", self.name));
        line.expect("text").unwrap_or_else(|| panic!("{} ended", self.name))
    }

    async fn says(&mut self, expected: &str) {
        assert_eq!(self.line().await, expected, "{}", self.name);
    }

    async fn tell(&mut self, line: &str) {
        self.stdin.write_all(line.as_bytes()).await.expect("the view reads");
    }
}

fn replies() -> String {
    let round = |number| {
        format!(
            "api for \"round {number}\" tool Bash {{\"command\":\"touch r{number}\",\"description\":\"d\"}}\n\
             api text \"Round {number} done.\""
        )
    };
    (1..=ROUNDS).map(round).collect::<Vec<_>>().join("\n")
}

fn has_button(message: &MessageSnapshot) -> bool {
    !message.deleted && message.buttons.iter().flatten().any(|it| it.contains(ALLOW))
}

#[tokio::test]
async fn an_answer_in_one_of_four_views_settles_the_question_in_all() {
    let Some(scripts) = browser::scripts() else { return };
    let Some(python) = programs::python("client.py") else { return };
    let fixture = Fixture::new(&replies()).await;
    let telegram =
        BotApi::start(BotApiOptions { speed: f64::from(SPEED), ..BotApiOptions::default() });
    let telegram = telegram.await.expect("a port");
    telegram.set_user_name(ANN, "Ann", "ann");
    let (agent, project) = (fixture.path("agent").display().to_string(), fixture.project());
    let mut serve = fixture.program(&["serve", "--listen", "127.0.0.1:0", "--json", "--telegram"]);
    serve.args(["--claude", &agent, "--root", &project, "--allow", &ANN.0.to_string()]);
    serve.args(["--api-url", &telegram.url, "--hurry", &SPEED.to_string()]);
    serve.env("TOWPATH_TELEGRAM_TOKEN", &telegram.token);
    let server = fixture.spawn(serve).await;
    let text = |key: &str| server.ready[key].as_str().expect("a string").to_owned();
    let (url, token) = (text("url"), text("token"));

    let chat = telegram.private_chat(ANN);
    telegram.user_sends(chat, ANN, "round 1");
    let asked = telegram.wait_for_chat(chat, |it| it.iter().any(has_button), TIMEOUT).await;
    asked.expect("a card");
    let http = test_support::http_client();
    let sessions = http.get(format!("{url}/api/v1/sessions")).bearer_auth(&token).send().await;
    let sessions: Value = sessions.expect("an answer").json().await.expect("JSON");
    let session = sessions["sessions"][0]["id"].as_str().expect("a session").to_owned();

    let script = scripts.join("view-page.mjs");
    std::fs::copy(programs::scripts().join("view-page.mjs"), &script).expect("a script");
    let mut page = std::process::Command::new("node");
    let _scratch = browser::prepare(&mut page);
    page.arg(script).env("ADDRESS", &url).env("TOKEN", &token);
    let mut terminal = programs::python("view-terminal.py").expect("it was there just now");
    terminal.env("TOWPATH", env!("CARGO_BIN_EXE_towpath"));
    let mut editor = python;
    editor.arg("view");
    let view = |name, command: tokio::process::Command| {
        let mut command = command;
        command.env("SESSION", &session).env("ROUNDS", ROUNDS.to_string());
        View::start(name, command)
    };
    let mut views = [
        view("the page", page.into()),
        view("the terminal", fixture.client(terminal)),
        view("the editor", fixture.client(editor)),
    ];

    for round in 1..=ROUNDS {
        if round > 1 {
            telegram.user_sends(chat, ANN, format!("round {round}").as_str());
        }
        for view in &mut views {
            view.says("asked").await;
        }
        let cards = telegram.wait_for_chat(chat, |it| it.iter().any(has_button), TIMEOUT).await;
        let cards = cards.expect("a card");
        assert!(!fixture.path("project").join(format!("r{round}")).exists());
        // Each of the four answers once.
        for (number, view) in views.iter_mut().enumerate() {
            view.tell(if number + 1 == round { "answer\n" } else { "wait\n" }).await;
        }
        if round > views.len() {
            let card = cards.iter().rev().find(|it| has_button(it)).expect("a card");
            let label =
                card.buttons.iter().flatten().find(|it| it.contains(ALLOW)).expect("a button");
            telegram.user_taps(chat, ANN, card.message_id, label.as_str()).expect("a button");
        }
        for view in &mut views {
            view.says("settled").await;
        }
        let done = format!("Round {round} done.");
        let is_settled = |messages: &[MessageSnapshot]| {
            !messages.iter().any(has_button) && messages.iter().any(|it| it.text.contains(&done))
        };
        let settled = telegram.wait_for_chat(chat, is_settled, TIMEOUT).await;
        settled.expect("Telegram has it too");
        assert!(fixture.path("project").join(format!("r{round}")).exists());
    }
    let expected: Vec<String> = (1..=ROUNDS).map(|round| format!("Round {round} done.")).collect();
    for mut view in views {
        let shown: Vec<String> = serde_json::from_str(&view.line().await).expect("JSON");
        assert_eq!(shown, expected, "{}", view.name);
        let status = timeout(TIMEOUT, view.child.wait()).await.expect("it ends").expect("a status");
        assert!(status.success(), "{}: {status}", view.name);
    }
    let visible = telegram.visible_messages(chat);
    for text in &expected {
        let times = visible.iter().filter(|it| it.from_bot && it.text.contains(text)).count();
        assert_eq!(times, 1, "{text} in Telegram");
    }
    assert!(telegram.violations().is_empty(), "{:#?}", telegram.violations());
    fixture.records.check();
}
