//! A client's way to the session host: the one that runs, or one that is started now.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use journal::SessionId;
use tokio::process::{Child, Command};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tracing::{debug, info};

use super::client::{HostClient, HostError};
use super::protocol::{AgentLaunch, HostKind};
use super::{COMMAND, HostLock};
use crate::config::SessionsConfig;
use crate::shim::LOADER_VARIABLES;

/// How long to wait for a host that starts or exits. A loaded machine needs seconds.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

const RETRY: Duration = Duration::from_millis(20);

/// How often a host is started for one request: one that is killed at once is started again.
const MAX_STARTS: u32 = 3;

/// Opens sessions in the session host, and starts a background host where none runs.
#[derive(Clone, Debug)]
pub(crate) struct HostLauncher {
    shared: Arc<LaunchPlan>,
}

#[derive(Debug)]
struct LaunchPlan {
    program: PathBuf,
    data: PathBuf,
    runtime: PathBuf,
    agent: AgentLaunch,
    /// Held while a host is started, so that this process starts one for all its sessions.
    starting: Mutex<()>,
}

impl HostLauncher {
    pub(crate) fn new(config: &SessionsConfig) -> Self {
        let plan = LaunchPlan {
            program: config.towpath.clone(),
            data: config.data.clone(),
            runtime: config.runtime.clone(),
            agent: AgentLaunch::of(config),
            starting: Mutex::default(),
        };
        Self { shared: Arc::new(plan) }
    }

    /// Has the session host open a session. Starts a host if none runs.
    pub(crate) async fn open(&self, id: SessionId) -> Result<(), HostError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            let mut client = self.connect(deadline).await?;
            match client.open(id, &self.shared.agent).await {
                Err(HostError::Leaving) if Instant::now() < deadline => sleep(RETRY).await,
                opened => return opened,
            }
        }
    }

    /// Connects to the session host, and starts one if none runs.
    async fn connect(&self, deadline: Instant) -> Result<HostClient, HostError> {
        if let Some(client) = self.find().await? {
            return Ok(client);
        }
        let _starting = self.shared.starting.lock().await;
        let mut started: Option<Child> = None;
        let mut starts = 0;
        loop {
            if let Some(client) = self.find().await? {
                return Ok(client);
            }
            if Instant::now() >= deadline {
                let seconds = READY_TIMEOUT.as_secs();
                let text = format!("it did not answer within {seconds} s");
                return Err(HostError::NotStarted(text));
            }
            let has_exited = match &mut started {
                None => true,
                Some(child) => match child.try_wait()? {
                    None => false,
                    // Another host had the lock.
                    Some(status) if status.success() => true,
                    Some(status) if starts >= MAX_STARTS => {
                        let text = format!("it ended with {status}; see `logs/host.log`");
                        return Err(HostError::NotStarted(text));
                    }
                    Some(_) => true,
                },
            };
            if has_exited {
                starts += 1;
                started = Some(self.start()?);
            }
            sleep(RETRY).await;
        }
    }

    /// Connects to a session host of this version. One of another version is asked to leave.
    async fn find(&self) -> Result<Option<HostClient>, HostError> {
        let LaunchPlan { data, runtime, .. } = &*self.shared;
        let Some(mut client) = HostClient::connect(data, runtime).await? else { return Ok(None) };
        if client.is_compatible() {
            return Ok(Some(client));
        }
        let pid = client.pid();
        if client.kind() == HostKind::Server {
            return Err(HostError::OtherVersion { pid });
        }
        info!(pid, "asking a session host of another version to leave");
        match client.leave().await {
            // It disconnects while it leaves.
            Ok(()) | Err(HostError::Leaving) => Ok(None),
            Err(_) => Err(HostError::OtherVersion { pid }),
        }
    }

    /// Starts a background host. It has no variables of this process: an agent can read the
    /// environment of all processes of its user, and what agents are to have comes with each request.
    fn start(&self) -> Result<Child, HostError> {
        let LaunchPlan { program, data, runtime, agent, .. } = &*self.shared;
        debug!(holder = ?HostLock::holder(data), "starting a session host");
        let mut command = Command::new(program);
        command.arg(COMMAND).arg("--data").arg(data).arg("--runtime").arg(runtime);
        command.env_clear().envs(agent.variables(&LOADER_VARIABLES).cloned()).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let failed = |error| HostError::NotStarted(format!("`{}`: {error}", program.display()));
        command.spawn().map_err(failed)
    }
}
