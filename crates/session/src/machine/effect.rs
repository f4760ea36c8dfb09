//! What is to be done.

use journal::{Grant, PromptRecord, RequestRecord, Resolution};
use thiserror::Error;
use wire::note::{Note, PromptState};
use wire::say::Saying;

use super::Ticket;
use crate::options::Options;

/// Something to be done. Notes and records must be durable before words and replies go out.
#[derive(Debug)]
pub enum Effect {
    /// Write a note into the journal.
    Note(Note),
    /// Keep a prompt as it is now.
    Prompt(PromptRecord),
    /// Keep a request as it is now.
    Request(RequestRecord),
    /// Keep a grant.
    Grant(Grant),
    /// Keep what is wanted of the agent.
    Options(Box<Options>),
    /// Write a line to the agent.
    Say(Saying),
    /// Start a process.
    Start(Start),
    /// Have the process end: no more input, then a word, then by force.
    End {
        /// Milliseconds between one and the next.
        patience: u64,
    },
    /// End the process and everything it started, at once.
    Kill,
    /// Answer whoever asked.
    Reply(Ticket, Reply),
    /// A turn is over; what only served its streaming can go.
    Settle,
}

/// What conversation a process is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A new one.
    Fresh,
    /// The one the session had.
    Resume,
}

/// The answer to a [`Command`](super::Command).
pub type Reply = Result<Done, Refusal>;

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is done, and nothing is to be said of it.
    Well,
    /// Where the prompt stands.
    Prompt(PromptState),
    /// What the agent answered, as JSON.
    Payload(Option<String>),
}

/// Why a command was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// There is no such prompt.
    #[error("no such prompt")]
    NoSuchPrompt,
    /// A prompt needs a word or a picture.
    #[error("a prompt needs some text or an image")]
    EmptyPrompt,
    /// The prompt is beyond changing.
    #[error("the prompt no longer waits")]
    NotWaiting(PromptState),
    /// There is no such request.
    #[error("no such request")]
    NoSuchRequest,
    /// Somebody else was first, or the request went away.
    #[error("the request is already resolved")]
    AlreadyResolved(Box<Resolution>),
    /// The answer is not of the sort the request wants.
    #[error("{0}")]
    UnfitAnswer(&'static str),
    /// A turn is running.
    #[error("a turn is running")]
    Busy,
    /// The agent said no, in these words.
    #[error("the agent refused: {0}")]
    ByAgent(String),
    /// The agent did not answer in time.
    #[error("the agent did not answer in time")]
    NoAnswer,
    /// The agent ended before it answered.
    #[error("the agent is gone")]
    AgentGone,
}
