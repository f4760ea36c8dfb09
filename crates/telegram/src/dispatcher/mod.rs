//! The dispatcher: the task that connects the pure parts with the network, the journal and sessions.
//!
//! One task owns the inbound messages, the chats and the rate limiter, and decides. Other tasks do
//! what takes time and report back with a [`DispatcherEvent`]: the poller brings updates, a follower
//! per session brings its changes, jobs do what users ask for, calls go to Telegram, and the state
//! writer stores what must survive a crash. There are no locks, and no task that the dispatcher waits
//! for waits for the dispatcher.
//!
//! What is stored when: an update before it is acted on, until its actions are done; a chat's
//! checkpoint before the chat's next call is made, and before a user is told about a finished job.

mod actions;
mod calls;
mod chat_state;
mod command_job;
mod commit_job;
mod follower;
mod job;
mod menu_job;
mod option_job;
mod outbox;
mod poller;
mod prompt_job;
mod resume_job;
mod rules_job;
mod schedule_job;
mod search_job;
mod store;
#[cfg(test)]
mod tests;
mod worker_files;
mod worker_outbox;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use journal::SessionId;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};
use wire::note::Actor;

use crate::address::{ChatAddress, ChatId, ChatKind, MessageId};
use crate::bot::{BotError, BotResponse};
use crate::bridge::Error;
use crate::chat::BridgeTime;
use crate::inbound::{Inbound, InboundBatch};
use crate::rate_limiter::RateLimiter;
use crate::state_store::StateStore;
use actions::AnswerOrder;
use chat_state::ChatState;
use follower::{FollowerEvent, FollowerHandle};
pub(crate) use job::JobContext;
use job::JobResult;
use outbox::OutboxFile;
use poller::UpdatePoller;
pub(crate) use store::BridgeState;
use store::{ReceivedUpdate, StateWriter};
use worker_outbox::OutboxCopies;

/// How many events may be queued. When the queue is full, the tasks that report wait.
const EVENT_QUEUE: usize = 256;

/// The shortest wait between two rounds if nothing happens.
const MIN_WAIT: Duration = Duration::from_millis(5);

/// How long calls and jobs may take to finish when the bridge stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Dispatcher {
    context: JobContext,
    inbound: Inbound,
    rate_limiter: RateLimiter,
    state_writer: StateWriter,
    chats: HashMap<ChatAddress, ChatState>,
    /// The followers of the sessions that chats show.
    followers: HashMap<SessionId, FollowerHandle>,
    /// How many followers were started so far.
    follower_count: u64,
    answer_order: AnswerOrder,
    /// How many actions were dispatched so far.
    action_count: u64,
    /// Groups that became supergroups, by their old id: calls and jobs may still use it.
    migrated: HashMap<ChatId, ChatId>,
    copies: OutboxCopies,
    events: mpsc::Sender<DispatcherEvent>,
    /// Whether the poller may bring further updates.
    has_room: watch::Sender<bool>,
    work: JoinSet<()>,
}

/// Something that another task reports.
#[derive(Debug)]
enum DispatcherEvent {
    /// Updates, which are stored already.
    Updates(Vec<ReceivedUpdate>),
    Session {
        session: SessionId,
        follower: u64,
        event: FollowerEvent,
    },
    CallFinished {
        address: ChatAddress,
        outcome: CallOutcome,
    },
    JobFinished {
        address: ChatAddress,
        receipt: JobReceipt,
        result: Box<JobResult>,
    },
    /// Files in the outbox of a session's agent.
    Outbox {
        session: SessionId,
        files: Vec<OutboxFile>,
    },
    /// A file was moved out of the outbox on another machine, or could not be.
    Archived {
        path: PathBuf,
        is_done: bool,
    },
    /// Telegram rate limited the bot as a whole.
    RateLimited(Duration),
    /// The bridge cannot continue.
    Failed(Error),
}

#[derive(Debug)]
enum CallOutcome {
    Made(Result<BotResponse, BotError>),
    /// The call was not made because the checkpoint before it could not be stored.
    NotStored,
}

/// What the dispatcher needs to know about a job that has finished.
#[derive(Debug)]
struct JobReceipt {
    /// Whether it was from the chat's queue. Taps are not queued.
    queued: bool,
    message: Option<MessageId>,
    updates: Vec<i64>,
}

impl Dispatcher {
    pub(crate) async fn run(
        context: JobContext,
        inbound: Inbound,
        store: Arc<dyn StateStore>,
        state: BridgeState,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let (events, mut received) = mpsc::channel(EVENT_QUEUE);
        let has_room = watch::Sender::new(true);
        let (state_writer, writing) = StateWriter::new(Arc::clone(&store));
        let writing = tokio::spawn(writing);
        let poller = UpdatePoller {
            bot: context.bot.clone(),
            store,
            clock: context.clock,
            offset: state.offset,
            events: events.clone(),
            has_room: has_room.subscribe(),
        };
        worker_outbox::remove_copies(&context.sessions.config().data).await;
        let mut dispatcher = Self::new(context, inbound, state_writer, events, has_room);
        dispatcher.restore(state).await;
        // Dropped with this task: Telegram refuses the poll of the next bridge while this one polls.
        let mut polling = JoinSet::new();
        polling.spawn(poller.run());
        let result = dispatcher.serve(&mut received, shutdown).await;
        // Updates that are stored are processed after the next start. Telegram sends the others again.
        polling.abort_all();
        dispatcher.finish(&mut received).await;
        for follower in dispatcher.followers.values() {
            follower.task.abort();
        }
        dispatcher.work.abort_all();
        // The state writer ends when its last handle is dropped and everything is stored.
        drop(dispatcher);
        let _ = timeout(SHUTDOWN_TIMEOUT, writing).await;
        result
    }

    fn new(
        context: JobContext,
        inbound: Inbound,
        state_writer: StateWriter,
        events: mpsc::Sender<DispatcherEvent>,
        has_room: watch::Sender<bool>,
    ) -> Self {
        let rate_limiter = RateLimiter::new(context.clock.unix_millis());
        Self {
            context,
            inbound,
            rate_limiter,
            state_writer,
            chats: HashMap::new(),
            followers: HashMap::new(),
            follower_count: 0,
            answer_order: AnswerOrder::default(),
            action_count: 0,
            migrated: HashMap::new(),
            copies: OutboxCopies::default(),
            events,
            has_room,
            work: JoinSet::new(),
        }
    }

    /// Continues with what the process before has stored.
    async fn restore(&mut self, state: BridgeState) {
        let BridgeState { updates, chats, .. } = state;
        for checkpoint in chats {
            let mut chat = ChatState::new(checkpoint.address, checkpoint.kind);
            chat.show(checkpoint);
            chat.set_stored(true);
            self.chats.insert(chat.address, chat);
        }
        let sessions: Vec<SessionId> = self.chats.values().filter_map(ChatState::session).collect();
        for session in sessions {
            if !self.followers.contains_key(&session) {
                self.follow(session);
                // Earlier versions have not done it when the chat got its session.
                let by = Actor { name: "Towpath".to_owned(), via: "telegram".to_owned() };
                if let Err(error) = self.context.allow_outbox(session, by).await {
                    warn!(%session, %error, "the agent will ask before it writes to its outbox");
                }
            }
        }
        self.receive(updates).await;
        self.update_room();
    }

    async fn serve(
        &mut self,
        received: &mut mpsc::Receiver<DispatcherEvent>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        tokio::pin!(shutdown);
        loop {
            let next_call = self.make_calls().await;
            let clock = self.context.clock;
            let next_prompt = self.inbound.next_due().map(|it| clock.instant_since_1970(it));
            // A chat that is due at once was just asked for its call.
            let soon = self.now() + MIN_WAIT;
            let next_call = next_call.map(|it| clock.instant(it.max(soon)));
            let next = [next_call, next_prompt].into_iter().flatten().min();
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                Some(event) = received.recv() => self.handle(event).await?,
                Some(done) = self.work.join_next() => {
                    if let Err(error) = done {
                        debug!(%error, "a task was cancelled");
                    }
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
            // All events are handled before the next calls, so that an edit shows the newest state.
            while let Ok(event) = received.try_recv() {
                self.handle(event).await?;
            }
            let now = clock.since_1970(clock.unix_millis());
            let due = self.inbound.take_due(now);
            self.dispatch(due).await;
            self.update_room();
        }
    }

    /// Stops the poller while too much is queued for a chat, and lets it continue after that.
    fn update_room(&self) {
        let before = *self.has_room.borrow();
        let has_room = self.chats.values().all(|chat| chat.has_room(before));
        if has_room != before {
            debug!(has_room, "polling for updates stops or continues");
            self.has_room.send_replace(has_room);
        }
    }

    /// Lets calls and jobs finish before the bridge stops.
    async fn finish(&mut self, received: &mut mpsc::Receiver<DispatcherEvent>) {
        let until = Instant::now() + SHUTDOWN_TIMEOUT;
        while self.copies.is_archiving()
            || self.chats.values().any(|chat| chat.is_calling() || chat.job_running)
        {
            let event = tokio::time::timeout_at(until, received.recv()).await;
            let Ok(Some(event)) = event else { break };
            match event {
                DispatcherEvent::CallFinished { address, outcome } => {
                    self.call_finished(address, outcome).await;
                }
                DispatcherEvent::JobFinished { address, receipt, result } => {
                    self.job_finished(address, receipt, *result).await;
                }
                DispatcherEvent::Archived { path, is_done } => self.copies.archived(&path, is_done),
                _ => {}
            }
        }
    }

    async fn handle(&mut self, event: DispatcherEvent) -> Result<(), Error> {
        match event {
            DispatcherEvent::Updates(updates) => self.receive(updates).await,
            DispatcherEvent::Session { session, follower, event } => {
                let current = self.followers.get(&session).map(|it| it.number);
                if current == Some(follower) {
                    self.session_changed(session, event).await;
                }
            }
            DispatcherEvent::CallFinished { address, outcome } => {
                self.call_finished(address, outcome).await;
                let address = self.current_address(address);
                if self.chats.get(&address).is_some_and(ChatState::is_ready) {
                    self.act_on_early(&[address]).await;
                }
            }
            DispatcherEvent::JobFinished { address, receipt, result } => {
                self.job_finished(address, receipt, *result).await;
            }
            DispatcherEvent::Outbox { session, files } => self.send_files(session, files).await,
            DispatcherEvent::Archived { path, is_done } => self.copies.archived(&path, is_done),
            DispatcherEvent::RateLimited(after) => self.rate_limiter.limit_all(after, self.now()),
            DispatcherEvent::Failed(error) => return Err(error),
        }
        Ok(())
    }

    async fn receive(&mut self, updates: Vec<ReceivedUpdate>) {
        for ReceivedUpdate { at, update } in updates {
            let at = self.context.clock.since_1970(at);
            let batches = self.inbound.receive(&update, at);
            self.dispatch(batches).await;
        }
    }

    async fn dispatch(&mut self, batches: Vec<InboundBatch>) {
        for InboundBatch { actions, updates } in batches {
            // Actions are done in order, so the updates are deleted with the last one.
            let mut updates = Some(updates);
            let mut actions = actions.into_iter().peekable();
            if actions.peek().is_none() {
                self.delete_updates(updates.take().unwrap_or_default()).await;
            }
            while let Some(action) = actions.next() {
                let last = actions.peek().is_none();
                let with = if last { updates.take() } else { None };
                self.act(action, with.unwrap_or_default()).await;
            }
        }
    }

    /// Deletes updates whose actions are done.
    async fn delete_updates(&self, updates: Vec<i64>) {
        if !updates.is_empty() {
            self.state_writer.write(updates.into_iter().map(store::delete_update).collect()).await;
        }
    }

    /// The current address of a chat that may have been migrated.
    fn current_address(&self, address: ChatAddress) -> ChatAddress {
        let chat = self.migrated.get(&address.chat).copied().unwrap_or(address.chat);
        ChatAddress { chat, ..address }
    }

    fn ensure_chat(&mut self, address: ChatAddress, kind: ChatKind) {
        self.chats.entry(address).or_insert_with(|| ChatState::new(address, kind));
    }

    fn now(&self) -> BridgeTime {
        self.context.clock.now()
    }
}

/// The bridge's clock. Clones are the same clock.
///
/// It runs at the speed of real time, or a whole number of times faster in a test whose Bot API runs
/// faster too. Everything that depends on Telegram's time uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BridgeClock {
    start: Instant,
    /// The time since 1970 at the start.
    start_since_1970: Duration,
    speed: u32,
}

impl BridgeClock {
    pub(crate) fn new(speed: u32) -> Self {
        let start_since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), start_since_1970, speed: speed.max(1) }
    }

    fn now(&self) -> BridgeTime {
        self.start.elapsed() * self.speed
    }

    fn instant(&self, time: BridgeTime) -> Instant {
        self.start + time / self.speed
    }

    /// How long a span of the bridge's time takes in real time.
    pub(crate) fn real_span(&self, span: Duration) -> Duration {
        span / self.speed
    }

    /// Real milliseconds since 1970.
    fn unix_millis(&self) -> u64 {
        let since = self.start_since_1970 + self.start.elapsed();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// A time in the bridge's time since 1970, which does not depend on when the bridge started.
    fn since_1970(&self, unix_millis: u64) -> BridgeTime {
        Duration::from_millis(unix_millis) * self.speed
    }

    fn instant_since_1970(&self, time: BridgeTime) -> Instant {
        self.start + (time / self.speed).saturating_sub(self.start_since_1970)
    }
}
