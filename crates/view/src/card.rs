//! The one-line summary of a tool call that all renderings show.

use crate::call::{Call, CallState};
use crate::conversation::TodoState;
use crate::diff::Diff;
use crate::item::{Item, ItemBody};
use crate::tool::{ToolAction, ToolInput};
use crate::wording;

/// A tool call in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub icon: &'static str,
    /// What is done: the action, or the tool's or sub-agent's own name.
    pub label: String,
    /// What it is done to.
    pub target: String,
    /// `+3 −1`, `42 lines`, `in the background`; may be empty.
    pub detail: String,
    /// `None` if it took no noticeable time.
    pub duration: Option<String>,
    pub state_icon: &'static str,
}

impl Card {
    /// Paths inside the directory `base` are shown relative to it.
    pub fn of(call: &Call, base: Option<&str>) -> Self {
        let input = call.tool_input();
        Self {
            icon: icon(call.action),
            label: label(call, &input),
            target: target(call, &input, base),
            detail: detail(call, &input),
            duration: call.duration_ms().filter(|&it| it >= 500).map(wording::duration),
            state_icon: state_icon(call.state),
        }
    }
}

/// A path relative to the directory `base`, if it is inside it.
pub fn relative_path<'a>(path: &'a str, base: Option<&str>) -> &'a str {
    base.and_then(|base| path.strip_prefix(base.trim_end_matches('/'))?.strip_prefix('/'))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(path)
}

/// This many similar calls in a row are shown as one line.
pub(crate) const CALL_GROUP: usize = 3;

/// The call of an item that may be shown in one line with similar ones: it only read something, and
/// succeeded.
pub(crate) fn groupable(item: &Item) -> Option<&Call> {
    let ItemBody::Call(call) = &item.body else { return None };
    let reads = matches!(
        call.action,
        ToolAction::Read | ToolAction::Search | ToolAction::Fetch | ToolAction::SearchWeb
    );
    (reads && call.state == CallState::Done).then_some(call)
}

fn icon(action: ToolAction) -> &'static str {
    match action {
        ToolAction::Read => "◎",
        ToolAction::Write => "✚",
        ToolAction::Edit => "✎",
        ToolAction::Run => "$",
        ToolAction::Search => "⌕",
        ToolAction::Fetch | ToolAction::SearchWeb => "⊕",
        ToolAction::Delegate => "❖",
        ToolAction::Track => "☰",
        ToolAction::Ask => "?",
        ToolAction::Plan => "◫",
        ToolAction::Skill => "✦",
        ToolAction::Use => "◆",
    }
}

fn state_icon(state: CallState) -> &'static str {
    match state {
        CallState::Writing | CallState::Running => "…",
        CallState::Waiting => "⏸",
        CallState::Done => "✔",
        CallState::Failed => "✘",
        CallState::Denied => "⊘",
        CallState::Unanswered => "–",
    }
}

/// The action's label, or a more specific name where there is one.
fn label(call: &Call, input: &ToolInput<'_>) -> String {
    match (call.action, input) {
        (ToolAction::Delegate, ToolInput::Agent { agent: Some(agent), .. }) => agent.clone(),
        (_, ToolInput::Todos(_)) => "To do".to_owned(),
        (ToolAction::Run, ToolInput::Other(_)) if call.title.is_some() => {
            call.action.label().to_owned()
        }
        (ToolAction::Use, _) if call.tool.is_empty() && call.title.is_some() => {
            call.title.as_deref().and_then(wording::title).unwrap_or_default()
        }
        (ToolAction::Run, ToolInput::Other(_)) | (ToolAction::Use | ToolAction::Track, _) => {
            tool_name(&call.tool)
        }
        (action, _) => action.label().to_owned(),
    }
}

/// `mcp__server__tool` as `server: tool`; other names unchanged.
fn tool_name(tool: &str) -> String {
    if tool.is_empty() {
        return "Unknown tool".to_owned();
    }
    match tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((server, tool)) => format!("{server}: {tool}"),
        None => tool.to_owned(),
    }
}

fn target(call: &Call, input: &ToolInput<'_>, base: Option<&str>) -> String {
    match input {
        ToolInput::Shell { command, .. } => {
            let mut lines = command.trim().lines();
            let first = lines.next().unwrap_or_default();
            if lines.next().is_some() { format!("{first} …") } else { first.to_owned() }
        }
        ToolInput::Search { pattern, path: Some(path) } => {
            format!("{pattern} in {}", relative_path(path, base))
        }
        ToolInput::Agent { description, .. } if !description.is_empty() => description.clone(),
        ToolInput::Todos(todos) => {
            let done = todos.iter().filter(|todo| todo.state == TodoState::Done).count();
            format!("{done} of {} done", todos.len())
        }
        ToolInput::Plan(_) => String::new(),
        // The title is the label then.
        _ if call.tool.is_empty()
            && call.action == ToolAction::Use
            && call.title.as_deref().and_then(wording::title).as_ref() == Some(&call.target) =>
        {
            String::new()
        }
        _ => relative_path(&call.target, base).to_owned(),
    }
}

fn detail(call: &Call, input: &ToolInput<'_>) -> String {
    match input {
        ToolInput::Read { lines: Some((from, limit)), .. } => match limit {
            Some(limit) => {
                format!("lines {from}–{}", from.saturating_add(*limit).saturating_sub(1))
            }
            None => format!("from line {from}"),
        },
        ToolInput::Write { content, .. } => match Diff::of(call).filter(|diff| diff.removed > 0) {
            Some(diff) => plus_minus(&diff),
            None => wording::plural(content.lines().count(), "line", "lines"),
        },
        ToolInput::Edit { .. } => Diff::of(call).map(|diff| plus_minus(&diff)).unwrap_or_default(),
        ToolInput::Shell { background: true, .. } => "in the background".to_owned(),
        ToolInput::Agent { .. } => {
            let Some(agent) = &call.agent else { return String::new() };
            let mut parts = Vec::new();
            if agent.calls > 0 {
                parts.push(wording::plural(agent.calls as usize, "tool", "tools"));
            }
            if agent.tokens.total() > 0 {
                parts.push(format!("{} tokens", wording::count(agent.tokens.total())));
            }
            parts.join(", ")
        }
        // The agent tells the change of a file apart from the input.
        _ if matches!(call.action, ToolAction::Edit) => {
            Diff::of(call).map(|diff| plus_minus(&diff)).unwrap_or_default()
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
