//! Replies about commits of the files that the agent changes.

use serde::Deserialize;
use view::telegram::{FormattedText, TextFormat};
use view::wording;
use wire::consent::visible;
use wire::note::{Trigger, WatchConfig};

use super::{BotReply, formatted, shortened};

/// Lines of the log that are shown, and characters of each.
const LOG_LINES: usize = 8;
const LOG_TEXT: usize = 200;

/// Something that was done about changed files, or that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WatchLogEntry {
    /// In milliseconds since 1970.
    pub at: u64,
    /// Whether it failed.
    pub error: bool,
    /// `commit`, `sync`, `hook` or `error`.
    pub kind: String,
    pub text: String,
}

fn push_state(text: &mut FormattedText, config: Option<&WatchConfig>) {
    let commit = config.and_then(|it| it.commit.as_ref());
    text.push(match commit.map(|it| it.every) {
        None => "What the agent changes is not committed",
        Some(Trigger::Turn) => "What the agent changes is committed at the end of each turn",
        Some(Trigger::Change) => "Each change of the agent is committed",
    });
    if let Some(branch) = commit.and_then(|it| it.branch.as_ref()) {
        text.push(", on the branch ");
        text.push_formatted(TextFormat::Code, &shortened(&visible(branch), 80));
    }
    text.push(".");
}

/// What is set, and the latest lines of the log, which come oldest first.
pub fn commit_status(config: Option<&WatchConfig>, log: &[WatchLogEntry]) -> BotReply {
    let mut text = FormattedText::default();
    push_state(&mut text, config);
    for entry in log.iter().skip(log.len().saturating_sub(LOG_LINES)) {
        let mark = if entry.error || entry.kind == "error" { "⚠️ " } else { "" };
        let line = shortened(&visible(&entry.text), LOG_TEXT);
        text.push(&format!("\n• {mark}{} – {line}", wording::date_time(entry.at)));
    }
    text.append(&formatted("\nTo change it, use `/commit on` or `/commit off`."));
    text.into()
}

pub fn commit_set(config: Option<&WatchConfig>) -> BotReply {
    let mut text = FormattedText::default();
    push_state(&mut text, config);
    text.into()
}
