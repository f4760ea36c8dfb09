//! Replies to commands, and to what could not be done. Pure.
//!
//! Replies are short. An error says what failed and what to do. If only a text fits, as in the answer
//! to a tap, [`BotReply::plain_text`] has it without formatting.

mod choices;
mod errors;
mod sessions;
#[cfg(test)]
mod tests;

use journal::SessionId;
use session::RequestAnswer;
use uuid::Uuid;
use view::telegram::{FormattedText, TextFormat};

use crate::bot::{BotButton, BotKeyboard};
use crate::chat::UserIntent;
use crate::inbound::ChatCommand;
pub use choices::{
    OfferedModel, find_mode, mode_set, model_set, models, modes, offered_models, unknown_mode,
    verbosity, verbosity_set,
};
pub use errors::{
    call_failed, download_failed, file_too_large, internal_error, no_session, old_button,
    open_failed, rejected, resolution,
};
pub use sessions::{
    cost, directory_not_allowed, prompt_edited, prompt_queued, prompt_removed, queue,
    session_ambiguous, session_created, session_deleted, session_not_found, session_resumed,
    sessions, status, too_late_to_edit,
};

/// The bytes that a button can carry.
const BUTTON_DATA_LIMIT: usize = 64;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BotReply {
    pub text: FormattedText,
    pub buttons: BotKeyboard,
}

impl BotReply {
    pub fn plain_text(&self) -> &str {
        self.text.plain_text()
    }
}

impl From<&str> for BotReply {
    fn from(text: &str) -> Self {
        Self::from(FormattedText::plain(text))
    }
}

impl From<String> for BotReply {
    fn from(text: String) -> Self {
        Self::from(FormattedText::plain(&text))
    }
}

impl From<FormattedText> for BotReply {
    fn from(text: FormattedText) -> Self {
        Self { text, buttons: BotKeyboard::new() }
    }
}

/// The commands and their descriptions, as `setMyCommands` registers them.
pub fn commands() -> &'static [(&'static str, &'static str)] {
    &[
        ("new", "Start a new session: /new or /new DIRECTORY"),
        ("sessions", "List the sessions"),
        ("resume", "Show another session in this chat: /resume ID"),
        ("stop", "Stop the agent"),
        ("status", "Show what the agent is doing"),
        ("cost", "Show tokens and cost"),
        ("model", "Change the model"),
        ("mode", "Change the permission mode"),
        ("queue", "Show the queued messages"),
        ("compact", "Compact the conversation: /compact or /compact INSTRUCTIONS"),
        ("verbose", "Change how much is posted: 0, 1 or 2"),
        ("diff", "Show the latest changes"),
        ("help", "Show this help"),
    ]
}

pub fn help() -> BotReply {
    let mut text = FormattedText::default();
    text.push("Send a message, and the agent starts working on it. ");
    text.push("You can include pictures, files, voice messages and forwarded messages. ");
    text.push("Messages you send while the agent is working are queued.\n");
    for (name, description) in commands() {
        text.push(&format!("\n/{name} – {description}"));
    }
    text.push("\n\nTo send a command to the agent itself, use two slashes: ");
    text.push_formatted(TextFormat::Code, "//review");
    text.push(".");
    text.into()
}

pub fn unknown_command(name: &str) -> BotReply {
    let name = shortened(name, 64);
    formatted(&format!(
        "Unknown command /{name}. See /help for all commands. To send a command to the agent itself, use two slashes: `//{name}`."
    ))
    .into()
}

pub fn nothing_to_stop() -> BotReply {
    "Nothing is running.".into()
}

/// The running turn is being stopped while some messages are queued.
pub fn stopping(queued: usize) -> BotReply {
    match queued {
        0 => "Stopping…".into(),
        1 => "Stopping… 1 queued message comes next. To remove it, use /queue.".into(),
        queued => {
            format!("Stopping… {queued} queued messages come next. To remove them, use /queue.")
                .into()
        }
    }
}

pub fn compacting() -> BotReply {
    "The agent will compact the conversation.".into()
}

pub fn no_changes() -> BotReply {
    "No files were changed.".into()
}

/// The session accepted an answer.
pub fn answer_accepted(answer: &RequestAnswer) -> BotReply {
    match answer {
        RequestAnswer::Allow { remember: Some(_), .. } => "Always allowed",
        RequestAnswer::Allow { .. } => "Allowed",
        RequestAnswer::Deny { .. } => "Denied",
        RequestAnswer::Answers(_) => "RequestAnswer sent",
    }
    .into()
}

/// What a tap on a button below a reply means; none if the button belongs to something else.
///
/// These buttons carry a letter, a colon and a choice. None of it is secret, and a tap does nothing
/// that the user could not do with a command. The buttons of cards never have a colon in this place.
pub fn intent_of(data: &str) -> Option<UserIntent> {
    let (letter, choice) = data.split_once(':')?;
    let name = || (!choice.is_empty()).then(|| choice.to_owned());
    match letter {
        "r" => choice.parse().ok().map(|id| UserIntent::Resume(SessionId(id))),
        "q" => choice.parse().ok().map(UserIntent::RemovePrompt),
        "m" => name().map(|it| UserIntent::Command(ChatCommand::Model(Some(it)))),
        "p" => name().map(|it| UserIntent::Command(ChatCommand::Mode(Some(it)))),
        "v" => choice
            .parse()
            .ok()
            .filter(|level| *level <= 2)
            .map(|level| UserIntent::Command(ChatCommand::Verbose(Some(level)))),
        _ => None,
    }
}

fn resume_button(label: String, session: SessionId) -> BotButton {
    BotButton { label, data: format!("r:{}", session.0.simple()) }
}

fn remove_button(label: String, prompt: Uuid) -> BotButton {
    BotButton { label, data: format!("q:{}", prompt.simple()) }
}

/// A button that sets the model; none if the name is too long for a button.
fn model_button(label: String, name: &str) -> Option<BotButton> {
    let data = format!("m:{name}");
    (data.len() <= BUTTON_DATA_LIMIT).then_some(BotButton { label, data })
}

fn mode_button(label: String, name: &str) -> BotButton {
    BotButton { label, data: format!("p:{name}") }
}

fn verbosity_button(label: String, level: u8) -> BotButton {
    BotButton { label, data: format!("v:{level}") }
}

/// A text in which the parts between backticks are code.
fn formatted(text: &str) -> FormattedText {
    let mut formatted = FormattedText::default();
    for (index, part) in text.split('`').enumerate() {
        if index % 2 == 0 {
            formatted.push(part);
        } else {
            formatted.push_formatted(TextFormat::Code, part);
        }
    }
    formatted
}

/// The beginning of a text, in one line.
fn shortened(text: &str, characters: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", line[..end].trim_end()),
        None => line,
    }
}
