//! The sessions of a background host, and when it has nothing left to do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journal::{Journal, SessionId, SessionStatus};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::protocol::AgentLaunch;
use crate::config::SessionsConfig;
use crate::options::SessionOptions;
use crate::session::Session;
use crate::sessions::{ClientCount, OpenError, Sessions, has_schedules};

/// The shortest time between two looks at the sessions while an agent works and no client is
/// connected. A streaming agent changes the journal all the time.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The time between two looks at the data directory while an agent waits for a person.
const DIRECTORY_INTERVAL: Duration = Duration::from_mins(1);

/// The sessions of a background host. It can be cloned.
///
/// Agents are started like the client that opened the session would start them, so that clients with
/// different agents and environments can use the same host.
#[derive(Clone, Debug)]
pub struct BackgroundHost {
    shared: Arc<SharedHost>,
}

#[derive(Debug)]
struct SharedHost {
    config: SessionsConfig,
    journal: Journal,
    groups: Mutex<Vec<AgentGroup>>,
    /// The clients that are connected to sessions, and those for which one is being opened.
    clients: ClientCount,
    leaving: watch::Sender<bool>,
    /// Whether sessions with scheduled prompts were opened.
    has_opened_scheduled: AtomicBool,
}

/// Sessions whose agents are started in the same way.
#[derive(Debug)]
struct AgentGroup {
    agent: AgentLaunch,
    sessions: Sessions,
}

impl BackgroundHost {
    /// A host without sessions. How agents are started comes from the clients.
    pub fn new(config: SessionsConfig, journal: Journal) -> Self {
        let shared = SharedHost {
            config,
            journal,
            groups: Mutex::default(),
            clients: ClientCount::default(),
            leaving: watch::Sender::new(false),
            has_opened_scheduled: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Opens a session for a client.
    pub(super) async fn open(
        &self,
        id: SessionId,
        agent: &AgentLaunch,
    ) -> Result<Session, OpenError> {
        let _opening = self.shared.clients.enter();
        let sessions = self.sessions_for(id, agent);
        let session = sessions.open(id).await?;
        if !self.shared.has_opened_scheduled.swap(true, Ordering::Relaxed) {
            tokio::spawn(self.clone().open_scheduled(agent.clone()));
        }
        Ok(session)
    }

    /// Opens the sessions whose prompts are to be sent later. Only a client knows how agents are
    /// started, so that is done for the first one.
    async fn open_scheduled(self, agent: AgentLaunch) {
        let _opening = self.shared.clients.enter();
        let Ok(records) = self.shared.journal.sessions().await else { return };
        for record in records.iter().filter(|record| has_schedules(record)) {
            let opened = self.sessions_for(record.id, &agent).open(record.id).await;
            if let Err(error) = opened {
                warn!(session = %record.id, %error, "scheduled prompts cannot be sent");
            }
        }
    }

    /// The sessions to which a session belongs: those that have it open, else those with its agent.
    fn sessions_for(&self, id: SessionId, agent: &AgentLaunch) -> Sessions {
        let mut groups = self.groups();
        groups.retain(|group| !group.sessions.is_unused());
        let has_it = groups.iter().find(|group| group.sessions.has_open(id));
        if let Some(group) = has_it.or_else(|| groups.iter().find(|group| group.agent == *agent)) {
            return group.sessions.clone();
        }
        let SharedHost { config, journal, clients, .. } = &*self.shared;
        let config = agent.applied_to(config);
        let sessions = Sessions::counting_clients(config, journal.clone(), clients.clone());
        groups.push(AgentGroup { agent: agent.clone(), sessions: sessions.clone() });
        sessions
    }

    pub(super) fn open_sessions(&self) -> usize {
        self.all_sessions().iter().map(|it| it.open_sessions().len()).sum()
    }

    pub(super) fn begin_to_leave(&self) {
        self.shared.leaving.send_replace(true);
    }

    pub(super) fn is_leaving(&self) -> bool {
        *self.shared.leaving.borrow()
    }

    /// Waits until a client asks this host to leave.
    pub async fn asked_to_leave(&self) {
        let mut leaving = self.shared.leaving.subscribe();
        // The sender lives as long as this value.
        let _ = leaving.wait_for(|it| *it).await;
    }

    /// Waits until there has been nothing to do for `linger`: no client is connected, and no session
    /// has a running turn, a request to a person or a prompt that waits.
    pub async fn idle(&self, linger: Duration) {
        let mut clients = self.shared.clients.subscribe();
        let mut changes = self.shared.journal.changes();
        loop {
            let _ = clients.wait_for(|count| *count == 0).await;
            changes.mark_unchanged();
            if self.has_work().await {
                let change = async {
                    tokio::time::sleep(LOOK_INTERVAL).await;
                    let _ = tokio::time::timeout(DIRECTORY_INTERVAL, changes.changed()).await;
                };
                tokio::select! {
                    () = change => {}
                    _ = clients.changed() => {}
                }
                continue;
            }
            let arrival = async { drop(clients.wait_for(|count| *count > 0).await) };
            if tokio::time::timeout(linger, arrival).await.is_err() && !self.has_work().await {
                return;
            }
        }
    }

    /// Whether a session that this process drives is to go on without a client.
    async fn has_work(&self) -> bool {
        if !self.shared.config.data.is_dir() {
            // It was removed, and no client will come back to what was in it.
            return false;
        }
        for sessions in self.all_sessions() {
            for id in sessions.driven() {
                // A journal that cannot be read does not show that there is nothing to do.
                if session_has_work(&self.shared.journal, id).await.unwrap_or(true) {
                    return true;
                }
            }
        }
        false
    }

    /// Releases all sessions. Their agents finish their turns under their shims. Returns the sessions
    /// whose last changes could not be stored.
    #[must_use = "the user has to know of changes that were not stored"]
    pub async fn release(&self) -> Vec<SessionId> {
        let mut releases = JoinSet::new();
        for sessions in self.all_sessions() {
            releases.spawn(async move { sessions.release().await });
        }
        releases.join_all().await.concat()
    }

    /// Stops the agents, which have nothing to do, and releases all sessions.
    pub async fn retire(&self) {
        info!("no session has anything to do; the session host exits");
        let mut closings = JoinSet::new();
        for sessions in self.all_sessions() {
            closings.spawn(async move { sessions.retire().await });
        }
        while closings.join_next().await.is_some() {}
    }

    /// Reads the output of dead agents, and deletes sessions that are to be deleted when they have
    /// ended.
    pub async fn collect(&self) {
        let sessions = Sessions::new(self.shared.config.clone(), self.shared.journal.clone());
        if let Err(error) = sessions.collect().await {
            warn!(%error, "the output of earlier agents could not be read");
        }
    }

    pub(super) fn all_sessions(&self) -> Vec<Sessions> {
        self.groups().iter().map(|group| group.sessions.clone()).collect()
    }

    fn groups(&self) -> std::sync::MutexGuard<'_, Vec<AgentGroup>> {
        self.shared.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn session_has_work(journal: &Journal, id: SessionId) -> Result<bool, journal::Error> {
    let Some(record) = journal.session(id).await? else { return Ok(false) };
    let status = record.status;
    let options = SessionOptions::from_json(&record.options, record.directory);
    // Someone must be there when their time comes.
    if options.as_ref().is_ok_and(|it| !it.schedules.is_empty()) {
        return Ok(true);
    }
    match status {
        SessionStatus::Running | SessionStatus::Waiting => Ok(true),
        // No agent is started until a client asks for one.
        SessionStatus::Failed => Ok(false),
        SessionStatus::Idle | SessionStatus::Dead => {
            // Prompts that are held wait for a client.
            let held = options.is_ok_and(|it| it.queue_hold.is_some());
            Ok(!held && !journal.open_prompts(id).await?.is_empty())
        }
    }
}
