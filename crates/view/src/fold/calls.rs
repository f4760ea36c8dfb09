//! Tool calls: which are open, their results, and the background tasks that some of them start.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};
use wire::event::{Task, TaskPhase, ToolResult, ToolUse};
use wire::json::{Raw, Shape, Text};
use wire::note::{self, RequestKind};

use super::{Fold, Visibility, denials, prefix, requests};
use crate::call::{
    Call, CallPermission, CallProgress, CallResult, CallState, ResultImage, SubAgent, SubAgentState,
};
use crate::conversation::{Todo, TodoState};
use crate::item::{Item, ItemBody, ItemId, NoticeItem, NoticeLevel};
use crate::tool::{self, ToolAction};

/// A result is cut here; the journal has the rest.
pub(super) const RESULT_BYTES: usize = 256 << 10;

/// How many resolved requests are remembered, because their answers may be reported twice.
const RESOLVED_REQUESTS: usize = 32;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CallTracker {
    /// Calls without a result, in the order they were made.
    open: Vec<ItemId>,
    /// The calls that tasks belong to, by the task's id.
    pub(super) tasks: BTreeMap<String, ItemId>,
    /// The call whose sub-agent is active, for old session files, whose lines do not name it.
    pub(super) sidechain: Option<ItemId>,
    /// The calls of the requests resolved last, the oldest first.
    pub(super) resolved: VecDeque<(String, ItemId)>,
}

impl CallTracker {
    pub(super) fn none_open(&self) -> bool {
        self.open.is_empty()
    }

    /// Open calls, the newest first.
    pub(super) fn open(&self) -> impl Iterator<Item = &ItemId> {
        self.open.iter().rev()
    }

    pub(super) fn remember_resolved(&mut self, request: &str, item: &ItemId) {
        self.resolved.push_back((request.to_owned(), item.clone()));
        if self.resolved.len() > RESOLVED_REQUESTS {
            self.resolved.pop_front();
        }
    }

    pub(super) fn add_open(&mut self, id: ItemId) {
        self.open.push(id);
    }

    pub(super) fn close(&mut self, id: &ItemId) {
        // Most often the newest call returns, or the oldest.
        if self.open.first() == Some(id) {
            self.open.remove(0);
        } else if let Some(at) = self.open.iter().rposition(|open| open == id) {
            self.open.remove(at);
        }
    }
}

pub(super) fn call_mut(item: &mut Item) -> Option<&mut Call> {
    match &mut item.body {
        ItemBody::Call(call) => Some(call),
        _ => None,
    }
}

pub(super) fn starts_agent(tool: &str) -> bool {
    matches!(tool, "Task" | "Agent")
}

impl Fold {
    /// A call whose input is still being streamed.
    pub(super) fn streaming_call_body(&self, call: &ToolUse<'_>) -> ItemBody {
        ItemBody::Call(Box::new(Call {
            input: String::new(),
            state: CallState::Writing,
            started: self.entry.at,
            ..Call::new(call.name.decode().into_owned())
        }))
    }

    /// A call with its whole input.
    pub(super) fn complete_call_body(&self, call: &ToolUse<'_>) -> ItemBody {
        let tool = call.name.decode().into_owned();
        ItemBody::Call(Box::new(Call {
            target: call.input.map(tool::target).unwrap_or_default(),
            input: call.input.map_or("{}", Raw::as_str).to_owned(),
            started: self.entry.at,
            agent: starts_agent(&tool).then(SubAgent::default),
            ..Call::new(tool)
        }))
    }

    /// Adds what a call's own line says to a call of which only the result is known.
    pub(super) fn describe_call(&mut self, id: &ItemId, call: &ToolUse<'_>) -> Visibility {
        let unknown = |item: &Item| matches!(&item.body, ItemBody::Call(it) if it.tool.is_empty());
        let ItemBody::Call(described) = self.complete_call_body(call) else {
            return Visibility::Hidden;
        };
        if !self.items.get(id).is_some_and(unknown) {
            return Visibility::Hidden;
        }
        let succeeded = self.change(id, |item| {
            let Some(call) = call_mut(item) else { return false };
            call.tool = described.tool;
            call.action = described.action;
            call.target = described.target;
            call.input = described.input;
            call.state == CallState::Done
        });
        if succeeded == Some(true) {
            self.call_succeeded(id, None);
        }
        Visibility::Visible
    }

    pub(super) fn call_started(
        &mut self,
        id: &ItemId,
        call: &ToolUse<'_>,
        parent: Option<&ItemId>,
    ) {
        self.calls.open.push(id.clone());
        if let Some(parent) = parent {
            self.change_agent(parent, |agent| agent.calls += 1);
        }
        if self.entry.transcript && starts_agent(&call.name.decode()) {
            self.calls.sidechain = Some(id.clone());
        }
    }

    /// Starts a streamed call when its message is complete but no line repeats it, as in a recording
    /// of the API's own stream.
    pub(super) fn complete_streamed_call(&mut self, id: &ItemId) {
        let started = self.change(id, |item| {
            let call = call_mut(item).filter(|call| call.state == CallState::Writing)?;
            let input = Raw::parse(&call.input);
            call.state = input.map_or(CallState::Unanswered, |_| CallState::Running);
            call.target = input.map(tool::target).unwrap_or_default();
            input.map(|_| ())
        });
        if started.flatten().is_some() {
            self.calls.open.push(id.clone());
        }
    }

    /// Closes the open calls at the end of a turn, except those of background agents, which continue.
    pub(super) fn abandon_calls(&mut self) {
        let (kept, abandoned): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.calls.open).into_iter().partition(|id| self.is_background(id));
        self.calls.open = kept;
        for id in abandoned {
            self.change(&id, |item| {
                if let Some(call) = call_mut(item) {
                    call.state = call.state.abandoned();
                    if let Some(agent) = &mut call.agent {
                        agent.state = SubAgentState::Stopped;
                    }
                }
            });
        }
    }

    /// Whether a call is made by an agent that runs on after its own call returned.
    fn is_background(&self, id: &ItemId) -> bool {
        let parent = self.items.get(id).and_then(|item| item.parent.as_ref());
        let Some(ItemBody::Call(call)) =
            parent.and_then(|parent| self.items.get(parent)).map(|item| &item.body)
        else {
            return false;
        };
        !call.state.is_open()
            && call.agent.as_ref().is_some_and(|it| it.state == SubAgentState::Running)
    }

    /// The result of a call. `structured` is the CLI's own record of it, beside the model's text.
    pub(super) fn call_returned(
        &mut self,
        result: &ToolResult<'_>,
        structured: Option<Raw<'_>>,
        parent: Option<ItemId>,
    ) -> Visibility {
        let Some(id) = result.tool_use_id else { return self.result_without_id(result, parent) };
        let id = ItemId::call(&id.decode());
        if !self.items.has(&id) {
            // The record does not have the call's own line.
            let turn = self.turn_of_agent(parent.as_ref());
            let position = self.next_position();
            let call = ItemBody::Call(Box::new(Call::new(String::new())));
            self.add_item(id.clone(), turn, parent, position, call);
        }
        self.calls.close(&id);
        let call_result = self.call_result(result, structured);
        let launched = structured.and_then(launched_task);
        let (at, failed) = (self.entry.at, result.failed());
        let mut succeeded = false;
        self.change(&id, |item| {
            let Some(call) = call_mut(item) else { return };
            call.ended = at;
            call.progress = None;
            call.result = Some(call_result);
            let outcome = call.permission.as_ref().and_then(|it| it.outcome);
            call.state = match (failed, outcome) {
                // What was denied did not run, whatever its result looks like.
                (_, Some(note::Outcome::Denied)) | (true, Some(note::Outcome::Expired)) => {
                    CallState::Denied
                }
                (true, _) => CallState::Failed,
                (false, _) => CallState::Done,
            };
            succeeded = call.state == CallState::Done;
            match &launched {
                Some(task) => call.agent.get_or_insert_default().task = Some(task.clone()),
                None => {
                    if let Some(agent) = &mut call.agent {
                        agent.state = match (agent.state, failed) {
                            (SubAgentState::Running, true) => SubAgentState::Failed,
                            (SubAgentState::Running, false) => SubAgentState::Completed,
                            (state, _) => state,
                        };
                    }
                }
            }
        });
        if let Some(task) = launched {
            self.calls.tasks.insert(task, id.clone());
        } else if self.calls.sidechain.as_ref() == Some(&id) {
            self.calls.sidechain = None;
        }
        self.resolve_by_result(&id, failed);
        if succeeded {
            self.call_succeeded(&id, structured);
        }
        Visibility::Visible
    }

    fn result_without_id(&mut self, result: &ToolResult<'_>, parent: Option<ItemId>) -> Visibility {
        let call = Call {
            state: if result.failed() { CallState::Failed } else { CallState::Done },
            result: Some(self.call_result(result, None)),
            ..Call::new(String::new())
        };
        let turn = self.turn_of_agent(parent.as_ref());
        let position = self.next_position();
        let body = ItemBody::Call(Box::new(call));
        self.add_item(ItemId::line(position), turn, parent, position, body);
        Visibility::Visible
    }

    fn call_result(&self, result: &ToolResult<'_>, structured: Option<Raw<'_>>) -> CallResult {
        let mut out = CallResult { seq: self.entry.seq, ..CallResult::default() };
        match result.content {
            Some(content) if content.shape() == Shape::Array => {
                for block in content.items() {
                    add_result_block(&mut out, block);
                }
            }
            Some(content) => match content.text() {
                Some(text) => out.text = text.decode().into_owned(),
                None => add_result_block(&mut out, content),
            },
            None => {}
        }
        if out.text.len() > RESULT_BYTES {
            let kept = prefix(&out.text, RESULT_BYTES);
            out.omitted_bytes = (out.text.len() - kept.len()) as u64;
            out.text = kept;
        }
        let hunks = structured.and_then(|it| it.get("structuredPatch"));
        let hunks = hunks.filter(|it| it.items().next().is_some());
        out.hunks = hunks.map(|it| it.as_str().to_owned());
        out
    }

    /// Applies what a successful call changes beside itself: files, the to-do list and answers.
    fn call_succeeded(&mut self, id: &ItemId, structured: Option<Raw<'_>>) {
        let Some(Item { turn, parent, body: ItemBody::Call(call), .. }) = self.items.get(id) else {
            return;
        };
        let (turn, main) = (*turn, parent.is_none());
        let input = || Raw::parse(&call.input);
        let rev = self.rev();
        match (call.action, &*call.tool) {
            (ToolAction::Write | ToolAction::Edit, _) => {
                if let Some(path) = denials::edited_path(call) {
                    self.count_file_edit(turn, &path);
                }
            }
            // A sub-agent's to-do list is shown only in its calls.
            (ToolAction::Track, _) if !main => {}
            (_, "TodoWrite") => {
                if let Some(todos) = input().and_then(tool::todos) {
                    self.todos.change(rev, |list| *list = todos);
                }
            }
            (_, "TaskCreate") => {
                if let Some(todo) = input().and_then(|it| created_todo(it, structured)) {
                    self.todos.change(rev, |list| list.push(todo));
                }
            }
            (_, "TaskUpdate") => {
                let update = input().and_then(|it| {
                    let id = it.get("taskId")?.text()?.decode().into_owned();
                    let deleted =
                        it.get("status").and_then(Raw::text).is_some_and(|it| it == "deleted");
                    Some((id, deleted, tool::todo_state(it)))
                });
                if let Some((id, deleted, state)) = update {
                    self.todos.change(rev, |list| {
                        list.retain(|todo| !deleted || todo.id.as_deref() != Some(&*id));
                        let todo = list.iter_mut().find(|todo| todo.id.as_deref() == Some(&*id));
                        if let (Some(todo), Some(state)) = (todo, state) {
                            todo.state = state;
                        }
                    });
                }
            }
            (ToolAction::Ask, _) => self.add_answers(id, structured),
            _ => {}
        }
    }

    /// Adds the answers to a question, unless a note or an echoed response had them already.
    fn add_answers(&mut self, id: &ItemId, structured: Option<Raw<'_>>) {
        let answers = requests::answers(structured);
        if answers.is_empty() {
            return;
        }
        self.change(id, |item| {
            let Some(call) = call_mut(item) else { return };
            let permission = call.permission.get_or_insert_with(|| CallPermission {
                outcome: Some(note::Outcome::Allowed),
                ..CallPermission::new(None, RequestKind::Question)
            });
            if permission.answers.is_empty() {
                permission.answers = answers;
            }
        });
    }

    pub(super) fn call_progressed(
        &mut self,
        tool_use: Option<Text<'_>>,
        seconds: Option<u64>,
        text: Option<Text<'_>>,
    ) -> Visibility {
        let Some(id) = tool_use.map(|it| ItemId::call(&it.decode())) else {
            return Visibility::Hidden;
        };
        let open = self
            .items
            .get(&id)
            .is_some_and(|item| matches!(&item.body, ItemBody::Call(call) if call.state.is_open()));
        if !open {
            return Visibility::Hidden;
        }
        self.change(&id, |item| {
            let Some(call) = call_mut(item) else { return };
            let progress = call.progress.get_or_insert_with(CallProgress::default);
            progress.seconds = seconds.or(progress.seconds);
            if let Some(text) = text {
                progress.text = text.decode().into_owned();
            }
        });
        Visibility::Visible
    }

    /// An event of a task: an agent, or a shell that may be in the background.
    pub(super) fn task(&mut self, task: &Task<'_>) -> Visibility {
        let name = task.task_id.map(|it| it.decode().into_owned());
        let call = task.tool_use_id.map(|it| ItemId::call(&it.decode()));
        let call = call.or_else(|| self.calls.tasks.get(name.as_deref()?).cloned());
        let Some(call) = call.filter(|id| self.items.has(id)) else {
            return self.task_without_call(task);
        };
        let ended = task.status.and_then(|status| sub_agent_state(&status.decode()));
        if let Some(name) = &name {
            if matches!(task.phase, TaskPhase::Notification) {
                self.calls.tasks.remove(name);
            } else {
                self.calls.tasks.insert(name.clone(), call.clone());
            }
        }
        self.change(&call, |item| {
            let Some(call) = call_mut(item) else { return };
            // A foreground shell is a task too, but its call already shows everything.
            if call.agent.is_none() && !starts_agent(&call.tool) {
                return;
            }
            let agent = call.agent.get_or_insert_default();
            agent.task = agent.task.take().or(name);
            if let Some(ended) = ended {
                agent.state = ended;
                call.progress = None;
            } else if let (TaskPhase::Progress, Some(text)) = (task.phase, task.description) {
                let text = text.decode().into_owned();
                call.progress = Some(CallProgress { seconds: None, text });
            }
            if let Some(summary) = task.summary {
                agent.summary = summary.decode().into_owned();
            }
        });
        Visibility::Visible
    }

    fn task_without_call(&mut self, task: &Task<'_>) -> Visibility {
        match (task.phase, task.summary) {
            (TaskPhase::Notification, Some(summary)) => {
                self.add_line_item(ItemBody::Notice(NoticeItem {
                    level: NoticeLevel::Info,
                    text: summary.decode().into_owned(),
                }))
            }
            _ => Visibility::Hidden,
        }
    }
}

/// The task that continues in the background after the call returned.
fn launched_task(structured: Raw<'_>) -> Option<String> {
    let launched = structured.get("isAsync").and_then(Raw::boolean) == Some(true)
        || structured.get("status").and_then(Raw::text).is_some_and(|it| it == "async_launched");
    let task =
        structured.get("backgroundTaskId").or(structured.get("agentId").filter(|_| launched));
    Some(task?.text()?.decode().into_owned())
}

fn add_result_block(result: &mut CallResult, block: Raw<'_>) {
    let field = |key: &str| block.get(key).and_then(Raw::text);
    let text = match field("type").map(Text::decode).as_deref() {
        Some("text") => field("text").map(|it| it.decode().into_owned()),
        Some("image" | "document") => {
            let source = block.get("source");
            let of_source = |key: &str| source.and_then(|it| it.get(key)).and_then(Raw::text);
            result.images.push(ResultImage {
                media_type: of_source("media_type")
                    .map(|it| it.decode().into_owned())
                    .unwrap_or_default(),
                bytes: of_source("data").map_or(0, |it| it.raw().len() as u64 / 4 * 3),
            });
            return;
        }
        Some("tool_reference") => field("tool_name").map(|it| it.decode().into_owned()),
        _ => Some(prefix(block.as_str(), RESULT_BYTES)),
    };
    if let Some(text) = text {
        if !result.text.is_empty() {
            result.text.push('\n');
        }
        result.text.push_str(&text);
    }
}

fn created_todo(input: Raw<'_>, structured: Option<Raw<'_>>) -> Option<Todo> {
    let text = |raw: Raw<'_>, key: &str| Some(raw.get(key)?.text()?.decode().into_owned());
    let task = structured.and_then(|it| it.get("task"));
    Some(Todo {
        id: task.and_then(|task| text(task, "id")),
        text: text(input, "subject")?,
        doing: text(input, "activeForm"),
        state: TodoState::Pending,
    })
}

fn sub_agent_state(status: &str) -> Option<SubAgentState> {
    Some(match status {
        "completed" => SubAgentState::Completed,
        "failed" | "error" => SubAgentState::Failed,
        "stopped" | "killed" | "cancelled" => SubAgentState::Stopped,
        _ => return None,
    })
}
