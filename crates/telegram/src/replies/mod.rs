//! Replies to commands, and to what could not be done. Pure.
//!
//! Replies are short. An error says what failed and what to do. If only a text fits, as in the answer
//! to a tap, [`BotReply::plain_text`] has it without formatting.

mod agent_menus;
mod choices;
mod commits;
mod errors;
mod found;
mod options;
mod rules;
mod schedules;
mod sessions;
#[cfg(test)]
mod tests;

use journal::SessionId;
use session::RequestAnswer;
use uuid::Uuid;
use view::telegram::{FormattedText, TextFormat};
use wire::outgoing::PermissionMode;

use crate::bot::{BotButton, BotKeyboard};
use crate::chat::UserIntent;
use crate::inbound::{ChatCommand, NewSessionArguments, ScheduleArguments, SetArguments};
pub use agent_menus::{
    MenuUse, agent_buttons, agent_menu, agent_options, menu_value_set, no_agent_option, no_menu,
    no_menu_value,
};
pub use choices::{
    OfferedModel, find_mode, mode_set, model_set, models, modes, offered_models, unknown_mode,
    verbosity, verbosity_set,
};
pub use commits::{WatchLogEntry, commit_set, commit_status};
pub use errors::{
    call_failed, download_failed, file_too_large, internal_error, no_session, old_button,
    open_failed, rejected, resolution,
};
pub use found::{search_failed, search_results, search_usage};
pub use options::{
    OUTBOX_PROMPT, ShownOptions, TELEGRAM_PROMPT, arguments_refused, bypass_not_allowed,
    confirm_bypass, needs_admin, option, option_refused, option_set, options, profile_failed,
    profiles,
};
pub use rules::{rule_not_found, rule_revoked, rules};
pub use schedules::{
    schedule_added, schedule_incomplete, schedule_refused, schedule_removed, schedules,
};
pub use sessions::{
    CliSessionSummary, cost, directory_not_allowed, prompt_edited, prompt_queued, prompt_removed,
    queue, resumable, session_ambiguous, session_created, session_deleted, session_not_found,
    session_resumed, sessions, status, too_late_to_edit,
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
        ("new", "Start a new session: /new, /new DIRECTORY, /new --agent NAME, /new name=value …"),
        ("sessions", "List the sessions"),
        ("resume", "Send held messages, or show another session in this chat: /resume ID"),
        ("search", "Find what was said in any session: /search WORDS"),
        ("stop", "Stop the agent"),
        ("status", "Show what the agent is doing"),
        ("cost", "Show tokens and cost"),
        ("model", "Change the model"),
        ("mode", "Change the permission mode"),
        ("options", "Change the options that only this agent has"),
        ("set", "Show and change the options: /set or /set NAME VALUE"),
        ("profile", "List the profiles"),
        ("commit", "Commit what the agent changes: on, off or status"),
        ("queue", "Show the queued messages"),
        ("schedule", "Send a message later: /schedule tomorrow 9:00 TEXT; /schedule lists them"),
        ("rules", "Show what is always allowed, and revoke it"),
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
        1 => "Stopping… 1 queued message is held. To send it, use /resume; to remove it, /queue.".into(),
        queued => format!(
            "Stopping… {queued} queued messages are held. To send them, use /resume; to remove them, /queue."
        )
        .into(),
    }
}

/// A message waits because a budget is spent.
pub fn waits_for_budget(question: &str) -> BotReply {
    format!("{question} /resume sends your message, /queue shows what waits.").into()
}

/// The queued messages that were held are sent.
pub fn queue_resumed() -> BotReply {
    "The queued messages are sent.".into()
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
        RequestAnswer::Answers(_) | RequestAnswer::Choose { .. } => "Answer sent",
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
        "t" => choice
            .parse::<Uuid>()
            .ok()
            .map(|id| UserIntent::Command(ChatCommand::Resume(Some(id.hyphenated().to_string())))),
        "q" => choice.parse().ok().map(UserIntent::RemovePrompt),
        "m" => name().map(|it| UserIntent::Command(ChatCommand::Model(Some(it)))),
        "p" => name().map(|it| UserIntent::Command(ChatCommand::Mode(Some(it)))),
        "o" => SetArguments::parse(choice)
            .ok()
            .filter(|it| *it != SetArguments::List)
            .map(|it| UserIntent::Command(ChatCommand::Set(it))),
        "n" => name().map(|profile| {
            let arguments =
                NewSessionArguments { profile: Some(profile), ..NewSessionArguments::default() };
            UserIntent::Command(ChatCommand::New(arguments))
        }),
        "a" => name().map(|agent| {
            let options = vec![("agent".to_owned(), agent)];
            let arguments = NewSessionArguments {
                options,
                same_directory: true,
                ..NewSessionArguments::default()
            };
            UserIntent::Command(ChatCommand::New(arguments))
        }),
        "x" if choice.contains('=') => {
            Some(UserIntent::Command(ChatCommand::AgentOptions(choice.to_owned())))
        }
        "b" if data == options::CONFIRM_BYPASS => {
            let (name, value) =
                ("mode".to_owned(), PermissionMode::BypassPermissions.name().to_owned());
            let confirmed = SetArguments::Set { name, value, confirmed: true };
            Some(UserIntent::Command(ChatCommand::Set(confirmed)))
        }
        "s" => choice
            .parse()
            .ok()
            .map(|id| UserIntent::Command(ChatCommand::Schedule(ScheduleArguments::Remove(id)))),
        "g" => choice.parse().ok().map(|id| UserIntent::Command(ChatCommand::Rules(Some(id)))),
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
