//! The agent and everything it started, found so that all of it can be killed.
//!
//! The real CLI gives its Bash children sessions of their own and leaves them behind when it is
//! killed, so neither its process group nor its session is enough. The tree is: the agent, the
//! children of the shim (on Linux, orphans are handed to it), the processes with the agent's
//! [`ProcessMarker`] in their environment, and all descendants of these.

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
    /// Lists all running processes, and which of them have the marker.
    list: fn(&ProcessMarker) -> Vec<ProcessInfo>,
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

/// The agent and everything it started.
#[derive(Clone, Debug)]
pub(super) struct ProcessTree {
    marker: ProcessMarker,
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
    /// Whether the marker is in its environment.
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
    pub(super) fn of_shim(marker: &ProcessMarker, shim: i32, agent: i32) -> Self {
        Self { marker: marker.clone(), agent: Some(agent), shim: Some(shim), source: SOURCE }
    }

    /// The tree of an agent whose shim is gone.
    pub(super) fn of_orphan(
        marker: &ProcessMarker,
        agent: i32,
        started: Option<&StartTime>,
    ) -> Self {
        let processes = (SOURCE.list)(marker);
        let same =
            |process: &&ProcessInfo| process.id == agent && Some(&process.started) == started;
        let agent = processes.iter().find(same).map(|process| process.id);
        Self { marker: marker.clone(), agent, shim: None, source: SOURCE }
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
        let processes = (self.source.list)(&self.marker);
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
    // The marker does not matter here.
    let mut processes = (SOURCE.list)(&ProcessMarker::random()).into_iter();
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

/// Lists processes from `/proc`.
#[cfg(target_os = "linux")]
mod proc {
    use memchr::memmem;

    use super::{ProcessInfo, ProcessMarker, StartTime};

    pub(super) fn list(marker: &ProcessMarker) -> Vec<ProcessInfo> {
        let assignment = marker.assignment();
        let boot = boot_id();
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let processes = entries.filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read(entry.path().join("stat")).ok()?;
            let (parent, ticks) = read_stat(&String::from_utf8_lossy(&stat))?;
            // The environment of another user's process cannot be read, but it is not ours either.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            Some(ProcessInfo {
                id,
                parent,
                marked: has_assignment(&environment, assignment.as_bytes()),
                started: StartTime(format!("{} {ticks}", boot.trim())),
            })
        });
        processes.collect()
    }

    fn boot_id() -> String {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
    }

    /// When a process started; none if it has exited.
    pub(super) fn start_time(id: i32) -> Option<StartTime> {
        let stat = std::fs::read(format!("/proc/{id}/stat")).ok()?;
        let (_, ticks) = read_stat(&String::from_utf8_lossy(&stat))?;
        Some(StartTime(format!("{} {ticks}", boot_id().trim())))
    }

    /// The parent and the start time in `/proc/PID/stat`, where the name in parentheses may contain
    /// anything; none for a zombie.
    pub(super) fn read_stat(stat: &str) -> Option<(i32, u64)> {
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_whitespace();
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let parent = fields.next()?.parse().ok()?;
        // The start time is the 22nd field; the parent was the fourth.
        Some((parent, fields.nth(17)?.parse().ok()?))
    }

    /// Whether an environment has exactly this assignment.
    pub(super) fn has_assignment(environment: &[u8], assignment: &[u8]) -> bool {
        memmem::find_iter(environment, assignment).any(|at| {
            let starts = at == 0 || environment.get(at - 1) == Some(&0);
            starts && matches!(environment.get(at + assignment.len()), None | Some(0))
        })
    }
}

/// Lists processes with `ps`.
mod ps {
    use super::{ProcessInfo, ProcessMarker, StartTime, Stdio};

    /// All processes with their environments behind their commands, not cut off. The letter for the
    /// environment is `e`, but `E` on macOS, where `e` means all processes.
    const OPTIONS: &str = if cfg!(target_os = "macos") { "-axEww" } else { "axeww" };

    /// Lists all processes but the `ps` itself; none if there is no `ps`.
    #[expect(clippy::disallowed_methods, reason = "a system without /proc has no other way")]
    pub(super) fn list(marker: &ProcessMarker) -> Vec<ProcessInfo> {
        let ps = std::process::Command::new("ps")
            .args([OPTIONS, "-o", "pid=,ppid=,stat=,lstart=,command="])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(ps) = ps else { return Vec::new() };
        // As a child of the shim it would count as a new member in every pass.
        let itself = i32::try_from(ps.id()).ok();
        let Ok(output) = ps.wait_with_output() else { return Vec::new() };
        let assignment = marker.assignment();
        let text = String::from_utf8_lossy(&output.stdout);
        let processes = text.lines().filter_map(|line| read_line(line, &assignment));
        processes.filter(|process| Some(process.id) != itself).collect()
    }

    /// `  41  1 Ss Sun Nov 15 12:25:02 2026 sh -c … PATH=… TOWPATH_AGENT=…`
    pub(super) fn read_line(line: &str, assignment: &str) -> Option<ProcessInfo> {
        let mut fields = line.split_whitespace();
        let mut number = || fields.next()?.parse().ok();
        let (id, parent) = (number()?, number()?);
        if fields.next()?.starts_with('Z') {
            return None;
        }
        let started: Vec<&str> = fields.by_ref().take(5).collect();
        let marked = fields.any(|word| word == assignment);
        Some(ProcessInfo { id, parent, marked, started: StartTime(started.join(" ")) })
    }
}

#[cfg(test)]
mod tests {
    use super::{PS, ProcessInfo, ProcessTree, SOURCE, StartTime, members, ps};
    use crate::shim::launch::{MARKER_VARIABLE, ProcessMarker};
    use crate::shim::protocol::AgentSignal;

    fn check(processes: &[(i32, i32, bool)], shim: Option<i32>, expected: &[i32]) {
        let processes: Vec<ProcessInfo> = processes
            .iter()
            .map(|&(id, parent, marked)| {
                let started = StartTime(String::new());
                ProcessInfo { id, parent, marked, started }
            })
            .collect();
        let found = members(&processes, Some(10), shim, &[Some(5), Some(99)]);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn descendants_are_members_in_any_order() {
        check(
            &[(12, 11, false), (11, 10, false), (10, 1, false), (20, 1, false)],
            None,
            &[10, 11, 12],
        );
    }

    #[test]
    fn children_of_the_shim_are_members_and_the_shim_is_not() {
        check(
            &[(5, 1, false), (10, 5, false), (30, 5, false), (31, 30, false)],
            Some(5),
            &[10, 30, 31],
        );
    }

    #[test]
    fn marked_processes_and_their_children_are_members_but_not_this_process() {
        check(&[(40, 1, true), (41, 40, false), (99, 1, true)], None, &[40, 41]);
    }

    /// A parent, its child, and a grandchild whose parent is gone.
    #[expect(clippy::disallowed_methods, reason = "a test starts a process")]
    fn spawn_tree(marker: &ProcessMarker) -> std::process::Child {
        std::process::Command::new("sh")
            .args(["-c", "(sleep 600 &); sleep 600 & echo; wait"])
            .env(MARKER_VARIABLE, marker.as_str())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell")
    }

    #[test]
    fn all_members_are_killed_with_either_list() {
        let mut sources = vec![SOURCE];
        if ps::list(&ProcessMarker::random()).is_empty() {
            println!("skipped for `ps`: there is none");
        } else {
            sources.push(PS);
        }
        for source in sources {
            let marker = ProcessMarker::random();
            let mut parent = spawn_tree(&marker);
            let mut line = [0];
            std::io::Read::read(parent.stdout.as_mut().unwrap(), &mut line).unwrap();
            let tree = ProcessTree { marker, agent: None, shim: None, source };
            assert_eq!(tree.members().len(), 3);
            assert_eq!(tree.signal(AgentSignal::Kill).len(), 3);
            parent.wait().unwrap();
            let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
            while !tree.members().is_empty() {
                assert!(std::time::Instant::now() < deadline, "{:?}", tree.members());
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_later_process_with_the_same_id_is_not_signalled() {
        #[expect(clippy::disallowed_methods, reason = "a test starts a process")]
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let started = super::start_time(id).unwrap();
        let earlier = StartTime(format!("{}0", started.0));
        super::kill_one(id, Some(&earlier));
        super::kill_one(id, None);
        SOURCE.send(id, &earlier, super::Signal::KILL);
        assert_eq!(super::start_time(id), Some(started.clone()), "it still runs");
        super::kill_one(id, Some(&started));
        assert!(!child.wait().unwrap().success());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_name_may_contain_parentheses() {
        use super::proc::read_stat;

        let stat = "7 (a) b (c)) S 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 2 3";
        assert_eq!(read_stat(stat), Some((3, 4711)));
        assert_eq!(read_stat(&stat.replace(") S ", ") Z ")), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_a_whole_assignment_counts() {
        use super::proc::has_assignment;

        assert!(has_assignment(b"A=1\0M=x\0B=2\0", b"M=x"));
        assert!(has_assignment(b"M=x\0", b"M=x"));
        assert!(!has_assignment(b"A=M=x\0", b"M=x"));
        assert!(!has_assignment(b"M=xy\0", b"M=x"));
    }

    #[test]
    fn a_line_of_ps_is_read() {
        let line = "  41   1 Ss Sun Nov 15 12:25:02 2026 sh -c x A=1 M=x B=2";
        let started = StartTime("Sun Nov 15 12:25:02 2026".to_owned());
        let marked = ProcessInfo { id: 41, parent: 1, marked: true, started };
        assert_eq!(ps::read_line(line, "M=x"), Some(marked.clone()));
        assert_eq!(ps::read_line(line, "M=y"), Some(ProcessInfo { marked: false, ..marked }));
        assert_eq!(ps::read_line("  41   1 Z  Sun Nov 15 12:25:02 2026 sh", "M=x"), None);
        assert_eq!(ps::read_line("", "M=x"), None);
    }

    #[test]
    fn ps_lists_this_process_and_a_marked_child() {
        let marker = ProcessMarker::random();
        let ours = i32::try_from(std::process::id()).unwrap();
        if ps::list(&marker).is_empty() {
            eprintln!("skipped: there is no `ps` here");
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "a test starts a process")]
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env(MARKER_VARIABLE, marker.as_str())
            .spawn()
            .unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let processes = ps::list(&marker);
        child.kill().unwrap();
        child.wait().unwrap();
        let found = processes.iter().find(|process| process.id == id).unwrap();
        assert_eq!((found.parent, found.marked), (ours, true));
        assert!(processes.iter().any(|process| process.id == ours && !process.marked));
    }
}
