//! What people and programs want of a session.

use journal::PromptRecord;
use uuid::Uuid;
use wire::note::{Actor, Cause, Note, PromptState, QueueFate, Rewind, Setting};
use wire::say::{JsonObject, PermissionMode, Prompt, Request};

use super::control::Purpose;
use super::prompts::images_to_content;
use super::{Command, Done, Effect, Machine, NewPrompt, Query, Refusal, Reply, Ticket};

impl Machine {
    pub(super) fn command(&mut self, ticket: Ticket, command: Command) {
        match command {
            Command::Prompt(prompt) => {
                let reply = self.new_prompt(prompt);
                self.reply(ticket, reply);
            }
            Command::EditPrompt { prompt, text } => {
                let reply = self.edit_prompt(prompt, text);
                self.reply(ticket, reply);
            }
            Command::RemovePrompt { prompt } => self.remove_prompt(ticket, prompt),
            Command::MovePrompt { prompt, before } => {
                let reply = self.move_prompt(prompt, before);
                self.reply(ticket, reply);
            }
            Command::Answer { request, answer, by } => self.answer(ticket, &request, answer, by),
            Command::Interrupt { queue, by } => {
                self.interrupt(queue, by);
                self.reply(ticket, Ok(Done::Well));
            }
            Command::Set { setting, by } => self.set(ticket, setting, by),
            Command::Rewind { prompt, what, by } => self.rewind(ticket, prompt, what, by),
            Command::Query(query) => self.query(ticket, query),
            Command::Wake => {
                if self.agent.is_ready() {
                    self.reply(ticket, Ok(Done::Payload(self.abilities.clone())));
                } else {
                    self.hold_until_ready(ticket, Command::Wake);
                }
            }
            Command::Close => {
                self.end_agent(Cause::Closed);
                self.reply(ticket, Ok(Done::Well));
            }
        }
    }

    fn new_prompt(&mut self, prompt: NewPrompt) -> Reply {
        // The same id again is the same prompt again: the sender did not hear the first answer.
        if let Some(state) = self.prompts.state(prompt.id) {
            return Ok(Done::Prompt(state));
        }
        let fits = Prompt::with_images(prompt.id, prompt.text.clone(), prompt.images.clone());
        fits.map_err(|_| Refusal::EmptyPrompt)?;
        // A person's word is worth another try.
        if self.has_failed() {
            self.failures = 0;
            self.start_at = self.now;
        }
        self.take_prompt(prompt);
        Ok(Done::Prompt(PromptState::Queued))
    }

    /// Puts a prompt into the queue.
    pub(super) fn take_prompt(&mut self, prompt: NewPrompt) {
        let NewPrompt { id, text, images, delivery, by } = prompt;
        let record = self.prompts.push(PromptRecord {
            id,
            place: 0,
            text: text.clone(),
            content: images_to_content(&images),
            delivery,
            state: PromptState::Queued,
            by: by.clone(),
            turn: None,
            created: self.now,
            changed: self.now,
        });
        self.out.push(Effect::Prompt(record));
        self.note(Note::PromptQueued { prompt: id, text, images: images.len(), delivery, by });
    }

    fn edit_prompt(&mut self, id: Uuid, text: String) -> Reply {
        let now = self.now;
        let record = self.prompts.waiting(id).map_err(not_waiting)?;
        if text.trim().is_empty() && record.content.is_none() {
            return Err(Refusal::EmptyPrompt);
        }
        record.text.clone_from(&text);
        record.changed = now;
        let record = record.clone();
        self.out.push(Effect::Prompt(record));
        self.note(Note::PromptEdited { prompt: id, text });
        Ok(Done::Well)
    }

    fn move_prompt(&mut self, id: Uuid, before: Option<Uuid>) -> Reply {
        self.prompts.waiting(id).map_err(not_waiting)?;
        if let Some(before) = before {
            self.prompts.waiting(before).map_err(not_waiting)?;
        }
        if before != Some(id) {
            self.put_prompt_before(id, before);
        }
        Ok(Done::Well)
    }

    pub(super) fn put_prompt_before(&mut self, id: Uuid, before: Option<Uuid>) {
        for record in self.prompts.put_before(id, before) {
            self.out.push(Effect::Prompt(record));
        }
        self.note(Note::PromptMoved { prompt: id, before });
    }

    /// Takes a prompt back: at once while it waits here, by asking while it waits with the agent.
    fn remove_prompt(&mut self, ticket: Ticket, id: Uuid) {
        match self.prompts.waiting(id).map(|_| ()) {
            Ok(()) => {
                self.prompt_becomes(id, PromptState::Cancelled, None);
                self.reply(ticket, Ok(Done::Prompt(PromptState::Cancelled)));
            }
            Err(Some(PromptState::Written)) if self.agent.is_ready() => {
                self.cancel_with_agent(Some(ticket), id);
            }
            // The same word again: it is as wanted.
            Err(Some(PromptState::Cancelled)) => {
                self.reply(ticket, Ok(Done::Prompt(PromptState::Cancelled)));
            }
            Err(state) => self.reply(ticket, Err(not_waiting(state))),
        }
    }

    fn cancel_with_agent(&mut self, ticket: Option<Ticket>, prompt: Uuid) {
        let request = Request::CancelAsyncMessage { message_uuid: prompt.to_string() };
        self.ask_agent(&request, Purpose::Cancel { ticket, prompt });
    }

    /// The agent said whether it could still let go of a prompt.
    pub(super) fn cancel_answered(
        &mut self,
        ticket: Option<Ticket>,
        prompt: Uuid,
        answer: &Result<Option<String>, String>,
    ) {
        let let_go = answer.as_ref().ok().and_then(Option::as_deref).is_some_and(|payload| {
            let payload = wire::json::Raw::parse(payload);
            payload.and_then(|it| it.get("cancelled")?.boolean()).unwrap_or(false)
        });
        if let_go {
            self.dropped(prompt);
        }
        let Some(ticket) = ticket else { return };
        let reply = match self.prompts.state(prompt) {
            Some(PromptState::Cancelled) => Ok(Done::Prompt(PromptState::Cancelled)),
            state => Err(not_waiting(state)),
        };
        self.reply(ticket, reply);
    }

    fn interrupt(&mut self, queue: QueueFate, by: Actor) {
        if queue == QueueFate::Clear {
            let queued: Vec<Uuid> = self.prompts.queued().map(|it| it.id).collect();
            for prompt in queued {
                self.prompt_becomes(prompt, PromptState::Cancelled, None);
            }
        }
        let running = self.is_busy() && !self.agent.is_asleep();
        if !running || self.turn.is_some() && !self.ask_to_stop() {
            return;
        }
        self.note(Note::InterruptAsked { by, queue });
        if !self.agent.listens() {
            // It cannot be told; if the turn goes on it is ended by force.
            return;
        }
        if queue == QueueFate::Clear {
            // 2.1.325 understands the word in the interrupt itself; others must be told of each.
            let turn = self.turn.as_ref().map(|turn| turn.number);
            let steered = self.prompts.in_flight().filter(|it| turn.is_none() || it.turn != turn);
            let steered: Vec<Uuid> = steered.map(|it| it.id).collect();
            for prompt in steered {
                self.cancel_with_agent(None, prompt);
            }
        }
        let cancel_queued = queue == QueueFate::Clear;
        self.ask_agent(&Request::Interrupt { cancel_queued }, Purpose::Nothing);
    }

    fn set(&mut self, ticket: Ticket, setting: Setting, by: Actor) {
        let request = match &setting {
            Setting::Model(model) => Request::SetModel { model: model.clone() },
            Setting::PermissionMode(mode) => {
                let Some(mode) = PermissionMode::named(mode) else {
                    let refusal = Refusal::UnfitAnswer("there is no such permission mode");
                    return self.reply(ticket, Err(refusal));
                };
                Request::SetPermissionMode { mode }
            }
            Setting::Effort(effort) => {
                let settings = serde_json::json!({ "effortLevel": effort }).to_string();
                let settings = JsonObject::parse(&settings).unwrap_or_else(|_| JsonObject::empty());
                Request::ApplyFlagSettings { settings }
            }
            Setting::Watch(_) => {
                // It is none of the agent's business, whatever the agent is at.
                self.setting_changed(setting, by);
                return self.reply(ticket, Ok(Done::Well));
            }
        };
        if self.agent.is_starting() {
            self.hold_until_ready(ticket, Command::Set { setting, by });
        } else if self.agent.listens() {
            self.ask_agent(&request, Purpose::Set { ticket: Some(ticket), setting, by });
        } else {
            // The next process is started with it.
            self.setting_changed(setting, by);
            self.reply(ticket, Ok(Done::Well));
        }
    }

    fn rewind(&mut self, ticket: Ticket, prompt: Uuid, what: Rewind, by: Actor) {
        if self.is_busy() {
            return self.reply(ticket, Err(Refusal::Busy));
        }
        if !self.agent.is_ready() {
            return self.hold_until_ready(ticket, Command::Rewind { prompt, what, by });
        }
        let files = Request::RewindFiles { user_message_id: prompt.to_string(), dry_run: false };
        let conversation = Request::RewindConversation { target_message_uuid: prompt.to_string() };
        let (first, then) = match what {
            Rewind::Files => (files, None),
            Rewind::Conversation => (conversation, None),
            Rewind::Both => (files, Some(conversation)),
        };
        self.ask_agent(&first, Purpose::Rewind { ticket, prompt, what, then, by });
    }

    fn query(&mut self, ticket: Ticket, query: Query) {
        if !self.agent.is_ready() {
            return self.hold_until_ready(ticket, Command::Query(query));
        }
        let request = match query {
            Query::Context => Request::GetContextUsage {},
            Query::Cost => Request::GetSessionCost {},
            Query::Usage => Request::GetUsage {},
            Query::Changes => Request::GetWorkspaceDiff {},
            Query::Files(query) => Request::FileSuggestions { query },
            Query::RewindPreview(prompt) => {
                Request::RewindFiles { user_message_id: prompt.to_string(), dry_run: true }
            }
        };
        self.ask_agent(&request, Purpose::Query { ticket });
    }
}

fn not_waiting(state: Option<PromptState>) -> Refusal {
    state.map_or(Refusal::NoSuchPrompt, Refusal::NotWaiting)
}
