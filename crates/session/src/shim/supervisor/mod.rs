//! The shim process: one thread, blocking `poll`, no runtime.
//!
//! [`Supervisor`] is the event loop. It reads from whatever is ready and never waits for one
//! particular source. The pure parts decide: [`ShimTurnTracker`] what the agent does, [`Lease`] how
//! long an agent without an owner runs, [`Shutdown`] the steps by which it is stopped.

mod agent_process;
mod connections;
mod ending;
mod lifetime;
mod signal_pipe;
mod start;
mod turn_tracker;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::launch::{ExitStatus, LaunchError, LaunchReport, RunEnd, RunId, ShimConfig, ShimPids};
use super::live_directory::LiveDirectory;
use super::process_tree::ProcessTree;
use super::protocol::{
    AgentSignal, AttachRefusal, ProtocolVersion, ShimCommand, ShimEvent, ShimHello, SpoolFailure,
    StdinState,
};
use super::spool::Spool;
use agent_process::{AgentProcess, PipeRead, StderrTail, WriteCheck, read_now};
use connections::{OwnerConnection, Presence, ShimClient, ShimListener};
use lifetime::{Lease, Shutdown, ShutdownStep};
use signal_pipe::SignalPipe;
use turn_tracker::ShimTurnTracker;

/// How much is read from a pipe or a socket at once: as much as a pipe holds.
const CHUNK: usize = 64 << 10;

/// How long an agent without an owner may take to finish once its stdin is closed: with a
/// background shell the CLI was seen to wait six seconds.
const UNOWNED_STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an agent may take to finish when its shim is terminated.
const TERMINATED_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// When a terminated shim leaves, whatever it still waits for: a full disk, an owner that does not
/// read, or an agent that cannot be killed. The steps of a shutdown fit into it.
const TERMINATED_EXIT_TIMEOUT: Duration = Duration::from_secs(12);

/// How long the processes that the agent left may take to be gone, and how often they are looked
/// for.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
const DRAIN_RETRY: Duration = Duration::from_millis(10);

/// The time between two attempts to write to a full disk.
const SPOOL_RETRY: Duration = Duration::from_secs(1);

/// How long an owner may receive nothing before the shim exits without it.
const OWNER_STALL_TIMEOUT: Duration = Duration::from_mins(1);

/// Runs a shim: reads its configuration from stdin, reports on stdout, and supervises the agent
/// until it has exited. Returns the exit code of the process. Must be called before any thread is
/// started.
pub fn run_shim() -> i32 {
    let config: Result<ShimConfig, _> = serde_json::from_reader(io::stdin().lock());
    let supervisor = config
        .map_err(|error| LaunchError::Config(error.to_string()))
        .and_then(|config| Supervisor::launch(&config));
    match supervisor {
        Ok(supervisor) => {
            report(&LaunchReport::Ready(supervisor.pids));
            supervisor.run();
            0
        }
        Err(error) => {
            report(&LaunchReport::Refused(error));
            2
        }
    }
}

/// Writes the report and closes the pipes to the parent: they must not stay open as long as the
/// agent runs.
fn report(report: &LaunchReport) {
    let line = serde_json::to_vec(report).unwrap_or_default();
    let mut stdout = io::stdout().lock();
    // A parent that is gone is the same as an owner that disconnected: the agent continues.
    let _ = stdout.write_all(&line).and_then(|()| stdout.flush());
    if let Ok(null) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
}

/// Supervises one agent.
#[derive(Debug)]
struct Supervisor {
    live: LiveDirectory,
    run: RunId,
    pids: ShimPids,
    /// Locked while this shim runs.
    lock: File,
    spool: Spool,
    listener: ShimListener,
    agent: AgentProcess,
    tree: ProcessTree,
    owner: Option<OwnerConnection>,
    lease: Lease,
    stderr: StderrTail,
    phase: SupervisorPhase,
    /// Output that could not be written to the spool.
    stuck: Option<StuckOutput>,
    signals: SignalPipe,
    turn: ShimTurnTracker,
    shutdown: Shutdown,
    /// When this shim leaves in any case, because it was terminated.
    leave_at: Option<Instant>,
    /// Scratch space for reading.
    chunk: Vec<u8>,
}

/// The phase of the agent's life.
#[derive(Debug)]
enum SupervisorPhase {
    Running,
    /// It has exited. The processes it left are killed, and its pipes are read to their end.
    Draining {
        exit: ExitStatus,
        until: Instant,
    },
    /// All output is in the spool. The end of the run is being recorded, or was.
    Ended {
        end: RunEnd,
        record: RecordState,
    },
}

/// Whether the end of a run is recorded.
#[derive(Clone, Copy, Debug)]
enum RecordState {
    /// Not yet: to be tried at this time, and so many times at most.
    Due { at: Instant, attempts: u32 },
    /// It is recorded, or all attempts failed.
    Done,
}

/// Output that is no longer in the pipe and not yet in the spool.
#[derive(Debug)]
struct StuckOutput {
    rest: Vec<u8>,
    retry: Instant,
    failure: SpoolFailure,
}

/// A file descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadySource {
    Signals,
    Owner,
    Listener,
    Stdout,
    Stderr,
    Stdin,
}

impl Supervisor {
    /// Supervises the agent until it has exited and the owner knows.
    fn run(mut self) {
        loop {
            let now = Instant::now();
            self.lease.observe(self.turn.activity(), now);
            self.retry_spool(now);
            self.advance_shutdown(now);
            self.advance_end(now);
            self.send(now);
            if self.is_done(now) {
                return self.exit();
            }
            let ready = self.wait(now);
            self.handle(&ready);
        }
    }

    /// Waits until a file descriptor is ready or a deadline passes.
    fn wait(&self, now: Instant) -> Vec<ReadySource> {
        let mut sources =
            vec![(ReadySource::Signals, self.signals.reader().as_fd(), PollFlags::IN)];
        if let Some(owner) = &self.owner {
            let unsent = owner.has_unsent(&self.spool);
            let out = if unsent { PollFlags::OUT } else { PollFlags::empty() };
            sources.push((ReadySource::Owner, owner.socket.as_fd(), PollFlags::IN | out));
        }
        let listener = self.listener.to_poll().map(AsFd::as_fd).into_iter();
        let pending = self.listener.pending().map(AsFd::as_fd);
        let listening = listener.chain(pending);
        sources.extend(listening.map(|fd| (ReadySource::Listener, fd, PollFlags::IN)));
        if let (Some(stdout), None) = (&self.agent.stdout, &self.stuck) {
            sources.push((ReadySource::Stdout, stdout.as_fd(), PollFlags::IN));
        }
        if let Some(stderr) = &self.agent.stderr {
            sources.push((ReadySource::Stderr, stderr.as_fd(), PollFlags::IN));
        }
        if let Some(stdin) = self.agent.stdin_to_poll() {
            sources.push((ReadySource::Stdin, stdin.as_fd(), PollFlags::OUT));
        }
        let mut polled: Vec<PollFd<'_>> =
            sources.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let timeout = self.deadline(now).map(|deadline| {
            let left = deadline.saturating_duration_since(now);
            // Rounded up: a wait that ends just before the deadline would be followed by many more.
            Timespec::try_from(left + Duration::from_millis(1)).unwrap_or_default()
        });
        if poll(&mut polled, timeout.as_ref()).is_err() {
            // Interrupted by a signal. Nothing that is handled blocks, and an owner that connected
            // while this process was stopped must come before the end of the lease.
            return sources.iter().map(|(source, ..)| *source).collect();
        }
        let ready = sources.iter().zip(&polled).filter(|(_, fd)| !fd.revents().is_empty());
        ready.map(|((source, ..), _)| *source).collect()
    }

    /// The next time at which something is due even if no file descriptor is ready.
    fn deadline(&self, now: Instant) -> Option<Instant> {
        let stuck = self.stuck.as_ref().map(|stuck| stuck.retry);
        let mut deadlines = [self.listener.deadline(), stuck, None, None, self.leave_at];
        match &self.phase {
            SupervisorPhase::Running if self.shutdown.has_started() => {
                deadlines[2] = self.shutdown.deadline();
            }
            SupervisorPhase::Running => deadlines[2] = self.lease.end(),
            // On a full disk nothing can happen before the next attempt to write.
            SupervisorPhase::Draining { .. } if self.stuck.is_some() => {}
            SupervisorPhase::Draining { .. } => deadlines[2] = Some(now + DRAIN_RETRY),
            SupervisorPhase::Ended { record, .. } => {
                let owner = self.owner.as_ref();
                deadlines[2] = owner.map(|owner| owner.last_progress + OWNER_STALL_TIMEOUT);
                if let RecordState::Due { at, .. } = record {
                    deadlines[3] = Some(*at);
                }
            }
        }
        deadlines.into_iter().flatten().min()
    }

    fn handle(&mut self, ready: &[ReadySource]) {
        let now = Instant::now();
        if ready.contains(&ReadySource::Signals) && self.signals.drain() {
            self.terminate(now);
        }
        self.reap(now);
        if ready.contains(&ReadySource::Owner) {
            self.read_owner(now);
        }
        if ready.contains(&ReadySource::Stdout) {
            self.read_stdout(now);
        }
        if ready.contains(&ReadySource::Stderr) {
            self.read_stderr();
        }
        if ready.contains(&ReadySource::Stdin) {
            self.agent.write();
        }
        if ready.contains(&ReadySource::Listener) {
            self.listener.accept(now);
        }
        for client in self.listener.clients(now) {
            self.attach(client, now);
        }
    }

    /// Carries out the owner's commands.
    fn read_owner(&mut self, now: Instant) {
        let Some(owner) = &mut self.owner else { return };
        let mut commands = Vec::new();
        let presence = owner.read(&mut self.chunk, &mut commands);
        for command in commands {
            match command {
                ShimCommand::Write { number, bytes } => self.write(number, bytes),
                ShimCommand::CloseStdin => self.agent.close_stdin(),
                ShimCommand::Signal(signal) => drop(self.tree.signal(signal)),
                ShimCommand::Stop { timeout } => self.start_shutdown(now, timeout),
                ShimCommand::Acknowledge(offset) => {
                    self.spool.acknowledge(offset.min(self.spool.end()));
                }
                ShimCommand::Ping(number) => self.push(&ShimEvent::Pong(number)),
                ShimCommand::Detach => return self.detach_owner(now),
            }
        }
        if presence == Presence::Gone {
            self.detach_owner(now);
        }
    }

    fn write(&mut self, number: u64, bytes: Vec<u8>) {
        match self.agent.check_write(number, bytes.len()) {
            WriteCheck::New => {
                self.turn.input(&bytes);
                self.agent.push_write(number, bytes);
            }
            WriteCheck::Repeated => {}
            WriteCheck::Refused => {
                let last = self.agent.last_write();
                self.push(&ShimEvent::WriteRefused { number, last });
            }
        }
    }

    fn detach_owner(&mut self, now: Instant) {
        self.owner = None;
        self.lease.owner_detached(now);
    }

    /// Makes a client the owner, unless there is one or its version does not fit.
    fn attach(&mut self, client: ShimClient, now: Instant) {
        if !client.hello.version.is_compatible() {
            let version = Some(ProtocolVersion::CURRENT);
            return client.refuse(AttachRefusal { version, ..AttachRefusal::default() });
        }
        // The last owner may have disconnected in the meantime.
        self.read_owner(now);
        if let Some(owner) = &self.owner {
            return client.refuse(AttachRefusal { owner: owner.pid, version: None });
        }
        let mut owner = OwnerConnection::new(client, &self.spool, now);
        let exit = match &self.phase {
            SupervisorPhase::Running => None,
            SupervisorPhase::Draining { exit, .. } => Some(*exit),
            SupervisorPhase::Ended { end, .. } => Some(end.exit),
        };
        let open = self.agent.stdin_is_open();
        let hello = ShimHello {
            version: ProtocolVersion::CURRENT,
            start: self.spool.start(),
            end: self.spool.end(),
            exit,
            shim: Some(self.pids.shim),
            agent: Some(self.pids.agent),
            run: Some(self.run),
            last_write: self.agent.last_write(),
            stdin: if open { StdinState::Open } else { StdinState::Closed },
            spool_failure: self.stuck.as_ref().map(|stuck| stuck.failure.clone()),
        };
        hello.encode(owner.out());
        self.owner = Some(owner);
        self.lease.owner_attached();
        // Commands that came with the hello are in the buffer, so `poll` would not report them.
        self.read_owner(now);
    }

    /// Queues an event for the owner, if there is one.
    fn push(&mut self, event: &ShimEvent) {
        if let Some(owner) = &mut self.owner {
            owner.push(event);
        }
    }

    /// Sends the owner as much as it takes.
    fn send(&mut self, now: Instant) {
        let exit = match &self.phase {
            SupervisorPhase::Ended { end, .. } => {
                Some(ShimEvent::Exited { status: end.exit, end: end.end })
            }
            SupervisorPhase::Running | SupervisorPhase::Draining { .. } => None,
        };
        let Some(owner) = &mut self.owner else { return };
        let written = self.agent.written();
        let presence = owner.send(&mut self.spool, &mut self.chunk, written, exit.as_ref(), now);
        if presence == Presence::Gone {
            // It may have sent commands before it disconnected.
            self.read_owner(now);
            self.detach_owner(now);
        }
    }

    fn read_stdout(&mut self, now: Instant) -> PipeRead {
        let Some(stdout) = &mut self.agent.stdout else { return PipeRead::End };
        let read = read_now(stdout, &mut self.chunk);
        match read {
            PipeRead::Bytes(length) => {
                let bytes = &self.chunk[..length];
                self.turn.output(bytes);
                let (stored, result) = self.spool.append(bytes);
                if let Err(error) = result {
                    let rest = bytes[stored..].to_vec();
                    let failure = SpoolFailure { spool: error.to_string() };
                    self.push(&ShimEvent::SpoolFailed(failure.clone()));
                    self.stuck = Some(StuckOutput { rest, retry: now + SPOOL_RETRY, failure });
                }
            }
            PipeRead::Empty => {}
            PipeRead::End => self.agent.stdout = None,
        }
        read
    }

    /// Tries again to store output that could not be stored.
    fn retry_spool(&mut self, now: Instant) {
        let Some(stuck) = self.stuck.take_if(|stuck| stuck.retry <= now) else { return };
        let (stored, result) = self.spool.append(&stuck.rest);
        if result.is_err() {
            let rest = stuck.rest[stored..].to_vec();
            self.stuck = Some(StuckOutput { rest, retry: now + SPOOL_RETRY, ..stuck });
        } else {
            self.push(&ShimEvent::SpoolRecovered);
        }
    }

    fn read_stderr(&mut self) -> PipeRead {
        let Some(stderr) = &mut self.agent.stderr else { return PipeRead::End };
        let read = read_now(stderr, &mut self.chunk);
        match read {
            PipeRead::Bytes(length) => {
                let bytes = self.chunk[..length].to_vec();
                self.stderr.push(&bytes);
                self.push(&ShimEvent::Stderr(bytes));
            }
            PipeRead::Empty => {}
            PipeRead::End => self.agent.stderr = None,
        }
        read
    }

    /// Closes the agent's stdin and starts the shutdown.
    fn start_shutdown(&mut self, now: Instant, timeout: Duration) {
        self.agent.close_stdin();
        self.shutdown.start(now, timeout);
    }

    /// This shim was asked to end: it stops the agent, at once if it was asked before, and leaves.
    fn terminate(&mut self, now: Instant) {
        let again = self.leave_at.is_some();
        let timeout = if again { Duration::ZERO } else { TERMINATED_STOP_TIMEOUT };
        self.leave_at.get_or_insert(now + TERMINATED_EXIT_TIMEOUT);
        self.start_shutdown(now, timeout);
    }

    fn advance_shutdown(&mut self, now: Instant) {
        if !matches!(self.phase, SupervisorPhase::Running) {
            return;
        }
        if !self.shutdown.has_started() && self.lease.end().is_some_and(|end| end <= now) {
            self.start_shutdown(now, UNOWNED_STOP_TIMEOUT);
        }
        match self.shutdown.next_step(now) {
            Some(ShutdownStep::Terminate) => drop(self.tree.signal(AgentSignal::Terminate)),
            Some(ShutdownStep::Kill) => drop(self.tree.signal(AgentSignal::Kill)),
            None => {}
        }
    }
}
