//! The harness: lines and notes of a session, a chat, and a model of Telegram.

use std::collections::BTreeMap;
use std::time::Duration;

use journal::SessionId;
use serde_json::{Value, json};
use towpath_telegram::chat::{Chat, NextCall, UserIntent};
use towpath_telegram::checkpoint::ChatCheckpoint;
use towpath_telegram::{
    BotButton, BotCall, BotCallError, BotKeyboard, BotResponse, ChatAddress, ChatId, ChatKind,
    MessageId, MessageText, OutgoingMessage,
};
use uuid::Uuid;
use view::Fold;
use wire::acp::{PermissionChoice, PermissionChoiceKind};
use wire::consent::Rule;
use wire::note::{Actor, Delivery, Note, Outcome, RequestKind, TurnEnding};
use wire::{Origin, RecordedLine};

/// A session, its chat and a model of Telegram, with a clock that only the test moves.
pub(crate) struct TestChat {
    pub(crate) fold: Fold,
    pub(crate) lines: Vec<(u64, Vec<u8>)>,
    seq: u64,
    pub(crate) chat: Chat,
    /// What was stored when the last call was made.
    pub(crate) stored: ChatCheckpoint,
    pub(crate) telegram: TelegramModel,
    pub(crate) now: Duration,
    /// How long it takes from asking for a call to making it.
    pub(crate) delay: Duration,
    /// The errors of the next calls, which do not reach Telegram.
    pub(crate) failing: Vec<BotCallError>,
}

impl TestChat {
    pub(crate) fn new(kind: ChatKind, verbosity: u8) -> Self {
        let address = ChatAddress { chat: CHAT, topic: None };
        let mut checkpoint = ChatCheckpoint::new(address, kind, SessionId(Uuid::from_u128(99)));
        checkpoint.verbosity = verbosity;
        let mut chat = Chat::new(checkpoint.clone());
        let fold = Fold::new();
        chat.load(fold.conversation(usize::MAX), Duration::ZERO);
        Self {
            fold,
            lines: Vec::new(),
            seq: 0,
            chat,
            stored: checkpoint,
            telegram: TelegramModel::default(),
            now: Duration::from_secs(1),
            delay: Duration::ZERO,
            failing: Vec::new(),
        }
    }

    pub(crate) fn private() -> Self {
        Self::new(ChatKind::Private, 1)
    }

    /// A private chat whose own prompt is being answered in turn 1.
    pub(crate) fn with_turn(verbosity: u8) -> Self {
        let mut test = Self::new(ChatKind::Private, verbosity);
        test.chat.add_prompt(&[MessageId(500)], Uuid::from_u128(1));
        test.note(&queued(Uuid::from_u128(1), "go"));
        test.note(&began(1, &[Uuid::from_u128(1)]));
        test.line(&init());
        test
    }

    pub(crate) fn line(&mut self, line: &Value) -> &mut Self {
        self.bytes(line.to_string().into_bytes())
    }

    pub(crate) fn note(&mut self, note: &Note) -> &mut Self {
        self.bytes(note.to_line())
    }

    /// Ends the running turn, as the agent and as Towpath report it.
    pub(crate) fn over(&mut self, turn: u64) -> &mut Self {
        self.line(&ended()).note(&over(turn))
    }

    pub(crate) fn bytes(&mut self, line: Vec<u8>) -> &mut Self {
        self.seq += 1;
        let at = u64::try_from(self.now.as_millis()).expect("not that long");
        fold(&mut self.fold, self.seq, at, &line);
        self.lines.push((self.seq, line));
        let since = view::Revision(self.seq - 1);
        let update = self.fold.patches(since).expect("it was just now");
        self.chat.apply(&update, self.now).expect("nothing lies between");
        self
    }

    /// Makes every call that the chat wants now.
    pub(crate) fn run_calls(&mut self) -> &mut Self {
        for _ in 0..500 {
            if !self.step() {
                return self;
            }
        }
        panic!("the calls do not end: {:?}", self.telegram.log.last());
    }

    /// Makes the next call, if there is one.
    pub(crate) fn step(&mut self) -> bool {
        let NextCall::Call(call, _) = self.chat.next_call(self.now) else { return false };
        self.stored = self.chat.checkpoint().clone();
        self.now += self.delay;
        self.chat.call_started(&call, self.now);
        assert_eq!(self.chat.next_call(self.now), NextCall::Idle, "two calls in flight");
        let outcome = self.make(&call);
        self.chat.call_finished(outcome, self.now);
        true
    }

    fn make(&mut self, call: &BotCall) -> Result<BotResponse, BotCallError> {
        if !self.failing.is_empty() {
            return Err(self.failing.remove(0));
        }
        self.telegram.call(call, self.now, min_interval(self.stored.kind))
    }

    /// Lets time pass and makes every call when it is due.
    pub(crate) fn wait(&mut self, milliseconds: u64) -> &mut Self {
        let until = self.now + Duration::from_millis(milliseconds);
        self.run_calls();
        while let NextCall::WaitUntil(moment) = self.chat.next_call(self.now)
            && moment <= until
        {
            assert!(moment > self.now, "it waits for a time in the past");
            self.now = moment;
            self.run_calls();
        }
        self.now = until;
        self.run_calls()
    }

    pub(crate) fn tap(&mut self, label: &str) -> UserIntent {
        let (message, data) = self.telegram.button(label);
        self.chat.read_tap(message, &data)
    }

    /// The calls since the log was last read.
    pub(crate) fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.telegram.log)
    }

    /// Restarts the process with a checkpoint.
    pub(crate) fn restart(&mut self, checkpoint: ChatCheckpoint) {
        let mut fold = Fold::starting_after(checkpoint.from, checkpoint.turn, 4 << 20);
        for (seq, line) in self.lines.iter().filter(|(seq, _)| *seq > checkpoint.from) {
            self::fold(&mut fold, *seq, *seq * 1000, line);
        }
        self.chat = Chat::new(checkpoint);
        self.chat.load(fold.conversation(usize::MAX), self.now);
        self.fold = fold;
    }
}

/// The shortest time between edits of the progress message.
pub(crate) fn min_interval(kind: ChatKind) -> Duration {
    match kind {
        ChatKind::Private => Duration::from_millis(1_100),
        ChatKind::Group => Duration::from_secs(3),
    }
}

pub(crate) fn fold(fold: &mut Fold, seq: u64, at: u64, bytes: &[u8]) {
    let origin = if Note::read(bytes).is_some() { Origin::Towpath } else { Origin::Agent };
    fold.push_recorded(RecordedLine { seq, at, origin, bytes });
}

/// A message in the chat.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShownMessage {
    pub(crate) plain: String,
    pub(crate) buttons: BotKeyboard,
    pub(crate) loud: bool,
    /// Whether it was edited. A post never is.
    pub(crate) edited: bool,
}

/// A model of Telegram: the chat as users see it, and all calls.
#[derive(Debug, Default)]
pub(crate) struct TelegramModel {
    pub(crate) messages: BTreeMap<MessageId, ShownMessage>,
    /// Every call in one line.
    pub(crate) log: Vec<String>,
    last: i64,
    /// When each message was last edited, and when the draft was changed.
    edits: BTreeMap<MessageId, Duration>,
    drafted: Option<Duration>,
}

/// Checks Telegram's limits.
fn check(call: &BotCall) {
    let fits = |text: &MessageText, most| {
        assert!(!text.plain.trim().is_empty(), "an empty message");
        assert!(units(&text.plain) <= most, "{} units", units(&text.plain));
    };
    let taps = |buttons: &BotKeyboard| {
        for BotButton { label, data } in buttons.iter().flatten() {
            assert!(!label.is_empty() && label.chars().count() <= 64, "{label}");
            assert!((1..=64).contains(&data.len()), "{data}");
            assert!(data.as_bytes().get(1) != Some(&b':'), "{data}");
        }
        assert!(buttons.iter().all(|row| !row.is_empty() && row.len() <= 8));
        assert!(buttons.iter().flatten().count() <= 100);
    };
    match call {
        BotCall::Send(message) => {
            fits(&message.text, 4096);
            taps(&message.buttons);
            assert!(!message.force_reply || message.buttons.is_empty());
        }
        BotCall::Edit { text, buttons, .. } => {
            fits(text, 4096);
            taps(buttons);
        }
        BotCall::Draft { draft_id, text, .. } => {
            assert!(*draft_id != 0 && !text.is_empty() && units(text) <= 4096);
        }
        BotCall::Delete { .. }
        | BotCall::SendFile { .. }
        | BotCall::SendText { .. }
        | BotCall::Typing(_)
        | BotCall::AnswerTap { .. } => {}
    }
}

fn units(text: &str) -> usize {
    text.encode_utf16().count()
}

impl TelegramModel {
    /// Performs a call as Telegram would.
    pub(crate) fn call(
        &mut self,
        call: &BotCall,
        now: Duration,
        min_interval: Duration,
    ) -> Result<BotResponse, BotCallError> {
        check(call);
        self.log.push(line(call, self.last + 1));
        Ok(match call {
            BotCall::Send(OutgoingMessage { text, buttons, notify, .. }) => {
                self.last += 1;
                let shown = ShownMessage {
                    plain: text.plain.clone(),
                    buttons: buttons.clone(),
                    loud: *notify,
                    edited: false,
                };
                self.messages.insert(MessageId(self.last), shown);
                self.edits.insert(MessageId(self.last), now);
                BotResponse::Sent(MessageId(self.last))
            }
            BotCall::SendFile { .. } | BotCall::SendText { .. } => {
                self.last += 1;
                BotResponse::Sent(MessageId(self.last))
            }
            BotCall::Edit { message, text, buttons, .. } => {
                let shown = self.messages.get_mut(message).ok_or(BotCallError::MessageNotFound)?;
                if shown.plain == text.plain && shown.buttons == *buttons {
                    return Err(BotCallError::NotModified);
                }
                // A card is edited at once after a tap. The progress message has a minimum interval.
                if buttons.iter().flatten().any(|button| button.label.contains("Stop")) {
                    let before = self.edits.insert(*message, now).expect("a sent message");
                    assert!(now >= before + min_interval, "edited at {before:?} and at {now:?}");
                }
                shown.plain.clone_from(&text.plain);
                shown.buttons.clone_from(buttons);
                shown.edited = true;
                BotResponse::Done
            }
            BotCall::Delete { message, .. } => {
                self.messages.remove(message).ok_or(BotCallError::MessageNotFound)?;
                BotResponse::Done
            }
            BotCall::Draft { .. } => {
                if let Some(before) = self.drafted.replace(now) {
                    assert!(now >= before + Duration::from_millis(700));
                }
                BotResponse::Done
            }
            BotCall::Typing(_) | BotCall::AnswerTap { .. } => BotResponse::Done,
        })
    }

    /// The text of all messages except the progress message.
    pub(crate) fn transcript(&self) -> String {
        let lasting = self.messages.values().filter(|shown| !is_progress(shown));
        lasting.map(|shown| shown.plain.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// The data of the button with a label, and its message.
    pub(crate) fn button(&self, label: &str) -> (MessageId, String) {
        let under = self.messages.iter().rev().find_map(|(id, shown)| {
            let mut buttons = shown.buttons.iter().flatten();
            buttons.find(|it| it.label.contains(label)).map(|it| (*id, it.data.clone()))
        });
        under.unwrap_or_else(|| panic!("no button {label}"))
    }

    pub(crate) fn newest(&self) -> MessageId {
        MessageId(self.last)
    }
}

pub(crate) fn is_progress(shown: &ShownMessage) -> bool {
    shown.buttons.iter().flatten().any(|button| button.label.contains("Stop"))
}

/// A call in one line.
fn line(call: &BotCall, next: i64) -> String {
    let labels = |buttons: &BotKeyboard| {
        let rows = buttons.iter().map(|row| {
            row.iter().map(|button| button.label.clone()).collect::<Vec<_>>().join(" | ")
        });
        let rows = rows.collect::<Vec<_>>().join(" / ");
        if rows.is_empty() { String::new() } else { format!(" [{rows}]") }
    };
    match call {
        BotCall::Send(message) => {
            let loud = if message.notify { "loud " } else { "" };
            let to = message.reply_to.map(|to| format!("re {} ", to.0)).unwrap_or_default();
            let force = if message.force_reply { "asking " } else { "" };
            let text = message.text.plain.replace('\n', "⏎");
            format!("{next}: {to}{loud}{force}{text}{}", labels(&message.buttons))
        }
        BotCall::Edit { message, text, buttons, .. } => {
            let text = text.plain.replace('\n', "⏎");
            format!("{} = {text}{}", message.0, labels(buttons))
        }
        BotCall::Draft { text, .. } => format!("draft {text}"),
        BotCall::Delete { message, .. } => format!("{} gone", message.0),
        BotCall::SendFile { path, .. } => format!("{next}: file {}", path.display()),
        BotCall::SendText { name, .. } => format!("{next}: text {name}"),
        BotCall::Typing(_) => "typing".to_owned(),
        BotCall::AnswerTap { .. } => "answer".to_owned(),
    }
}

pub(crate) const CHAT: ChatId = ChatId(7);

pub(crate) fn ann() -> Actor {
    Actor { name: "Ann".to_owned(), via: "browser".to_owned() }
}

pub(crate) fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

pub(crate) fn queued(prompt: Uuid, text: &str) -> Note {
    let (text, delivery) = (text.to_owned(), Delivery::Queue);
    Note::PromptQueued { prompt, text, images: 0, delivery, by: ann() }
}

pub(crate) fn began(turn: u64, prompts: &[Uuid]) -> Note {
    Note::TurnStarted { turn, prompts: prompts.to_vec() }
}

pub(crate) fn over(turn: u64) -> Note {
    Note::TurnEnded { turn, ending: TurnEnding::Completed }
}

pub(crate) fn init() -> Value {
    json!({"type":"system","subtype":"init","session_id":"s","model":"opus","cwd":"/p","permissionMode":"default"})
}

fn says(message: &str, block: &Value) -> Value {
    json!({"type":"assistant","message":{"id":message,"model":"opus","content":[block]},"parent_tool_use_id":null})
}

pub(crate) fn text(message: &str, words: &str) -> Value {
    says(message, &json!({"type":"text","text":words}))
}

pub(crate) fn thinking(message: &str, words: &str) -> Value {
    says(message, &json!({"type":"thinking","thinking":words}))
}

pub(crate) fn call(message: &str, id: &str, tool: &str, input: &Value) -> Value {
    says(message, &json!({"type":"tool_use","id":id,"name":tool,"input":input}))
}

pub(crate) fn bash(message: &str, id: &str, command: &str) -> Value {
    call(message, id, "Bash", &json!({"command":command}))
}

pub(crate) fn result(call: &str, text: &str) -> Value {
    json!({"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":call,"content":text}]}})
}

fn stream(event: &Value) -> Value {
    json!({"type":"stream_event","event":event,"parent_tool_use_id":null})
}

pub(crate) fn starts(message: &str) -> Value {
    stream(
        &json!({"type":"message_start","message":{"id":message,"content":[],"usage":{"input_tokens":5,"output_tokens":1}}}),
    )
}

pub(crate) fn writes() -> Value {
    stream(
        &json!({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}),
    )
}

pub(crate) fn thinks() -> Value {
    stream(
        &json!({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}),
    )
}

pub(crate) fn delta(words: &str) -> Value {
    stream(
        &json!({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":words}}),
    )
}

pub(crate) fn thought(words: &str) -> Value {
    stream(
        &json!({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":words}}),
    )
}

pub(crate) fn asks(request: &str, call: &str, tool: &str, input: &Value) -> Value {
    json!({"type":"control_request","request_id":request,"request":{"subtype":"can_use_tool","tool_name":tool,"input":input,"tool_use_id":call}})
}

pub(crate) fn opened(request: &str, wants: RequestKind) -> Note {
    offered(request, wants, Vec::new())
}

pub(crate) fn offered(request: &str, wants: RequestKind, rules: Vec<Rule>) -> Note {
    let (request, choices) = (request.to_owned(), Vec::new());
    Note::RequestOpened { request, kind: wants, expires: None, rules, choices }
}

/// A request with choices of the agent's own, as its kind and its name.
pub(crate) fn with_choices(request: &str, choices: &[(PermissionChoiceKind, &str)]) -> Note {
    let choice = |(number, (kind, name)): (usize, &(PermissionChoiceKind, &str))| {
        PermissionChoice { id: format!("option-{number}"), name: (*name).to_owned(), kind: *kind }
    };
    let choices = choices.iter().enumerate().map(choice).collect();
    let (request, kind, rules) = (request.to_owned(), RequestKind::Permission, Vec::new());
    Note::RequestOpened { request, kind, expires: None, rules, choices }
}

pub(crate) fn resolved(request: &str, outcome: Outcome) -> Note {
    Note::RequestResolved {
        request: request.to_owned(),
        outcome,
        by: Some(ann()),
        message: None,
        answers: Vec::new(),
        choice: None,
    }
}

pub(crate) fn ended() -> Value {
    json!({"type":"result","subtype":"success","is_error":false,"result":"","duration_ms":7000})
}
