//! Acting on the files that sessions' agents change, for sessions with a config for it.
//!
//! ```text
//!  lookout ── sessions with a config and something new ──► follow ──► listener ──► actions
//!     ▲                                                    │ ▲                      │
//!     └──────── rests when nothing happens ────────────────┘ └── done up to here ───┘
//! ```
//!
//! One lookout for all; a session costs tasks only while something happens in it. Everything goes by
//! the journal: what there is to do, and, in a drawer, how far it is done. So it does not matter when
//! this process ends, nor who drove the session meanwhile.

mod follow;
mod plan;
mod said;
mod work;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use anstream::eprintln;
use gateway::Roots;
use gateway::watching::{DRAWER, Watching};
use journal::{Journal, Memory, SessionId, SessionRecord};
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::task::{Id, JoinHandle, JoinSet};
use tokio::time::sleep;

use follow::{Ended, Follow};

/// How often the lookout looks.
const EVERY: Duration = Duration::from_secs(1);

/// Acts on changes until it is told to leave.
#[derive(Debug)]
pub(super) struct WatchSupervisor {
    leaving: Sender<bool>,
    task: JoinHandle<()>,
}

impl WatchSupervisor {
    pub(super) fn begin(journal: Journal, roots: Roots) -> Self {
        let (leaving, told) = channel(false);
        let looking = WatchTask {
            journal,
            roots,
            leaving: told,
            known: HashMap::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            broken: HashSet::new(),
        };
        Self { leaving, task: tokio::spawn(looking.run()) }
    }

    /// Takes on nothing new, and comes back when what is under way is done or was written down as
    /// still to do. Whoever stops waiting for it loses nothing either.
    pub(super) async fn leave(self) {
        self.leaving.send_replace(true);
        if let Err(panic) = self.task.await {
            eprintln!("note: what acts on changed files broke off: {panic}");
        }
    }
}

struct WatchTask {
    journal: Journal,
    roots: Roots,
    leaving: Receiver<bool>,
    /// What is remembered of sessions that are not followed just now.
    known: HashMap<SessionId, Watching>,
    tasks: JoinSet<Ended>,
    running: HashMap<Id, SessionId>,
    /// Sessions that cannot be followed by this process.
    broken: HashSet<SessionId>,
}

impl WatchTask {
    async fn run(mut self) {
        if let Err(error) = self.remember().await {
            eprintln!("note: nothing is done with changed files: {error}");
            return;
        }
        while !*self.leaving.borrow() {
            match self.look().await {
                Ok(()) => {}
                Err(journal::Error::Closed) => return,
                Err(error) => eprintln!("note: looking for changed files: {error}"),
            }
            tokio::select! {
                Some(ended) = self.tasks.join_next_with_id() => self.note_end(ended),
                _ = self.leaving.changed() => {}
                () = sleep(EVERY) => {}
            }
        }
        while self.tasks.join_next().await.is_some() {}
    }

    async fn remember(&mut self) -> Result<(), journal::Error> {
        for (name, value) in self.journal.kept(DRAWER).await? {
            let memory = serde_json::from_slice(&value);
            if let (Ok(id), Ok(memory)) = (name.parse(), memory) {
                self.known.insert(SessionId(id), memory);
            }
        }
        Ok(())
    }

    /// Has every session followed in which there is something to do.
    async fn look(&mut self) -> Result<(), journal::Error> {
        let records = self.journal.sessions().await?;
        self.forget_all_but(&records).await?;
        for record in &records {
            let SessionRecord { id, last, .. } = record;
            if self.broken.contains(id) || self.running.values().any(|it| it == id) {
                continue;
            }
            let known = self.known.get(id);
            let configured = known.is_some_and(|it| it.config.is_some()) || has_wish(record);
            let same = |it: &Watching| it.created == record.created;
            if configured && known.is_none_or(|it| !same(it) || it.after < last.0) {
                let memory = self.known.remove(id).filter(same);
                let new = || Watching { created: record.created, ..Watching::default() };
                self.follow(record, memory.unwrap_or_else(new));
            }
        }
        Ok(())
    }

    fn follow(&mut self, record: &SessionRecord, memory: Watching) {
        let follow = Follow::new(
            self.journal.clone(),
            self.roots.clone(),
            record,
            memory,
            self.leaving.clone(),
        );
        let task = self.tasks.spawn(follow.run());
        self.running.insert(task.id(), record.id);
    }

    fn note_end(&mut self, ended: Result<(Id, Ended), tokio::task::JoinError>) {
        let (task, ended) = match ended {
            Ok((task, ended)) => (task, Some(ended)),
            Err(panic) => (panic.id(), None),
        };
        let Some(session) = self.running.remove(&task) else { return };
        match ended {
            Some(Ended::Rests(memory)) => drop(self.known.insert(session, *memory)),
            Some(Ended::Gone) => {}
            Some(Ended::Failed(error)) => self.give_up(session, &error.to_string()),
            None => self.give_up(session, "it fell over"),
        }
    }

    fn give_up(&mut self, session: SessionId, why: &str) {
        let session_name = crate::sessions::short(session);
        eprintln!("note: session {session_name}: changed files are left alone: {why}");
        self.broken.insert(session);
    }

    /// Sessions may be deleted while nobody follows them.
    async fn forget_all_but(&mut self, records: &[SessionRecord]) -> Result<(), journal::Error> {
        let there: HashSet<SessionId> = records.iter().map(|it| it.id).collect();
        let gone: Vec<SessionId> =
            self.known.keys().filter(|id| !there.contains(id)).copied().collect();
        if !gone.is_empty() {
            let forget = |id: &SessionId| Memory { name: id.to_string(), value: None };
            self.journal.keep(DRAWER, gone.iter().map(forget).collect()).await?;
            self.known.retain(|id, _| there.contains(id));
        }
        Ok(())
    }
}

/// Whether a session has a config; the options of most are not worth reading.
fn has_wish(record: &SessionRecord) -> bool {
    record.options.contains("\"watch\"")
        && serde_json::from_str::<session::Options>(&record.options)
            .is_ok_and(|options| options.watch.is_some())
}
