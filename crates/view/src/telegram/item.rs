//! An item of a conversation for Telegram.

use super::markdown::{prose, quoted};
use super::text::{Mark, Text};
use crate::ansi;
use crate::call::{Call, CallState};
use crate::card::{Card, shortened};
use crate::diff::Diff;
use crate::html::foldable;
use crate::item::{Body, Item, Level};
use crate::phrase;
use crate::prompt::Speaker;
use crate::remark::Remark;
use crate::subject::{Subject, Verb};
use crate::todo::TodoState;
use crate::told::for_a_person;
use crate::turn::Turn;

/// Lines of output and of changes that are shown: a chat is read on a phone.
const OUTPUT: usize = 12;
const CHANGE: usize = 30;

/// Characters of output that are shown.
const LONGEST: usize = 1500;

/// What is shown of a conversation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look<'a> {
    /// The working directory: paths in it are shown from there on.
    pub base: Option<&'a str>,
    /// Whether what tools printed and changed is shown, not only that they did.
    pub full: bool,
}

/// Items in their order, runs of like calls folded into one line.
pub fn items(all: &[&Item], look: Look<'_>) -> Text {
    let mut text = Text::default();
    let mut at = 0;
    while at < all.len() {
        let run = all[at..]
            .iter()
            .take_while(|item| foldable(item).is_some_and(|call| same_verb(all[at], call)))
            .count();
        let new = if run >= 3 { folded(&all[at..at + run], look) } else { item(all[at], look) };
        at += if run >= 3 { run } else { 1 };
        if new.is_empty() {
            continue;
        }
        text.blank_line();
        text.append(&new);
    }
    text
}

fn same_verb(first: &Item, call: &Call) -> bool {
    foldable(first).is_some_and(|first| first.verb == call.verb)
}

fn folded(run: &[&Item], look: Look<'_>) -> Text {
    let calls: Vec<_> = run.iter().filter_map(|item| foldable(item)).collect();
    let names: Vec<_> = calls
        .iter()
        .take(8)
        .map(|call| shortened(&call.target, look.base).rsplit('/').next().unwrap_or_default())
        .collect();
    let mut text = Text::default();
    let verb = calls.first().map_or("", |call| call.verb.word());
    text.push_marked(Mark::Bold, &format!("{verb} × {}", calls.len()));
    text.push(&format!(" {}", names.join(", ")));
    text
}

/// An item; empty for what is not shown in a chat.
pub fn item(item: &Item, look: Look<'_>) -> Text {
    match &item.body {
        Body::Prompt(prompt) => match prompt.speaker {
            Speaker::Person => {
                let mut text = Text::default();
                text.push_marked(Mark::Bold, "❯ ");
                text.push(prompt.text.trim_end());
                text
            }
            Speaker::Program | Speaker::Agent => Text::default(),
        },
        Body::Text { text } => prose(text),
        Body::Thinking { text, .. } if text.trim().is_empty() => Text::default(),
        Body::Thinking { text, .. } => quoted(text),
        Body::Call(it) => call(it, look),
        body => match Remark::of(body).filter(|_| !Remark::is_housekeeping(body)) {
            Some(remark) => self::remark(&remark),
            None => Text::default(),
        },
    }
}

fn remark(remark: &Remark) -> Text {
    let mut text = Text::default();
    text.push(match remark.level {
        Level::Info => "",
        Level::Warning => "⚠️ ",
        Level::Error => "✘ ",
    });
    text.push_marked(Mark::Italic, &cut(&ansi::plain(&remark.text), usize::MAX));
    text
}

fn call(call: &Call, look: Look<'_>) -> Text {
    let card = Card::of(call, look.base);
    let mut text = Text::default();
    text.push(card.mark);
    text.push(" ");
    text.push_marked(Mark::Bold, &card.verb);
    if !card.target.is_empty() {
        text.push(" ");
        text.push_marked(Mark::Code, &card.target);
    }
    for part in
        [Some(card.aside).filter(|aside| !aside.is_empty()), card.took].into_iter().flatten()
    {
        text.push(&format!(" · {part}"));
    }
    body(call, look, &mut text);
    result(call, look, &mut text);
    text
}

fn body(call: &Call, look: Look<'_>, text: &mut Text) {
    match call.subject() {
        Subject::Plan(plan) => {
            text.blank_line();
            text.append(&prose(&plan));
        }
        Subject::Todos(todos) => {
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
        Subject::Questions(questions) => {
            for question in questions {
                text.blank_line();
                text.push_marked(Mark::Bold, &question.text);
                for choice in question.choices {
                    text.new_line();
                    text.push(&format!("• {}", choice.label));
                    if !choice.description.is_empty() {
                        text.push(" – ");
                        text.push_marked(Mark::Italic, &choice.description);
                    }
                }
            }
        }
        _ if look.full => {
            if let Some(diff) = Diff::of(call) {
                change(&diff, text);
            }
        }
        _ => {}
    }
}

fn change(diff: &Diff, text: &mut Text) {
    let mut lines = Vec::new();
    for line in diff.hunks.iter().flat_map(|hunk| &hunk.lines).take(CHANGE) {
        lines.push(format!("{}{}", line.change.sign(), line.text()));
    }
    text.new_line();
    text.push_marked(Mark::Block(Some("diff".to_owned())), &lines.join("\n"));
    more(diff.len().saturating_sub(CHANGE), text);
}

fn result(call: &Call, look: Look<'_>, text: &mut Text) {
    let Some(outcome) = &call.outcome else { return };
    let failed = matches!(call.state, CallState::Failed | CallState::Denied);
    let told = failed || (look.full && matches!(call.verb, Verb::Run | Verb::Use));
    let words = for_a_person(&outcome.text);
    if !told || words.trim().is_empty() {
        return;
    }
    let plain = ansi::plain(words.trim_end());
    text.new_line();
    text.push_marked(Mark::Block(None), &cut(&plain, OUTPUT));
    more(plain.lines().count().saturating_sub(OUTPUT), text);
}

fn more(hidden: usize, text: &mut Text) {
    if hidden > 0 {
        text.new_line();
        text.push_marked(
            Mark::Italic,
            &format!("… {}", phrase::several(hidden, "more line", "more lines")),
        );
    }
}

/// The first lines of a text, and not too much of them.
fn cut(text: &str, lines: usize) -> String {
    let kept: Vec<_> = text.lines().take(lines).collect();
    let kept = kept.join("\n");
    match kept.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &kept[..end]),
        None => kept,
    }
}

/// The line that ends a turn: how long it took, what it used, what it changed.
pub fn turn_end(turn: &Turn) -> Text {
    let mut text = Text::default();
    let Some(end) = &turn.end else { return text };
    let failure = phrase::ending(end);
    text.push(if failure.is_some() { "✘ " } else { "✔ " });
    if let Some(failure) = failure {
        text.push_marked(Mark::Bold, &failure);
        text.push(" ");
    }
    let mut parts = phrase::account(turn, end);
    if !turn.files.is_empty() {
        parts.push(phrase::several(turn.files.len(), "file changed", "files changed"));
    }
    text.push_marked(Mark::Italic, &parts.join(" · "));
    text
}
