//! Actions of users: which job each becomes, and what the result of a job changes.

use std::collections::HashMap;

use journal::SessionId;
use session::OptionRole;
use tokio::sync::oneshot;
use tracing::{debug, error, warn};
use wire::note::Actor;

use super::chat_state::{ChatState, EarlyAction};
use super::job::{ChatJob, JobKind, JobResult, SessionSwitch};
use super::store::PendingWrite;
use super::{Dispatcher, DispatcherEvent, JobReceipt, store};
use crate::address::{ChatAddress, MessageId};
use crate::bot::{Bot, BotCall};
use crate::chat::{Chat, UserIntent};
use crate::checkpoint::ChatCheckpoint;
use crate::inbound::{ChatCommand, InboundAction};
use crate::replies::{self, BotReply};

/// The verbosity of a chat without a session.
const DEFAULT_VERBOSITY: u8 = 1;

/// The longest answer to a tap that Telegram shows, in characters.
const TAP_ANSWER_LIMIT: usize = 180;

/// Where an intent comes from: a tap or a reply.
struct IntentSource {
    address: ChatAddress,
    message: Option<MessageId>,
    by: Actor,
    role: OptionRole,
    updates: Vec<i64>,
    /// The tap to be answered.
    tap: Option<String>,
}

/// Makes the answers to one session's requests run one after another, in the order of their updates.
/// Otherwise two taps that arrive together would race, and the second one could win.
#[derive(Debug, Default)]
pub(super) struct AnswerOrder(HashMap<SessionId, oneshot::Receiver<()>>);

/// A place in the order. Dropping it lets the next answer run.
struct AnswerTurn {
    previous: Option<oneshot::Receiver<()>>,
    _done: oneshot::Sender<()>,
}

impl AnswerOrder {
    fn enter(&mut self, session: SessionId) -> AnswerTurn {
        let (done, next) = oneshot::channel();
        AnswerTurn { previous: self.0.insert(session, next), _done: done }
    }
}

impl AnswerTurn {
    async fn wait(&mut self) {
        if let Some(previous) = self.previous.take() {
            // The sender is only ever dropped.
            let _ = previous.await;
        }
    }
}

impl Dispatcher {
    /// Starts what a user asked for.
    pub(super) async fn act(&mut self, action: InboundAction, updates: Vec<i64>) {
        let (address, kind) = match &action {
            InboundAction::Prompt(draft) => (draft.address, Some(draft.kind)),
            InboundAction::Command { address, kind, .. }
            | InboundAction::Tap { address, kind, .. }
            | InboundAction::Rejected { address, kind, .. } => (*address, Some(*kind)),
            InboundAction::EditPrompt { address, .. } => (*address, None),
            InboundAction::ChatMigrated { from, to } => {
                self.migrate(*from, *to).await;
                return self.delete_updates(updates).await;
            }
            InboundAction::UnknownUser { user, name } => {
                warn!(user = user.0, name, "ignored a user who is not allowed to use the bot");
                return self.delete_updates(updates).await;
            }
        };
        if let Some(kind) = kind {
            self.ensure_chat(address, kind);
        }
        let Some(chat) = self.chats.get_mut(&address) else {
            return self.delete_updates(updates).await;
        };
        if !chat.is_ready() || chat.must_wait(&action) {
            // What the action means depends on the session's document, or on the message that is
            // being sent.
            self.action_count += 1;
            chat.early.push(EarlyAction { order: self.action_count, action, updates });
            return;
        }
        chat.with(Chat::user_active);
        match action {
            InboundAction::Prompt(draft) => {
                let (message, by) = (draft.messages.first().copied(), draft.by.clone());
                // A prompt and an answer need no other role.
                let role = OptionRole::Drive;
                let intent = draft
                    .reply_to
                    .and_then(|to| chat.with(|chat| chat.read_reply(to, &draft.text)).flatten());
                if let Some(intent) = intent {
                    let source = IntentSource { address, message, by, role, updates, tap: None };
                    self.fulfil(intent, source).await;
                } else {
                    let kind = JobKind::Prompt(Box::new(draft));
                    self.queue_job(ChatJob { kind, address, message, by, role, updates }).await;
                }
            }
            InboundAction::EditPrompt { message, text, whole, .. } => {
                self.edit_prompt(address, message, text, whole, updates).await;
            }
            InboundAction::Command { message, command: ChatCommand::Verbose(None), .. } => {
                let level = chat.checkpoint().map_or(DEFAULT_VERBOSITY, |it| it.verbosity);
                self.reply(address, &replies::verbosity(level), Some(message));
                self.delete_updates(updates).await;
            }
            InboundAction::Command { message, command: ChatCommand::Stop, by, role, .. } => {
                // A stop must not wait behind what it is to stop.
                let (kind, message) = (JobKind::Stop, Some(message));
                self.start_now(ChatJob { kind, address, message, by, role, updates }, None).await;
            }
            InboundAction::Command { message, command, by, role, .. } => {
                let (kind, message) = (JobKind::Command(command), Some(message));
                self.queue_job(ChatJob { kind, address, message, by, role, updates }).await;
            }
            InboundAction::Tap { tap, message, data, by, role, .. } => {
                let intent = match replies::intent_of(&data) {
                    Some(intent) => Some(intent),
                    None => chat.with(|chat| chat.read_tap(message, &data)),
                };
                let intent = intent.unwrap_or_else(|| UserIntent::Stale(replies::old_button()));
                let (message, tap) = (Some(message), Some(tap));
                let source = IntentSource { address, message, by, role, updates, tap };
                self.fulfil(intent, source).await;
            }
            InboundAction::Rejected { message, content, .. } => {
                self.reply(address, &replies::rejected(&content), Some(message));
                self.delete_updates(updates).await;
            }
            InboundAction::ChatMigrated { .. } | InboundAction::UnknownUser { .. } => {}
        }
    }

    /// Does the actions that waited, in the order they came.
    pub(super) async fn act_on_early(&mut self, addresses: &[ChatAddress]) {
        let mut early = Vec::new();
        for address in addresses {
            if let Some(chat) = self.chats.get_mut(address) {
                early.append(&mut chat.early);
            }
        }
        early.sort_by_key(|it| it.order);
        for EarlyAction { action, updates, .. } in early {
            Box::pin(self.act(action, updates)).await;
        }
        for address in addresses {
            self.start_next_job(*address).await;
        }
    }

    /// Does what a user wants with a tap, or with a reply to a card.
    async fn fulfil(&mut self, intent: UserIntent, source: IntentSource) {
        let IntentSource { address, message, by, role, updates, tap } = source;
        // The tap may have changed the chat, such as the selected options.
        self.store_checkpoint(address).await;
        let kind = match intent {
            UserIntent::Answer { request, answer } => JobKind::Answer { request, answer },
            UserIntent::Stop => JobKind::Stop,
            UserIntent::RemovePrompt(prompt) => JobKind::RemovePrompt(prompt),
            UserIntent::ShowDiff { turn } => JobKind::Diff { turn: Some(turn) },
            UserIntent::Resume(session) => JobKind::Resume(session),
            UserIntent::Command(command) => JobKind::Command(command),
            UserIntent::ChangeCard => {
                self.answer_tap(tap, None);
                return self.delete_updates(updates).await;
            }
            UserIntent::Stale(why) => {
                match tap {
                    Some(_) => self.answer_tap(tap, Some(why)),
                    None => self.reply(address, &BotReply::from(why), message),
                }
                return self.delete_updates(updates).await;
            }
        };
        let job = ChatJob { kind, address, message, by, role, updates };
        match &job.kind {
            JobKind::Answer { .. } | JobKind::Stop | JobKind::RemovePrompt(_) => {
                self.start_now(job, tap).await;
            }
            JobKind::Diff { .. } => {
                self.answer_tap(tap, None);
                self.start_now(job, None).await;
            }
            // These change what the chat shows, so they are queued like messages.
            JobKind::Resume(_)
            | JobKind::Command(_)
            | JobKind::Prompt(_)
            | JobKind::EditPrompt { .. } => {
                self.answer_tap(tap, None);
                self.queue_job(job).await;
            }
        }
    }

    async fn edit_prompt(
        &mut self,
        address: ChatAddress,
        message: MessageId,
        text: String,
        whole: bool,
        updates: Vec<i64>,
    ) {
        let checkpoint = self.chats.get(&address).and_then(|chat| chat.checkpoint());
        let prompts = checkpoint.map(|checkpoint| &checkpoint.prompts);
        let prompt = prompts.and_then(|it| it.get(&message)).copied();
        let Some(prompt) = prompt else { return self.delete_updates(updates).await };
        let messages = prompts.map_or(0, |it| it.values().filter(|it| **it == prompt).count());
        if !whole && messages > 1 {
            // The text of the prompt's other messages is no longer known.
            self.reply(address, &replies::too_late_to_edit(), Some(message));
            return self.delete_updates(updates).await;
        }
        let by = Actor { name: String::new(), via: "telegram".to_owned() };
        let (kind, message) = (JobKind::EditPrompt { prompt, text }, Some(message));
        let role = OptionRole::Drive;
        self.queue_job(ChatJob { kind, address, message, by, role, updates }).await;
    }

    fn reply(&mut self, address: ChatAddress, reply: &BotReply, to: Option<MessageId>) {
        if let Some(chat) = self.chats.get_mut(&address) {
            chat.replies.add(address, reply, to);
            chat.changed();
        }
    }

    /// Answers a tap without waiting for the rate limiter.
    fn answer_tap(&mut self, tap: Option<String>, text: Option<String>) {
        if let Some(tap) = tap {
            let bot = self.context.bot.clone();
            self.work.spawn(async move { answer_tap(&bot, tap, text).await });
        }
    }

    /// Runs a job after those that are queued for its chat.
    async fn queue_job(&mut self, job: ChatJob) {
        let address = job.address;
        let Some(chat) = self.chats.get_mut(&address) else { return };
        chat.jobs.push_back(job);
        self.start_next_job(address).await;
    }

    /// Starts the chat's next job, unless one is running.
    pub(super) async fn start_next_job(&mut self, address: ChatAddress) {
        let Some(chat) = self.chats.get_mut(&address) else { return };
        if !chat.can_start_job() {
            return;
        }
        let Some(mut job) = chat.jobs.pop_front() else { return };
        chat.job_running = true;
        let mut entries = delete_unless_repeatable(&mut job);
        if let JobKind::Prompt(draft) = &job.kind {
            // Before the agent has the prompt, or the chat would show it as another client's.
            chat.with(|chat| chat.add_prompt(&draft.messages, draft.id));
            entries.extend(chat.unstored_checkpoint().map(store::checkpoint));
        }
        self.start_job(job, entries, true, None).await;
    }

    /// Runs a job at once, and answers a tap with its result.
    pub(super) async fn start_now(&mut self, mut job: ChatJob, tap: Option<String>) {
        let entries = delete_unless_repeatable(&mut job);
        self.start_job(job, entries, false, tap).await;
    }

    async fn start_job(
        &mut self,
        job: ChatJob,
        entries: Vec<journal::StateChange>,
        queued: bool,
        tap: Option<String>,
    ) {
        let write: Option<PendingWrite> =
            if entries.is_empty() { None } else { Some(self.state_writer.write(entries).await) };
        let (context, events, address) = (self.context.clone(), self.events.clone(), job.address);
        let session = self.chats.get(&address).and_then(ChatState::session);
        let receipt = JobReceipt { queued, message: job.message, updates: job.updates.clone() };
        let mut turn = match (&job.kind, session) {
            // A tap on Stop must not overtake an earlier answer, nor the other way round.
            (JobKind::Answer { .. } | JobKind::Stop, Some(session)) => {
                Some(self.answer_order.enter(session))
            }
            _ => None,
        };
        self.work.spawn(async move {
            if let Some(write) = write {
                write.done().await;
            }
            if let Some(turn) = &mut turn {
                turn.wait().await;
            }
            let bot = context.bot.clone();
            let run = tokio::spawn(async move { job.run(&context, session).await });
            let mut result = run.await.unwrap_or_else(|error| {
                error!(%error, "a job panicked");
                JobResult::reply(replies::internal_error())
            });
            let text = tap.as_ref().and_then(|_| result.take_tap_answer());
            // The dispatcher drops the receiver only when everything stops.
            let result = Box::new(result);
            let _ = events.send(DispatcherEvent::JobFinished { address, receipt, result }).await;
            drop(turn);
            if let Some(tap) = tap {
                answer_tap(&bot, tap, text).await;
            }
        });
    }

    pub(super) async fn job_finished(
        &mut self,
        address: ChatAddress,
        receipt: JobReceipt,
        result: JobResult,
    ) {
        let address = self.current_address(address);
        let JobResult { replies, calls, switch, session_deleted, verbosity, mut next } = result;
        let updates = match &mut next {
            // The next job still needs them.
            Some(next) => {
                next.updates = receipt.updates;
                Vec::new()
            }
            None => receipt.updates,
        };
        if session_deleted {
            self.clear_chat(address).await;
        }
        if let Some(switch) = switch {
            self.switch_session(address, switch);
        }
        let Some(chat) = self.chats.get_mut(&address) else { return };
        if receipt.queued {
            chat.job_running = false;
        }
        if let Some(verbosity) = verbosity {
            chat.with(|chat| chat.set_verbosity(verbosity));
        }
        let mut entries: Vec<_> =
            chat.unstored_checkpoint().map(store::checkpoint).into_iter().collect();
        entries.extend(updates.into_iter().map(store::delete_update));
        if !entries.is_empty() {
            let write = self.state_writer.write(entries).await;
            if !write.done().await
                && let Some(chat) = self.chats.get_mut(&address)
            {
                chat.set_stored(false);
            }
        }
        let Some(chat) = self.chats.get_mut(&address) else { return };
        for reply in replies {
            chat.replies.add(address, &reply, receipt.message);
        }
        for call in calls {
            chat.replies.add_call(call);
        }
        chat.changed();
        if let Some(next) = next {
            chat.jobs.push_front(next);
        }
        self.start_next_job(address).await;
    }

    /// Shows another session in a chat.
    fn switch_session(&mut self, address: ChatAddress, switch: SessionSwitch) {
        let Some(chat) = self.chats.get_mut(&address) else { return };
        let mut checkpoint = match switch {
            SessionSwitch::FromStart(session) => ChatCheckpoint::new(address, chat.kind, session),
            SessionSwitch::FromNow(session, document) => {
                ChatCheckpoint::from_now(address, chat.kind, session, &document)
            }
        };
        let (session, before) = (checkpoint.session, chat.session());
        if before == Some(session) {
            return;
        }
        if let Some(before) = chat.checkpoint() {
            checkpoint.verbosity = before.verbosity;
        }
        chat.show(checkpoint);
        self.follow(session);
        if let Some(before) = before {
            self.unfollow(before);
        }
    }
}

async fn answer_tap(bot: &Bot, tap: String, text: Option<String>) {
    let text = text.map(|text| match text.char_indices().nth(TAP_ANSWER_LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    });
    if let Err(error) = bot.call(&BotCall::AnswerTap { tap, text }).await {
        // The tap may be too old. The user sees the result on the card.
        debug!(%error, "could not answer a tap");
    }
}

/// Deletes the updates of a job before it starts if it must not run twice.
fn delete_unless_repeatable(job: &mut ChatJob) -> Vec<journal::StateChange> {
    if job.is_repeatable() {
        return Vec::new();
    }
    std::mem::take(&mut job.updates).into_iter().map(store::delete_update).collect()
}
