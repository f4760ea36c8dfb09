//! A bridge with everything around it: a Bot API double, a scripted model, an agent and a project.
//!
//! What these tests use of other crates is in this file.

use std::ops::Deref;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use session::shim::Ownership;
use test_support::bot_api::{
    BotApi, BotApiCallbackId, BotApiChatId, BotApiMessageId, BotApiOptions, BotApiUserId,
    MessageSnapshot,
};
use testbed::api::ApiRequestKind;
use tokio::time::{Instant, sleep, timeout};

use crate::environment::TestEnvironment;
pub(crate) use crate::environment::{ServerProcess as BridgeProcess, TIMEOUT};

/// How much faster than real time the clocks of the double and of the bridge run.
pub(crate) const SPEED: u32 = 8;

/// May use the bot.
pub(crate) const ANN: BotApiUserId = BotApiUserId(11);

/// May use the bot.
pub(crate) const BOB: BotApiUserId = BotApiUserId(12);

/// May not use the bot.
pub(crate) const EVE: BotApiUserId = BotApiUserId(66);

pub(crate) struct Fixture {
    environment: TestEnvironment,
    pub(crate) telegram: BotApi,
    speed: u32,
    pub(crate) allowed_users: Vec<i64>,
    /// The URL and token of another Bot API to use instead of the double.
    pub(crate) other_api: Option<(String, String)>,
}

impl Deref for Fixture {
    type Target = TestEnvironment;

    fn deref(&self) -> &TestEnvironment {
        &self.environment
    }
}

impl Fixture {
    /// A fixture whose model gives these replies, in the grammar of scenarios. `$cwd` is the
    /// project.
    pub(crate) async fn new(replies: &str) -> Self {
        Self::with_speed(replies, SPEED).await
    }

    pub(crate) async fn with_speed(replies: &str, speed: u32) -> Self {
        let environment = TestEnvironment::new(replies).await;
        let defaults = BotApiOptions::default();
        let options = BotApiOptions {
            speed: f64::from(speed),
            // The bridge answers taps in real time.
            callback_lifetime: defaults.callback_lifetime * speed,
            ..defaults
        };
        let telegram = BotApi::start(options).await.expect("a port");
        telegram.set_user_name(ANN, "Ann", "ann");
        telegram.set_user_name(BOB, "Bob", "bob");
        telegram.set_user_name(EVE, "Eve", "eve");
        let allowed_users = vec![ANN.0, BOB.0];
        Self { environment, telegram, speed, allowed_users, other_api: None }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(arguments);
        let token = self.other_api.as_ref().map_or(&self.telegram.token, |(_, token)| token);
        command.env("TOWPATH_TELEGRAM_TOKEN", token);
        command
    }

    pub(crate) async fn start_bridge(&self) -> BridgeProcess {
        self.start(&["telegram"]).await
    }

    pub(crate) async fn start_server(&self) -> BridgeProcess {
        self.start(&["serve", "--listen", "127.0.0.1:0", "--telegram"]).await
    }

    pub(crate) async fn start(&self, command: &[&str]) -> BridgeProcess {
        let (agent, project) = (self.path("agent").display().to_string(), self.project());
        let mut arguments = command.to_vec();
        arguments.extend(["--claude", &agent, "--root", &project]);
        self.start_elsewhere(&arguments).await
    }

    /// The same without an agent and a root on this machine.
    pub(crate) async fn start_elsewhere(&self, command: &[&str]) -> BridgeProcess {
        let users: Vec<String> = self.allowed_users.iter().map(ToString::to_string).collect();
        let (users, speed) = (users.join(","), self.speed.to_string());
        let url = self.other_api.as_ref().map_or(&self.telegram.url, |(url, _)| url);
        let mut arguments = command.to_vec();
        arguments.extend(["--allow", &users]);
        arguments.extend(["--api-url", url, "--hurry", &speed, "--json"]);
        self.spawn(self.command(&arguments)).await
    }

    /// The messages of each request to the model, as JSON. Side requests are left out.
    pub(crate) fn model_requests(&self) -> Vec<String> {
        let requests = self.api.requests().into_iter().filter(|it| it.kind == ApiRequestKind::Main);
        requests.map(|it| it.body["messages"].to_string()).collect()
    }

    /// How many requests to the model contain these words in their newest message.
    pub(crate) fn count_prompts(&self, words: &str) -> usize {
        let newest = |body: &Value| body["messages"].as_array()?.last().map(ToString::to_string);
        let requests = self.api.requests().into_iter().filter(|it| it.kind == ApiRequestKind::Main);
        requests.filter(|it| newest(&it.body).is_some_and(|it| it.contains(words))).count()
    }

    /// Waits until a condition holds for the requests to the model.
    pub(crate) async fn wait_for_requests(
        &self,
        what: &str,
        timeout: Duration,
        condition: impl Fn(&[String]) -> bool,
    ) {
        let deadline = Instant::now() + timeout;
        while !condition(&self.model_requests()) {
            assert!(Instant::now() < deadline, "no {what}: {:?}", self.model_requests());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a condition holds for the messages of a chat.
    pub(crate) async fn wait_for_chat(
        &self,
        chat: BotApiChatId,
        what: &str,
        condition: impl Fn(&[MessageSnapshot]) -> bool,
    ) -> Vec<MessageSnapshot> {
        let messages = self.telegram.wait_for_chat(chat, condition, TIMEOUT).await;
        messages.unwrap_or_else(|error| panic!("{what}: {error}\n{}", self.log()))
    }

    /// Waits for a message of the bot that is not deleted.
    pub(crate) async fn wait_for_message(
        &self,
        chat: BotApiChatId,
        what: &str,
        condition: impl Fn(&MessageSnapshot) -> bool,
    ) -> MessageSnapshot {
        let find = |messages: &[MessageSnapshot]| {
            messages.iter().find(|it| it.from_bot && !it.deleted && condition(it)).cloned()
        };
        let messages = self.wait_for_chat(chat, what, |it| find(it).is_some()).await;
        find(&messages).expect("the message that was just found")
    }

    /// Waits for a message of the bot that contains these words.
    pub(crate) async fn wait_for_text(&self, chat: BotApiChatId, words: &str) -> MessageSnapshot {
        self.wait_for_message(chat, words, |it| it.text.contains(words)).await
    }

    /// Waits until exactly this many messages contain these words.
    pub(crate) async fn wait_for_texts(&self, chat: BotApiChatId, words: &str, count: usize) {
        let contains = |it: &&MessageSnapshot| it.text.contains(words);
        self.wait_for_chat(chat, words, |it| it.iter().filter(contains).count() == count).await;
    }

    /// Sends a message and waits for the bot's reply to it.
    pub(crate) async fn wait_for_reply(
        &self,
        chat: BotApiChatId,
        user: BotApiUserId,
        text: &str,
    ) -> MessageSnapshot {
        let message = self.telegram.user_sends(chat, user, text);
        self.wait_for_message(chat, text, |it| it.reply_to == Some(message)).await
    }

    /// Waits for a message of the bot with a button.
    pub(crate) async fn wait_for_button(&self, chat: BotApiChatId, label: &str) -> BotApiMessageId {
        self.wait_for_message(chat, label, |it| button(it, label).is_some()).await.message_id
    }

    /// Waits until no message has this button any more.
    pub(crate) async fn wait_for_no_button(&self, chat: BotApiChatId, label: &str) {
        let what = format!("`{label}` is still there");
        let has = |it: &MessageSnapshot| !it.deleted && button(it, label).is_some();
        self.wait_for_chat(chat, &what, |messages| !messages.iter().any(has)).await;
    }

    /// Taps the newest button whose label contains these words.
    pub(crate) async fn tap_without_waiting(
        &self,
        chat: BotApiChatId,
        user: BotApiUserId,
        label: &str,
    ) -> BotApiCallbackId {
        self.wait_for_button(chat, label).await;
        let messages = self.telegram.visible_messages(chat);
        let mut messages = messages.iter().rev().filter(|it| it.from_bot);
        let found = messages.find_map(|it| Some((it.message_id, button(it, label)?)));
        let (message, label) = found.expect("the button that was just found");
        self.telegram.user_taps(chat, user, message, label.as_str()).expect("a button")
    }

    /// Taps the newest button whose label contains these words. Returns the bot's notification.
    pub(crate) async fn tap(&self, chat: BotApiChatId, user: BotApiUserId, label: &str) -> String {
        let tap = self.tap_without_waiting(chat, user, label).await;
        self.notification(&tap).await
    }

    /// Waits for the bot's notification after a tap.
    pub(crate) async fn notification(&self, tap: &BotApiCallbackId) -> String {
        let answer = self.telegram.callback_answer(tap, TIMEOUT).await;
        answer.unwrap_or_else(|| panic!("no answer to a tap: {}", self.log())).text
    }

    /// The texts of the bot's messages that are not deleted, in order.
    pub(crate) fn bot_texts(&self, chat: BotApiChatId) -> Vec<String> {
        let visible = self.telegram.visible_messages(chat);
        visible.into_iter().filter(|it| it.from_bot).map(|it| it.text).collect()
    }

    /// How many of the bot's messages contain these words.
    pub(crate) fn count_texts(&self, chat: BotApiChatId, words: &str) -> usize {
        self.bot_texts(chat).iter().filter(|it| it.contains(words)).count()
    }

    /// Waits until the bridge has stored that it sent this message. A bridge that is killed earlier
    /// sends the message again, and one that receives a reply earlier does not know the message.
    pub(crate) async fn wait_until_stored(&self, message: BotApiMessageId) {
        let path = self.path("data/journal.db");
        let fields = [
            format!("\"message\":{message}"),
            format!("\"progress\":{message}"),
            format!("\"awaited_reply\":[{message},"),
        ];
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let journal = journal::Journal::open(&path).expect("a journal").journal;
            let stored = journal.read_state("telegram").await.expect("the state of the bridge");
            journal.close().await.expect("the journal closes");
            let chats = stored.into_iter().filter(|(key, _)| key.starts_with("place/"));
            let mut chats = chats.map(|(_, value)| String::from_utf8_lossy(&value).into_owned());
            if chats.any(|chat| fields.iter().any(|field| chat.contains(field))) {
                return;
            }
            assert!(Instant::now() < deadline, "message `{message}` is not stored");
        }
    }

    /// Takes over the only session, as another Towpath would, until the value is dropped.
    pub(crate) fn own_session(&self) -> Ownership {
        let sessions = std::fs::read_dir(self.path("data/live")).expect("live sessions");
        let session = sessions.map(|it| it.expect("an entry").path()).next().expect("a session");
        Ownership::take(&session).expect("a session without an owner")
    }

    /// Fails if the bot broke a rule of Telegram or if its token is in the log.
    pub(crate) fn assert_correct(&self) {
        let violations = self.telegram.violations();
        assert!(violations.is_empty(), "{violations:#?}");
        let secret = self.telegram.token.split_once(':').expect("a token").1;
        let log = self.log();
        assert!(!log.contains(secret), "the token is in the log: {log}");
    }
}

/// The label of the button of a message whose label contains these words.
fn button(message: &MessageSnapshot, label: &str) -> Option<String> {
    message.buttons.iter().flatten().find(|it| it.contains(label)).cloned()
}

impl BridgeProcess {
    /// Kills the process as `kill -9` does.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("a running process");
    }

    /// Ends the process as a service manager does.
    pub(crate) async fn terminate(mut self) {
        let pid = self.child.id().and_then(|it| Pid::from_raw(it.cast_signed()));
        kill_process(pid.expect("a running process"), Signal::TERM).expect("a running process");
        let start = Instant::now();
        let status = timeout(TIMEOUT, self.child.wait()).await.expect("the process ends");
        assert_eq!(status.expect("a status").code(), Some(0));
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    }
}
