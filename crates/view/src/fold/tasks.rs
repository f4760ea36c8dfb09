//! How far calls are, and the agents and shells that some of them leave in the background.

use wire::event::{Task, TaskPhase};
use wire::json::Text;

use super::calls::{begins_agent, called};
use super::{Fold, Heard};
use crate::call::{Progress, SubAgentState};
use crate::item::{Body, ItemId, Level, Notice};

impl Fold {
    /// How far a call is.
    pub(super) fn progressed(
        &mut self,
        tool_use: Option<Text<'_>>,
        seconds: Option<u64>,
        text: Option<Text<'_>>,
    ) -> Heard {
        let Some(id) = tool_use.map(|it| ItemId::call(&it.decode())) else {
            return Heard::Housekeeping;
        };
        let open = self
            .shelf
            .get(&id)
            .is_some_and(|item| matches!(&item.body, Body::Call(call) if call.state.is_open()));
        if !open {
            return Heard::Housekeeping;
        }
        self.change(&id, |item| {
            let Some(call) = called(item) else { return };
            let progress = call.progress.get_or_insert_with(Progress::default);
            progress.seconds = seconds.or(progress.seconds);
            if let Some(text) = text {
                progress.text = text.decode().into_owned();
            }
        });
        Heard::Shown
    }

    /// News of a task: an agent, or a shell that may have gone to the background.
    pub(super) fn task(&mut self, task: &Task<'_>) -> Heard {
        let name = task.task_id.map(|it| it.decode().into_owned());
        let call = task.tool_use_id.map(|it| ItemId::call(&it.decode()));
        let call = call.or_else(|| self.calls.tasks.get(name.as_deref()?).cloned());
        let Some(call) = call.filter(|id| self.shelf.has(id)) else {
            return self.task_without_call(task);
        };
        let ended = task.status.and_then(|status| state_of(&status.decode()));
        if let Some(name) = &name {
            if matches!(task.phase, TaskPhase::Notification) {
                self.calls.tasks.remove(name);
            } else {
                self.calls.tasks.insert(name.clone(), call.clone());
            }
        }
        self.change(&call, |item| {
            let Some(call) = called(item) else { return };
            // A shell in the foreground is a task too, but the call says all there is to say.
            if call.agent.is_none() && !begins_agent(&call.tool) {
                return;
            }
            let agent = call.agent.get_or_insert_default();
            agent.task = agent.task.take().or(name);
            if let Some(ended) = ended {
                agent.state = ended;
                call.progress = None;
            } else if let (TaskPhase::Progress, Some(text)) = (task.phase, task.description) {
                call.progress = Some(Progress { seconds: None, text: text.decode().into_owned() });
            }
            if let Some(summary) = task.summary {
                agent.summary = summary.decode().into_owned();
            }
        });
        Heard::Shown
    }

    pub(super) fn task_without_call(&mut self, task: &Task<'_>) -> Heard {
        match (task.phase, task.summary) {
            (TaskPhase::Notification, Some(summary)) => self.put_line(Body::Notice(Notice {
                level: Level::Info,
                text: summary.decode().into_owned(),
            })),
            _ => Heard::Housekeeping,
        }
    }
}

fn state_of(status: &str) -> Option<SubAgentState> {
    Some(match status {
        "completed" => SubAgentState::Completed,
        "failed" | "error" => SubAgentState::Failed,
        "stopped" | "killed" | "cancelled" => SubAgentState::Stopped,
        _ => return None,
    })
}
