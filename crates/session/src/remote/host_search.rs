//! Finding a session host for a session whose owner is gone.

use std::time::Duration;

use journal::SessionId;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::host::{HostError, HostLauncher};

/// How long a session may have no owner until a host is looked for: a server that starts takes over
/// the sessions of the last host by itself.
const DELAY: Duration = Duration::from_millis(300);

/// How often a host that has opened the session and lost it again is asked once more.
const MAX_SEARCHES: u32 = 5;

/// Has the session host open a session, in a task of its own.
#[derive(Debug)]
pub(super) struct HostSearch {
    host: Option<HostLauncher>,
    id: SessionId,
    task: Option<JoinHandle<Result<(), HostError>>>,
    searches: u32,
}

/// Whether a session host will drive a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HostingState {
    /// This process drives its sessions itself.
    None,
    Searching,
    /// There is no host and none could be started.
    Failed,
}

impl HostSearch {
    pub(super) fn new(host: Option<HostLauncher>, id: SessionId) -> Self {
        Self { host, id, task: None, searches: 0 }
    }

    /// Goes on with the search for a session that has had no owner for some time. Does not wait.
    pub(super) async fn advance(&mut self, free: Duration) -> HostingState {
        let Some(host) = &self.host else { return HostingState::None };
        if let Some(task) = self.task.take_if(|task| task.is_finished()) {
            match task.await {
                Ok(Err(error)) => {
                    let session = self.id;
                    warn!(%session, %error, "no session host takes a session over; this process does");
                    return HostingState::Failed;
                }
                Ok(Ok(())) if self.searches < MAX_SEARCHES => {}
                Ok(Ok(())) | Err(_) => return HostingState::Failed,
            }
        }
        if self.task.is_none() && free >= DELAY {
            self.searches += 1;
            let (host, id) = (host.clone(), self.id);
            self.task = Some(tokio::spawn(async move { host.open(id).await }));
        }
        HostingState::Searching
    }
}

impl Drop for HostSearch {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
