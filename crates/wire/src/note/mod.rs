//! Notes: what Towpath itself writes into a session's journal, between the agent's lines.
//!
//! The agent's lines alone do not tell which prompts are queued, who allowed what, or that a turn was
//! aborted because the machine went down. A note records such an event once, in the order it happened,
//! so that all followers show the same. Notes are defined here, next to the protocol, because the
//! crate that writes them and the crates that show them do not know each other.
//!
//! A note is a line of JSON with the type `towpath`, which no agent uses. Fields are only ever added
//! and renamed fields keep their old name as an alias. A note of a later version is not
//! [read](Note::read) and is shown raw.

mod prompt;
mod request;
mod setting;
mod turn;
mod watch_config;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::acp::PermissionChoice;
use crate::consent::Rule;

pub use prompt::{Delivery, HoldReason, PromptState, QueuePolicy};
pub use request::{Outcome, RequestKind};
pub use setting::{Rewind, Setting};
pub use turn::{ExitCause, TurnEnding};
pub use watch_config::{CommitConfig, HookConfig, Trigger, WatchChoice, WatchConfig, WatchTarget};

/// An event of a session that Towpath records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// A prompt was accepted into the queue.
    PromptQueued {
        /// Assigned by the sender. The agent repeats it as the `uuid` of the user's message.
        prompt: Uuid,
        text: String,
        /// How many images are attached.
        #[serde(default, skip_serializing_if = "is_zero")]
        images: usize,
        delivery: Delivery,
        by: Actor,
    },
    /// The text of a queued prompt was changed.
    PromptEdited {
        prompt: Uuid,
        text: String,
    },
    /// A queued prompt was moved.
    PromptMoved {
        prompt: Uuid,
        /// The prompt it is now in front of; none for the end of the queue.
        before: Option<Uuid>,
    },
    /// A queued prompt is to be delivered in another way.
    PromptDeliveryChanged {
        prompt: Uuid,
        delivery: Delivery,
    },
    #[serde(alias = "prompt_became")]
    PromptStateChanged {
        prompt: Uuid,
        state: PromptState,
    },
    #[serde(alias = "turn_began")]
    TurnStarted {
        /// Its number in the session, starting at 1.
        turn: u64,
        /// The prompts that started it; none if the agent started by itself.
        prompts: Vec<Uuid>,
    },
    /// Exactly one follows every [`TurnStarted`](Self::TurnStarted).
    #[serde(alias = "turn_over")]
    TurnEnded {
        turn: u64,
        ending: TurnEnding,
    },
    /// The agent waits for a person. The request itself is the `can_use_tool` line before.
    RequestOpened {
        /// The agent's id of the request.
        request: String,
        #[serde(alias = "wants")]
        kind: RequestKind,
        /// When it is denied if no answer came by then, in milliseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<u64>,
        /// The rules that *Always* offers for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
        /// The answers that the agent offers, in its own words. A request with choices is answered with
        /// one of them; without, it is allowed or denied.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<PermissionChoice>,
    },
    /// Exactly one follows every [`RequestOpened`](Self::RequestOpened).
    RequestResolved {
        request: String,
        outcome: Outcome,
        /// Who answered; none if the request was withdrawn or expired.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
        /// The reason given with the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The answers to questions, by the text of the question.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answers: Vec<(String, String)>,
        /// The name of the agent's choice that was taken.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        choice: Option<String>,
    },
    #[serde(alias = "interrupt_asked")]
    InterruptRequested {
        by: Actor,
        queue: QueuePolicy,
    },
    /// Queued prompts stay where they are until the queue is resumed.
    QueueHeld {
        reason: HoldReason,
        /// Who held it; none if Towpath did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
    },
    /// Queued prompts are sent again. One follows every [`QueueHeld`](Self::QueueHeld) unless the
    /// queue is still held.
    QueueResumed {
        /// Who resumed it; none if nothing was left in the queue, or its budget is no longer spent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
    },
    /// A person allowed the session to cost more than its budget, or than the budget of the day.
    BudgetRaised {
        /// How much more, in dollars.
        amount: f64,
        /// Whether it is the budget of the day.
        #[serde(default)]
        of_day: bool,
        by: Actor,
    },
    /// A prompt is to be sent later.
    PromptScheduled {
        /// Assigned by the sender.
        schedule: Uuid,
        text: String,
        /// When, as a person writes it: `weekdays 09:00`.
        when: String,
        /// The time zone in which that is meant.
        zone: String,
        /// When it is sent first, in milliseconds since 1970.
        next: u64,
        by: Actor,
    },
    /// The time of a scheduled prompt has come.
    ScheduleDue {
        schedule: Uuid,
        /// The prompt that is queued for it; none if the last one still waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Uuid>,
        /// When it was due, which may be long ago if nothing ran.
        due: u64,
        /// How many later times passed too. No prompts are sent for them.
        #[serde(default)]
        missed: u64,
        /// When it is sent next; never again if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next: Option<u64>,
    },
    /// A prompt is not to be sent later after all.
    ScheduleRemoved {
        schedule: Uuid,
        by: Actor,
    },
    /// An agent process was started.
    AgentStarted {
        /// Whether it continues the conversation of an earlier process.
        resumed: bool,
    },
    /// The agent answered `initialize`.
    AgentReady {
        /// Its version, if it reports one.
        version: Option<String>,
    },
    /// The agent does nothing before someone signs in.
    SignInNeeded {
        /// What to do, for a person.
        text: String,
        /// The ways to sign in that the agent names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        methods: Vec<String>,
    },
    #[serde(alias = "agent_gone")]
    AgentExited {
        cause: ExitCause,
    },
    SettingChanged {
        setting: Setting,
        by: Actor,
    },
    /// Files or the conversation were rewound to before a prompt.
    Rewound {
        prompt: Uuid,
        what: Rewind,
        by: Actor,
    },
    #[serde(alias = "named")]
    TitleChanged {
        title: String,
    },
    /// The running turn has been silent for a while.
    Stalled {
        seconds: u64,
    },
    /// The session continues one that began outside Towpath. The next entries are the lines of its
    /// session file that belong to the conversation.
    Imported {
        /// The session file.
        file: String,
        /// The CLI's id of the session.
        conversation: String,
        /// How many entries follow.
        entries: u64,
        /// No more turns than that begin in them. Their numbers come before those of Towpath's turns.
        turns: u64,
    },
    /// Another agent continues the conversation, in a session of its own.
    ContinuedIn {
        session: Uuid,
        /// The agent's name for people.
        agent: String,
    },
    /// The session continues a conversation of another agent.
    ContinuesFrom {
        session: Uuid,
        agent: String,
    },
    /// Another machine of the fleet drives the session from here on.
    TakenOver {
        /// The worker that drove it before.
        from: String,
        to: String,
        /// Whether the worker before has given it away. Otherwise it was away itself.
        released: bool,
    },
    /// What a worker had still recorded when another one had already taken the session over. It is not part
    /// of the conversation.
    Tail {
        worker: String,
        /// Counts the owners of the session: the epoch in which the worker learned it.
        epoch: u64,
        /// What a person can read of it.
        text: String,
    },
    /// Something to know about the session that no other note describes.
    Notice {
        text: String,
    },
    /// A problem that no other note describes.
    #[serde(alias = "trouble")]
    Problem {
        text: String,
    },
}

/// Who did something, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// A name for a person to recognise.
    pub name: String,
    /// The client: `terminal`, `browser`, `telegram`, `api`, `rule`, `schedule`. A browser may name its
    /// device, as in `browser on Pixel 8`.
    pub via: String,
}

impl Actor {
    /// The client, without its device.
    pub fn client(&self) -> &str {
        self.via.split_once(" on ").map_or(self.via.as_str(), |(client, _)| client)
    }

    /// What the client runs on, if that is known.
    pub fn device(&self) -> Option<&str> {
        self.via.split_once(" on ").map(|(_, device)| device)
    }
}

#[derive(Serialize, Deserialize)]
struct NoteEnvelope<N> {
    #[serde(rename = "type")]
    kind: NoteType,
    #[serde(flatten)]
    note: N,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NoteType {
    Towpath,
}

impl Note {
    /// The note as a line, without a newline.
    pub fn to_line(&self) -> Vec<u8> {
        let line = NoteEnvelope { kind: NoteType::Towpath, note: self };
        // Strings, numbers and lists of them serialise.
        serde_json::to_vec(&line).unwrap_or_default()
    }

    /// The note in a line; none if the line is no note that this version knows.
    ///
    /// Readers of a journal use [`RecordedLine::note`](crate::RecordedLine::note), which knows who
    /// wrote the line.
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice::<NoteEnvelope<Self>>(line).ok().map(|it| it.note)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::{Actor, Delivery, ExitCause, Note, QueuePolicy, RequestKind, Setting, TurnEnding};
    use crate::json::Raw;
    use uuid::Uuid;

    #[test]
    fn a_note_reads_back_as_it_was_written() {
        let by = Actor { name: "ann".to_owned(), via: "terminal".to_owned() };
        let prompt = Uuid::from_u128(7);
        let notes = [
            Note::PromptQueued {
                prompt,
                text: "hi".to_owned(),
                images: 0,
                delivery: Delivery::Queue,
                by: by.clone(),
            },
            Note::TurnEnded { turn: 1, ending: TurnEnding::Aborted { cause: ExitCause::Lost } },
            Note::AgentExited { cause: ExitCause::Exited { code: 1, stderr: "no".to_owned() } },
            Note::SettingChanged { setting: Setting::Model(None), by },
        ];
        for note in notes {
            let line = note.to_line();
            assert!(line.starts_with(br#"{"type":"towpath","note":""#));
            assert_eq!(Note::read(&line), Some(note));
        }
    }

    #[test]
    fn notes_of_earlier_versions_are_read_by_their_old_names() {
        let read = |line: &str| Note::read(line.as_bytes()).expect(line);
        let cut = r#"{"type":"towpath","note":"turn_over","turn":2,"ending":{"how":"cut","cause":{"cause":"disobeyed"}}}"#;
        let ending = TurnEnding::Aborted { cause: ExitCause::Unresponsive };
        assert_eq!(read(cut), Note::TurnEnded { turn: 2, ending });
        let opened =
            r#"{"type":"towpath","note":"request_opened","request":"r","wants":"plan_approval"}"#;
        let kind = RequestKind::Plan;
        let (rules, choices) = (Vec::new(), Vec::new());
        let request = "r".to_owned();
        let expected = Note::RequestOpened { request, kind, expires: None, rules, choices };
        assert_eq!(read(opened), expected);
        let by = Actor { name: "ann".to_owned(), via: "browser".to_owned() };
        let asked = r#"{"type":"towpath","note":"interrupt_asked","by":{"name":"ann","via":"browser"},"queue":"clear"}"#;
        assert_eq!(read(asked), Note::InterruptRequested { by, queue: QueuePolicy::Clear });
        for old in [
            "turn_began\",\"turn\":1,\"prompts\":[]",
            "named\",\"title\":\"x\"",
            "trouble\",\"text\":\"x\"",
        ] {
            read(&format!(r#"{{"type":"towpath","note":"{old}}}"#));
        }
    }

    #[test]
    fn a_question_or_plan_in_an_unexpected_shape_is_an_ordinary_permission() {
        let kind = |tool: &str, input: &str| RequestKind::of(tool, Raw::parse(input));
        let question = r#"{"questions":[{"question":"Which?","options":[{"label":"A"}]}]}"#;
        assert_eq!(kind("AskUserQuestion", question), RequestKind::Question);
        assert_eq!(
            kind("AskUserQuestion", r#"{"questions":[{"question":"?"}]}"#),
            RequestKind::Question
        );
        for odd in [
            "{}",
            "[]",
            "5",
            r#"{"questions":[]}"#,
            r#"{"questions":"Which?"}"#,
            r#"{"questions":[{"question":7}]}"#,
            r#"{"questions":["Which?"]}"#,
            r#"{"questions":[{"question":"?","options":[{"label":{}}]}]}"#,
            r#"{"questions":[{"question":"?","options":{}}]}"#,
        ] {
            assert_eq!(kind("AskUserQuestion", odd), RequestKind::Permission, "{odd}");
        }
        assert_eq!(kind("ExitPlanMode", r##"{"plan":"# P"}"##), RequestKind::Plan);
        assert_eq!(kind("ExitPlanMode", "{}"), RequestKind::Plan);
        for odd in [r#"{"plan":[]}"#, r#"{"plan":7}"#, "[]", r#""plan""#] {
            assert_eq!(kind("ExitPlanMode", odd), RequestKind::Permission, "{odd}");
        }
        assert_eq!(kind("Bash", question), RequestKind::Permission);
    }

    #[test]
    fn a_note_of_a_later_version_and_a_line_of_the_agent_are_not_read() {
        assert_eq!(Note::read(br#"{"type":"towpath","note":"teleported","to":"x"}"#), None);
        assert_eq!(Note::read(br#"{"type":"result","note":"named","title":"x"}"#), None);
        assert_eq!(Note::read(b"{"), None);
    }
}
