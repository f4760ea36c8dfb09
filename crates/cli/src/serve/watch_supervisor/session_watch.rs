//! Watches one session: passes its journal entries to the actions and stores how far they have come.
//!
//! The stored position moves past an entry only when all actions for it are done, or have failed for
//! good and this was logged. After a restart the next process continues there, and actions in progress
//! run again. So a file is copied at least once and is up to date afterwards, a repeated commit finds
//! nothing to commit, and a hook runs at least once: a copy or a build that never ran is worse than one
//! that ran twice.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use gateway::watch_state::{WATCH_STATE, WatchState};
use journal::{Entry, Follower, Origin, Seq, SessionId, SessionRecord, StateChange};
use tokio::sync::watch::Receiver;
use tokio::time::sleep;
use wire::note::{Note, Setting, WatchChoice};

use super::WatchContext;
use super::session_actions::SessionActions;
use super::session_log::{SessionLog, removal};
use super::setup::WatchedSession;

/// How long a session must be silent before its tasks end.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// How many entries may wait for their actions before reading pauses.
const MAX_PENDING: usize = 64;

/// Watches one session.
pub(super) struct SessionWatch {
    context: WatchContext,
    session: SessionId,
    directory: PathBuf,
    stopping: Receiver<bool>,
    /// As it is stored.
    state: WatchState,
    /// The last entry that was read. It may be ahead of the stored position.
    position: u64,
    /// When the last turn ended, or the configuration was set.
    since: u64,
    actions: Option<SessionActions>,
    pending: VecDeque<PendingState>,
    log: SessionLog,
}

/// Why watching ended.
pub(super) enum WatchEnd {
    /// Nothing happened for a while. This is the state to continue with.
    Idle(Box<WatchState>),
    SessionDeleted,
    Failed(SessionWatchError),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SessionWatchError {
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error("the actions crashed")]
    Crashed,
}

/// The state to store once the actions for an entry are done.
struct PendingState {
    position: u64,
    replay: Vec<u64>,
    since: u64,
}

enum WatchStep {
    Entries(Vec<Entry>),
    /// All actions up to this position are done.
    Checkpoint(u64),
    Idle,
}

impl SessionWatch {
    pub(super) fn new(
        context: WatchContext,
        record: &SessionRecord,
        state: WatchState,
        stopping: Receiver<bool>,
    ) -> Self {
        Self {
            session: record.id,
            directory: record.directory.clone(),
            stopping,
            position: state.after,
            since: state.since,
            actions: None,
            pending: VecDeque::new(),
            log: context.logs.of(record.id),
            context,
            state,
        }
    }

    pub(super) async fn run(mut self) -> WatchEnd {
        match self.watch().await {
            Ok(()) => WatchEnd::Idle(Box::new(self.state)),
            Err(SessionWatchError::Journal(
                journal::Error::Gone | journal::Error::NoSuchSession(_),
            )) => {
                self.context.logs.remove(self.session);
                let remove = removal(self.session).to_vec();
                match self.context.journal.write_state(WATCH_STATE, remove).await {
                    Ok(()) | Err(journal::Error::Closed) => WatchEnd::SessionDeleted,
                    Err(error) => WatchEnd::Failed(error.into()),
                }
            }
            Err(error) => WatchEnd::Failed(error),
        }
    }

    async fn watch(&mut self) -> Result<(), SessionWatchError> {
        let mut follower = self.context.journal.follow(self.session, Seq(self.state.after));
        self.start_actions().await?;
        while let Some(step) = self.next_step(&mut follower).await? {
            match step {
                WatchStep::Checkpoint(position) => self.complete(position).await?,
                WatchStep::Idle => break,
                WatchStep::Entries(entries) => {
                    for entry in entries {
                        self.read(&entry).await?;
                    }
                }
            }
        }
        if self.pending.is_empty() && self.state.after < self.position {
            let replay = self.actions.as_ref().map(SessionActions::replay_positions);
            self.store(self.position, replay.unwrap_or_default(), self.since).await?;
        }
        Ok(())
    }

    /// What happens next; `None` once the server is stopping and no action is in progress.
    async fn next_step(
        &mut self,
        follower: &mut Follower,
    ) -> Result<Option<WatchStep>, SessionWatchError> {
        let stopping = *self.stopping.borrow_and_update();
        let busy = !self.pending.is_empty();
        if stopping && !busy {
            return Ok(None);
        }
        let checkpoint = async {
            match &mut self.actions {
                Some(actions) => actions.checkpoint().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            position = checkpoint => {
                let position = position.ok_or(SessionWatchError::Crashed)?;
                Ok(Some(WatchStep::Checkpoint(position)))
            }
            entries = follower.next(), if !stopping => Ok(Some(WatchStep::Entries(entries?))),
            _ = self.stopping.changed(), if !stopping => Ok(Some(WatchStep::Entries(Vec::new()))),
            () = sleep(IDLE_TIMEOUT), if !busy => Ok(Some(WatchStep::Idle)),
        }
    }

    async fn read(&mut self, entry: &Entry) -> Result<(), SessionWatchError> {
        let position = entry.seq.0;
        let note = entry.line().note();
        if let Some(Note::SettingChanged { setting: Setting::Watch(config), .. }) = note {
            return self.change_config(entry, config).await;
        }
        self.position = position;
        let Some(actions) = &mut self.actions else { return Ok(()) };
        let needs_action = match (entry.origin, note) {
            (Origin::Agent, _) => actions.watcher.observe(position, &entry.bytes),
            (Origin::Towpath, Some(Note::TurnEnded { .. })) => {
                self.since = entry.at;
                actions.watcher.end_turn(position)
            }
            (Origin::Towpath, Some(Note::AgentExited { .. })) => {
                actions.watcher.agent_exited();
                false
            }
            // What happened before the session was Towpath's is not acted on.
            (Origin::Towpath | Origin::Sent | Origin::Transcript, _) => false,
        };
        if needs_action {
            let replay = actions.replay_positions();
            self.pending.push_back(PendingState { position, replay, since: self.since });
            while self.pending.len() > MAX_PENDING {
                self.wait_for_checkpoint().await?;
            }
        }
        Ok(())
    }

    /// Switches to another configuration. Actions for earlier changes are finished first.
    async fn change_config(
        &mut self,
        entry: &Entry,
        config: WatchChoice,
    ) -> Result<(), SessionWatchError> {
        if let Some(actions) = self.actions.take() {
            actions.finish().await;
        }
        self.pending.clear();
        self.state.config = config;
        (self.position, self.since) = (entry.seq.0, entry.at);
        self.store(self.position, Vec::new(), self.since).await?;
        self.start_actions().await
    }

    /// Starts the actions of the configuration that applies, and replays the earlier entries they
    /// need.
    async fn start_actions(&mut self) -> Result<(), SessionWatchError> {
        let WatchContext { default, roots, .. } = &self.context;
        let Some(config) = self.state.config.resolve(default.as_deref()) else { return Ok(()) };
        let watched = WatchedSession {
            id: self.session,
            directory: self.directory.clone(),
            config: config.clone(),
            roots: (!self.state.config.is_inherit()).then(|| roots.clone()),
        };
        let mut actions = SessionActions::start(watched, self.since, &self.log).await;
        for position in self.state.recall.clone() {
            let before = Seq(position.saturating_sub(1));
            let entries = self.context.journal.read(self.session, before, 1).await?;
            if let Some(entry) = entries.iter().find(|entry| entry.seq.0 == position) {
                actions.watcher.replay(position, &entry.bytes);
            }
        }
        actions.watcher.finish_replay();
        self.actions = Some(actions);
        Ok(())
    }

    async fn wait_for_checkpoint(&mut self) -> Result<(), SessionWatchError> {
        let Some(actions) = &mut self.actions else { return Ok(()) };
        let position = actions.checkpoint().await.ok_or(SessionWatchError::Crashed)?;
        self.complete(position).await
    }

    /// All actions up to a position are done.
    async fn complete(&mut self, position: u64) -> Result<(), SessionWatchError> {
        let mut completed = None;
        while let Some(state) = self.pending.pop_front_if(|it| it.position <= position) {
            completed = Some(state);
        }
        match completed {
            Some(PendingState { position, replay, since }) => {
                self.store(position, replay, since).await
            }
            None => Ok(()),
        }
    }

    async fn store(
        &mut self,
        after: u64,
        replay: Vec<u64>,
        since: u64,
    ) -> Result<(), SessionWatchError> {
        (self.state.after, self.state.recall, self.state.since) = (after, replay, since);
        // Numbers and texts serialise.
        let value = serde_json::to_vec(&self.state).unwrap_or_default();
        let change = StateChange { key: self.session.to_string(), value: Some(value) };
        Ok(self.log.store(&self.context.journal, vec![change]).await?)
    }
}
