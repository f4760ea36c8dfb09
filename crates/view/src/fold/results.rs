//! What came of calls, and what a call that went well changes beside itself.

use wire::event::ToolResult;
use wire::json::{Raw, Shape, Text};
use wire::note::{self, Wants};

use super::calls::called;
use super::{Fold, Heard, cut_to};
use crate::call::{Call, CallState, Outcome, Permission, Picture, SubAgentState};
use crate::item::{Body, Item, ItemId};
use crate::subject;
use crate::subject::Verb;
use crate::todo::{Todo, TodoState};

/// A result is cut here; the rest is in the journal.
const RESULT_BYTES: usize = 256 << 10;

impl Fold {
    /// The result of a call; `structured` is what the CLI keeps of it beside the model's text.
    pub(super) fn call_answered(
        &mut self,
        result: &ToolResult<'_>,
        structured: Option<Raw<'_>>,
        parent: Option<ItemId>,
    ) -> Heard {
        let Some(id) = result.tool_use_id else { return self.stray_result(result, parent) };
        let id = ItemId::call(&id.decode());
        if !self.shelf.has(&id) {
            self.missing_call(&id, parent);
        }
        self.calls.close(&id);
        let outcome = self.outcome(result, structured);
        let launched = structured.and_then(launched_task);
        let (at, failed) = (self.now.at, result.failed());
        self.change(&id, |item| {
            let Some(call) = called(item) else { return };
            call.ended = at;
            call.progress = None;
            call.outcome = Some(outcome);
            let refused = call.permission.as_ref().is_some_and(|it| {
                matches!(it.outcome, Some(note::Outcome::Denied | note::Outcome::Expired))
            });
            call.state = match (failed, refused) {
                (true, true) => CallState::Denied,
                (true, false) => CallState::Failed,
                (false, _) => CallState::Done,
            };
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
        self.answered_by_result(&id, failed);
        if !failed {
            self.call_succeeded(&id, structured);
        }
        Heard::Shown
    }

    /// A result that names no call.
    pub(super) fn stray_result(
        &mut self,
        result: &ToolResult<'_>,
        parent: Option<ItemId>,
    ) -> Heard {
        let outcome = self.outcome(result, None);
        let turn = self.turn_of_agent(parent.as_ref());
        let place = self.next_place();
        let mut call = nameless();
        call.state = if result.failed() { CallState::Failed } else { CallState::Done };
        call.outcome = Some(outcome);
        self.put_at(ItemId::line(place), turn, parent, place, Body::Call(Box::new(call)));
        Heard::Shown
    }

    /// Shows a call whose line is not in the record.
    pub(super) fn missing_call(&mut self, id: &ItemId, parent: Option<ItemId>) {
        let turn = self.turn_of_agent(parent.as_ref());
        let place = self.next_place();
        self.put_at(id.clone(), turn, parent, place, Body::Call(Box::new(nameless())));
    }

    pub(super) fn outcome(&self, result: &ToolResult<'_>, structured: Option<Raw<'_>>) -> Outcome {
        let mut outcome = Outcome { seq: self.now.seq, ..Outcome::default() };
        match result.content {
            Some(content) if content.shape() == Shape::Array => {
                for block in content.items() {
                    take_block(&mut outcome, block);
                }
            }
            Some(content) => match content.text() {
                Some(text) => outcome.text = text.decode().into_owned(),
                None => take_block(&mut outcome, content),
            },
            None => {}
        }
        if outcome.text.len() > RESULT_BYTES {
            let kept = cut_to(&outcome.text, RESULT_BYTES);
            outcome.cut = (outcome.text.len() - kept.len()) as u64;
            outcome.text = kept;
        }
        let hunks = structured.and_then(|it| it.get("structuredPatch"));
        let hunks = hunks.filter(|it| it.items().next().is_some());
        outcome.hunks = hunks.map(|it| it.as_str().to_owned());
        outcome
    }

    /// What a call that went well changes beside itself: files, and the list of what is to be done.
    pub(super) fn call_succeeded(&mut self, id: &ItemId, structured: Option<Raw<'_>>) {
        let Some(Item { turn, parent, body: Body::Call(call), .. }) = self.shelf.get(id) else {
            return;
        };
        let (turn, main) = (*turn, parent.is_none());
        let input = || Raw::parse(&call.input);
        match (call.verb, &*call.tool) {
            (Verb::Write | Verb::Edit, _) => {
                let path = input().and_then(|it| it.get("file_path").or(it.get("notebook_path")));
                if let Some(path) = path.and_then(Raw::text) {
                    let path = path.decode().into_owned();
                    self.file_touched(turn, &path);
                }
            }
            // A sub-agent's list is its own affair, and stands in its calls.
            (Verb::Track, _) if !main => {}
            (_, "TodoWrite") => {
                if let Some(todos) = input().and_then(subject::todos) {
                    let rev = self.rev();
                    self.todos.change(rev, |list| *list = todos);
                }
            }
            (_, "TaskCreate") => {
                let made = input().and_then(|it| created_todo(it, structured));
                if let Some(todo) = made {
                    let rev = self.rev();
                    self.todos.change(rev, |list| list.push(todo));
                }
            }
            (_, "TaskUpdate") => {
                let update = input().and_then(|it| {
                    let id = it.get("taskId")?.text()?.decode().into_owned();
                    let gone =
                        it.get("status").and_then(Raw::text).is_some_and(|it| it == "deleted");
                    Some((id, gone, subject::todo_state(it)))
                });
                if let Some((id, gone, state)) = update {
                    let rev = self.rev();
                    self.todos.change(rev, |list| {
                        list.retain(|todo| !gone || todo.id.as_deref() != Some(&*id));
                        let todo = list.iter_mut().find(|todo| todo.id.as_deref() == Some(&*id));
                        if let (Some(todo), Some(state)) = (todo, state) {
                            todo.state = state;
                        }
                    });
                }
            }
            (Verb::Ask, _) => self.questions_answered(id, structured),
            _ => {}
        }
    }

    /// The answers to a question, where no note and no repeated answer told them.
    fn questions_answered(&mut self, id: &ItemId, structured: Option<Raw<'_>>) {
        let answers = structured.and_then(|it| it.get("answers"));
        let answers: Vec<_> = answers
            .into_iter()
            .flat_map(Raw::fields)
            .filter_map(|(question, answer)| {
                Some((question.decode().into_owned(), answer.text()?.decode().into_owned()))
            })
            .collect();
        if answers.is_empty() {
            return;
        }
        self.change(id, |item| {
            let Some(call) = called(item) else { return };
            let permission = call.permission.get_or_insert_with(|| Permission {
                request: None,
                wants: Wants::Answers,
                outcome: Some(note::Outcome::Allowed),
                by: None,
                message: None,
                answers: Vec::new(),
            });
            if permission.answers.is_empty() {
                permission.answers = answers;
            }
        });
    }
}

fn nameless() -> Call {
    Call {
        tool: String::new(),
        verb: Verb::Use,
        target: String::new(),
        input: "{}".to_owned(),
        state: CallState::Running,
        began: None,
        ended: None,
        progress: None,
        outcome: None,
        permission: None,
        agent: None,
    }
}

/// The task that goes on in the background after the call was answered.
fn launched_task(structured: Raw<'_>) -> Option<String> {
    let launched = structured.get("isAsync").and_then(Raw::boolean) == Some(true)
        || structured.get("status").and_then(Raw::text).is_some_and(|it| it == "async_launched");
    let task =
        structured.get("backgroundTaskId").or(structured.get("agentId").filter(|_| launched));
    Some(task?.text()?.decode().into_owned())
}

/// Takes a block of a result.
fn take_block(outcome: &mut Outcome, block: Raw<'_>) {
    let field = |key: &str| block.get(key).and_then(Raw::text);
    let text = match field("type").map(Text::decode).as_deref() {
        Some("text") => field("text").map(|it| it.decode().into_owned()),
        Some("image" | "document") => {
            let source = block.get("source");
            let of_source = |key: &str| source.and_then(|it| it.get(key)).and_then(Raw::text);
            outcome.pictures.push(Picture {
                media_type: of_source("media_type")
                    .map(|it| it.decode().into_owned())
                    .unwrap_or_default(),
                bytes: of_source("data").map_or(0, |it| it.raw().len() as u64 / 4 * 3),
            });
            return;
        }
        Some("tool_reference") => field("tool_name").map(|it| it.decode().into_owned()),
        _ => Some(cut_to(block.as_str(), RESULT_BYTES)),
    };
    if let Some(text) = text {
        if !outcome.text.is_empty() {
            outcome.text.push('\n');
        }
        outcome.text.push_str(&text);
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
