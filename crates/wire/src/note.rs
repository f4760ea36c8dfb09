//! Notes: what Towpath itself writes into a session's journal, between the agent's lines.
//!
//! The agent's lines alone do not tell what a person sees: which prompts wait, who allowed what,
//! that a turn was cut by a dead machine. A note says such a thing once, in the order it happened,
//! so that every follower concludes the same. It lives here, with the protocol, because those who
//! write notes and those who show them know nothing of each other.
//!
//! A note is a line of JSON like the agent's own, with the type `towpath`, which no agent uses.
//! Fields are only ever added: a note of a later Towpath is [`Note::read`] as nothing and shown raw.

mod wish;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::consent::Rule;

pub use wish::{CommitWish, HookWish, Pace, WatchTarget, WatchWish};

/// Something Towpath has to say about a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// A prompt was taken up; it waits until it is [written](PromptState::Written).
    PromptQueued {
        /// Its id, made by the sender; the agent repeats it as the `uuid` of the user's message.
        prompt: Uuid,
        /// Its words.
        text: String,
        /// How many pictures go with it.
        #[serde(default, skip_serializing_if = "is_zero")]
        images: usize,
        /// When it may go to the agent.
        delivery: Delivery,
        /// Who sent it.
        by: Actor,
    },
    /// The words of a waiting prompt were changed.
    PromptEdited {
        /// Which.
        prompt: Uuid,
        /// The words from here on.
        text: String,
    },
    /// A waiting prompt changed its place.
    PromptMoved {
        /// Which.
        prompt: Uuid,
        /// The prompt it now stands in front of; the end of the queue where nothing is said.
        before: Option<Uuid>,
    },
    /// A prompt went on to its next state.
    PromptBecame {
        /// Which.
        prompt: Uuid,
        /// What it is from here on.
        state: PromptState,
    },
    /// A turn began.
    TurnBegan {
        /// Its number in the session, from 1 on.
        turn: u64,
        /// The prompts that opened it; none where the agent began by itself.
        prompts: Vec<Uuid>,
    },
    /// A turn is over. Every [`TurnBegan`](Self::TurnBegan) is followed by exactly one of these.
    TurnOver {
        /// Its number.
        turn: u64,
        /// How it ended.
        ending: TurnEnding,
    },
    /// The agent waits for a person. The request itself is the `can_use_tool` line before.
    RequestOpened {
        /// The agent's id of the request.
        request: String,
        /// What sort of answer it wants.
        wants: Wants,
        /// When it will be refused for want of an answer, in milliseconds since 1970.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires: Option<u64>,
        /// The rules that *Always* offers for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<Rule>,
    },
    /// The agent waits no longer. Every request is resolved exactly once.
    RequestResolved {
        /// Which.
        request: String,
        /// What came of it.
        outcome: Outcome,
        /// Who gave the answer; nobody where it was withdrawn or expired.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Actor>,
        /// What was said with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The answers to a question, by the question's text.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        answers: Vec<(String, String)>,
    },
    /// Somebody asked the running turn to stop.
    InterruptAsked {
        /// Who.
        by: Actor,
        /// What becomes of the prompts that wait.
        queue: QueueFate,
    },
    /// An agent process was started for the session.
    AgentStarted {
        /// Whether it takes up the conversation where another process left it.
        resumed: bool,
    },
    /// The agent answered `initialize`.
    AgentReady {
        /// Its version, where it says so.
        version: Option<String>,
    },
    /// The agent process is gone.
    AgentGone {
        /// Why.
        cause: Cause,
    },
    /// A setting was changed.
    SettingChanged {
        /// Which, to what.
        setting: Setting,
        /// Who.
        by: Actor,
    },
    /// Files were put back to where they were before a prompt.
    Rewound {
        /// The prompt.
        prompt: Uuid,
        /// What was put back.
        what: Rewind,
        /// Who.
        by: Actor,
    },
    /// The session got a name.
    Named {
        /// The name.
        title: String,
    },
    /// The running turn has been silent for a while.
    Stalled {
        /// For how long, in seconds.
        seconds: u64,
    },
    /// Something went wrong that no other note tells.
    Trouble {
        /// What.
        text: String,
    },
}

/// When a prompt may go to the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// After the running turn, as a turn of its own.
    #[default]
    Queue,
    /// Into the running turn, at its next step.
    Steer,
}

/// Where a prompt stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptState {
    /// It waits on our side, and can be edited, moved and removed.
    Queued,
    /// It is on its way to the agent.
    Written,
    /// The agent has repeated it: it knows it.
    Accepted,
    /// The turn that answers it is over.
    Done,
    /// It was taken back before the agent began with it.
    Cancelled,
    /// The agent died with it, so nobody knows; it is never sent again by itself.
    Indeterminate,
}

/// Who did something, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// A name a person would know.
    pub name: String,
    /// The way it came: `terminal`, `browser`, `telegram`, `api`, `rule`.
    pub via: String,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum TurnEnding {
    /// As it should.
    Completed,
    /// With an error, in the agent's words.
    Failed {
        /// The words.
        message: String,
    },
    /// By somebody's word.
    Interrupted,
    /// By the death of the agent, in the middle.
    Cut {
        /// Why it died.
        cause: Cause,
    },
}

/// Why an agent process is gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Cause {
    /// It could not be started.
    NotStarted {
        /// What the system said.
        message: String,
    },
    /// It did not answer `initialize` in time.
    NotReady,
    /// It exited by itself.
    Exited {
        /// With this code.
        code: i32,
        /// And these last words on stderr.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stderr: String,
    },
    /// A signal ended it.
    Killed {
        /// Which.
        signal: i32,
    },
    /// It was ended because it did not obey an interrupt.
    Disobeyed,
    /// It was ended because nothing happened for a while; the next prompt wakes the session.
    Parked,
    /// Somebody ended it.
    Closed,
    /// What held it is gone, and it with it: the shim was killed or the machine went down.
    Lost,
}

/// What sort of answer a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wants {
    /// May this tool be used?
    Permission,
    /// Answers to the questions of `AskUserQuestion`.
    Answers,
    /// A word on the plan of `ExitPlanMode`.
    PlanApproval,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Allowed, this once.
    Allowed,
    /// Allowed, and the like of it from here on.
    AllowedAndRemembered,
    /// Refused.
    Denied,
    /// Nobody answered in time; the agent was told so.
    Expired,
    /// The agent withdrew it, or is gone.
    Withdrawn,
}

/// What becomes of waiting prompts when a turn is interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueFate {
    /// They stay and run next.
    #[default]
    Keep,
    /// They are cancelled.
    Clear,
}

/// A setting that can be changed while the agent lives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "setting", content = "value", rename_all = "snake_case")]
pub enum Setting {
    /// The model; the default one where nothing is said.
    Model(Option<String>),
    /// The permission mode, as the CLI spells it.
    PermissionMode(String),
    /// How hard the model thinks: `low`, `medium`, `high`, ….
    Effort(String),
    /// What is done with the files the agent changes, by Towpath and not by the agent.
    Watch(Option<Box<WatchWish>>),
}

/// What a rewind puts back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rewind {
    /// Files only.
    Files,
    /// The conversation only.
    Conversation,
    /// Both.
    Both,
}

#[derive(Serialize, Deserialize)]
struct Envelope<N> {
    #[serde(rename = "type")]
    kind: Towpath,
    #[serde(flatten)]
    note: N,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Towpath {
    Towpath,
}

impl Note {
    /// The note as a line, without a newline.
    pub fn to_line(&self) -> Vec<u8> {
        let line = Envelope { kind: Towpath::Towpath, note: self };
        // Strings, numbers and lists of them serialise.
        serde_json::to_vec(&line).unwrap_or_default()
    }

    /// The note a line holds; nothing where it is none this version knows.
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Envelope<Self>>(line).ok().map(|it| it.note)
    }
}

impl PromptState {
    /// Whether nothing can come after it.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Indeterminate)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::{Actor, Cause, Delivery, Note, Setting, TurnEnding};
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
            Note::TurnOver { turn: 1, ending: TurnEnding::Cut { cause: Cause::Lost } },
            Note::AgentGone { cause: Cause::Exited { code: 1, stderr: "no".to_owned() } },
            Note::SettingChanged { setting: Setting::Model(None), by },
        ];
        for note in notes {
            let line = note.to_line();
            assert!(line.starts_with(br#"{"type":"towpath","note":""#));
            assert_eq!(Note::read(&line), Some(note));
        }
    }

    #[test]
    fn a_note_of_a_later_version_and_a_line_of_the_agent_are_none() {
        assert_eq!(Note::read(br#"{"type":"towpath","note":"teleported","to":"x"}"#), None);
        assert_eq!(Note::read(br#"{"type":"result","note":"named","title":"x"}"#), None);
        assert_eq!(Note::read(b"{"), None);
    }
}
