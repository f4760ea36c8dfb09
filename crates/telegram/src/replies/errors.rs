//! Replies that say what failed and what to do.

use journal::Resolution;
use session::CommandError;
use session::shim::OwnershipError;
use session::{Error, OpenError};
use view::telegram::{FormattedText, TextFormat};
use view::wording;
use wire::note::{Actor, Outcome, PromptState};

use super::{BotReply, formatted, shortened};
use crate::inbound::RejectedContent;

/// Content that the agent cannot be given.
pub fn rejected(content: &RejectedContent) -> BotReply {
    match content {
        RejectedContent::TooLarge { name, size, limit } => {
            let (name, size, limit) = (shortened(name, 80), wording::size(*size), megabytes(*limit));
            format!("“{name}” is too large ({size}): bots can download files of up to {limit}. The agent did not get it.")
        }
        RejectedContent::Unsupported(kind) => {
            format!("The agent cannot read {kind}. Send text, pictures or files.")
        }
    }
    .into()
}

/// A limit as Telegram's documentation states it, in units of 1,024 × 1,024 bytes.
fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes >> 20)
}

pub fn download_failed(name: &str) -> BotReply {
    let name = shortened(name, 80);
    format!(
        "Could not download “{name}” from Telegram. The agent did not get it; please send it again."
    )
    .into()
}

/// A file of the agent that a bot cannot send.
pub fn file_too_large(name: &str, size: u64, limit: u64) -> BotReply {
    let (name, size, limit) = (shortened(name, 80), wording::size(size), megabytes(limit));
    formatted(&format!(
        "The agent wants to send you “{}”, but it is too large ({size}): bots can send files of up to {limit}. It is still in `.towpath/outbox`.",
        name.replace('`', "'")
    ))
    .into()
}

pub fn no_session() -> BotReply {
    "There is no session here yet. Send a message or /new to start one.".into()
}

pub fn internal_error() -> BotReply {
    "Something went wrong. Try again, or see Towpath’s log for details.".into()
}

/// The answer to a tap on a button whose owner is unknown.
pub fn old_button() -> String {
    "This button is out of date.".to_owned()
}

/// A session did not do what a user asked for.
pub fn call_failed(error: &Error) -> BotReply {
    match error {
        Error::Refused(refusal) => refused(refusal),
        Error::NotStored => {
            "The disk is full, so this was not saved. Free some space and send it again.".into()
        }
        Error::Closed => "The session was just closed. Try again.".into(),
        Error::Remote(reason) => format!("This did not work: {reason}").into(),
        Error::Journal(error) => journal_failed(error),
    }
}

fn refused(refusal: &CommandError) -> BotReply {
    match refusal {
        CommandError::NoSuchPrompt => "This message is no longer queued.".into(),
        CommandError::EmptyPrompt => "This message is empty.".into(),
        CommandError::NotWaiting(state) => match state {
            PromptState::Cancelled => "This message was already removed.",
            PromptState::Done => "This message was already answered.",
            PromptState::Queued
            | PromptState::Written
            | PromptState::Accepted
            | PromptState::Indeterminate => "The agent already has this message.",
        }
        .into(),
        CommandError::NoSuchRequest => "The agent no longer waits for this.".into(),
        CommandError::AlreadyResolved(it) => resolution(it),
        CommandError::Invalid(why) => {
            format!("This answer does not fit the request: {why}.").into()
        }
        CommandError::InvalidOption(error) => super::option_refused(error),
        CommandError::NoAgent => "No agent is running.".into(),
        CommandError::TooLarge { .. } | CommandError::UnreadableOptions(_) => {
            format!("Not sent: {refusal}.").into()
        }
        CommandError::NoSuchSchedule => "There is no such scheduled message.".into(),
        CommandError::Busy => "The agent is working. Use /stop, or wait until it is done.".into(),
        CommandError::RefusedByAgent(text) => {
            format!("The agent refused: {}", shortened(text, 500)).into()
        }
        CommandError::NoAnswer => "The agent did not respond in time. Try again.".into(),
        CommandError::AgentGone => "The agent stopped before it responded. Try again.".into(),
    }
}

/// How a request was resolved, for a user who answers too late.
pub fn resolution(resolution: &Resolution) -> BotReply {
    let by = resolution.by.as_ref().map(actor).unwrap_or_default();
    match resolution.outcome {
        Outcome::Allowed | Outcome::AllowedAndRemembered => format!("Already allowed{by}."),
        Outcome::Denied => format!("Already denied{by}."),
        Outcome::Expired => "Too late: denied because no answer came in time.".to_owned(),
        Outcome::Withdrawn => "The agent no longer waits for this.".to_owned(),
    }
    .into()
}

fn actor(actor: &Actor) -> String {
    let client = match actor.client() {
        "browser" => " in the browser",
        "terminal" => " in the terminal",
        "telegram" => " in Telegram",
        _ => "",
    };
    format!(" by {}{client}", shortened(&actor.name, 64))
}

/// A session could not be opened.
pub fn open_failed(error: &OpenError) -> BotReply {
    match error {
        OpenError::NoSuchSession(_) => NO_SUCH_SESSION.into(),
        OpenError::Owned(OwnershipError::Owned { pid }) => {
            let process = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            format!("Another Towpath server{process} is using this session. Stop it, or start a new session with /new.").into()
        }
        OpenError::Owned(OwnershipError::Io(_)) | OpenError::Takeover(_) => {
            "Could not open the session; see Towpath’s log for details. To start a new one, use /new.".into()
        }
        OpenError::Directory { path, .. } => {
            let path = path.display().to_string().replace('`', "'");
            formatted(&format!("The directory `{path}` no longer exists or cannot be used.")).into()
        }
        OpenError::Agent(unknown) => {
            let mut text = FormattedText::plain("There is no agent ");
            text.push_formatted(TextFormat::Code, &shortened(&unknown.name, 60));
            text.push(".");
            for (index, name) in unknown.similar.iter().enumerate() {
                text.push(if index == 0 { " Did you mean " } else { " or " });
                text.push_formatted(TextFormat::Code, name);
            }
            text.push(if unknown.similar.is_empty() { "" } else { "?" });
            text.push(" For another agent, write `/new agent=NAME`.");
            text.into()
        }
        OpenError::Journal(error) => journal_failed(error),
        OpenError::Damaged { .. } => {
            "This session is damaged and cannot be continued. To start a new one, use /new.".into()
        }
        OpenError::OpenElsewhere { process, .. } => {
            let process = process.map(|id| format!(" (process {id})")).unwrap_or_default();
            format!("This session is open in a terminal{process}. Leave it there first, then use /resume again.").into()
        }
        OpenError::Transcript { .. } => {
            "The session file of the CLI could not be read. See Towpath’s log for details.".into()
        }
        OpenError::Relayed(reason) => format!("{}.", shortened(reason, 500)).into(),
        OpenError::NotResponding => {
            "The agent’s process does not answer right now. Try again later, or start a new session with /new.".into()
        }
    }
}

const NO_SUCH_SESSION: &str =
    "This session was deleted. See /sessions for the others, or start a new one with /new.";

fn journal_failed(error: &journal::Error) -> BotReply {
    match error {
        journal::Error::Full => "The disk is full. Free some space and try again.",
        journal::Error::Busy => "The journal is busy. Try again.",
        journal::Error::NoSuchSession(_) | journal::Error::Gone => NO_SUCH_SESSION,
        _ => "The journal has a problem. See Towpath’s log for details.",
    }
    .into()
}
