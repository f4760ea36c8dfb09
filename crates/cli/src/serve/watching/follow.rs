//! Following one session: from its journal to those who act, and how far they are back into it.
//!
//! The memory moves past an entry only when all that was to be done about it is done, or given up
//! for good and said so. Whoever comes next begins there; what was under way is done again. So a file
//! arrives at least once and is then as it should be, a commit finds nothing left to commit, and a
//! hook runs at least once: a copy or a build that never ran is worse than one that ran twice.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use gateway::Roots;
use gateway::watching::{DRAWER, Watching};
use journal::{Entry, Follower, Journal, Memory, Origin, Seq, SessionId, SessionRecord};
use tokio::sync::watch::Receiver;
use tokio::time::sleep;
use wire::note::{Note, Setting, WatchConfig};

use super::said::LogLines;
use super::work::Work;

/// How long nothing must happen in a session for its tasks to end.
const REST: Duration = Duration::from_mins(1);

/// How many entries may wait to be done with before more are heard.
const AHEAD: usize = 64;

/// One session that is followed.
pub(super) struct Follow {
    journal: Journal,
    roots: Roots,
    session: SessionId,
    directory: PathBuf,
    leaving: Receiver<bool>,
    memory: Watching,
    /// The last entry that was heard, which may be further than what is done with.
    heard: u64,
    /// When the last turn ended, or the config was made.
    since: u64,
    work: Option<Work>,
    ahead: VecDeque<PendingCheckpoint>,
    log: LogLines,
}

/// How following ended.
pub(super) enum Ended {
    /// Nothing happens; this is where to go on.
    Rests(Box<Watching>),
    /// There is no such session any more.
    Gone,
    /// It cannot go on.
    Failed(Trouble),
}

/// Why a session is followed no longer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Journal(#[from] journal::Error),
    #[error("a mistake in towpath ended those who act")]
    BrokeOff,
}

/// An entry that something is to be done about, and what to remember once it is done.
struct PendingCheckpoint {
    place: u64,
    recall: Vec<u64>,
    since: u64,
}

enum Step {
    Entries(Vec<Entry>),
    Passed(u64),
    Rest,
}

impl Follow {
    pub(super) fn new(
        journal: Journal,
        roots: Roots,
        record: &SessionRecord,
        memory: Watching,
        leaving: Receiver<bool>,
    ) -> Self {
        Self {
            journal,
            roots,
            session: record.id,
            directory: record.directory.clone(),
            leaving,
            heard: memory.after,
            since: memory.since,
            work: None,
            ahead: VecDeque::new(),
            log: LogLines::new(record.id, memory.said.clone()),
            memory,
        }
    }

    pub(super) async fn run(mut self) -> Ended {
        match self.follow().await {
            Ok(()) => Ended::Rests(Box::new(self.memory)),
            Err(Trouble::Journal(journal::Error::Gone | journal::Error::NoSuchSession(_))) => {
                let forget = Memory { name: self.session.to_string(), value: None };
                match self.journal.keep(DRAWER, vec![forget]).await {
                    Ok(()) | Err(journal::Error::Closed) => Ended::Gone,
                    Err(error) => Ended::Failed(error.into()),
                }
            }
            Err(error) => Ended::Failed(error),
        }
    }

    async fn follow(&mut self) -> Result<(), Trouble> {
        let mut follower = self.journal.follow(self.session, Seq(self.memory.after));
        if let Some(config) = self.memory.config.clone() {
            self.take_up(&config).await?;
        }
        while let Some(step) = self.next(&mut follower).await? {
            match step {
                Step::Passed(place) => self.pass(place).await?,
                Step::Rest => break,
                Step::Entries(entries) => {
                    for entry in entries {
                        self.hear(&entry).await?;
                    }
                }
            }
        }
        if self.ahead.is_empty() && self.memory.after < self.heard {
            let recall = self.work.as_ref().map(Work::to_recall).unwrap_or_default();
            self.keep(self.heard, recall, self.since).await?;
        }
        Ok(())
    }

    /// What happens next; nothing once this process is about to leave and nothing is under way.
    async fn next(&mut self, follower: &mut Follower) -> Result<Option<Step>, Trouble> {
        let leaves = *self.leaving.borrow_and_update();
        let waits = !self.ahead.is_empty();
        if leaves && !waits {
            return Ok(None);
        }
        let passed = async {
            match &mut self.work {
                Some(work) => work.passed().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            place = passed => Ok(Some(Step::Passed(place.ok_or(Trouble::BrokeOff)?))),
            entries = follower.next(), if !leaves => Ok(Some(Step::Entries(entries?))),
            _ = self.leaving.changed(), if !leaves => Ok(Some(Step::Entries(Vec::new()))),
            () = sleep(REST), if !waits => Ok(Some(Step::Rest)),
        }
    }

    async fn hear(&mut self, entry: &Entry) -> Result<(), Trouble> {
        let place = entry.seq.0;
        let note = match entry.origin {
            Origin::Towpath => Note::read(&entry.bytes),
            Origin::Agent => None,
        };
        if let Some(Note::SettingChanged { setting: Setting::Watch(config), .. }) = note {
            return self.change(entry, config).await;
        }
        self.heard = place;
        let Some(work) = &mut self.work else { return Ok(()) };
        let is_milestone = match (entry.origin, note) {
            (Origin::Agent, _) => work.listener.hear(place, &entry.bytes),
            (_, Some(Note::TurnOver { .. })) => {
                self.since = entry.at;
                work.listener.turn_over(place)
            }
            (_, Some(Note::AgentGone { .. })) => {
                work.listener.agent_gone();
                false
            }
            _ => false,
        };
        if is_milestone {
            let recall = work.to_recall();
            self.ahead.push_back(PendingCheckpoint { place, recall, since: self.since });
            while self.ahead.len() > AHEAD {
                self.wait().await?;
            }
        }
        Ok(())
    }

    /// From this entry on something else is configured for. What changed before is still done.
    async fn change(&mut self, entry: &Entry, config: Option<Box<WatchConfig>>) -> Result<(), Trouble> {
        if let Some(work) = self.work.take() {
            work.finish().await;
        }
        self.ahead.clear();
        self.memory.config.clone_from(&config);
        (self.heard, self.since) = (entry.seq.0, entry.at);
        self.keep(self.heard, Vec::new(), self.since).await?;
        match config {
            Some(config) => self.take_up(&config).await,
            None => Ok(()),
        }
    }

    /// Sets up those who act, and tells them what they must know of what was before.
    async fn take_up(&mut self, config: &WatchConfig) -> Result<(), Trouble> {
        let (roots, directory) = (self.roots.clone(), self.directory.clone());
        let mut work = Work::begin(config, directory, roots, self.since, &self.log).await;
        for place in self.memory.recall.clone() {
            let before = Seq(place.saturating_sub(1));
            let found = self.journal.read(self.session, before, 1).await?;
            if let Some(entry) = found.iter().find(|entry| entry.seq.0 == place) {
                work.listener.recall(place, &entry.bytes);
            }
        }
        work.listener.recalled();
        self.work = Some(work);
        Ok(())
    }

    async fn wait(&mut self) -> Result<(), Trouble> {
        let Some(work) = &mut self.work else { return Ok(()) };
        let place = work.passed().await.ok_or(Trouble::BrokeOff)?;
        self.pass(place).await
    }

    /// All is done up to a place.
    async fn pass(&mut self, place: u64) -> Result<(), Trouble> {
        let mut passed = None;
        while let Some(milestone) = self.ahead.pop_front_if(|it| it.place <= place) {
            passed = Some(milestone);
        }
        match passed {
            Some(PendingCheckpoint { place, recall, since }) => self.keep(place, recall, since).await,
            None => Ok(()),
        }
    }

    async fn keep(&mut self, after: u64, recall: Vec<u64>, since: u64) -> Result<(), Trouble> {
        let said = self.log.last();
        (self.memory.after, self.memory.recall, self.memory.since) = (after, recall, since);
        self.memory.said = said;
        // Numbers and texts serialise.
        let value = serde_json::to_vec(&self.memory).unwrap_or_default();
        let memory = Memory { name: self.session.to_string(), value: Some(value) };
        Ok(self.journal.keep(DRAWER, vec![memory]).await?)
    }
}
