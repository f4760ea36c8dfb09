//! Starting the agent, and what must exist before it.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::agent_process::{AgentProcess, StderrTail};
use super::connections::ShimListener;
use super::lifetime::{Lease, Shutdown};
use super::signal_pipe::SignalPipe;
use super::turn_tracker::ShimTurnTracker;
use super::{CHUNK, Supervisor, SupervisorPhase};
use crate::shim::launch::{LaunchError, ShimConfig, ShimPids};
use crate::shim::live_directory::{LiveDirectory, ShimRecord, private_directory};
use crate::shim::process_tree::{self, InheritedMarks, ProcessTree};
use crate::shim::protocol::AgentSignal;
use crate::shim::spool::Spool;

/// How long the previous shim may still take to exit. It has reported the exit of its agent by
/// then.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(3);

impl Supervisor {
    /// Starts the agent. Everything else comes first: the lock, the spool, the socket. `shim.json`
    /// is written last, so that its reader finds a socket that listens.
    pub(super) fn launch(config: &ShimConfig) -> Result<Self, LaunchError> {
        for path in [&config.directory, &config.socket, &config.working_directory] {
            if !path.is_absolute() {
                let text = format!("`{}` is not an absolute path", path.display());
                return Err(LaunchError::Config(text));
            }
        }
        detach();
        let in_directory = |error: io::Error| cannot_create(&config.directory, &error);
        let live = LiveDirectory::new(&config.directory);
        private_directory(&config.directory).map_err(in_directory)?;
        if let Some(directory) = config.socket.parent() {
            private_directory(directory).map_err(|error| cannot_create(directory, &error))?;
        }
        let occupied =
            || LaunchError::Occupied { directory: config.directory.display().to_string() };
        let lock = live.lock_shim_within(PREDECESSOR_TIMEOUT).map_err(in_directory)?;
        let lock = lock.ok_or_else(occupied)?;
        if live.has_run(config.run) {
            return Err(occupied());
        }
        let signals = SignalPipe::install().map_err(in_directory)?;
        let spool = Spool::create(&live, config.run).map_err(in_directory)?;
        let listener = ShimListener::bind(&config.socket)
            .map_err(|error| cannot_create(&config.socket, &error))?;
        let marker = config.marker.clone();
        let marks = InheritedMarks { limit: process_tree::set_limit(&marker), marker };
        let agent = AgentProcess::start(config).inspect_err(|_| {
            // An empty spool would look like the leftovers of an agent.
            let _ = live.remove_run(config.run);
            listener.remove();
        })?;
        let shim = rustix::process::getpid().as_raw_nonzero().get();
        let pids = ShimPids { shim, agent: agent.id };
        let supervisor = Self {
            live,
            run: config.run,
            pids,
            lock,
            spool,
            listener,
            tree: ProcessTree::of_shim(marks.clone(), pids.shim, pids.agent),
            agent,
            owner: None,
            lease: Lease::new(config.unattended, Instant::now()),
            stderr: StderrTail::default(),
            phase: SupervisorPhase::Running,
            stuck: None,
            signals,
            turn: ShimTurnTracker::new(),
            shutdown: Shutdown::default(),
            leave_at: None,
            chunk: vec![0; CHUNK],
        };
        let record = ShimRecord {
            run: config.run,
            socket: config.socket.clone(),
            shim: pids.shim,
            agent: pids.agent,
            shim_started: process_tree::start_time(pids.shim),
            agent_started: process_tree::start_time(pids.agent),
            marker: marks.marker,
            limit: marks.limit,
        };
        if let Err(error) = supervisor.live.write_shim_record(&record) {
            supervisor.abort();
            return Err(cannot_create(&config.directory, &error));
        }
        Ok(supervisor)
    }

    /// Undoes a launch that could not be completed.
    fn abort(self) {
        self.tree.signal(AgentSignal::Kill);
        self.listener.remove();
        let _ = self.live.remove_run(self.run);
    }
}

fn cannot_create(path: &Path, reason: &dyn Display) -> LaunchError {
    LaunchError::Files { path: path.display().to_string(), reason: reason.to_string() }
}

/// Leaves the parent's session and working directory, and becomes the parent of orphans.
fn detach() {
    // It fails only for the leader of a process group, which is detached already.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    #[cfg(target_os = "linux")]
    {
        let ours = rustix::process::getpid();
        // Without it, orphans are found by their marks alone.
        let _ = rustix::process::set_child_subreaper(Some(ours));
    }
}
