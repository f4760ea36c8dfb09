//! A call of a tool in one line: what every rendering shows of it before somebody opens it.

use crate::call::{Call, CallState};
use crate::diff::Diff;
use crate::phrase;
use crate::subject::{Subject, Verb};

/// A call of a tool in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// A picture for the verb.
    pub icon: &'static str,
    /// What is done.
    pub verb: String,
    /// What it is done to.
    pub target: String,
    /// A word or two more: `+3 −1`, `42 lines`, `in the background`.
    pub aside: String,
    /// How long it took.
    pub took: Option<String>,
    /// How it stands.
    pub mark: &'static str,
}

impl Card {
    /// The line for a call. Paths under `base` are shown from there on.
    pub fn of(call: &Call, base: Option<&str>) -> Self {
        let subject = call.subject();
        Self {
            icon: icon(call.verb),
            verb: verb(call, &subject),
            target: target(call, &subject, base),
            aside: aside(call, &subject),
            // What took no time to speak of is not worth a number.
            took: call.duration_ms().filter(|&it| it >= 500).map(phrase::duration),
            mark: mark(call.state),
        }
    }
}

/// A path as it is best shown: from the working directory on, where it lies in it.
pub fn shortened<'a>(path: &'a str, base: Option<&str>) -> &'a str {
    base.and_then(|base| path.strip_prefix(base.trim_end_matches('/'))?.strip_prefix('/'))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(path)
}

fn icon(verb: Verb) -> &'static str {
    match verb {
        Verb::Read => "◎",
        Verb::Write => "✚",
        Verb::Edit => "✎",
        Verb::Run => "$",
        Verb::Search => "⌕",
        Verb::Fetch | Verb::SearchWeb => "⊕",
        Verb::Delegate => "❖",
        Verb::Track => "☰",
        Verb::Ask => "?",
        Verb::Plan => "◫",
        Verb::Skill => "✦",
        Verb::Use => "◆",
    }
}

fn mark(state: CallState) -> &'static str {
    match state {
        CallState::Writing | CallState::Running => "…",
        CallState::Waiting => "⏸",
        CallState::Done => "✔",
        CallState::Failed => "✘",
        CallState::Denied => "⊘",
        CallState::Unanswered => "–",
    }
}

/// The verb's word, or the tool's own name where no verb fits it.
fn verb(call: &Call, subject: &Subject<'_>) -> String {
    match (call.verb, subject) {
        (Verb::Delegate, Subject::Agent { agent: Some(agent), .. }) => agent.clone(),
        (_, Subject::Todos(_)) => "To do".to_owned(),
        (Verb::Run, Subject::Other(_)) | (Verb::Use | Verb::Track, _) => tool_name(&call.tool),
        (verb, _) => verb.word().to_owned(),
    }
}

/// `mcp__server__tool` as `server: tool`; other names as they are.
fn tool_name(tool: &str) -> String {
    match tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, tool)) => format!("{server}: {tool}"),
        None => tool.to_owned(),
    }
}

fn target(call: &Call, subject: &Subject<'_>, base: Option<&str>) -> String {
    match subject {
        Subject::Shell { command, .. } => {
            let mut lines = command.trim().lines();
            let first = lines.next().unwrap_or_default();
            if lines.next().is_some() { format!("{first} …") } else { first.to_owned() }
        }
        Subject::Search { pattern, path: Some(path) } => {
            format!("{pattern} in {}", shortened(path, base))
        }
        Subject::Agent { description, .. } if !description.is_empty() => description.clone(),
        Subject::Todos(todos) => {
            let done = todos.iter().filter(|todo| todo.state == crate::TodoState::Done).count();
            format!("{done} of {} done", todos.len())
        }
        Subject::Plan(_) => String::new(),
        _ => shortened(&call.target, base).to_owned(),
    }
}

fn aside(call: &Call, subject: &Subject<'_>) -> String {
    match subject {
        Subject::Read { lines: Some((from, limit)), .. } => match limit {
            Some(limit) => {
                format!("lines {from}–{}", from.saturating_add(*limit).saturating_sub(1))
            }
            None => format!("from line {from}"),
        },
        Subject::Write { content, .. } => match Diff::of(call).filter(|diff| diff.removed > 0) {
            Some(diff) => plus_minus(&diff),
            None => phrase::several(content.lines().count(), "line", "lines"),
        },
        Subject::Edit { .. } => Diff::of(call).map(|diff| plus_minus(&diff)).unwrap_or_default(),
        Subject::Shell { background: true, .. } => "in the background".to_owned(),
        Subject::Agent { .. } => {
            let Some(agent) = &call.agent else { return String::new() };
            let mut parts = Vec::new();
            if agent.calls > 0 {
                parts.push(phrase::several(agent.calls as usize, "tool", "tools"));
            }
            if agent.tokens.total() > 0 {
                parts.push(format!("{} tokens", phrase::count(agent.tokens.total())));
            }
            parts.join(", ")
        }
        _ => String::new(),
    }
}

fn plus_minus(diff: &Diff) -> String {
    match (diff.added, diff.removed) {
        (added, 0) => format!("+{added}"),
        (0, removed) => format!("−{removed}"),
        (added, removed) => format!("+{added} −{removed}"),
    }
}
