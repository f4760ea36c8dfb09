//! An agent and everything it started, found so that all of it can be ended.
//!
//! The real CLI gives its Bash children sessions of their own and leaves them behind when it is
//! killed, so neither its group nor its session is enough. Kin is who descends from the agent, who
//! was handed to the shim when its parent died (Linux), who carries the agent's [`Marker`] in its
//! environment, and who descends from any of these.

#[cfg(target_os = "linux")]
mod proc;
mod process;
mod ps;

use std::collections::BTreeSet;

pub(super) use process::{Born, Process};

use super::order::Signal;
use super::plan::Marker;

/// Looks at all processes this often at most; each look finds only what the one before missed.
const LOOKS: usize = 50;

/// Every process that runs, and which of them carry the marker.
pub(super) type Census = fn(&Marker) -> Vec<Process>;

/// How processes are found on this system.
#[cfg(target_os = "linux")]
pub(super) const CENSUS: Census = proc::census;
/// How processes are found on this system.
#[cfg(not(target_os = "linux"))]
pub(super) const CENSUS: Census = ps::census;

/// Whose descendants are looked for.
#[derive(Clone, Debug)]
pub(super) struct Kin {
    marker: Marker,
    /// The agent, as long as the number is surely still its own.
    agent: Option<i32>,
    /// The shim, if it looks for them itself: its children are the agent's, whoever started them.
    shim: Option<i32>,
    census: Census,
}

impl Kin {
    /// What belongs to a shim's agent, as the shim itself sees it.
    pub(super) fn of_shim(marker: &Marker, shim: i32, agent: i32) -> Self {
        Self { marker: marker.clone(), agent: Some(agent), shim: Some(shim), census: CENSUS }
    }

    /// What belongs to the agent of a shim that is gone.
    pub(super) fn of_orphan(marker: &Marker, agent: i32, born: Option<&Born>) -> Self {
        let processes = CENSUS(marker);
        let same = |process: &&Process| process.id == agent && Some(&process.born) == born;
        let agent = processes.iter().find(same).map(|process| process.id);
        Self { marker: marker.clone(), agent, shim: None, census: CENSUS }
    }

    /// The agent is gone and its number may become somebody else's.
    pub(super) fn forget_agent(&mut self) {
        self.agent = None;
    }

    /// Who lives, now.
    pub(super) fn living(&self) -> BTreeSet<i32> {
        let spared = [i32::try_from(std::process::id()).ok(), self.shim];
        related(&(self.census)(&self.marker), self.agent, self.shim, &spared)
    }

    /// Sends a signal to all of them. [`Signal::Kill`] stops all before it kills any: a parent that
    /// dies first would leave a child that nobody had seen yet.
    pub(super) fn signal(&self, signal: Signal) -> BTreeSet<i32> {
        let signal = match signal {
            Signal::Interrupt => rustix::process::Signal::INT,
            Signal::Terminate => rustix::process::Signal::TERM,
            Signal::Kill => {
                self.stop();
                rustix::process::Signal::KILL
            }
        };
        let living = self.living();
        for id in &living {
            send(*id, signal);
        }
        living
    }

    /// Stops all of them, until a look finds nobody new.
    fn stop(&self) {
        let mut stopped = BTreeSet::new();
        for _ in 0..LOOKS {
            let fresh: Vec<i32> = self.living().difference(&stopped).copied().collect();
            if fresh.is_empty() {
                return;
            }
            for id in &fresh {
                send(*id, rustix::process::Signal::STOP);
            }
            stopped.extend(fresh);
        }
    }
}

fn send(id: i32, signal: rustix::process::Signal) {
    if let Some(id) = rustix::process::Pid::from_raw(id) {
        // It may have ended since; then there is nothing to signal.
        let _ = rustix::process::kill_process(id, signal);
    }
}

/// When a process was born, to tell it from a later one with the same number.
pub(super) fn birth(id: i32, marker: &Marker) -> Option<Born> {
    CENSUS(marker).into_iter().find(|process| process.id == id).map(|process| process.born)
}

fn related(
    processes: &[Process],
    agent: Option<i32>,
    shim: Option<i32>,
    spared: &[Option<i32>],
) -> BTreeSet<i32> {
    let mut kin = BTreeSet::new();
    loop {
        let before = kin.len();
        for process in processes {
            let mine = process.marked
                || agent == Some(process.id)
                || shim == Some(process.parent)
                || kin.contains(&process.parent);
            if mine && !spared.contains(&Some(process.id)) {
                kin.insert(process.id);
            }
        }
        if kin.len() == before {
            return kin;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::process::{Born, Process};
    use super::{Census, Kin, related};
    use crate::shim::order::Signal;
    use crate::shim::plan::{MARKER_VARIABLE, Marker};

    fn check(processes: &[(i32, i32, bool)], shim: Option<i32>, kin: &[i32]) {
        let processes: Vec<Process> = processes
            .iter()
            .map(|&(id, parent, marked)| Process { id, parent, marked, born: Born::unknown() })
            .collect();
        let found = related(&processes, Some(10), shim, &[Some(5), Some(99)]);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), kin);
    }

    #[test]
    fn descendants_are_kin_in_whatever_order_they_are_seen() {
        check(
            &[(12, 11, false), (11, 10, false), (10, 1, false), (20, 1, false)],
            None,
            &[10, 11, 12],
        );
    }

    #[test]
    fn who_was_handed_to_the_shim_is_kin_and_the_shim_is_not() {
        check(
            &[(5, 1, false), (10, 5, false), (30, 5, false), (31, 30, false)],
            Some(5),
            &[10, 30, 31],
        );
    }

    /// A parent, its child, and a grandchild whose parent is gone.
    #[expect(clippy::disallowed_methods, reason = "a test starts a process")]
    fn brood(marker: &Marker) -> std::process::Child {
        std::process::Command::new("sh")
            .args(["-c", "(sleep 600 &); sleep 600 & echo; wait"])
            .env(MARKER_VARIABLE, marker.as_str())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell")
    }

    #[test]
    fn everybody_is_killed_however_processes_are_found() {
        let mut ways: Vec<Census> = vec![super::CENSUS];
        let ps = super::ps::census as Census;
        if ps(&Marker::random()).is_empty() {
            println!("skipped for `ps`: there is none");
        } else {
            ways.push(ps);
        }
        for census in ways {
            let marker = Marker::random();
            let mut parent = brood(&marker);
            let mut line = [0];
            std::io::Read::read(parent.stdout.as_mut().unwrap(), &mut line).unwrap();
            let kin = Kin { marker, agent: None, shim: None, census };
            assert_eq!(kin.living().len(), 3);
            assert_eq!(kin.signal(Signal::Kill).len(), 3);
            parent.wait().unwrap();
            let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
            while !kin.living().is_empty() {
                assert!(std::time::Instant::now() < deadline, "{:?}", kin.living());
            }
        }
    }

    #[test]
    fn who_carries_the_marker_is_kin_and_so_are_its_children_but_not_we() {
        check(&[(40, 1, true), (41, 40, false), (99, 1, true)], None, &[40, 41]);
    }
}
