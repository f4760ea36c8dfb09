//! The first thing each side says, and what follows from two versions meeting.
//!
//! A shim outlives the Towpath that started it, so the two may be of different releases. Within a
//! major version fields and frames are only added; whoever does not know them ignores them. Across
//! major versions only a core is spoken, and it never changes: the frame's head, the hellos'
//! `version`, `from`, `start`, `end` and `exit`, the frames `Output`, `Exited`, `Refused`, `Kept`,
//! `Signal`, `End` and `Bye`. It is enough to read what the agent says to the end and to end it.

use serde::{Deserialize, Serialize};

use super::exit::Exit;
use super::news::Trouble;
use super::plan::Run;

/// A version of what is spoken on the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Both sides must have the same to speak more than the core.
    pub major: u32,
    /// Grows with what is added.
    pub minor: u32,
}

impl Version {
    /// What this program speaks.
    pub const OURS: Self = Self { major: 1, minor: 0 };

    /// What it can speak with somebody of another version.
    pub(super) fn terms_with(self, other: Self) -> Terms {
        if self.major == other.major { Terms::Full } else { Terms::Core }
    }
}

/// How much two sides can say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Everything.
    Full,
    /// What never changes: output, exit, signals, the end. Nothing can be written to the agent.
    Core,
}

/// The owner's hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OwnerHello {
    pub(super) version: Version,
    /// From which offset on it wants the agent's output.
    pub(super) from: u64,
    /// Its process, told to whoever is refused because of it.
    #[serde(default)]
    pub(super) pid: Option<i32>,
}

/// The shim's hello, as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShimHello {
    pub(super) version: Version,
    pub(super) start: u64,
    pub(super) end: u64,
    #[serde(default)]
    pub(super) exit: Option<Exit>,
    #[serde(default)]
    pub(super) shim: Option<i32>,
    #[serde(default)]
    pub(super) agent: Option<i32>,
    #[serde(default)]
    pub(super) run: Option<Run>,
    #[serde(default)]
    pub(super) last_write: u64,
    #[serde(default)]
    pub(super) stdin: Option<Stdin>,
    #[serde(default)]
    pub(super) trouble: Option<Trouble>,
}

/// Whether the agent can still be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stdin {
    /// It can.
    Open,
    /// Its stdin is closed, or about to be: the agent is ending.
    Closed,
}

/// What a shim says of itself and its agent when an owner attaches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The shim's version.
    pub version: Version,
    /// How much can be said to it.
    pub terms: Terms,
    /// The shim's process.
    pub shim: Option<i32>,
    /// The agent's process.
    pub agent: Option<i32>,
    /// Which process of the session the agent is.
    pub run: Option<Run>,
    /// The first offset the spool still has. If it lies behind the offset asked for, what is between
    /// was given up before, on an owner's word.
    pub start: u64,
    /// How many bytes the agent has printed so far.
    pub end: u64,
    /// The last [`Order::Write`](super::Order::Write) the shim has received; 0 if none.
    pub last_write: u64,
    /// Whether the agent can still be written to.
    pub stdin: Stdin,
    /// How the agent ended, if it has. Its output comes nevertheless, and then
    /// [`News::Exited`](super::News::Exited).
    pub exit: Option<Exit>,
    /// What stands in the shim's way.
    pub trouble: Option<Trouble>,
}

impl Greeting {
    pub(super) fn of(hello: ShimHello) -> Self {
        let closed = hello.exit.is_some();
        Self {
            version: hello.version,
            terms: Version::OURS.terms_with(hello.version),
            shim: hello.shim,
            agent: hello.agent,
            run: hello.run,
            start: hello.start,
            end: hello.end,
            last_write: hello.last_write,
            stdin: hello.stdin.unwrap_or(if closed { Stdin::Closed } else { Stdin::Open }),
            exit: hello.exit,
            trouble: hello.trouble,
        }
    }
}
