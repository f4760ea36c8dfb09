//! What the core does with a dialect: messages become lines, lines of the agent become events.

use super::{CoreStep, OwnerCore};
use crate::agent_event::AgentEvent;
use crate::agent_message::AgentMessage;
use crate::dialect::{AgentDialect, DialectStep};
use crate::machine::Input;
use crate::options::CliConversation;

impl OwnerCore {
    /// Writes a message to the agent. What else follows from it is the next thing that happens.
    pub(super) fn translate(&mut self, message: AgentMessage) -> Vec<DialectStep> {
        let steps = match &mut self.dialect {
            AgentDialect::StreamJson => {
                message.to_line().into_iter().map(DialectStep::Send).collect()
            }
            AgentDialect::Acp(driver) => driver.message(message),
        };
        let mut events = Vec::new();
        for step in steps {
            match step {
                DialectStep::Event(_) => events.push(step),
                step => self.dialect_step(step),
            }
        }
        events
    }

    pub(super) fn add_first(&mut self, steps: Vec<DialectStep>) {
        for step in steps.into_iter().rev() {
            self.steps.push_front(CoreStep::Dialect(step));
        }
    }

    pub(super) fn dialect_step(&mut self, step: DialectStep) {
        match step {
            DialectStep::Event(event) => {
                // The grants may have to be loaded first.
                self.steps.push_front(CoreStep::Input(Input::Agent(event)));
            }
            DialectStep::Send(line) => {
                if let AgentDialect::Acp(_) = self.dialect {
                    self.batch.add_sent(&line);
                }
                self.writes += 1;
                self.batch.add_write(line, self.writes);
            }
            DialectStep::Note(note) => self.batch.add_note(&note),
        }
    }

    pub(super) fn read_line(&mut self, bytes: &[u8]) {
        let options = self.machine.options();
        if let AgentDialect::Acp(driver) = &mut self.dialect {
            let steps = driver.read(bytes, self.now.monotonic, options);
            self.add_first(steps);
        }
    }

    pub(super) fn tick_driver(&mut self) {
        let now = self.now.monotonic;
        if let Some(driver) = self.dialect.driver() {
            let steps = driver.tick(now);
            self.steps.extend(steps.into_iter().map(CoreStep::Dialect));
        }
    }

    pub(super) fn read_start(&mut self, start: &[u8]) {
        let options = self.machine.options();
        if let AgentDialect::Acp(driver) = &mut self.dialect {
            let steps = driver.read_start(start, options);
            self.add_first(steps);
        }
    }

    /// Goes on with the agent of an earlier owner. If it began to work by itself, its turn ends when it
    /// is silent.
    pub(super) fn attach_driver(&mut self) -> Vec<DialectStep> {
        let busy = self.machine.is_busy();
        let AgentDialect::Acp(driver) = &mut self.dialect else { return Vec::new() };
        let mut steps = driver.attach(self.now.monotonic);
        if busy && !driver.has_open_prompt() {
            steps.push(DialectStep::Event(AgentEvent::Unprompted));
        }
        steps
    }

    pub(super) fn start_driver(&mut self, conversation: &CliConversation) {
        let AgentDialect::Acp(driver) = &mut self.dialect else { return };
        let run = self.run + 1;
        match conversation {
            CliConversation::Resumed(session) => driver.start(run, Some(session.clone())),
            CliConversation::New(_) => driver.start(run, None),
            CliConversation::Forked(session) => driver.start_copy(run, session.clone()),
        }
    }
}
