//! The agent and everything it started, found so that all of it can be killed.
//!
//! The real CLI gives its Bash children sessions of their own and leaves them behind when it is
//! killed, so neither its process group nor its session is enough. The tree is: the agent, the
//! children of the shim (on Linux, orphans are handed to it), the processes with the agent's
//! [marks](InheritedMarks), and all descendants of these.
//!
//! A shim that is killed finds nothing any more. What its agent left is then found by the marks: on
//! Linux all of it, elsewhere all but orphans that have cleared their environment.

#[cfg(target_os = "linux")]
mod proc;
mod ps;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;

#[cfg(target_os = "linux")]
use rustix::fd::OwnedFd;
#[cfg(target_os = "linux")]
use rustix::process::PidfdFlags;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use super::launch::ProcessMarker;
use super::protocol::AgentSignal;

/// How often processes are listed at most while all of them are stopped. Each pass finds only what
/// the one before missed.
const MAX_PASSES: usize = 50;

/// Where processes are looked up.
#[derive(Clone, Copy, Debug)]
struct ProcessSource {
    /// Lists all running processes, and which of them have a mark.
    list: fn(&InheritedMarks) -> Vec<ProcessInfo>,
    /// When a process started, if there is a cheap way to look again.
    start_time: Option<fn(i32) -> Option<StartTime>>,
}

#[cfg(target_os = "linux")]
const SOURCE: ProcessSource =
    ProcessSource { list: proc::list, start_time: Some(proc::start_time) };
#[cfg(not(target_os = "linux"))]
const SOURCE: ProcessSource = PS;

/// For systems without `/proc`.
#[cfg_attr(
    all(target_os = "linux", not(test)),
    expect(dead_code, reason = "on Linux only tests use it; it must compile everywhere")
)]
const PS: ProcessSource = ProcessSource { list: ps::list, start_time: None };

/// What everything that an agent starts inherits from it.
#[derive(Clone, Debug)]
pub(super) struct InheritedMarks {
    pub(super) marker: ProcessMarker,
    /// The limit that [`set_limit`] has set.
    pub(super) limit: Option<u64>,
}

/// Sets a limit of this process that has no effect, to a number that no other agent has. All that
/// it starts inherits the limit, with an environment or without one, and can only lower it.
#[cfg(target_os = "linux")]
pub(super) fn set_limit(marker: &ProcessMarker) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    /// Numbers below this one may be limits that a user has set.
    const LEAST: u64 = 1 << 32;

    // The number of file locks was limited for a short time in Linux 2.4. Inside another agent it
    // is that one's number.
    let most = getrlimit(Resource::Locks).maximum.unwrap_or(1 << 62);
    let limit = most / 2 + marker.number() % (most / 2).max(1);
    let both = Rlimit { current: Some(limit), maximum: Some(limit) };
    (limit >= LEAST && setrlimit(Resource::Locks, both).is_ok()).then_some(limit)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn set_limit(_: &ProcessMarker) -> Option<u64> {
    None
}

/// The agent and everything it started.
#[derive(Clone, Debug)]
pub(super) struct ProcessTree {
    marks: InheritedMarks,
    /// The agent, as long as the id surely is its own.
    agent: Option<i32>,
    /// The shim, if it looks itself: all its children belong to the agent.
    shim: Option<i32>,
    source: ProcessSource,
}

/// A running process. Zombies do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProcessInfo {
    id: i32,
    parent: i32,
    /// Whether it has one of the marks.
    marked: bool,
    started: StartTime,
}

/// When a process started, in the system's own notation and with the boot id if there is one. It
/// tells a process from a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct StartTime(String);

impl ProcessTree {
    /// The tree as the shim itself sees it.
    pub(super) fn of_shim(marks: InheritedMarks, shim: i32, agent: i32) -> Self {
        Self { marks, agent: Some(agent), shim: Some(shim), source: SOURCE }
    }

    /// The tree of an agent whose shim is gone.
    pub(super) fn of_orphan(
        marks: InheritedMarks,
        agent: i32,
        started: Option<&StartTime>,
    ) -> Self {
        let processes = (SOURCE.list)(&marks);
        let same =
            |process: &&ProcessInfo| process.id == agent && Some(&process.started) == started;
        let agent = processes.iter().find(same).map(|process| process.id);
        Self { marks, agent, shim: None, source: SOURCE }
    }

    /// The agent has exited: another process may get its id.
    pub(super) fn remove_agent(&mut self) {
        self.agent = None;
    }

    /// All members that run now.
    pub(super) fn members(&self) -> BTreeSet<i32> {
        self.find().into_keys().collect()
    }

    /// All members that run now, with their start times.
    fn find(&self) -> BTreeMap<i32, StartTime> {
        let excluded = [i32::try_from(std::process::id()).ok(), self.shim];
        let processes = (self.source.list)(&self.marks);
        let members = members(&processes, self.agent, self.shim, &excluded);
        let found = processes.into_iter().filter(|process| members.contains(&process.id));
        found.map(|process| (process.id, process.started)).collect()
    }

    /// Sends a signal to all members and returns them. [`AgentSignal::Kill`] stops all before it
    /// kills any: a parent that dies first would leave a child that was not listed yet.
    pub(super) fn signal(&self, signal: AgentSignal) -> BTreeSet<i32> {
        let signal = match signal {
            AgentSignal::Interrupt => Signal::INT,
            AgentSignal::Terminate => Signal::TERM,
            AgentSignal::Kill => {
                self.stop();
                Signal::KILL
            }
        };
        let members = self.find();
        for (id, started) in &members {
            self.source.send(*id, started, signal);
        }
        members.into_keys().collect()
    }

    /// Stops all members, until a pass finds no new one.
    fn stop(&self) {
        let mut stopped = BTreeSet::new();
        for _ in 0..MAX_PASSES {
            let mut new = self.find();
            new.retain(|id, _| !stopped.contains(id));
            if new.is_empty() {
                return;
            }
            for (id, started) in &new {
                self.source.send(*id, started, Signal::STOP);
            }
            stopped.extend(new.into_keys());
        }
    }
}

impl ProcessSource {
    /// Signals a process that was listed, unless it has exited since then. Another process with its
    /// id is never signalled: the descriptor stays with the process for which it was opened, and the
    /// start time shows which one that is. Without a cheap way to look again, the process was listed
    /// just before.
    fn send(self, id: i32, started: &StartTime, signal: Signal) {
        let Some(pid) = Pid::from_raw(id) else { return };
        let target = SignalTarget::open(pid);
        let now = self.start_time.map(|start_time| start_time(id));
        if now.is_none_or(|now| now.as_ref() == Some(started)) {
            target.send(signal);
        }
    }
}

/// A process to be signalled.
enum SignalTarget {
    #[cfg(target_os = "linux")]
    Descriptor(OwnedFd),
    Id(Pid),
}

impl SignalTarget {
    #[cfg(target_os = "linux")]
    fn open(pid: Pid) -> Self {
        let descriptor = rustix::process::pidfd_open(pid, PidfdFlags::empty());
        // Kernels before 5.3 have no such descriptors, and some sandboxes refuse them.
        descriptor.map_or(Self::Id(pid), Self::Descriptor)
    }

    #[cfg(not(target_os = "linux"))]
    fn open(pid: Pid) -> Self {
        Self::Id(pid)
    }

    fn send(&self, signal: Signal) {
        // It may have exited in the meantime.
        let _ = match self {
            #[cfg(target_os = "linux")]
            Self::Descriptor(descriptor) => rustix::process::pidfd_send_signal(descriptor, signal),
            Self::Id(pid) => rustix::process::kill_process(*pid, signal),
        };
    }
}

/// Kills one process, if it is still the one that started at this time.
pub(super) fn kill_one(id: i32, started: Option<&StartTime>) {
    if let Some(started) = started
        && start_time(id).as_ref() == Some(started)
    {
        SOURCE.send(id, started, Signal::KILL);
    }
}

/// When a process started.
pub(super) fn start_time(id: i32) -> Option<StartTime> {
    if let Some(start_time) = SOURCE.start_time {
        return start_time(id);
    }
    // The marks do not matter here.
    let marks = InheritedMarks { marker: ProcessMarker::random(), limit: None };
    let mut processes = (SOURCE.list)(&marks).into_iter();
    processes.find(|process| process.id == id).map(|process| process.started)
}

fn members(
    processes: &[ProcessInfo],
    agent: Option<i32>,
    shim: Option<i32>,
    excluded: &[Option<i32>],
) -> BTreeSet<i32> {
    let mut members = BTreeSet::new();
    loop {
        let before = members.len();
        for process in processes {
            let is_member = process.marked
                || agent == Some(process.id)
                || shim == Some(process.parent)
                || members.contains(&process.parent);
            if is_member && !excluded.contains(&Some(process.id)) {
                members.insert(process.id);
            }
        }
        if members.len() == before {
            return members;
        }
    }
}
