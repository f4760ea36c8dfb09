//! Tool calls. Any line about a call may be the first one, and what a line does not say stays as it was.

use wire::acp::event::AgentToolCall;
use wire::json::{Raw, Shape, Text};
use wire::note::Outcome;

use super::content::{CallParts, output_text};
use super::{headline, id_of};
use crate::call::{Call, CallProgress, CallResult, CallState, SubAgent, SubAgentState};
use crate::diff::structured_patch;
use crate::fold::calls::{RESULT_BYTES, call_mut, starts_agent};
use crate::fold::turns::TurnActivity;
use crate::fold::{Fold, Visibility, prefix, requests};
use crate::item::{Item, ItemBody, ItemId};
use crate::tool::{self, ToolAction};

/// How much of a title is kept.
const TITLE_BYTES: usize = 4 << 10;

/// How much is kept of what a call shows before it runs.
const PROGRESS_BYTES: usize = 4 << 10;

/// Tools that maintain the to-do list. Some agents give a tool's name only as the title of its call.
const TODO_TOOLS: &[&str] =
    &["TodoWrite", "todowrite", "todo_write", "write_todos", "update_plan", "manage_todo_list"];

/// What a line about a call makes of it.
struct CallUpdate<'a> {
    line: &'a AgentToolCall<'a>,
    parts: Option<CallParts>,
    at: Option<u64>,
    seq: u64,
}

impl Fold {
    /// Applies what a line says about a call, and returns its item.
    pub(super) fn update_acp_call(
        &mut self,
        parent: Option<ItemId>,
        line: &AgentToolCall<'_>,
    ) -> ItemId {
        let id = ItemId::call(&id_of(line.id));
        if !self.items.has(&id) {
            self.create_acp_call(&id, parent);
        }
        let lines = line.locations.map(first_lines).unwrap_or_default();
        let parts = line.content.map(|content| CallParts::read(content, &lines, RESULT_BYTES));
        let terminals = parts.as_ref().map(|parts| parts.terminals.clone()).unwrap_or_default();
        let update = CallUpdate { line, parts, at: self.entry.at, seq: self.entry.seq };
        let states = self.change(&id, |item| {
            let call = call_mut(item)?;
            let before = call.state;
            update.apply(call);
            Some((before, call.state))
        });
        for terminal in terminals {
            self.link_terminal(terminal, &id);
        }
        if let Some(meta) = line.meta {
            self.terminal_meta(&id, meta);
        }
        if let Some(Some((before, after))) = states
            && !after.is_open()
        {
            self.calls.close(&id);
            self.resolve_by_result(&id, after != CallState::Done);
            if before != CallState::Done && after == CallState::Done {
                self.acp_call_succeeded(&id);
            }
        }
        id
    }

    fn create_acp_call(&mut self, id: &ItemId, parent: Option<ItemId>) {
        self.finish_acp_message(parent.as_ref());
        let turn = self.turn_of_agent(parent.as_ref());
        let position = self.next_position();
        let call =
            Call { state: CallState::Writing, started: self.entry.at, ..Call::new(String::new()) };
        self.add_item(id.clone(), turn, parent.clone(), position, ItemBody::Call(Box::new(call)));
        self.calls.add_open(id.clone());
        match parent {
            Some(parent) => self.change_agent(&parent, |agent| agent.calls += 1),
            None => self.note_activity(turn, TurnActivity::Acted),
        }
    }

    /// Content that is added to that of a call.
    pub(super) fn add_acp_call_content(
        &mut self,
        parent: Option<ItemId>,
        call: Text<'_>,
        content: Raw<'_>,
    ) -> Visibility {
        let id = ItemId::call(&id_of(call));
        if !self.items.has(&id) {
            self.create_acp_call(&id, parent);
        }
        let parts = CallParts::read(content, &[], RESULT_BYTES);
        for terminal in &parts.terminals {
            self.link_terminal(terminal.clone(), &id);
        }
        let seq = self.entry.seq;
        self.change(&id, |item| {
            let Some(call) = call_mut(item) else { return };
            append_output(call, seq, &parts.text);
            if let Some(result) = &mut call.result {
                result.omitted_bytes += parts.omitted;
                result.images.extend(parts.images);
            }
            if parts.has_diff {
                set_diff(call, seq, structured_patch(&parts.hunks), parts.files);
            }
        });
        Visibility::Visible
    }

    /// Applies what a successful call changes beside itself: files and the to-do list.
    fn acp_call_succeeded(&mut self, id: &ItemId) {
        let Some(Item { turn, parent, body: ItemBody::Call(call), .. }) = self.items.get(id) else {
            return;
        };
        let (turn, is_main) = (*turn, parent.is_none());
        if matches!(call.action, ToolAction::Write | ToolAction::Edit) {
            let files = if call.files.is_empty() {
                crate::fold::denials::edited_path(call).into_iter().collect()
            } else {
                call.files.clone()
            };
            for path in files {
                self.count_file_edit(turn, &path);
            }
        } else if call.action == ToolAction::Track && is_main {
            let rev = self.rev();
            if let Some(todos) = Raw::parse(&call.input).and_then(tool::todos) {
                self.todos.change(rev, |list| *list = todos);
            }
        }
    }

    /// The whole to-do list; none if it was removed.
    pub(super) fn plan_changed(&mut self, entries: Option<Raw<'_>>) -> Visibility {
        let todos = entries.map(tool::todo_entries).unwrap_or_default();
        if todos == self.todos.value {
            return Visibility::Hidden;
        }
        let rev = self.rev();
        self.todos.change(rev, |list| *list = todos);
        Visibility::Visible
    }
}

impl CallUpdate<'_> {
    fn apply(self, call: &mut Call) {
        self.describe(call);
        self.change_state(call);
        let runs = !matches!(call.state, CallState::Writing | CallState::Waiting);
        if let Some(parts) = self.parts {
            if runs && !parts.text.is_empty() {
                let result = result_mut(call, self.seq);
                result.text = without_fence(parts.text);
                result.omitted_bytes = parts.omitted;
            } else if !parts.text.is_empty() {
                // What it shows before it runs is not its output.
                let text = prefix(&parts.text, PROGRESS_BYTES);
                call.progress = Some(CallProgress { seconds: None, text });
            }
            if !parts.images.is_empty() {
                result_mut(call, self.seq).images = parts.images;
            }
            if parts.has_diff {
                set_diff(call, self.seq, structured_patch(&parts.hunks), parts.files);
            }
        }
        let response = self.line.meta.and_then(|it| it.get("claudeCode")?.get("toolResponse"));
        if let Some(patch) = response.and_then(|it| it.get("structuredPatch"))
            && patch.items().next().is_some()
            && patch.as_str().len() <= RESULT_BYTES
        {
            result_mut(call, self.seq).hunks = Some(patch.as_str().to_owned());
        }
        let answers = requests::answers(response);
        if let Some(permission) = &mut call.permission
            && !answers.is_empty()
        {
            permission.answers = answers;
        }
        if !call.state.is_open()
            && let Some(output) = self.line.raw_output
            && call.result.as_ref().is_none_or(|result| result.text.is_empty())
        {
            append_output(call, self.seq, &output_text(output));
        }
    }

    /// What it is and works on.
    fn describe(&self, call: &mut Call) {
        let line = self.line;
        let meta_name = || line.meta?.get("claudeCode")?.get("toolName")?.text();
        let title = line.title.map(|title| prefix(&title.decode(), TITLE_BYTES));
        if let Some(name) = line.name.or_else(meta_name) {
            call.tool = id_of(name);
        } else if let Some(title) = title.as_deref().filter(|it| TODO_TOOLS.contains(it))
            && call.tool.is_empty()
        {
            title.clone_into(&mut call.tool);
        }
        if title.is_some() {
            call.title = title;
        }
        let kind = line.kind.map(Text::decode);
        match ToolAction::of(&call.tool) {
            _ if TODO_TOOLS.contains(&call.tool.as_str()) => call.action = ToolAction::Track,
            ToolAction::Use => {
                if let Some(action) = kind.as_deref().map(action_of_kind) {
                    call.action = action;
                }
            }
            known => call.action = known,
        }
        if let Some(name) = kind.as_deref().and_then(name_of_kind).filter(|_| call.tool.is_empty())
        {
            name.clone_into(&mut call.tool);
        }
        if starts_agent(&call.tool) && call.agent.is_none() {
            call.agent = Some(SubAgent::default());
        }
        let input = line.raw_input.filter(|it| it.shape() != Shape::Object || has_fields(*it));
        if let Some(input) = input {
            input.as_str().clone_into(&mut call.input);
        }
        if let Some(parts) = self.parts.as_ref().filter(|parts| !parts.files.is_empty()) {
            call.files.clone_from(&parts.files);
        }
        let is_about = input.is_some() || line.title.is_some() || line.locations.is_some();
        if is_about || call.target.is_empty() {
            let location = line.locations.and_then(|it| it.items().next()?.get("path")?.text());
            let target = target(call, location.map(|it| headline(&it.decode())));
            if !target.is_empty() {
                call.target = target;
            }
        }
    }

    fn change_state(&self, call: &mut Call) {
        let denied = call.permission.as_ref().and_then(|it| it.outcome) == Some(Outcome::Denied);
        let state = match self.line.status.map(Text::decode).as_deref() {
            Some("in_progress") if call.state == CallState::Writing => CallState::Running,
            Some("completed" | "failed") if denied => CallState::Denied,
            Some("completed") => CallState::Done,
            Some("failed") => CallState::Failed,
            Some("cancelled" | "canceled") => CallState::Unanswered,
            _ => return,
        };
        call.state = state;
        if state.is_open() {
            return;
        }
        call.ended = self.at;
        call.progress = None;
        if let Some(agent) = &mut call.agent {
            agent.state = match state {
                CallState::Done => SubAgentState::Completed,
                CallState::Failed => SubAgentState::Failed,
                _ => SubAgentState::Stopped,
            };
        }
    }
}

/// The inside of a text that is one block of code: content is Markdown, and output is not.
fn without_fence(text: String) -> String {
    let inside = text.trim_end().strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let inside = inside.and_then(|rest| rest.split_once('\n')).map(|(_, inside)| inside);
    match inside.filter(|inside| !inside.contains("\n```")) {
        Some(inside) => inside.to_owned(),
        None => text,
    }
}

fn has_fields(object: Raw<'_>) -> bool {
    object.fields().next().is_some()
}

fn action_of_kind(kind: &str) -> ToolAction {
    match kind {
        "read" => ToolAction::Read,
        "edit" => ToolAction::Edit,
        "search" => ToolAction::Search,
        "execute" => ToolAction::Run,
        "fetch" => ToolAction::Fetch,
        "switch_mode" => ToolAction::Plan,
        _ => ToolAction::Use,
    }
}

/// The name of a call of which only the kind is known, if no action says it.
fn name_of_kind(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "delete" => "Delete",
        "move" => "Move",
        "think" => "Think",
        _ => return None,
    })
}

fn target(call: &Call, location: Option<String>) -> String {
    let input = || Raw::parse(&call.input);
    let of_input = || input().map(tool::target).filter(|it| !it.is_empty());
    let title = || call.title.as_deref().map(headline);
    let target = match call.action {
        ToolAction::Run => {
            input().and_then(tool::shell_command).map(|it| headline(&it)).or_else(title)
        }
        ToolAction::Read | ToolAction::Write | ToolAction::Edit => {
            call.files.first().cloned().or_else(of_input).or(location).or_else(title)
        }
        _ if matches!(&*call.tool, "Delete" | "Move") => location.or_else(of_input).or_else(title),
        _ => of_input().or_else(title).or(location),
    };
    target.unwrap_or_default()
}

/// The line numbers of locations, where they have one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and a negative line is none"
)]
fn first_lines(locations: Raw<'_>) -> Vec<usize> {
    let line = |location: Raw<'_>| location.get("line")?.number().map(|it| it as usize);
    locations.items().take(64).map_while(line).collect()
}

fn result_mut(call: &mut Call, seq: u64) -> &mut CallResult {
    let result = call.result.get_or_insert_with(CallResult::default);
    result.seq = seq;
    result
}

fn set_diff(call: &mut Call, seq: u64, hunks: Option<String>, files: Vec<String>) {
    result_mut(call, seq).hunks = hunks;
    call.files = files;
}

/// Adds to the output of a call, up to the limit of results.
pub(super) fn append_output(call: &mut Call, seq: u64, text: &str) {
    if text.is_empty() {
        return;
    }
    if call.state == CallState::Writing {
        call.state = CallState::Running;
    }
    let result = result_mut(call, seq);
    let room = RESULT_BYTES.saturating_sub(result.text.len());
    let kept = &text[..text.floor_char_boundary(room)];
    result.text.push_str(kept);
    result.omitted_bytes += (text.len() - kept.len()) as u64;
}
