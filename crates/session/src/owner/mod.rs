//! The task that owns a session.
//!
//! It alone talks to the session's shim, its machine and its part of the journal. Everything that
//! happens becomes an [`Input`]; what the machine answers is written down in one batch, and only
//! then does anything leave: words to the agent, replies, a process to be started.
//!
//! The agent's reader waits for the journal and for nobody else. Followers read the journal.

mod arrival;
mod draft;
pub(crate) mod process;

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use journal::{Grant, Journal, SessionId, Status};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use uuid::Uuid;
use wire::{End, Splitter};

use crate::heard::Heard;
use crate::home::Home;
use crate::machine::{Command, Effect, Gone, Input, Machine, Refusal, Reply, Ticket};
use crate::shim::{Link, News, Order, Orders, Ownership, Run, Signal};
use draft::{After, Draft};

/// How long to wait before a full disk is tried again.
const FULL_DISK_PAUSE: Duration = Duration::from_secs(1);

/// How long to wait before a journal that another process holds is tried again.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// How much of what an agent complains of is kept to explain its end.
const STDERR_KEPT: usize = 4 << 10;

/// What reaches an owner from its session's handles.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Somebody wants something.
    Command(Box<Command>, oneshot::Sender<Result<crate::machine::Done, Undone>>),
    /// What the agent can do, as it said itself.
    Abilities(oneshot::Sender<Option<String>>),
    /// Let go of the session: its agent finishes alone.
    Leave(oneshot::Sender<()>),
    /// End the agent by force and let go: the session is about to be deleted.
    Abandon(oneshot::Sender<()>),
    /// Fall over, as a fault of ours would have it.
    #[cfg(test)]
    FallOver,
}

/// Why a command came to nothing.
#[derive(Debug)]
pub(crate) enum Undone {
    Refused(Refusal),
    /// It could not be written down.
    NotStored,
}

/// Why an owner's work is over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OwnerError {
    #[error("the session could not be written down")]
    Journal(#[from] journal::Error),
    #[error("the session's shim cannot be reached")]
    Shim(#[from] crate::shim::AttachError),
    #[error("what the last agent left cannot be read")]
    Remains(#[from] std::io::Error),
}

/// A process on its way: a connection to its shim, nothing if it has ended already, or why it could
/// not be started.
type Starting = JoinHandle<Result<Option<Link>, String>>;

/// One session, and everything that is only its.
pub(crate) struct Owner {
    id: SessionId,
    home: Home,
    journal: Journal,
    mailbox: mpsc::Receiver<Mail>,
    machine: Machine,
    /// Held for its lock.
    _ownership: Ownership,
    /// The connection to the shim, while there is one.
    link: Option<Link>,
    orders: Option<Orders>,
    /// A process that is being started.
    starting: Option<Starting>,
    /// Which process of the session this is.
    run: u64,
    /// How much of its output is written down: whole lines.
    offset: u64,
    /// How many lines were written to it.
    writes: u64,
    splitter: Splitter,
    stderr: Vec<u8>,
    /// The CLI's ids of the conversation, oldest first.
    conversations: Vec<String>,
    titled: bool,
    status: Status,
    tickets: u64,
    replies: HashMap<Ticket, oneshot::Sender<Result<crate::machine::Done, Undone>>>,
    draft: Draft,
    settling: Option<JoinHandle<()>>,
}

impl Owner {
    /// Drives the session until somebody wants it let go of, and gives back whom to tell: they must
    /// not hear of it before the lock is free.
    pub(crate) async fn run(mut self) -> Result<Option<oneshot::Sender<()>>, OwnerError> {
        loop {
            let pause = self.machine.deadline().map(|at| at.saturating_sub(now()));
            tokio::select! {
                biased;
                mail = self.mailbox.recv() => match mail {
                    Some(Mail::Command(command, reply)) => self.command(*command, reply).await?,
                    Some(Mail::Abilities(reply)) => {
                        let _ = reply.send(self.machine.abilities().map(str::to_owned));
                    }
                    Some(Mail::Leave(left)) => {
                        self.leave().await;
                        return Ok(Some(left));
                    }
                    #[cfg(test)]
                    Some(Mail::FallOver) => panic!("somebody asked for it"),
                    Some(Mail::Abandon(left)) => {
                        self.end_by_force().await;
                        return Ok(Some(left));
                    }
                    None => {
                        self.leave().await;
                        return Ok(None);
                    }
                },
                news = next_news(&mut self.link) => self.news(news).await?,
                started = next_start(&mut self.starting) => self.started(started).await?,
                () = wait(pause) => self.step(Input::Tick).await?,
            }
        }
    }

    async fn command(
        &mut self,
        command: Command,
        reply: oneshot::Sender<Result<crate::machine::Done, Undone>>,
    ) -> Result<(), OwnerError> {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.replies.insert(ticket, reply);
        self.step(Input::Command { ticket, command }).await
    }

    /// Takes in one thing that happened, and lets its effects out once they are written down.
    async fn step(&mut self, input: Input) -> Result<(), OwnerError> {
        self.take_in(input);
        self.commit().await
    }

    fn take_in(&mut self, input: Input) {
        let effects = self.machine.on(now(), input);
        self.collect(effects);
    }

    fn collect(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            if let Effect::Say(_) = effect {
                self.writes += 1;
            }
            self.draft.take(effect, self.writes, &mut self.titled);
        }
    }

    async fn news(&mut self, news: Option<News>) -> Result<(), OwnerError> {
        match news {
            Some(News::Output { offset, bytes }) => {
                debug_assert!(offset >= self.offset, "output comes in order");
                self.output(&bytes).await?;
            }
            Some(News::Stderr(bytes)) => {
                self.stderr.extend_from_slice(&bytes);
                let surplus = self.stderr.len().saturating_sub(STDERR_KEPT);
                self.stderr.drain(..surplus);
            }
            Some(News::Written(number)) => self.draft.written(number),
            Some(News::Unwritten { number, .. }) => {
                // Its stdin is closed, so it is about to end; that settles what was said to it.
                debug!(session = %self.id, number, "a line could not be written to the agent");
            }
            Some(News::Exited { exit, .. }) => {
                self.rest_of_the_output();
                let gone = process::gone(exit, &self.last_complaints());
                self.agent_gone(gone).await?;
            }
            Some(News::Trouble(trouble)) => {
                warn!(session = %self.id, spool = trouble.spool, "the agent's output has to wait");
            }
            Some(News::Eased) => info!(session = %self.id, "the agent's output goes on"),
            None => self.shim_gone().await?,
        }
        Ok(())
    }

    /// Takes in a piece of the agent's output: every line it completes, in one batch.
    async fn output(&mut self, bytes: &[u8]) -> Result<(), OwnerError> {
        let mut splitter = std::mem::take(&mut self.splitter);
        let mut pieces = splitter.feed(bytes);
        while let Some(piece) = pieces.next() {
            let ended = usize::from(piece.end == End::Newline);
            self.offset += (piece.bytes.len() + ended) as u64;
            self.line(piece.bytes, piece.is_whole()).await?;
        }
        self.splitter = splitter;
        self.commit().await
    }

    /// What came behind the last newline of an agent that is gone: kept as it is.
    fn rest_of_the_output(&mut self) {
        let mut splitter = std::mem::take(&mut self.splitter);
        if let Some(piece) = splitter.finish() {
            self.offset += piece.bytes.len() as u64;
            self.draft.line(piece.bytes, false);
        }
    }

    async fn line(&mut self, bytes: &[u8], whole: bool) -> Result<(), OwnerError> {
        if !whole {
            self.draft.line(bytes, false);
            return Ok(());
        }
        let mut transient = true;
        let mut heard = Vec::new();
        for line in wire::read(bytes) {
            transient &=
                line.event().is_some_and(|it| matches!(it.body, wire::event::Body::Stream(_)));
            heard.push(Heard::of(&line));
        }
        self.draft.line(bytes, transient && !heard.is_empty());
        for heard in heard {
            match &heard {
                Heard::TurnBegan { conversation: Some(id) } => self.conversation(id),
                Heard::Asked(_) => self.bring_grants().await?,
                _ => {}
            }
            self.take_in(Input::Heard(heard));
        }
        Ok(())
    }

    /// The CLI's id of the conversation, which changes with `/clear`.
    fn conversation(&mut self, id: &str) {
        if self.conversations.last().is_none_or(|last| last != id) {
            self.conversations.retain(|known| known != id);
            self.conversations.push(id.to_owned());
            self.draft.conversation(id);
        }
    }

    /// Tells the machine what may be allowed unasked: grants may have come from other sessions.
    async fn bring_grants(&mut self) -> Result<(), OwnerError> {
        let mut grants = self.journal.grants(now()).await?;
        let directory = self.machine.options().directory.clone();
        grants.retain(|grant| {
            grant.session.is_none_or(|session| session == self.id)
                && grant.directory.as_ref().is_none_or(|it| *it == directory)
        });
        self.take_in(Input::Grants(grants));
        Ok(())
    }

    /// The connection to the shim ended without a word on the agent: the shim is dead, unless only
    /// the connection is.
    async fn shim_gone(&mut self) -> Result<(), OwnerError> {
        self.link = None;
        self.orders = None;
        self.splitter = Splitter::new();
        let directory = self.home.live_directory(self.id);
        let attached = process::attach(&directory, Run(self.run), self.offset).await?;
        if let Some((greeting, link)) = attached {
            return self.attached(&greeting, link).await;
        }
        let gone = self.read_remains().await?;
        self.agent_gone(gone).await
    }

    async fn agent_gone(&mut self, gone: Gone) -> Result<(), OwnerError> {
        self.orders = None;
        if let Some(link) = self.link.take() {
            // The shim ends by itself once its owner has heard how the agent ended.
            link.close().await;
        }
        self.stderr.clear();
        self.splitter = Splitter::new();
        // What is let out may be the start of the next run.
        let run = self.run;
        self.take_in(Input::AgentGone(gone));
        self.commit().await?;
        self.forget(run).await;
        Ok(())
    }

    /// Writes down what was decided, then lets it out.
    async fn commit(&mut self) -> Result<(), OwnerError> {
        let status = self.machine.status();
        self.draft.status((status != self.status).then_some(status));
        self.status = status;
        if self.draft.is_empty() {
            return Ok(());
        }
        let (batch, grants, after) = self.draft.finish(now(), self.mark(), self.writes);
        let last = loop {
            match self.journal.write(self.id, batch.clone()).await {
                Ok(last) => break last,
                Err(journal::Error::Full) => self.wait_for_room().await,
                // Another process holds the file, and will let go of it.
                Err(journal::Error::Busy) => tokio::time::sleep(BUSY_PAUSE).await,
                Err(error) => return Err(error.into()),
            }
        };
        for grant in grants {
            self.journal.add_grant(Grant { id: Uuid::new_v4(), ..grant }).await?;
        }
        if let Some(orders) = &self.orders {
            // A shim that is gone is heard of by its silence.
            let _ = orders.order(Order::Kept(self.offset)).await;
        }
        for after in after {
            self.let_out(after, last).await;
        }
        Ok(())
    }

    /// The disk is full: nothing new is taken, and whoever asks is told so. Stopping still works.
    async fn wait_for_room(&mut self) {
        warn!(session = %self.id, "the disk is full; the session waits for room");
        let pause = tokio::time::sleep(FULL_DISK_PAUSE);
        tokio::pin!(pause);
        loop {
            tokio::select! {
                () = &mut pause => return,
                Some(mail) = self.mailbox.recv() => match mail {
                    Mail::Command(command, reply) => {
                        if let (Command::Interrupt { .. }, Some(orders)) = (*command, &self.orders) {
                            let _ = orders.order(Order::Signal(Signal::Interrupt)).await;
                        }
                        let _ = reply.send(Err(Undone::NotStored));
                    }
                    Mail::Abilities(reply) => {
                        let _ = reply.send(self.machine.abilities().map(str::to_owned));
                    }
                    Mail::Leave(left) | Mail::Abandon(left) => drop(left),
                    #[cfg(test)]
                    Mail::FallOver => panic!("somebody asked for it"),
                },
            }
        }
    }

    async fn let_out(&mut self, after: After, last: journal::Seq) {
        match after {
            After::Say { number, bytes } => self.order(Order::Write { number, bytes }).await,
            After::End { patience } => {
                self.order(Order::End { patience: Duration::from_millis(patience) }).await;
            }
            After::Kill => self.order(Order::Signal(Signal::Kill)).await,
            After::Reply(ticket, reply) => self.reply(ticket, reply),
            After::Start(start) => self.start(start).await,
            After::Settle => self.settle(last),
        }
    }

    async fn order(&mut self, order: Order) {
        if let Some(orders) = &self.orders
            && let Err(error) = orders.order(order).await
        {
            debug!(session = %self.id, %error, "the shim did not take an order");
        }
    }

    fn reply(&mut self, ticket: Ticket, reply: Reply) {
        if let Some(sender) = self.replies.remove(&ticket) {
            // Whoever asked may have gone.
            let _ = sender.send(reply.map_err(Undone::Refused));
        }
    }

    /// Has the journal drop what only served streaming, beside everything else. What a turn that
    /// ends meanwhile leaves is done with the next.
    fn settle(&mut self, upto: journal::Seq) {
        if self.settling.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let (journal, id) = (self.journal.clone(), self.id);
        self.settling = Some(tokio::spawn(async move {
            if let Err(error) = journal.settle(id, upto).await {
                warn!(session = %id, %error, "the journal could not be settled");
            }
        }));
    }

    /// Ends the agent by force, and waits until it is gone.
    async fn end_by_force(&mut self) {
        self.orders = None;
        if let Some(link) = self.link.take() {
            process::end(link).await;
        }
        self.leave().await;
    }

    /// Lets go: the agent finishes its turn, and whoever comes next reads it.
    async fn leave(&mut self) {
        self.orders = None;
        if let Some(link) = self.link.take() {
            let _ = link.order(Order::Bye).await;
            link.close().await;
        }
        if let Some(settling) = self.settling.take() {
            let _ = settling.await;
        }
    }
}

async fn next_news(link: &mut Option<Link>) -> Option<News> {
    match link {
        Some(link) => link.next().await,
        None => std::future::pending().await,
    }
}

async fn next_start(starting: &mut Option<Starting>) -> Result<Option<Link>, String> {
    let Some(task) = starting else { return std::future::pending().await };
    let started = task.await;
    *starting = None;
    started.unwrap_or_else(|error| Err(error.to_string()))
}

async fn wait(pause: Option<u64>) {
    match pause {
        Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        None => std::future::pending().await,
    }
}

/// Milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
