//! All sessions of one journal.
//!
//! Each session that this process drives has an owner, a task of its own. A failure in one, even a
//! panic, ends that task and nothing else, and the next `open` takes the session over from its
//! shim. Sessions are opened independently of each other: one whose shim does not answer, or whose
//! files cannot be read, has a [problem](Sessions::problem), and all others work.

mod client_count;
mod collect;
mod deletion;
mod handover;
mod import;
mod mcp_file;
mod open_error;
mod opening;
mod stop;
#[cfg(test)]
pub(crate) mod test_setup;
#[cfg(test)]
mod tests;
mod transcript_list;

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use journal::{
    Batch, Journal, NewEntry, NewSession, Origin, SessionId, SessionRecord, SessionStatus,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;
use wire::note::Note;

use crate::catalog::AgentProtocol;
use crate::config::SessionsConfig;
use crate::host::HostLauncher;
use crate::options::SessionOptions;
use crate::owner::now;
use crate::placement::{FleetConnection, OwningWorker, Placement, WorkerSummary};
use crate::profiles::Profiles;
use crate::project_request::{ProjectAnswer, ProjectBody, ProjectRequest};
use crate::relay::CommandRelay;
use crate::session::{LeaveOutcome, Session};
use crate::shim::{self, RunId};
pub(crate) use client_count::ClientCount;
pub use open_error::OpenError;
use open_error::with_causes;
use opening::Opening;
pub use stop::StoppedSession;
use transcript_list::TranscriptList;

/// How long `recover` waits. What takes longer continues in the background.
const RECOVER_TIMEOUT: Duration = Duration::from_secs(1);

/// All sessions of one journal.
#[derive(Clone, Debug)]
pub struct Sessions {
    shared: Arc<SharedSessions>,
}

#[derive(Debug)]
struct SharedSessions {
    config: SessionsConfig,
    journal: Journal,
    slots: Mutex<HashMap<SessionId, SessionSlot>>,
    transcripts: TranscriptList,
    /// Counts the changes of problems.
    problem_changes: watch::Sender<u64>,
    /// The clients in other processes.
    clients: ClientCount,
    /// Opens sessions in another process, if this one may go away at any time.
    host: Option<HostLauncher>,
    /// Where everything goes that changes a session, if other machines drive them.
    relay: Option<Arc<dyn CommandRelay>>,
}

/// What this process does with a session. A session without a slot is left alone.
#[derive(Debug)]
pub(crate) enum SessionSlot {
    Opening(Opening),
    Driven(Session),
    /// Another process drives it. Commands go there.
    Remote(Session),
    /// It could not be opened or its owner failed, for this reason. The next `open` tries again.
    Failed(String),
    Deleting,
}

/// A session to be created.
#[derive(Clone, Debug, Default)]
pub struct SessionSpec {
    /// A random id if there is none.
    pub id: Option<SessionId>,
    pub title: Option<String>,
    pub options: SessionOptions,
    /// The conversation to resume, by the CLI's id. What was said in it before is imported, if the CLI
    /// has its session file.
    pub resume: Option<String>,
}

impl Sessions {
    /// The sessions of a journal. None is driven yet.
    pub fn new(config: SessionsConfig, journal: Journal) -> Self {
        Self::build(config, journal, ClientCount::default(), None, None)
    }

    /// The sessions of a journal that is a copy: other machines drive them, and this process drives none.
    pub fn relayed(config: SessionsConfig, journal: Journal, relay: Arc<dyn CommandRelay>) -> Self {
        Self::build(config, journal, ClientCount::default(), None, Some(relay))
    }

    /// The sessions of a journal, for a process that may go away at any time: the session host of the
    /// data directory drives them, and is started if necessary. This process drives a session itself
    /// only if there is no host and none can be started.
    pub fn hosted(config: SessionsConfig, journal: Journal) -> Self {
        let host = HostLauncher::new(&config);
        Self::build(config, journal, ClientCount::default(), Some(host), None)
    }

    /// The sessions of a journal, whose clients in other processes are counted.
    pub(crate) fn counting_clients(
        config: SessionsConfig,
        journal: Journal,
        clients: ClientCount,
    ) -> Self {
        Self::build(config, journal, clients, None, None)
    }

    fn build(
        config: SessionsConfig,
        journal: Journal,
        clients: ClientCount,
        host: Option<HostLauncher>,
        relay: Option<Arc<dyn CommandRelay>>,
    ) -> Self {
        let shared = SharedSessions {
            config,
            journal,
            slots: Mutex::new(HashMap::new()),
            transcripts: TranscriptList::default(),
            problem_changes: watch::Sender::new(0),
            clients,
            host,
            relay,
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn clients(&self) -> &ClientCount {
        &self.shared.clients
    }

    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    pub fn config(&self) -> &SessionsConfig {
        &self.shared.config
    }

    /// The profiles of the user and of projects.
    pub fn profiles(&self) -> Profiles {
        let config = &self.shared.config;
        let home = config.environment.iter().find(|(name, _)| name == "HOME");
        let home = home.map(|(_, path)| PathBuf::from(path)).filter(|it| it.is_absolute());
        Profiles::new(config.config_file.clone(), home, config.data.clone())
    }

    /// Creates a session and opens it. The agent is started when it is first needed.
    ///
    /// A conversation that the CLI has open elsewhere is not resumed, but it can be branched off.
    pub async fn create(&self, spec: SessionSpec) -> Result<Session, OpenError> {
        let id = self.store(spec).await?;
        self.open(id).await
    }

    /// The same on one of the machines that drive the sessions. If this process drives them itself, there is
    /// no other place.
    pub async fn create_at(
        &self,
        spec: SessionSpec,
        placement: Placement,
    ) -> Result<Session, OpenError> {
        let id = self.store_at(spec, placement).await?;
        self.open(id).await
    }

    /// The machines that drive the sessions, by name; none if this process does.
    pub async fn workers(&self) -> Vec<WorkerSummary> {
        match &self.shared.relay {
            Some(relay) => relay.workers().await,
            None => Vec::new(),
        }
    }

    /// The connection to the machines that drive the sessions; none if this one does.
    pub fn fleet_connection(&self) -> Option<FleetConnection> {
        self.shared.relay.as_ref().map(|relay| relay.connection())
    }

    /// The machine that drives a session; none if it is this one.
    pub fn worker(&self, id: SessionId) -> Option<OwningWorker> {
        self.shared.relay.as_ref()?.worker(id)
    }

    /// Has the machine that drives a session answer a request about its project; none if it is this one.
    pub async fn project(
        &self,
        id: SessionId,
        request: ProjectRequest,
        body: ProjectBody,
    ) -> Option<Result<(ProjectAnswer, ProjectBody), crate::session::Error>> {
        let relay = self.shared.relay.as_ref()?;
        Some(relay.project(id, request, body).await)
    }

    /// Creates a session without opening it, so that another process can drive it.
    pub async fn store(&self, spec: SessionSpec) -> Result<SessionId, OpenError> {
        self.store_at(spec, Placement::default()).await
    }

    /// The same on one of the machines that drive the sessions.
    pub async fn store_at(
        &self,
        spec: SessionSpec,
        placement: Placement,
    ) -> Result<SessionId, OpenError> {
        if let Some(relay) = &self.shared.relay {
            return relay.create(spec, placement).await;
        }
        let SessionSpec { id, title, mut options, resume } = spec;
        let agents = &self.shared.config.agents;
        match &options.agent {
            Some(agent) => drop(agents.get(agent)?),
            // A conversation of the CLI is continued with the CLI.
            None if resume.is_none() => options.agent = agents.default_agent().map(str::to_owned),
            None => {}
        }
        let unusable = |source: io::Error| OpenError::Directory {
            path: options.directory.clone(),
            source: Arc::new(source),
        };
        let directory = tokio::fs::canonicalize(&options.directory).await.map_err(unusable)?;
        if !directory.is_dir() {
            return Err(unusable(io::ErrorKind::NotADirectory.into()));
        }
        options.directory.clone_from(&directory);
        let agent = options.agent.as_deref().and_then(|name| agents.find(name));
        if agent.is_some_and(|it| it.protocol == AgentProtocol::Acp) {
            mcp_file::take_in(&mut options).await;
        }
        let id = id.unwrap_or_else(|| SessionId(Uuid::new_v4()));
        let json = options.to_json();
        let new = NewSession { id, directory, title, options: json, at: now() };
        let transcript = match &resume {
            Some(conversation) => self.find_transcript(conversation, &options).await,
            None => None,
        };
        if let (Some(conversation), Some(transcript)) = (&resume, transcript)
            && self.import(&new, conversation, transcript, &options).await?
        {
            return Ok(id);
        }
        self.shared.journal.create(new).await?;
        if let Some(resume) = resume {
            let mut batch = Batch { at: now(), ..Batch::default() };
            batch.change.agent_id = Some(resume);
            self.shared.journal.write(id, batch).await?;
        }
        Ok(id)
    }

    /// Opens a session, and takes it over if an earlier Towpath left it with a running agent or
    /// with unread output. Waits a few seconds for another process that is about to release it.
    ///
    /// The session is opened in the background even if the caller stops waiting.
    pub async fn open(&self, id: SessionId) -> Result<Session, OpenError> {
        if let Some(relay) = &self.shared.relay {
            return self.open_relayed(relay, id).await;
        }
        let opening = {
            let mut slots = self.slots();
            match slots.get(&id) {
                Some(SessionSlot::Driven(session) | SessionSlot::Remote(session))
                    if !session.commands.is_closed() =>
                {
                    return Ok(session.clone());
                }
                Some(SessionSlot::Opening(opening)) if !opening.is_over() => opening.waiter(),
                Some(SessionSlot::Deleting) => return Err(OpenError::NoSuchSession(id)),
                _ => {
                    let opening = Opening::start(self, id);
                    let waiter = opening.waiter();
                    slots.insert(id, SessionSlot::Opening(opening));
                    waiter
                }
            }
        };
        opening.wait().await
    }

    /// Opens every session that has a running agent, unread output or scheduled prompts, all at once. Returns the
    /// failures. Sessions that take longer than a second are opened in the background.
    pub async fn recover(&self) -> Result<Vec<(SessionId, OpenError)>, OpenError> {
        if self.is_relayed() {
            return Ok(Vec::new());
        }
        let mut openings = JoinSet::new();
        for record in self.shared.journal.sessions().await? {
            let this = self.clone();
            openings.spawn(async move {
                let id = record.id;
                if has_schedules(&record) || this.check_takeover(record.clone()).await {
                    this.open(id).await.map(drop).map_err(|error| (id, error))
                } else {
                    this.delete_if_ended(&record).await;
                    Ok(())
                }
            });
        }
        let mut failed = Vec::new();
        let all = async {
            while let Some(opened) = openings.join_next().await {
                if let Ok(Err((id, error))) = opened {
                    failed.push((id, error));
                }
            }
        };
        let _ = tokio::time::timeout(RECOVER_TIMEOUT, all).await;
        // The tasks only wait; each opening has a task of its own.
        openings.detach_all();
        Ok(failed)
    }

    /// Why a session cannot be used now, for a person; none if nothing is known to be wrong.
    pub fn problem(&self, id: SessionId) -> Option<String> {
        if let Some(relay) = &self.shared.relay {
            return relay.problem(id);
        }
        match self.slots().get(&id)? {
            SessionSlot::Opening(opening) => {
                opening.is_silent().then(|| OpenError::NotResponding.to_string())
            }
            SessionSlot::Failed(reason) => Some(reason.clone()),
            SessionSlot::Driven(session) => session.problem(),
            SessionSlot::Remote(_) | SessionSlot::Deleting => None,
        }
    }

    /// Whether another process drives a session that this process has opened.
    pub fn is_remote(&self, id: SessionId) -> bool {
        matches!(self.slots().get(&id), Some(SessionSlot::Remote(_)))
    }

    /// Whether other machines drive the sessions, and this process none.
    pub fn is_relayed(&self) -> bool {
        self.shared.relay.is_some()
    }

    /// Changes whenever a [problem](Self::problem) appears or disappears.
    pub fn problem_changes(&self) -> watch::Receiver<u64> {
        if let Some(relay) = &self.shared.relay {
            return relay.problem_changes();
        }
        self.shared.problem_changes.subscribe()
    }

    /// Whether an agent of the session runs, or left output that is not in the journal yet. Reads a
    /// directory.
    pub fn needs_takeover(&self, record: &SessionRecord) -> bool {
        if self.is_relayed() {
            return false;
        }
        let live = self.shared.config.live_directory(record.id);
        matches!(record.status, SessionStatus::Running | SessionStatus::Waiting)
            || record.spool.run > 0 && shim::has_leftovers(&live, RunId(record.spool.run))
    }

    /// The same in a thread of its own: a disk that hangs must not hold up other sessions.
    async fn check_takeover(&self, record: SessionRecord) -> bool {
        let this = self.clone();
        let check = tokio::task::spawn_blocking(move || this.needs_takeover(&record));
        check.await.unwrap_or(false)
    }

    /// The sessions this process has opened.
    pub fn open_sessions(&self) -> Vec<Session> {
        let slots = self.slots();
        let driven = slots.values().filter_map(|slot| match slot {
            SessionSlot::Driven(session) | SessionSlot::Remote(session) => Some(session.clone()),
            SessionSlot::Opening(_) | SessionSlot::Failed(_) | SessionSlot::Deleting => None,
        });
        driven.collect()
    }

    /// The sessions that this process drives.
    pub(crate) fn driven(&self) -> Vec<SessionId> {
        let slots = self.slots();
        let driven = slots.iter().filter(|(_, slot)| matches!(slot, SessionSlot::Driven(_)));
        driven.map(|(id, _)| *id).collect()
    }

    /// Whether a session is open here or is being opened.
    pub(crate) fn has_open(&self, id: SessionId) -> bool {
        match self.slots().get(&id) {
            Some(SessionSlot::Driven(session) | SessionSlot::Remote(session)) => {
                !session.commands.is_closed()
            }
            Some(SessionSlot::Opening(opening)) => !opening.is_over(),
            Some(SessionSlot::Failed(_) | SessionSlot::Deleting) | None => false,
        }
    }

    /// Whether nothing but this value refers to these sessions, and none is open.
    pub(crate) fn is_unused(&self) -> bool {
        let closed = |slot: &SessionSlot| matches!(slot, SessionSlot::Failed(_));
        Arc::strong_count(&self.shared) == 1 && self.slots().values().all(closed)
    }

    /// Changes the title of a session.
    pub async fn rename(&self, id: SessionId, title: String) -> Result<(), OpenError> {
        if let Some(relay) = &self.shared.relay {
            return relay.rename(id, title).await;
        }
        let note = Note::TitleChanged { title: title.clone() };
        let mut batch = Batch { at: now(), ..Batch::default() };
        let bytes = Bytes::from(note.to_line());
        batch.entries = vec![NewEntry { origin: Origin::Towpath, bytes, transient: false }];
        batch.change.title = Some(title);
        self.shared.journal.write(id, batch).await?;
        Ok(())
    }

    /// Moves a session to another machine of the fleet. A running turn is interrupted.
    pub async fn move_to(&self, id: SessionId, to: String) -> Result<(), OpenError> {
        match &self.shared.relay {
            Some(relay) => relay.move_to(id, to).await,
            None => Err(OpenError::Relayed(
                "this server is not connected to a fleet, so there is no other machine".to_owned(),
            )),
        }
    }

    /// Revokes a grant. Does nothing if it does not exist or is already revoked.
    pub async fn revoke_grant(&self, grant: Uuid) -> Result<(), OpenError> {
        match &self.shared.relay {
            Some(relay) => relay.revoke_grant(grant).await,
            None => Ok(self.shared.journal.revoke_grant(grant, now()).await?),
        }
    }

    /// Stops driving all sessions. Their agents finish their turns under their shims. Returns the
    /// sessions whose last changes could not be stored.
    #[must_use = "the user has to know of changes that were not stored"]
    pub async fn release(&self) -> Vec<SessionId> {
        let mut releases = JoinSet::new();
        for (_, slot) in self.slots().drain() {
            match slot {
                SessionSlot::Driven(session) | SessionSlot::Remote(session) => {
                    releases.spawn(async move {
                        let outcome = session.release().await;
                        (outcome == LeaveOutcome::NotStored).then(|| session.id())
                    });
                }
                SessionSlot::Opening(opening) => {
                    releases.spawn(async move {
                        opening.cancel().await;
                        None
                    });
                }
                SessionSlot::Failed(_) | SessionSlot::Deleting => {}
            }
        }
        let mut unstored: Vec<_> = releases.join_all().await.into_iter().flatten().collect();
        unstored.sort_by_key(|id| id.0);
        unstored
    }

    /// Removes a session whose owner has ended, unless it was opened again in the meantime.
    fn remove_closed(&self, id: SessionId) {
        let mut slots = self.slots();
        if let Some(SessionSlot::Driven(session) | SessionSlot::Remote(session)) = slots.get(&id)
            && session.commands.is_closed()
        {
            slots.remove(&id);
        }
    }

    fn change_problems(&self) {
        self.shared.problem_changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, SessionSlot>> {
        self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether prompts of a session are to be sent later.
pub(crate) fn has_schedules(record: &SessionRecord) -> bool {
    // Most sessions have none, and reading all options takes longer than this.
    record.options.contains("\"schedules\"")
        && SessionOptions::from_json(&record.options, record.directory.clone())
            .is_ok_and(|it| !it.schedules.is_empty())
}
