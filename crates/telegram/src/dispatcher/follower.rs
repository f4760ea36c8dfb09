//! Following the sessions that chats show.
//!
//! A follower folds a session's journal into its document and reports what changes. It is the only
//! way from journal entries to chats.

use std::time::Duration;

use journal::{Entry, Journal, Seq, SessionId};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::{info, warn};
use view::{Conversation, Fold, Update};
use wire::note::Note;

use super::outbox::{self, OutboxFile};
use super::worker_outbox;
use super::{Dispatcher, DispatcherEvent, store};
use crate::address::ChatAddress;
use crate::replies;

/// The memory limit of a document. What it drops is delivered already.
const MEMORY_BUDGET: usize = 4 << 20;

/// The pause after the journal failed.
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// How long changes are collected before they are reported.
const COLLECT_TIME: Duration = Duration::from_millis(100);

/// A running follower.
#[derive(Debug)]
pub(super) struct FollowerHandle {
    pub(super) number: u64,
    pub(super) task: AbortHandle,
}

/// What happens to a session's document.
#[derive(Debug)]
pub(super) enum FollowerEvent {
    /// The whole document: at the start, and if too much has changed.
    Loaded(Box<Conversation>),
    Changed(Update),
    /// A turn ended. Its changes were reported before.
    TurnEnded,
    Deleted,
}

#[derive(Debug)]
struct SessionFollower {
    journal: Journal,
    session: SessionId,
    /// The entry to fold from.
    from: Seq,
    /// The last turn that has ended at that entry.
    turn: u64,
    /// Distinguishes it from earlier followers of the session, whose events are ignored.
    number: u64,
    collect_time: Duration,
    events: mpsc::Sender<DispatcherEvent>,
}

impl SessionFollower {
    /// Follows until the session is deleted or the dispatcher stops.
    async fn run(self) {
        loop {
            match self.follow().await {
                Ok(()) => return,
                Err(journal::Error::Gone) => break,
                Err(error) => {
                    warn!(session = %self.session, %error, "could not follow a session");
                }
            }
            sleep(RETRY_PAUSE).await;
        }
        self.report(FollowerEvent::Deleted).await;
    }

    async fn follow(&self) -> Result<(), journal::Error> {
        let mut follower = self.journal.follow(self.session, self.from);
        let mut fold = Fold::starting_after(self.from.0, self.turn, MEMORY_BUDGET);
        loop {
            let entries = follower.ready().await?;
            if entries.is_empty() {
                break;
            }
            push(&mut fold, &entries);
        }
        let mut reported = fold.revision();
        if !self.report(FollowerEvent::Loaded(Box::new(fold.conversation(usize::MAX)))).await {
            return Ok(());
        }
        loop {
            let entries = follower.next().await?;
            let turn_ended = push(&mut fold, &entries);
            let event = match fold.patches(reported) {
                Some(update) => FollowerEvent::Changed(update),
                None => FollowerEvent::Loaded(Box::new(fold.conversation(usize::MAX))),
            };
            reported = fold.revision();
            if !self.report(event).await
                || turn_ended && !self.report(FollowerEvent::TurnEnded).await
            {
                return Ok(());
            }
            sleep(self.collect_time).await;
        }
    }

    /// Returns whether the dispatcher is still running.
    async fn report(&self, event: FollowerEvent) -> bool {
        let (session, follower) = (self.session, self.number);
        self.events.send(DispatcherEvent::Session { session, follower, event }).await.is_ok()
    }
}

/// Folds a whole session once.
pub(super) async fn fold_session(
    journal: &Journal,
    session: SessionId,
) -> Result<Conversation, journal::Error> {
    let mut follower = journal.follow(session, Seq(0));
    let mut fold = Fold::with_budget(MEMORY_BUDGET);
    loop {
        let entries = follower.ready().await?;
        if entries.is_empty() {
            return Ok(fold.conversation(usize::MAX));
        }
        push(&mut fold, &entries);
    }
}

/// Folds entries. Returns whether a turn ended with one of them.
fn push(fold: &mut Fold, entries: &[Entry]) -> bool {
    let mut turn_ended = false;
    for entry in entries {
        let note = fold.push_recorded(entry.line());
        turn_ended |= matches!(note, Some(Note::TurnEnded { .. }));
    }
    turn_ended
}

impl Dispatcher {
    /// Follows a session from the earliest checkpoint of the chats that show it. A follower that
    /// runs already is replaced, so all of these chats get the document again.
    pub(super) fn follow(&mut self, session: SessionId) {
        let checkpoints = self.chats.values().filter_map(|it| it.checkpoint());
        let of_session = checkpoints.filter(|it| it.session == session);
        let from = of_session.map(|it| (it.from, it.turn)).min();
        let Some((from, turn)) = from else { return self.unfollow(session) };
        self.follower_count += 1;
        let follower = SessionFollower {
            journal: self.context.sessions.journal().clone(),
            session,
            from: Seq(from),
            turn,
            number: self.follower_count,
            collect_time: self.context.clock.real_span(COLLECT_TIME),
            events: self.events.clone(),
        };
        let task = self.work.spawn(follower.run());
        let handle = FollowerHandle { number: self.follower_count, task };
        if let Some(before) = self.followers.insert(session, handle) {
            before.task.abort();
        }
    }

    /// Stops following a session, unless a chat shows it.
    pub(super) fn unfollow(&mut self, session: SessionId) {
        let shown = self.chats.values().any(|it| it.session() == Some(session));
        if !shown && let Some(follower) = self.followers.remove(&session) {
            follower.task.abort();
        }
    }

    pub(super) async fn session_changed(&mut self, session: SessionId, event: FollowerEvent) {
        let addresses: Vec<ChatAddress> = self.chats_showing(session);
        let now = self.now();
        match event {
            FollowerEvent::Loaded(document) => {
                let idle = !document.status.phase.is_busy();
                for address in &addresses {
                    let Some(chat) = self.chats.get_mut(address) else { continue };
                    chat.with(|chat| chat.load((*document).clone(), now));
                    chat.set_loaded();
                }
                self.act_on_early(&addresses).await;
                if idle {
                    // The process before may have stopped before it sent these files.
                    self.check_outbox(session);
                }
            }
            FollowerEvent::Changed(update) => {
                let mut gap = false;
                for address in addresses {
                    let Some(chat) = self.chats.get_mut(&address) else { continue };
                    gap |= matches!(chat.with(|chat| chat.apply(&update, now)), Some(Err(_)));
                }
                if gap {
                    self.follow(session);
                }
            }
            FollowerEvent::TurnEnded => self.check_outbox(session),
            FollowerEvent::Deleted => {
                info!(%session, "a session was deleted");
                self.followers.remove(&session);
                for address in &addresses {
                    self.clear_chat(*address).await;
                    if let Some(chat) = self.chats.get_mut(address) {
                        chat.replies.add(*address, &replies::session_deleted(), None);
                        chat.changed();
                    }
                }
                self.act_on_early(&addresses).await;
            }
        }
    }

    /// Makes a chat show no session.
    pub(super) async fn clear_chat(&mut self, address: ChatAddress) {
        let Some(chat) = self.chats.get_mut(&address) else { return };
        let session = chat.session();
        chat.clear();
        self.state_writer.write(vec![store::delete_chat(address)]).await;
        if let Some(session) = session {
            self.unfollow(session);
        }
    }

    /// Sends files of the agent to all chats that show its session.
    pub(super) async fn send_files(&mut self, session: SessionId, mut files: Vec<OutboxFile>) {
        files.retain(|file| self.copies.add(file));
        for address in self.chats_showing(session) {
            let Some(chat) = self.chats.get_mut(&address) else { continue };
            for file in &files {
                if !chat.queued_files.insert(file.path.clone()) {
                    continue;
                }
                if file.is_too_large() {
                    let reply = replies::file_too_large(&file.name(), file.size, outbox::MAX_SIZE);
                    chat.replies.add(address, &reply, None);
                    chat.changed();
                } else {
                    chat.with(|chat| chat.attach(file.path.clone(), file.picture));
                }
            }
            self.store_checkpoint(address).await;
        }
    }

    fn check_outbox(&mut self, session: SessionId) {
        let (sessions, events) = (self.context.sessions.clone(), self.events.clone());
        let known = self.copies.begin_check(session);
        self.work.spawn(async move {
            let files = if sessions.is_relayed() {
                worker_outbox::find_files(&sessions, session, &known).await
            } else {
                let Ok(Some(record)) = sessions.journal().session(session).await else { return };
                outbox::find_files(record.directory).await
            };
            if !files.is_empty() {
                // The dispatcher drops the receiver only when everything stops.
                let _ = events.send(DispatcherEvent::Outbox { session, files }).await;
            }
        });
    }

    fn chats_showing(&self, session: SessionId) -> Vec<ChatAddress> {
        let chats = self.chats.values().filter(|chat| chat.session() == Some(session));
        let mut addresses: Vec<ChatAddress> = chats.map(|chat| chat.address).collect();
        addresses.sort_unstable();
        addresses
    }
}
