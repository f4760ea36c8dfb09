//! The items of a conversation for Telegram.

use super::markdown::{collapsed_quote, markdown};
use super::text::{FormattedText, TextFormat};
use crate::ansi;
use crate::call::{Call, CallState};
use crate::card::{CALL_GROUP, Card, groupable, relative_path};
use crate::conversation::{TodoState, Turn};
use crate::diff::Diff;
use crate::item::{Item, ItemBody, NoticeLevel, PromptAuthor};
use crate::tool::{ToolAction, ToolInput};
use crate::tool_text::readable_result;
use crate::wording::{self, SystemMessage};

/// Output and diffs are cut to this many lines: a chat is read on a phone.
const OUTPUT_LINES: usize = 12;
const DIFF_LINES: usize = 30;

/// An unknown event is cut to this many characters.
const RAW_CHARS: usize = 300;

/// Output is cut to this many characters.
const OUTPUT_CHARS: usize = 1500;

/// What is rendered.
#[derive(Clone, Copy, Debug, Default)]
pub struct TelegramOptions<'a> {
    /// The working directory; paths inside it are shown relative to it.
    pub base: Option<&'a str>,
    /// Show the output and changes of tools, not only the calls.
    pub full: bool,
}

/// Items in order, with similar calls grouped.
pub fn items(all: &[&Item], options: TelegramOptions<'_>) -> FormattedText {
    let mut text = FormattedText::default();
    let mut at = 0;
    while at < all.len() {
        let length = all[at..]
            .iter()
            .take_while(|item| groupable(item).is_some_and(|call| same_action(all[at], call)))
            .count();
        let new = if length >= CALL_GROUP {
            group(&all[at..at + length], options)
        } else {
            item(all[at], options)
        };
        at += if length >= CALL_GROUP { length } else { 1 };
        if new.is_empty() {
            continue;
        }
        text.blank_line();
        text.append(&new);
    }
    text
}

fn same_action(first: &Item, call: &Call) -> bool {
    groupable(first).is_some_and(|first| first.action == call.action)
}

fn group(group: &[&Item], options: TelegramOptions<'_>) -> FormattedText {
    let calls: Vec<_> = group.iter().filter_map(|item| groupable(item)).collect();
    let names: Vec<_> = calls
        .iter()
        .take(8)
        .map(|call| {
            relative_path(&call.target, options.base).rsplit('/').next().unwrap_or_default()
        })
        .collect();
    let mut text = FormattedText::default();
    let action = calls.first().map_or("", |call| call.action.label());
    text.push_formatted(TextFormat::Bold, &format!("{action} × {}", calls.len()));
    text.push(&format!(" {}", names.join(", ")));
    text
}

/// An item; empty for what a chat does not show.
pub fn item(item: &Item, options: TelegramOptions<'_>) -> FormattedText {
    match &item.body {
        ItemBody::Prompt(prompt) => match prompt.author {
            PromptAuthor::User => {
                let mut text = FormattedText::default();
                text.push_formatted(TextFormat::Bold, "❯ ");
                text.push(prompt.text.trim_end());
                text
            }
            PromptAuthor::Cli | PromptAuthor::Agent => FormattedText::default(),
        },
        ItemBody::Text { text } => markdown(text),
        ItemBody::Thinking { text, .. } if text.trim().is_empty() => FormattedText::default(),
        ItemBody::Thinking { text, .. } => collapsed_quote(text),
        ItemBody::Call(it) => call(it, options),
        body => match SystemMessage::of(body).filter(|_| !SystemMessage::is_housekeeping(body)) {
            Some(message) => system_message(&message, matches!(body, ItemBody::Raw(_))),
            None => FormattedText::default(),
        },
    }
}

fn system_message(message: &SystemMessage, raw: bool) -> FormattedText {
    let mut text = FormattedText::default();
    text.push(match message.level {
        NoticeLevel::Info => "",
        NoticeLevel::Warning => "⚠️ ",
        NoticeLevel::Error => "✘ ",
    });
    text.push_formatted(TextFormat::Italic, &cut(&ansi::plain(&message.text), usize::MAX));
    if raw && !message.details.trim().is_empty() {
        let details = ansi::plain(message.details.trim());
        let end = details.char_indices().nth(RAW_CHARS).map(|(end, _)| end);
        let more = if end.is_some() { "…" } else { "" };
        text.new_line();
        let shown = &details[..end.unwrap_or(details.len())];
        text.push_formatted(TextFormat::Code, &format!("{shown}{more}"));
    }
    text
}

fn call(call: &Call, options: TelegramOptions<'_>) -> FormattedText {
    let card = Card::of(call, options.base);
    let mut text = FormattedText::default();
    text.push(card.state_icon);
    text.push(" ");
    text.push_formatted(TextFormat::Bold, &card.label);
    if !card.target.is_empty() {
        text.push(" ");
        text.push_formatted(TextFormat::Code, &card.target);
    }
    for part in
        [Some(card.detail).filter(|aside| !aside.is_empty()), card.duration].into_iter().flatten()
    {
        text.push(&format!(" · {part}"));
    }
    body(call, options, &mut text);
    result(call, options, &mut text);
    text
}

fn body(call: &Call, options: TelegramOptions<'_>, text: &mut FormattedText) {
    match call.tool_input() {
        ToolInput::Plan(plan) => {
            text.blank_line();
            text.append(&markdown(&plan));
        }
        ToolInput::Todos(todos) => {
            for todo in todos {
                let sign = match todo.state {
                    TodoState::Pending => "☐",
                    TodoState::Doing => "◐",
                    TodoState::Done => "☑",
                };
                text.new_line();
                text.push(&format!("{sign} {}", todo.text));
            }
        }
        ToolInput::Questions(questions) => {
            for question in questions {
                text.blank_line();
                text.push_formatted(TextFormat::Bold, &question.text);
                for option in question.options {
                    text.new_line();
                    text.push(&format!("• {}", option.label));
                    if !option.description.is_empty() {
                        text.push(" – ");
                        text.push_formatted(TextFormat::Italic, &option.description);
                    }
                }
            }
        }
        _ if options.full => {
            if let Some(diff) = Diff::of(call) {
                change(&diff, text);
            }
        }
        _ => {}
    }
}

fn change(diff: &Diff, text: &mut FormattedText) {
    let mut lines = Vec::new();
    for line in diff.hunks.iter().flat_map(|hunk| &hunk.lines).take(DIFF_LINES) {
        lines.push(format!("{}{}", line.change.sign(), line.text()));
    }
    text.new_line();
    text.push_formatted(TextFormat::Block(Some("diff".to_owned())), &lines.join("\n"));
    more(diff.len().saturating_sub(DIFF_LINES), text);
}

fn result(call: &Call, options: TelegramOptions<'_>, text: &mut FormattedText) {
    let Some(result) = &call.result else { return };
    let failed = matches!(call.state, CallState::Failed | CallState::Denied);
    let shown =
        failed || (options.full && matches!(call.action, ToolAction::Run | ToolAction::Use));
    let output = readable_result(&result.text);
    if !shown || output.trim().is_empty() {
        return;
    }
    let plain = ansi::plain(output.trim_end());
    text.new_line();
    text.push_formatted(TextFormat::Block(None), &cut(&plain, OUTPUT_LINES));
    more(plain.lines().count().saturating_sub(OUTPUT_LINES), text);
}

fn more(hidden: usize, text: &mut FormattedText) {
    if hidden > 0 {
        text.new_line();
        text.push_formatted(
            TextFormat::Italic,
            &format!("… {}", wording::plural(hidden, "more line", "more lines")),
        );
    }
}

/// The first lines of a text, within the limit of characters.
fn cut(text: &str, lines: usize) -> String {
    let kept: Vec<_> = text.lines().take(lines).collect();
    let kept = kept.join("\n");
    match kept.char_indices().nth(OUTPUT_CHARS) {
        Some((end, _)) => format!("{}…", &kept[..end]),
        None => kept,
    }
}

/// The last line of a turn: its duration, usage and changed files.
pub fn turn_end(turn: &Turn) -> FormattedText {
    let mut text = FormattedText::default();
    let Some(end) = &turn.end else { return text };
    let failure = wording::turn_ending(end);
    text.push(if failure.is_some() { "✘ " } else { "✔ " });
    if let Some(failure) = failure {
        text.push_formatted(TextFormat::Bold, &failure);
        text.push(" ");
    }
    let mut parts = wording::turn_totals(turn, end);
    if !turn.files.is_empty() {
        parts.push(wording::plural(turn.files.len(), "file changed", "files changed"));
    }
    text.push_formatted(TextFormat::Italic, &parts.join(" · "));
    text
}
