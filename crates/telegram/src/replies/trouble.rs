//! What could not be done, and why.

use journal::Resolution;
use session::machine::Refusal;
use session::shim::Held;
use session::{Error, OpenError};
use view::phrase;
use wire::note::{Actor, Outcome, PromptState};

use super::{Said, cut, marked};
use crate::deed::Left;

/// Something was not taken.
pub fn left(what: &Left) -> Said {
    match what {
        Left::TooLarge { name, size, most } => {
            let (name, size, most) = (cut(name, 80), phrase::size(*size), limit(*most));
            format!("“{name}” is {size}; Telegram lets bots fetch up to {most}. The agent does not get it.")
        }
        Left::Unreadable(what) => {
            format!("I can’t do anything with {what}. Words, pictures and files are fine.")
        }
    }
    .into()
}

/// A limit of Telegram's, as its documentation has it: its megabytes are of 1,024 times 1,024.
fn limit(bytes: u64) -> String {
    format!("{} MB", bytes >> 20)
}

/// A file could not be fetched from Telegram.
pub fn not_fetched(name: &str) -> Said {
    let name = cut(name, 80);
    format!("I could not fetch “{name}” from Telegram, so the agent does not get it. Please send it again.")
        .into()
}

/// A file of the agent's is too large to be sent.
pub fn not_sent(name: &str, size: u64, most: u64) -> Said {
    let (name, size, most) = (cut(name, 80), phrase::size(size), limit(most));
    marked(&format!(
        "The agent has a file for you, “{}”, but it is {size} and bots can send up to {most}. It is still in `.towpath/outbox`.",
        name.replace('`', "'")
    ))
    .into()
}

/// There is no session here.
pub fn no_session() -> Said {
    "There is no session here yet. Write something or send /new, and one begins.".into()
}

/// A session did not do what it was asked to.
pub fn not_done(error: &Error) -> Said {
    match error {
        Error::Refused(refusal) => refused(refusal),
        Error::NotStored => {
            "The disk of the machine is full, so I took nothing. Please send it again when there is room.".into()
        }
        Error::Closed => "The session was just closed. Please try again.".into(),
        Error::Journal(error) => journal(error),
    }
}

fn refused(refusal: &Refusal) -> Said {
    match refusal {
        Refusal::NoSuchPrompt => "That message no longer waits.".into(),
        Refusal::EmptyPrompt => "There is nothing in it for the agent.".into(),
        Refusal::NotWaiting(state) => match state {
            PromptState::Cancelled => "That message was already taken back.",
            PromptState::Done => "That message is already answered.",
            PromptState::Queued
            | PromptState::Written
            | PromptState::Accepted
            | PromptState::Indeterminate => "The agent already has that message.",
        }
        .into(),
        Refusal::NoSuchRequest => "The agent no longer asks that.".into(),
        Refusal::AlreadyResolved(resolution) => outcome(resolution),
        Refusal::UnfitAnswer(why) => format!("That does not answer it: {why}.").into(),
        Refusal::Busy => "The agent is at work. /stop it first, or wait until it is done.".into(),
        Refusal::ByAgent(words) => format!("The agent refused: {}", cut(words, 500)).into(),
        Refusal::NoAnswer => "The agent did not answer in time. Please try again.".into(),
        Refusal::AgentGone => "The agent ended before it answered. Please try again.".into(),
    }
}

/// What came of a request, for whoever comes too late.
pub fn outcome(resolution: &Resolution) -> Said {
    let by = resolution.by.as_ref().map(by).unwrap_or_default();
    match resolution.outcome {
        Outcome::Allowed | Outcome::AllowedAndRemembered => format!("Already allowed{by}."),
        Outcome::Denied => format!("Already denied{by}."),
        Outcome::Expired => "Too late: nobody answered in time.".to_owned(),
        Outcome::Withdrawn => "The agent no longer asks that.".to_owned(),
    }
    .into()
}

fn by(actor: &Actor) -> String {
    let way = match actor.via.as_str() {
        "browser" => " in the browser",
        "terminal" => " in the terminal",
        "telegram" => " in Telegram",
        _ => "",
    };
    format!(" by {}{way}", cut(&actor.name, 64))
}

/// A session could not be had.
pub fn not_opened(error: &OpenError) -> Said {
    match error {
        OpenError::NoSuchSession(_) => {
            "That session is deleted. /sessions shows what there is, /new begins one.".into()
        }
        OpenError::Held(Held::By { pid }) => {
            let which = pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            format!("Another Towpath on the machine drives this session{which}. End it there, or begin another with /new.").into()
        }
        OpenError::Held(Held::Io(_)) | OpenError::TakeOver(_) => {
            "The session could not be taken over; the log on the machine says why. /new begins another.".into()
        }
        OpenError::Directory { path, .. } => {
            let path = path.display().to_string().replace('`', "'");
            marked(&format!("The directory `{path}` is not there any more, or cannot be used.")).into()
        }
        OpenError::Journal(error) => journal(error),
    }
}

fn journal(error: &journal::Error) -> Said {
    match error {
        journal::Error::Full => {
            "The disk of the machine is full. Please try again when there is room."
        }
        journal::Error::Busy => "The journal is busy. Please try again.",
        journal::Error::NoSuchSession(_) | journal::Error::Gone => {
            "That session is deleted. /sessions shows what there is, /new begins one."
        }
        _ => "Something is wrong with the journal on the machine; the log there says what.",
    }
    .into()
}
