//! What a message says. Pure.
//!
//! It names the session and what is asked, in one line, and never the content of a file. *Allow* is
//! offered only if everything that must be seen before it is in that line.

use std::time::Duration;

use journal::RequestRecord;
use push::{PushMessage, Urgency};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;
use view::{ToolAction, wording};
use wire::consent::{self, Disclosure};
use wire::note::RequestKind;

use crate::access::Role;

/// The longest line that platforms show whole, in characters.
const MAX_LINE_CHARS: usize = 100;

const MAX_TITLE_CHARS: usize = 60;

/// Agents make short ids. A request with a longer one can be answered on the page.
const MAX_ID_BYTES: usize = 256;

/// How long the push service keeps a message for a device that is not reached.
const REQUEST_TTL: Duration = Duration::from_hours(12);
const TURN_TTL: Duration = Duration::from_hours(4);
const RESOLVED_TTL: Duration = Duration::from_hours(12);
const TEST_TTL: Duration = Duration::from_mins(5);

/// What the service worker receives.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct PushPayload<'a> {
    kind: PayloadKind,
    title: String,
    body: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<&'a str>,
    /// The answers that the notification offers.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    actions: &'static [PushAction],
    /// How many sessions wait for a person, for the badge of the icon.
    waiting: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum PayloadKind {
    /// The agent waits for an answer.
    Request,
    /// A turn has ended.
    Turn,
    /// A budget is spent, and prompts wait.
    Budget,
    /// The request was answered elsewhere: its notification is closed.
    Resolved,
    /// The user wants to see whether messages arrive.
    Test,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PushAction {
    Allow,
    Deny,
}

/// The session that a message is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageSession<'a> {
    pub(super) id: Uuid,
    pub(super) title: Option<&'a str>,
    /// How many sessions wait for a person.
    pub(super) waiting: usize,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedTurn {
    Completed,
    Failed,
    /// By a person, who knows.
    Interrupted,
}

/// What is asked, in one line.
#[derive(Debug, PartialEq, Eq)]
struct RequestLine {
    text: String,
    /// Whether it has everything that must be seen before *Allow*.
    is_complete: bool,
}

impl MessageSession<'_> {
    pub(super) fn topic(&self) -> String {
        // A topic has at most 32 characters.
        self.id.simple().to_string()
    }

    pub(super) fn request(&self, request: &RequestRecord, role: Role, now: u64) -> PushMessage {
        let line = RequestLine::of(request);
        let id = Some(request.id.as_str()).filter(|it| it.len() <= MAX_ID_BYTES);
        let answers_here =
            request.kind == RequestKind::Permission && request.choices.is_empty() && id.is_some();
        let actions: &[PushAction] = match (role >= Role::Drive && answers_here, line.is_complete) {
            (false, _) => &[],
            (true, false) => &[PushAction::Deny],
            (true, true) => &[PushAction::Allow, PushAction::Deny],
        };
        let left = request.expires.map(|it| Duration::from_millis(it.saturating_sub(now)));
        let ttl = left.map_or(REQUEST_TTL, |it| it.min(REQUEST_TTL));
        let payload = PushPayload {
            kind: PayloadKind::Request,
            title: format!("{} needs you", self.name()),
            body: line.text,
            session: Some(self.id),
            request: id,
            actions,
            waiting: self.waiting,
        };
        payload.into_message(ttl, Urgency::High, Some(self.topic()))
    }

    pub(super) fn turn(&self, result: EndedTurn, took: Duration) -> PushMessage {
        let took = wording::duration(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        let (verb, body) = match result {
            EndedTurn::Failed => ("failed", format!("It ended with an error after {took}.")),
            EndedTurn::Completed | EndedTurn::Interrupted => {
                ("is done", format!("It took {took}."))
            }
        };
        let payload = PushPayload {
            kind: PayloadKind::Turn,
            title: format!("{} {verb}", self.name()),
            body,
            session: Some(self.id),
            request: None,
            actions: &[],
            waiting: self.waiting,
        };
        payload.into_message(TURN_TTL, Urgency::Normal, Some(self.topic()))
    }

    /// A budget is spent. Only the page offers to go on, with everything that was spent in view.
    pub(super) fn budget(&self, question: &str) -> PushMessage {
        let payload = PushPayload {
            kind: PayloadKind::Budget,
            title: format!("{} waits", self.name()),
            body: question.to_owned(),
            session: Some(self.id),
            request: None,
            actions: &[],
            waiting: self.waiting,
        };
        payload.into_message(REQUEST_TTL, Urgency::High, Some(self.topic()))
    }

    pub(super) fn resolved(&self) -> PushMessage {
        let payload = PushPayload {
            kind: PayloadKind::Resolved,
            title: self.name(),
            body: "It was answered.".to_owned(),
            session: Some(self.id),
            request: None,
            actions: &[],
            waiting: self.waiting,
        };
        payload.into_message(RESOLVED_TTL, Urgency::Normal, Some(self.topic()))
    }

    fn name(&self) -> String {
        let title = self.title.map(one_line).filter(|it| !it.is_empty());
        title.map_or_else(|| "A session".to_owned(), |it| shortened(&it, MAX_TITLE_CHARS))
    }
}

/// A message that the user asked for.
pub(super) fn test_message() -> PushMessage {
    let payload = PushPayload {
        kind: PayloadKind::Test,
        title: "Towpath".to_owned(),
        body: "Notifications work on this device.".to_owned(),
        session: None,
        request: None,
        actions: &[],
        waiting: 0,
    };
    payload.into_message(TEST_TTL, Urgency::High, None)
}

impl PushPayload<'_> {
    fn into_message(self, ttl: Duration, urgency: Urgency, topic: Option<String>) -> PushMessage {
        let payload = serde_json::to_vec(&self).unwrap_or_default();
        PushMessage { payload, ttl, urgency, topic }
    }
}

impl RequestLine {
    fn of(request: &RequestRecord) -> Self {
        let incomplete = |text: &str| {
            let text = shortened(&one_line(text), MAX_LINE_CHARS);
            Self { text, is_complete: false }
        };
        match request.kind {
            RequestKind::Permission => Self::of_call(&request.tool_name, &request.input),
            RequestKind::Question => {
                let input: Option<Value> = serde_json::from_str(&request.input).ok();
                let question = input.as_ref().and_then(|it| it.pointer("/questions/0/question"));
                let question = question.and_then(Value::as_str).filter(|it| !it.trim().is_empty());
                incomplete(question.unwrap_or("It asks you a question."))
            }
            RequestKind::Plan => incomplete("It has a plan for you to review."),
            RequestKind::Unknown => incomplete("It asks for something that only the page shows."),
        }
    }

    fn of_call(tool: &str, input: &str) -> Self {
        let action = match ToolAction::of(tool) {
            ToolAction::Use => format!("Use {}", shortened(&one_line(tool), MAX_TITLE_CHARS)),
            action => action.label().to_owned(),
        };
        let disclosures = consent::disclosures(tool, input);
        let named = disclosures
            .iter()
            .find(|it| matches!(it.label.as_str(), "Command" | "File" | "Address"));
        // The input of other tools may be the content of a file.
        let Some(Disclosure { text, .. }) = named else {
            return Self { text: action, is_complete: false };
        };
        let line = format!("{action}: {text}");
        let fits = line.chars().count() <= MAX_LINE_CHARS && one_line(&line) == line;
        if fits && disclosures.len() == 1 {
            return Self { text: line, is_complete: true };
        }
        Self { text: shortened(&one_line(&line), MAX_LINE_CHARS), is_complete: false }
    }
}

/// A text without line breaks, with everything in it visible.
fn one_line(text: &str) -> String {
    // A long text is cut anyway.
    let text: String = text.chars().take(4 * MAX_LINE_CHARS).collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    consent::visible(&words.join(" "))
}

fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some(_) => {
            let kept: String = text.chars().take(most - 1).collect();
            format!("{kept}…")
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use journal::RequestRecord;
    use push::{MAX_PAYLOAD_BYTES, PushMessage};
    use serde_json::{Value, json};
    use uuid::Uuid;
    use wire::acp::{PermissionChoice, PermissionChoiceKind};
    use wire::note::RequestKind;

    use super::{EndedTurn, MessageSession};
    use crate::access::Role;

    fn record(kind: RequestKind, tool: &str, input: &str) -> RequestRecord {
        RequestRecord {
            kind,
            tool_name: tool.to_owned(),
            ..RequestRecord::of_hook("r1".to_owned(), input.to_owned(), 1)
        }
    }

    fn session(title: Option<&str>) -> MessageSession<'_> {
        MessageSession { id: Uuid::from_u128(7), title, waiting: 1 }
    }

    fn payload(message: &PushMessage) -> Value {
        assert!(message.payload.len() <= MAX_PAYLOAD_BYTES, "{}", message.payload.len());
        serde_json::from_slice(&message.payload).unwrap()
    }

    fn asked(tool: &str, input: &Value) -> Value {
        let record = record(RequestKind::Permission, tool, &input.to_string());
        payload(&session(Some("Fix the cart")).request(&record, Role::Drive, 0))
    }

    #[test]
    fn allow_is_offered_only_if_all_that_must_be_seen_is_in_the_notification() {
        let whole = asked("Bash", &json!({ "command": "npm test", "description": "x" }));
        assert_eq!(whole["title"], "Fix the cart needs you");
        assert_eq!(whole["body"], "Run: npm test");
        assert_eq!(whole["actions"], json!(["allow", "deny"]));
        assert_eq!(whole["request"], "r1");
        let file = asked("Write", &json!({ "file_path": "/p/a.txt", "content": "a secret" }));
        assert_eq!(file["body"], "Write: /p/a.txt");
        assert_eq!(file["actions"], json!(["allow", "deny"]));
        assert!(!file.to_string().contains("secret"), "{file}");
        for (tool, input) in [
            ("Bash", json!({ "command": "x".repeat(10_000) })),
            ("Bash", json!({ "command": "true\nrm -rf ~" })),
            ("Bash", json!({ "command": "true   ; rm" })),
            ("Bash", json!({ "command": "ls", "dangerouslyDisableSandbox": true })),
            ("Bash", json!({ "command": "ls", "description": "long ".repeat(100) })),
            ("Bash", json!({ "command": "ls\u{202e}" .repeat(40) })),
            ("Write", json!({ "file_path": "/p/a", "path": "/p/b", "content": "a secret" })),
            ("mcp__disk__write", json!({ "content": "a secret" })),
            ("Bash", json!({})),
        ] {
            let asked = asked(tool, &input);
            assert_eq!(asked["actions"], json!(["deny"]), "{asked}");
            let body = asked["body"].as_str().unwrap();
            assert!(body.chars().count() <= 100 && !body.contains('\n'), "{body}");
            assert!(!body.contains("secret") && !body.contains('\u{202e}'), "{body}");
        }
    }

    #[test]
    fn who_only_watches_and_agents_with_their_own_choices_get_no_buttons() {
        let mut request = record(RequestKind::Permission, "Bash", r#"{"command":"ls"}"#);
        let watched = session(None).request(&request, Role::Watch, 0);
        assert_eq!(payload(&watched)["actions"], Value::Null);
        assert_eq!(payload(&watched)["title"], "A session needs you");
        let (id, name) = ("once".to_owned(), "Once".to_owned());
        request.choices =
            vec![PermissionChoice { id, name, kind: PermissionChoiceKind::AllowOnce }];
        let chosen = session(None).request(&request, Role::Admin, 0);
        assert_eq!(payload(&chosen)["actions"], Value::Null);
        let question = json!({ "questions": [{ "question": "Which\none? ".repeat(100) }] });
        let question = record(RequestKind::Question, "AskUserQuestion", &question.to_string());
        let question = payload(&session(None).request(&question, Role::Admin, 0));
        assert!(question["body"].as_str().unwrap().starts_with("Which one? Which one?"));
        assert_eq!(question["actions"], Value::Null);
    }

    #[test]
    fn messages_fit_and_expire_with_their_request() {
        let title = "🦀".repeat(5000);
        let session = session(Some(&title));
        let mut request =
            record(RequestKind::Permission, &"🦀".repeat(5000), &"🦀".repeat(100_000));
        request.id = "i".repeat(100_000);
        request.expires = Some(61_000);
        let message = session.request(&request, Role::Admin, 1000);
        assert_eq!(message.ttl, Duration::from_mins(1));
        payload(&message);
        assert_eq!(message.topic.as_ref().map(String::len), Some(32));
        let failed = session.turn(EndedTurn::Failed, Duration::from_secs(100));
        assert_eq!(payload(&failed)["body"], "It ended with an error after 1 min 40 s.");
        assert_eq!(payload(&session.resolved())["kind"], "resolved");
        let budget = payload(&session.budget("$5.02 of $5.00 spent. Go on?"));
        assert_eq!((&budget["kind"], &budget["actions"]), (&json!("budget"), &Value::Null));
        assert_eq!(budget["body"], "$5.02 of $5.00 spent. Go on?");
    }
}
