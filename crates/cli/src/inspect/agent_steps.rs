//! What an inspection counts of other agents' lines.

use wire::other_agents::{AgentCall, AgentCallEnd, AgentStep, AgentTurnEnd};

use super::statistics::{FileChangeCall, SessionStatistics, add_owned_name};

impl SessionStatistics {
    pub(super) fn add_step(&mut self, step: &AgentStep<'_>, files: &mut Vec<FileChangeCall>) {
        match step {
            AgentStep::Session(facts) => {
                add_owned_name(&mut self.versions, facts.version.as_deref());
                add_owned_name(&mut self.models, facts.model.as_deref());
            }
            AgentStep::Call(call) => self.start_call(call, files),
            AgentStep::CallEnded(end) => self.end_call(end, files),
            AgentStep::Usage(usage) => {
                add_owned_name(&mut self.models, usage.model.as_deref());
                self.other_tokens = self.other_tokens.plus(usage.usage.into());
            }
            AgentStep::TurnEnded(end) => self.end_agent_turn(end),
            AgentStep::TurnStarted
            | AgentStep::Prompt(_)
            | AgentStep::Text(_)
            | AgentStep::Thinking(_)
            | AgentStep::Compacted
            | AgentStep::Notice(_)
            | AgentStep::Failure(_) => {}
        }
    }

    /// A call is started twice if its files become known later.
    fn start_call(&mut self, call: &AgentCall<'_>, files: &mut Vec<FileChangeCall>) {
        let id = call.id.clone().into_owned();
        let known = self.agent_calls.contains_key(&id);
        let open = self.agent_calls.entry(id).or_default();
        if !known {
            open.tool = call.tool.clone().into_owned();
            self.tools.entry(open.tool.clone()).or_default().calls += 1;
        }
        for file in call.action.changes() {
            open.files.push(files.len());
            files.push(FileChangeCall {
                path: file.path.clone().into_owned(),
                tool: open.tool.clone(),
                ok: None,
            });
        }
    }

    fn end_call(&mut self, end: &AgentCallEnd<'_>, files: &mut [FileChangeCall]) {
        let Some(call) = self.agent_calls.get(&*end.id) else { return };
        if end.failed {
            self.tools.entry(call.tool.clone()).or_default().failed += 1;
        }
        for &index in &call.files {
            files[index].ok = Some(!end.failed);
        }
    }

    fn end_agent_turn(&mut self, end: &AgentTurnEnd<'_>) {
        self.turns += 1;
        self.failed_turns += u64::from(end.failed());
        if let Some(usage) = end.usage {
            self.other_tokens = self.other_tokens.plus(usage.into());
        }
        if let Some(total) = end.total_cost {
            self.cost.set_total(total);
        }
    }
}

/// A call of another agent.
#[derive(Default)]
pub(super) struct CountedCall {
    tool: String,
    /// Indexes into the list of changed files.
    files: Vec<usize>,
}
