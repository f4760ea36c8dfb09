//! A bot, its Telegram, and the people in its chats.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use test_support::bot_api::{BotApi, BotApiOptions, ChatId, MessageId, Seen, UserId};
use testbed::api::{Kind, Script, Server};
use testbed::scenario::Scenario;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

/// Longer than anything takes on a loaded machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How much faster than the world's Telegram's clock runs here, and the bridge's with it.
pub(crate) const SPEED: u32 = 8;

/// She may use the bot.
pub(crate) const ANN: UserId = UserId(11);

/// So may he.
pub(crate) const BOB: UserId = UserId(12);

/// She may not.
pub(crate) const EVE: UserId = UserId(66);

/// Everything around a bridge.
pub(crate) struct Stage {
    root: TempDir,
    pub(crate) model: Server,
    pub(crate) telegram: BotApi,
    speed: u32,
    /// Who may use the bot.
    pub(crate) allow: Vec<i64>,
    /// Another Telegram, and the token for it.
    pub(crate) elsewhere: Option<(String, String)>,
}

/// A bridge that runs.
pub(crate) struct Bridge {
    pub(crate) child: Child,
    pub(crate) ready: Value,
    _stdout: BufReader<ChildStdout>,
}

impl Stage {
    /// A stage whose model answers as `replies` says, in the words of a scenario.
    pub(crate) async fn new(replies: &str) -> Self {
        Self::with(replies, Self::options(SPEED)).await
    }

    /// A Telegram whose clock runs so fast. Taps can be answered for as long of our time as always.
    pub(crate) fn options(speed: u32) -> BotApiOptions {
        let strict = BotApiOptions::default();
        let callback_life = strict.callback_life * speed;
        BotApiOptions { speed: f64::from(speed), callback_life, ..strict }
    }

    pub(crate) async fn with(replies: &str, options: BotApiOptions) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        for name in ["data", "project", "home", "tmp"] {
            std::fs::create_dir(root.path().join(name)).expect("a directory");
        }
        let project = root.path().join("project").display().to_string();
        let replies = replies.replace("$cwd", &project);
        let text = format!("# A stage\n\n{replies}\n> user \"a scenario needs a step\"\n");
        let scenario = Scenario::parse("stage", &text).unwrap_or_else(|error| panic!("{error}"));
        let script = Script::of(&scenario).expect("no recording among the replies");
        let model = Server::start(script, testbed::api::Options::default()).await.expect("a port");
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few times")]
        let speed = options.speed as u32;
        let telegram = BotApi::start(options).await.expect("a port");
        telegram.name_user(ANN, "Ann", "ann");
        telegram.name_user(BOB, "Bob", "bob");
        telegram.name_user(EVE, "Eve", "eve");
        let stage =
            Self { root, model, telegram, speed, allow: vec![ANN.0, BOB.0], elsewhere: None };
        let play = format!("#!/bin/sh\nexec '{}' play \"$@\"\n", env!("CARGO_BIN_EXE_towpath"));
        stage.agent(&play);
        stage
    }

    /// Makes the agent a script.
    pub(crate) fn agent(&self, script: &str) {
        let path = self.path("agent");
        std::fs::write(&path, script).expect("a script");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("a script that can be run");
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub(crate) fn project(&self) -> String {
        self.path("project").display().to_string()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.args(arguments);
        command.env("TOWPATH_DATA", self.path("data")).env("HOME", self.path("home"));
        command.env("XDG_RUNTIME_DIR", self.path("tmp")).env("TMPDIR", self.path("tmp"));
        command.env("ANTHROPIC_BASE_URL", &self.model.url).env("ANTHROPIC_API_KEY", "sk-dummy");
        let token = self.elsewhere.as_ref().map_or(&self.telegram.token, |(_, token)| token);
        command.env("TOWPATH_TELEGRAM_TOKEN", token);
        command.current_dir(self.path("project"));
        command
    }

    /// The arguments that everything with a bot has.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let (agent, project) = (self.path("agent").display().to_string(), self.project());
        let allow: Vec<String> = self.allow.iter().map(ToString::to_string).collect();
        let allow = allow.join(",");
        let url = self.elsewhere.as_ref().map_or(&self.telegram.url, |(url, _)| url);
        let hurry = self.speed.to_string();
        let words = ["--claude", &agent, "--root", &project, "--allow", &allow];
        let more = ["--api-url", url, "--hurry", &hurry, "--json"];
        words.into_iter().chain(more).map(ToOwned::to_owned).collect()
    }

    pub(crate) async fn bridge(&self) -> Bridge {
        self.run("telegram", &[]).await
    }

    pub(crate) async fn run(&self, name: &str, more: &[&str]) -> Bridge {
        let arguments = self.arguments();
        let mut words = vec![name];
        words.extend(arguments.iter().map(String::as_str));
        words.extend(more);
        let log = std::fs::File::options().create(true).append(true).open(self.path("log"));
        let mut command = self.command(&words);
        command.stdout(Stdio::piped()).stderr(log.expect("a log")).stdin(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let mut child = command.kill_on_drop(true).spawn().expect("the binary starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        let read = timeout(PATIENCE, stdout.read_line(&mut line)).await;
        assert!(matches!(read, Ok(Ok(1..))), "no ready line: {}", self.log());
        let ready = serde_json::from_str(&line).expect("a line of JSON");
        Bridge { child, ready, _stdout: stdout }
    }

    /// What was said on stderr by whoever ran here.
    pub(crate) fn log(&self) -> String {
        let mut text = String::new();
        if let Ok(mut file) = std::fs::File::open(self.path("log")) {
            file.read_to_string(&mut text).expect("a log");
        }
        text
    }

    /// The messages of each request that the model was asked in the main conversations, as JSON.
    pub(crate) fn asked(&self) -> Vec<String> {
        let main = self.model.requests().into_iter().filter(|it| it.kind == Kind::Main);
        main.map(|request| request.body["messages"].to_string()).collect()
    }

    /// How many requests were made whose newest message holds these words.
    pub(crate) fn times_asked(&self, words: &str) -> usize {
        let newest = |request: &Value| {
            let messages = request["messages"].as_array()?;
            messages.last().map(ToString::to_string)
        };
        let main = self.model.requests().into_iter().filter(|it| it.kind == Kind::Main);
        main.filter(|it| newest(&it.body).is_some_and(|it| it.contains(words))).count()
    }

    /// Waits until a message of the bot's that is still there says something.
    pub(crate) async fn says(&self, chat: ChatId, words: &str) -> Seen {
        self.bot_message(chat, words, |seen| seen.text.contains(words)).await
    }

    /// Waits until a message of the bot's that is still there is as wanted.
    pub(crate) async fn bot_message(
        &self,
        chat: ChatId,
        what: &str,
        wanted: impl Fn(&Seen) -> bool,
    ) -> Seen {
        let found = |seen: &[Seen]| {
            seen.iter().find(|it| it.from_bot && !it.deleted && wanted(it)).cloned()
        };
        let seen = self.telegram.wait_until(chat, |seen| found(seen).is_some(), PATIENCE).await;
        match seen {
            Ok(seen) => found(&seen).expect("it was just there"),
            Err(not) => panic!("`{what}`: {not}\n{}", self.log()),
        }
    }

    /// Waits until a message of the bot's has a button.
    pub(crate) async fn button(&self, chat: ChatId, label: &str) -> MessageId {
        let has = |seen: &Seen| seen.markup.iter().flatten().any(|it| it.contains(label));
        self.bot_message(chat, label, has).await.message_id
    }

    /// Waits until no message of the bot's has a button any more.
    pub(crate) async fn no_button(&self, chat: ChatId, label: &str) {
        let has = |seen: &Seen| seen.markup.iter().flatten().any(|it| it.contains(label));
        let none = |seen: &[Seen]| !seen.iter().any(|it| !it.deleted && has(it));
        let seen = self.telegram.wait_until(chat, none, PATIENCE).await;
        seen.unwrap_or_else(|not| panic!("`{label}` is still there: {not}\n{}", self.log()));
    }

    /// Waits until the bridge has written down that a message of its own was sent.
    pub(crate) async fn remembers(&self, message: MessageId) {
        let path = self.path("data/journal.db");
        let number = message.0.to_string();
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let journal = journal::Journal::open(&path).expect("a journal").journal;
            let kept = journal.kept("telegram").await.expect("what is kept");
            journal.close().await.expect("it closes");
            let told = kept.into_iter().filter(|(name, _)| name.starts_with("place/"));
            let mut told = told.map(|(_, value)| String::from_utf8_lossy(&value).into_owned());
            let shown = [format!("\"message\":{number}"), format!("\"progress\":{number}")];
            if told.any(|it| shown.iter().any(|shown| it.contains(shown))) {
                return;
            }
            assert!(tokio::time::Instant::now() < until, "it is not written down");
        }
    }

    /// A person taps a button whose label holds this, under the newest message that has one. What
    /// they are told.
    pub(crate) async fn tap(&self, chat: ChatId, user: UserId, label: &str) -> String {
        self.button(chat, label).await;
        let labelled = |seen: &Seen| {
            let found = seen.markup.iter().flatten().find(|it| it.contains(label)).cloned();
            found.filter(|_| seen.from_bot && !seen.deleted).map(|it| (seen.message_id, it))
        };
        let found = self.telegram.messages(chat).iter().rev().find_map(labelled);
        let (message, label) = found.expect("it was just there");
        let tap = self.telegram.user_taps(chat, user, message, label.as_str()).expect("a button");
        let answer = self.telegram.answer_to(&tap, PATIENCE).await;
        answer.unwrap_or_else(|| panic!("no answer to a tap: {}", self.log())).text
    }

    /// What the bot says in a chat that is still there, in order, without its progress.
    pub(crate) fn said(&self, chat: ChatId) -> Vec<String> {
        let visible = self.telegram.visible(chat);
        visible.into_iter().filter(|it| it.from_bot).map(|it| it.text).collect()
    }

    /// How often these words are said by the bot, in all of a chat.
    pub(crate) fn times_said(&self, chat: ChatId, words: &str) -> usize {
        self.said(chat).iter().filter(|it| it.contains(words)).count()
    }

    /// Nothing was done that Telegram forbids, and no secret is in the log.
    pub(crate) fn check(&self) {
        let breaches = self.telegram.breaches();
        assert!(breaches.is_empty(), "{breaches:#?}");
        let secret = self.telegram.token.split_once(':').expect("a token").1;
        let log = self.log();
        assert!(!log.contains(secret), "the token is in the log: {log}");
    }
}

/// Agents outlive their bridge, but not the stage. The first time may only find the bridge that is
/// just being killed; the second finds what it left.
impl Drop for Stage {
    fn drop(&mut self) {
        for _ in 0..2 {
            let _ = self.command(&["serve", "--stop"]).output();
        }
    }
}

impl Bridge {
    /// Kills it as `kill -9` does.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it was there");
    }
}
