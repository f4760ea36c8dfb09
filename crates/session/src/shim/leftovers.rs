//! What a shim that is gone left behind: output, an exit status, and perhaps processes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use tracing::warn;

use super::launch::{ExitStatus, RunId};
use super::live_directory::{LiveDirectory, remove_file};
use super::process_tree::ProcessTree;
use super::protocol::AgentSignal;

/// How long killed processes may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a shim may take to exit after its agent has exited.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// What is left of a run. Reading it gives the agent's output from [`start`](Self::start) on.
#[derive(Debug)]
pub struct Leftovers {
    /// The offset of the first byte. It is behind the requested one only if an owner acknowledged
    /// the output in between.
    pub start: u64,
    /// There is none if the shim died before the agent, or never ran.
    pub exit: Option<ExitStatus>,
    /// The end of the agent's stderr.
    pub stderr: Vec<u8>,
    files: VecDeque<File>,
}

/// Opens what is left of a run's output from `from` on, in the session's live directory.
///
/// It does not include what a shim that still runs appends later: try to
/// [attach](super::ShimConnection::attach) first.
pub fn read_leftovers(directory: &Path, run: RunId, from: u64) -> io::Result<Leftovers> {
    let live = LiveDirectory::new(directory);
    let bases = live.spools(run)?;
    let first = bases.partition_point(|base| *base <= from).saturating_sub(1);
    let mut files = VecDeque::new();
    for base in &bases[first.min(bases.len())..] {
        files.push_back(File::open(live.spool(run, *base))?);
    }
    let mut start = from;
    if let (Some(file), Some(base)) = (files.front_mut(), bases.get(first)) {
        let end = base + file.metadata()?.len();
        start = from.max(*base).min(end);
        file.seek(SeekFrom::Start(start - base))?;
    }
    let exit = live.run_end(run)?.map(|end| end.exit);
    Ok(Leftovers { start, exit, stderr: live.stderr_tail(run)?, files })
}

impl Read for Leftovers {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(file) = self.files.front_mut() {
            let read = file.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.files.pop_front();
        }
        Ok(0)
    }
}

/// Whether there is any file of a run in the session's live directory.
pub fn has_leftovers(directory: &Path, run: RunId) -> bool {
    LiveDirectory::new(directory).has_run(run)
}

/// Whether a shim runs in the session's live directory, or is being started.
pub fn is_running(directory: &Path) -> bool {
    directory.is_dir() && LiveDirectory::new(directory).lock_shim().is_ok_and(|lock| lock.is_none())
}

/// Removes the files of a run: its spool, its exit status, its stderr. To be called only once its
/// [leftovers](read_leftovers) are stored elsewhere. Fails while the run's own shim is alive, or
/// one that has not yet recorded its run. Blocking.
pub fn remove_run(directory: &Path, run: RunId) -> io::Result<()> {
    let live = LiveDirectory::new(directory);
    let deadline = Instant::now() + EXIT_TIMEOUT;
    loop {
        let lock = live.lock_shim()?;
        if lock.is_some() || live.shim_record()?.is_some_and(|record| record.run != run) {
            return live.remove_run(run);
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The result of [`reap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReapReport {
    /// The run of the dead shim; none if there never was a shim.
    pub run: Option<RunId>,
    /// How many processes were killed.
    pub killed: usize,
    /// How many processes are still alive.
    pub alive: usize,
}

/// Why nothing was reaped.
#[derive(Debug, thiserror::Error)]
pub enum ReapError {
    /// The shim is alive: attach to it.
    #[error("the shim is still alive")]
    ShimAlive,
    #[error("could not read the live directory")]
    Io(#[from] io::Error),
}

/// Kills everything the agent of a dead shim left running, and removes the dead shim's socket. A
/// shim that was killed could not do this itself. Blocking.
pub fn reap(directory: &Path) -> Result<ReapReport, ReapError> {
    let live = LiveDirectory::new(directory);
    let nothing = ReapReport { run: None, killed: 0, alive: 0 };
    let record = live.shim_record();
    if matches!(record, Ok(None)) {
        return Ok(nothing);
    }
    // Held to the end, so that no new shim starts between the search and the kill.
    let Some(_lock) = live.lock_shim_within(EXIT_TIMEOUT)? else {
        return Err(ReapError::ShimAlive);
    };
    let record = match record {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(nothing),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            // Only the record would show which processes the agent left.
            warn!(%error, "the record of a shim that is gone is damaged");
            live.set_record_aside()?;
            return Ok(nothing);
        }
        Err(error) => return Err(error.into()),
    };
    let tree = ProcessTree::of_orphan(record.marks(), record.agent, record.agent_started.as_ref());
    let mut killed = 0;
    let deadline = Instant::now() + KILL_TIMEOUT;
    let alive = loop {
        let members = tree.members();
        if members.is_empty() || Instant::now() >= deadline {
            break members.len();
        }
        killed = killed.max(tree.signal(AgentSignal::Kill).len());
        // The system does not report the exit of processes that are not our children.
        std::thread::sleep(Duration::from_millis(5));
    };
    remove_file(&record.socket)?;
    Ok(ReapReport { run: Some(record.run), killed, alive })
}
