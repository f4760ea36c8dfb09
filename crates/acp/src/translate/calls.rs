//! Tool calls as the protocol shows them.

use std::hash::{DefaultHasher, Hasher as _};

use serde::Deserialize;
use view::{Call, CallState, Card, ItemId, SubAgentState, ToolAction, ToolInput};
use wire::acp::{CallContent, CallDiff, CallKind, CallStatus, ToolCallUpdate};
use wire::outgoing::JsonObject;

use super::text::{MAX_TEXT, excerpt};

/// What was sent of a call.
#[derive(Debug, Default)]
pub(super) struct SentCall {
    is_known: bool,
    title: Option<String>,
    status: Option<CallStatus>,
    content: Option<u64>,
    input: Option<u64>,
    locations: Option<u64>,
    output: Option<u64>,
    /// Whether the sub-agent of the call was running.
    agent: Option<(bool, SubAgentState)>,
}

impl SentCall {
    /// What is new in a whole update; none if nothing is. Everything counts as sent from now on.
    ///
    /// The input of a call that is still being written is of no use.
    pub(super) fn advance(
        &mut self,
        whole: ToolCallUpdate,
        is_open: bool,
    ) -> Option<ToolCallUpdate> {
        let ToolCallUpdate { id, title, status, content, locations, raw_input, raw_output, .. } =
            whole;
        let raw_input = raw_input.filter(|_| !is_open);
        let is_new = !std::mem::replace(&mut self.is_known, true);
        let mut changed = is_new;
        let mut is_changed = |is: bool| {
            changed |= is;
            is
        };
        let title = title.filter(|title| is_changed(self.title.as_ref() != Some(title)));
        if title.is_some() {
            self.title.clone_from(&title);
        }
        let status = status.filter(|status| is_changed(self.status != Some(*status)));
        self.status = status.or(self.status);
        let mut hashed =
            |known: &mut Option<u64>, hash: u64| is_changed(known.replace(hash) != Some(hash));
        let content = content.filter(|it| {
            let has_changed = hashed(&mut self.content, hash_of(&format!("{it:?}")));
            has_changed && (!it.is_empty() || !is_new)
        });
        let locations = locations.filter(|it| hashed(&mut self.locations, hash_of(it)));
        let raw_input = raw_input.filter(|it| hashed(&mut self.input, hash_of(it.as_str())));
        let raw_output = raw_output.filter(|it| hashed(&mut self.output, hash_of(it)));
        let (name, kind) = (whole.name.filter(|_| is_new), whole.kind.filter(|_| is_new));
        changed.then_some(ToolCallUpdate {
            id,
            is_new,
            name,
            title,
            kind,
            status,
            content,
            locations,
            raw_input,
            raw_output,
            parent: None,
        })
    }

    /// Whether the sub-agent of the call started or stopped.
    pub(super) fn agent_change(&mut self, call: &Call) -> bool {
        if call.state == CallState::Writing || !super::is_sub_agent(call) {
            return false;
        }
        let state = call.agent.as_ref().map(|it| it.state).unwrap_or_default();
        let now = Some((call.state.is_open(), state));
        std::mem::replace(&mut self.agent, now) != now
    }
}

fn hash_of(value: &(impl std::hash::Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The id of a call: the CLI's, if it has one.
pub(crate) fn call_id(item: &ItemId) -> &str {
    let id = item.as_str();
    id.strip_prefix("c:").unwrap_or(id)
}

/// Everything about a call.
pub(crate) fn call_update(id: &str, call: &Call, directory: &str) -> ToolCallUpdate {
    let input = call.tool_input();
    let diffs = diffs(call, &input);
    let result = call.result.as_ref().map(|it| it.text.as_str()).filter(|it| !it.is_empty());
    // The text of a result only repeats that a file was changed.
    let raw_output = result.filter(|_| !diffs.is_empty()).map(excerpt);
    ToolCallUpdate {
        id: id.to_owned(),
        is_new: false,
        name: Some(call.tool.clone()).filter(|it| !it.is_empty()),
        title: Some(title(call, directory)),
        kind: Some(kind_of(call.action)),
        status: Some(status(call.state)),
        content: Some(content(call, &input, diffs)),
        locations: Some(locations(&input)).filter(|it| !it.is_empty()),
        // A part of it would not be JSON.
        raw_input: JsonObject::parse(&call.input).ok().filter(|it| it.as_str().len() <= MAX_TEXT),
        raw_output,
        parent: None,
    }
}

/// A call that waits for permission, with everything that a person must see.
pub(crate) fn permission_call(id: &str, call: &Call, directory: &str) -> ToolCallUpdate {
    let mut update = call_update(id, call, directory);
    update.status = Some(CallStatus::Pending);
    update
}

/// A call in one line.
fn title(call: &Call, directory: &str) -> String {
    let card = Card::of(call, Some(directory));
    let title = match call.action {
        ToolAction::Run if !card.target.is_empty() => card.target,
        ToolAction::Plan => "Ready to code?".to_owned(),
        _ if card.target.is_empty() => card.label,
        _ => format!("{} {}", card.label, card.target),
    };
    title.trim().to_owned()
}

fn kind_of(action: ToolAction) -> CallKind {
    match action {
        ToolAction::Read => CallKind::Read,
        ToolAction::Write | ToolAction::Edit => CallKind::Edit,
        ToolAction::Run => CallKind::Execute,
        ToolAction::Search => CallKind::Search,
        ToolAction::Fetch | ToolAction::SearchWeb => CallKind::Fetch,
        ToolAction::Delegate | ToolAction::Track => CallKind::Think,
        ToolAction::Plan => CallKind::SwitchMode,
        ToolAction::Ask | ToolAction::Skill | ToolAction::Use => CallKind::Other,
    }
}

fn status(state: CallState) -> CallStatus {
    match state {
        CallState::Writing | CallState::Waiting => CallStatus::Pending,
        CallState::Running => CallStatus::InProgress,
        CallState::Done => CallStatus::Completed,
        CallState::Failed | CallState::Denied | CallState::Unanswered => CallStatus::Failed,
    }
}

fn content(call: &Call, input: &ToolInput<'_>, diffs: Vec<CallDiff>) -> Vec<CallContent> {
    let mut content: Vec<CallContent> = diffs.into_iter().map(CallContent::Diff).collect();
    let text = |text: &str| CallContent::Text(excerpt(text));
    match input {
        ToolInput::Plan(plan) => content.push(text(plan)),
        ToolInput::Shell { description: Some(description), .. } if call.result.is_none() => {
            content.push(text(description));
        }
        ToolInput::Agent { prompt, .. } if call.result.is_none() => content.push(text(prompt)),
        _ => {}
    }
    let Some(result) = &call.result else { return content };
    let failed = matches!(call.state, CallState::Failed | CallState::Denied);
    if !result.text.is_empty() && (content.is_empty() || failed) {
        let omitted = match result.omitted_bytes {
            0 => String::new(),
            bytes => format!("\n… ({bytes} more bytes)"),
        };
        let is_markdown = matches!(call.action, ToolAction::Delegate | ToolAction::Plan);
        content.push(CallContent::Text(if is_markdown {
            format!("{}{omitted}", excerpt(&result.text))
        } else {
            let plain = excerpt(&view::ansi::plain(&result.text));
            fenced(&format!("{plain}{omitted}"), call.action)
        }));
    }
    for image in &result.images {
        content.push(CallContent::Text(format!("[{}, {} bytes]", image.media_type, image.bytes)));
    }
    content
}

/// A text as a block of code, which may contain such blocks itself.
fn fenced(text: &str, action: ToolAction) -> String {
    let longest = text.split(|it| it != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let language = if action == ToolAction::Run { "console" } else { "" };
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}{language}\n{text}{end}{fence}")
}

/// The files that a call works on, if their paths are absolute.
fn locations(input: &ToolInput<'_>) -> Vec<(String, Option<u64>)> {
    let (path, line) = match input {
        ToolInput::Read { path, lines } => (path, lines.map(|(first, _)| first)),
        ToolInput::Write { path, .. }
        | ToolInput::Edit { path, .. }
        | ToolInput::Search { path: Some(path), .. } => (path, None),
        _ => return Vec::new(),
    };
    if path.starts_with('/') { vec![(path.clone(), line)] } else { Vec::new() }
}

/// A hunk as the CLI reports it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReportedHunk {
    old_start: u64,
    new_start: u64,
    lines: Vec<String>,
}

/// The changes that a call makes: as reported, or else as announced in its input.
fn diffs(call: &Call, input: &ToolInput<'_>) -> Vec<CallDiff> {
    let (path, announced) = match input {
        ToolInput::Write { path, content } => {
            let new = CallDiff {
                path: path.clone(),
                before: None,
                after: content.clone(),
                lines: (1, 1),
            };
            (path, vec![new])
        }
        ToolInput::Edit { path, replacements } => {
            let diff = |it: &view::Replacement| CallDiff {
                path: path.clone(),
                before: Some(it.before.clone()),
                after: it.after.clone(),
                lines: (1, 1),
            };
            (path, replacements.iter().map(diff).collect())
        }
        _ => return Vec::new(),
    };
    let reported = call.result.as_ref().and_then(|result| result.hunks.as_deref());
    let hunks: Vec<ReportedHunk> =
        reported.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default();
    let diffs: Vec<CallDiff> = if hunks.is_empty() {
        announced
    } else {
        hunks.iter().map(|hunk| hunk.diff(path)).collect()
    };
    bounded(diffs)
}

/// As many changes as go into one line.
fn bounded(diffs: Vec<CallDiff>) -> Vec<CallDiff> {
    let mut remaining = MAX_TEXT;
    let fits = |mut diff: CallDiff| {
        let bytes = diff.after.len() + diff.before.as_ref().map_or(0, String::len);
        if bytes > MAX_TEXT {
            diff.after = excerpt(&diff.after);
            diff.before = diff.before.map(|it| excerpt(&it));
        }
        let left = remaining.checked_sub(bytes.min(MAX_TEXT))?;
        remaining = left;
        Some(diff)
    };
    diffs.into_iter().map_while(fits).collect()
}

impl ReportedHunk {
    fn diff(&self, path: &str) -> CallDiff {
        let (mut before, mut after) = (String::new(), String::new());
        for line in &self.lines {
            let Some(sign) = line.chars().next() else { continue };
            let text = &line[sign.len_utf8()..];
            if sign == ' ' || sign == '-' {
                before.push_str(text);
                before.push('\n');
            }
            if sign == ' ' || sign == '+' {
                after.push_str(text);
                after.push('\n');
            }
        }
        let lines = (self.old_start, self.new_start);
        CallDiff { path: path.to_owned(), before: Some(before), after, lines }
    }
}
