//! Carrying out commands.

use journal::PromptRecord;
use uuid::Uuid;
use wire::note::{Actor, Delivery, ExitCause, HoldReason, Note, PromptState, QueuePolicy, Rewind};
use wire::outgoing::{OutgoingPrompt, OutgoingRequest};

use super::controls::ControlPurpose;
use super::prompts::{images_of, images_to_content};
use super::{CommandId, Effect, Machine};
use crate::command::{
    AgentQuery, CommandError, CommandOutput, CommandResult, NewPrompt, PromptChange, SessionCommand,
};

impl Machine {
    pub(super) fn command(&mut self, id: CommandId, command: SessionCommand) {
        let result = match command {
            SessionCommand::Prompt(prompt) => self.new_prompt(prompt),
            SessionCommand::ChangePrompt { prompt, change } => self.change_prompt(prompt, change),
            SessionCommand::MovePrompt { prompt, before } => self.move_prompt(prompt, before),
            SessionCommand::Answer { request, answer, by } => {
                self.answer_request(&request, answer, by)
            }
            SessionCommand::AnswerHook { request, output } => self.answer_hook(&request, output),
            SessionCommand::Interrupt { queue, by, turn } => {
                if turn.is_none() || turn == self.turn.running().map(|running| running.number) {
                    self.interrupt(queue, by);
                }
                Ok(CommandOutput::None)
            }
            SessionCommand::ResumeQueue { by, limit } => {
                if limit.is_none_or(|limit| self.is_held_at(limit)) {
                    self.resume_queue(Some(by));
                }
                Ok(CommandOutput::None)
            }
            SessionCommand::Schedule(schedule) => self.add_schedule(schedule),
            SessionCommand::RemoveSchedule { schedule, by } => self.remove_schedule(schedule, by),
            SessionCommand::Capabilities => Ok(CommandOutput::Payload(self.capabilities.clone())),
            SessionCommand::Wake if self.agent.is_ready() => {
                Ok(CommandOutput::Payload(self.capabilities.clone()))
            }
            SessionCommand::Wake => return self.defer(id, SessionCommand::Wake),
            SessionCommand::Close => {
                self.stop_agent(ExitCause::Closed);
                self.ended |= self.agent.is_stopped();
                Ok(CommandOutput::None)
            }
            // The reply to these may have to wait for the agent.
            SessionCommand::RemovePrompt { prompt } => return self.remove_prompt(id, prompt),
            SessionCommand::Set { setting, by } => return self.set(id, setting, by),
            SessionCommand::Rewind { prompt, what, by } => {
                return self.rewind(id, prompt, what, by);
            }
            SessionCommand::Query(query) => return self.query(id, query),
        };
        self.reply(id, result);
    }

    fn new_prompt(&mut self, prompt: NewPrompt) -> CommandResult {
        // The same id again is the same prompt again: its sender did not get the first reply.
        if let Some(state) = self.prompts.state(prompt.id) {
            return Ok(CommandOutput::Prompt(state));
        }
        let valid =
            OutgoingPrompt::with_images(prompt.id, prompt.text.clone(), prompt.images.clone());
        self.limits.check_prompt(valid.map_err(|_| CommandError::EmptyPrompt)?)?;
        self.retry_failed_agent();
        let by = prompt.by.clone();
        self.queue_prompt(prompt);
        self.go_on_after_interrupt(Some(by));
        Ok(CommandOutput::Prompt(PromptState::Queued))
    }

    /// A new prompt is a reason to try a failing agent again.
    pub(super) fn retry_failed_agent(&mut self) {
        if self.has_failed() {
            self.failures = 0;
            self.start_at = self.now;
        }
    }

    pub(super) fn queue_prompt(&mut self, prompt: NewPrompt) {
        let NewPrompt { id, text, images, delivery, by } = prompt;
        let record = self.prompts.push(PromptRecord {
            id,
            position: 0,
            text: text.clone(),
            content: images_to_content(&images),
            delivery,
            state: PromptState::Queued,
            by: by.clone(),
            turn: None,
            created: self.wall,
            changed: self.wall,
        });
        self.effects.push(Effect::Prompt(record));
        self.note(Note::PromptQueued { prompt: id, text, images: images.len(), delivery, by });
    }

    /// Changes everything that is asked for, or nothing.
    fn change_prompt(&mut self, id: Uuid, change: PromptChange) -> CommandResult {
        let (now, limits) = (self.wall, self.limits);
        let record = self.prompts.waiting(id).map_err(not_waiting)?;
        let PromptChange { text, delivery } = change;
        if let Some(text) = &text {
            if text.trim().is_empty() && record.content.is_none() {
                return Err(CommandError::EmptyPrompt);
            }
            if let Ok(prompt) = OutgoingPrompt::with_images(id, text.clone(), images_of(record)) {
                limits.check_prompt(prompt)?;
            }
            record.text.clone_from(text);
        }
        let delivery = delivery.filter(|delivery| record.delivery != *delivery);
        record.delivery = delivery.unwrap_or(record.delivery);
        if text.is_none() && delivery.is_none() {
            return Ok(CommandOutput::None);
        }
        record.changed = now;
        let record = record.clone();
        self.effects.push(Effect::Prompt(record));
        if let Some(text) = text {
            self.note(Note::PromptEdited { prompt: id, text });
        }
        if let Some(delivery) = delivery {
            self.note(Note::PromptDeliveryChanged { prompt: id, delivery });
            if delivery == Delivery::Steer {
                self.go_on_after_interrupt(None);
            }
        }
        Ok(CommandOutput::None)
    }

    fn move_prompt(&mut self, id: Uuid, before: Option<Uuid>) -> CommandResult {
        self.prompts.waiting(id).map_err(not_waiting)?;
        if let Some(before) = before {
            self.prompts.waiting(before).map_err(not_waiting)?;
        }
        if before != Some(id) {
            self.put_prompt_before(id, before);
        }
        Ok(CommandOutput::None)
    }

    pub(super) fn put_prompt_before(&mut self, id: Uuid, before: Option<Uuid>) {
        for record in self.prompts.put_before(id, before) {
            self.effects.push(Effect::Prompt(record));
        }
        self.note(Note::PromptMoved { prompt: id, before });
    }

    /// Cancels a prompt: at once if it waits in our queue, by a request if it waits in the agent's.
    fn remove_prompt(&mut self, id: CommandId, prompt: Uuid) {
        let result = match self.prompts.waiting(prompt).map(|_| ()) {
            Ok(()) => {
                self.set_prompt_state(prompt, PromptState::Cancelled, None);
                Ok(CommandOutput::Prompt(PromptState::Cancelled))
            }
            Err(Some(PromptState::Written)) if self.agent.is_ready() => {
                return self.cancel_in_agent(Some(id), prompt);
            }
            // A repeated command has the same result.
            Err(Some(PromptState::Cancelled)) => Ok(CommandOutput::Prompt(PromptState::Cancelled)),
            Err(state) => Err(not_waiting(state)),
        };
        self.reply(id, result);
    }

    fn cancel_in_agent(&mut self, id: Option<CommandId>, prompt: Uuid) {
        let request = OutgoingRequest::CancelAsyncMessage { message_uuid: prompt.to_string() };
        self.send_control(&request, ControlPurpose::Cancel { id, prompt });
    }

    /// The agent answered whether it could still cancel a prompt.
    pub(super) fn cancel_answered(
        &mut self,
        id: Option<CommandId>,
        prompt: Uuid,
        answer: &Result<Option<String>, String>,
    ) {
        let cancelled = answer.as_ref().ok().and_then(Option::as_deref).is_some_and(|payload| {
            let payload = wire::json::Raw::parse(payload);
            payload.and_then(|it| it.get("cancelled")?.boolean()).unwrap_or(false)
        });
        if cancelled {
            self.prompt_dropped(prompt);
        }
        let Some(id) = id else { return };
        let result = match self.prompts.state(prompt) {
            Some(PromptState::Cancelled) => Ok(CommandOutput::Prompt(PromptState::Cancelled)),
            state => Err(not_waiting(state)),
        };
        self.reply(id, result);
    }

    pub(super) fn interrupt(&mut self, queue: QueuePolicy, by: Actor) {
        if queue == QueuePolicy::Clear {
            let queued: Vec<Uuid> = self.prompts.queued().map(|it| it.id).collect();
            for prompt in queued {
                self.set_prompt_state(prompt, PromptState::Cancelled, None);
            }
        }
        if queue == QueuePolicy::Hold {
            self.hold_queue(HoldReason::Interrupted, Some(by.clone()));
        }
        let turn = self.turn.running().map(|turn| turn.number);
        if !self.is_busy() || self.agent.is_stopped() || turn.is_some() && !self.request_stop() {
            return;
        }
        self.note(Note::InterruptRequested { by, queue });
        if !self.agent.accepts_input() {
            // Nothing can be written to it. If the turn does not end, the process is killed.
            return;
        }
        if queue == QueuePolicy::Clear {
            // 2.1.325 cancels its queue with the interrupt; older versions need a request for each.
            let steered = self.prompts.in_flight().filter(|it| turn.is_none() || it.turn != turn);
            let steered: Vec<Uuid> = steered.map(|it| it.id).collect();
            for prompt in steered {
                self.cancel_in_agent(None, prompt);
            }
        }
        let cancel_queued = queue == QueuePolicy::Clear;
        self.send_control(&OutgoingRequest::Interrupt { cancel_queued }, ControlPurpose::None);
    }

    fn rewind(&mut self, id: CommandId, prompt: Uuid, what: Rewind, by: Actor) {
        if self.is_busy() {
            return self.reply(id, Err(CommandError::Busy));
        }
        if !self.agent.is_ready() {
            return self.defer(id, SessionCommand::Rewind { prompt, what, by });
        }
        let files =
            OutgoingRequest::RewindFiles { user_message_id: prompt.to_string(), dry_run: false };
        let conversation =
            OutgoingRequest::RewindConversation { target_message_uuid: prompt.to_string() };
        let (first, then) = match what {
            Rewind::Files => (files, None),
            Rewind::Conversation => (conversation, None),
            Rewind::Both => (files, Some(conversation)),
        };
        self.send_control(&first, ControlPurpose::Rewind { id, prompt, what, then, by });
    }

    fn query(&mut self, id: CommandId, query: AgentQuery) {
        // Reading starts no process: only a command that says so does.
        if !self.agent.accepts_input() && !self.agent.is_starting() {
            return self.reply(id, Err(CommandError::NoAgent));
        }
        if !self.agent.is_ready() {
            return self.defer(id, SessionCommand::Query(query));
        }
        let request = match query {
            AgentQuery::Context => OutgoingRequest::GetContextUsage {},
            AgentQuery::Cost => OutgoingRequest::GetSessionCost {},
            AgentQuery::Usage => OutgoingRequest::GetUsage {},
            AgentQuery::Changes => OutgoingRequest::GetWorkspaceDiff {},
            AgentQuery::Files(query) => OutgoingRequest::FileSuggestions { query },
            AgentQuery::RewindPreview(prompt) => {
                OutgoingRequest::RewindFiles { user_message_id: prompt.to_string(), dry_run: true }
            }
        };
        self.send_control(&request, ControlPurpose::Query { id });
    }
}

fn not_waiting(state: Option<PromptState>) -> CommandError {
    state.map_or(CommandError::NoSuchPrompt, CommandError::NotWaiting)
}
