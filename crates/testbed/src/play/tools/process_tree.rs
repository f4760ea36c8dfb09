//! A command and everything it started, found so that all of it can be ended.
//!
//! The group of a command is not enough: `timeout` and `setsid` make groups of their own. So what
//! belongs to it is whatever descends from it, or is in a group that one of those leads.

use std::collections::BTreeSet;

use rustix::process::{Pid, Signal, kill_process};

/// Looks at all processes this often at most; each look finds only what the one before missed.
const LOOKS: usize = 20;

/// A process that runs, as far as it says whom it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: i32,
    parent: i32,
    group: i32,
}

/// Ends a process and everything it started.
///
/// All of it is stopped before any of it is killed: a parent that dies first would leave a child
/// that nobody had seen yet, and that soon leads a group of its own, without a trace of whose it is.
pub(super) fn kill_tree(root: u32) {
    let Ok(root) = i32::try_from(root) else { return };
    let mut known = BTreeSet::from([root]);
    let mut stopped = BTreeSet::new();
    for _ in 0..LOOKS {
        grow(&mut known, &running());
        let fresh: Vec<i32> = known.difference(&stopped).copied().collect();
        if fresh.is_empty() {
            break;
        }
        for id in &fresh {
            signal(*id, Signal::STOP);
        }
        stopped.extend(fresh);
    }
    for id in known {
        signal(id, Signal::KILL);
    }
}

fn signal(id: i32, signal: Signal) {
    if let Some(id) = Pid::from_raw(id) {
        // It may have ended since; then there is nothing to end.
        let _ = kill_process(id, signal);
    }
}

/// Adds what belongs to known processes, and what belongs to that.
fn grow(known: &mut BTreeSet<i32>, running: &[Process]) {
    loop {
        let before = known.len();
        for process in running {
            if known.contains(&process.parent) || known.contains(&process.group) {
                known.insert(process.id);
            }
        }
        if known.len() == before {
            return;
        }
    }
}

/// Every process that runs; those that only wait to be buried do not.
#[cfg(target_os = "linux")]
fn running() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        process(id, &String::from_utf8_lossy(&stat))
    });
    processes.collect()
}

/// Reads `/proc/PID/stat`, where the name in parentheses may hold anything.
#[cfg(target_os = "linux")]
fn process(id: i32, stat: &str) -> Option<Process> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    (!matches!(state, "Z" | "X")).then_some(Process { id, parent, group })
}

/// Every process that runs, as `ps` shows them.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "there is no /proc to read")]
fn running() -> Vec<Process> {
    let output = std::process::Command::new("ps").args(["-axo", "pid=,ppid=,pgid=,stat="]).output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let text = text.unwrap_or_default();
    let processes = text.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let mut number = || fields.next()?.parse().ok();
        let (id, parent, group) = (number()?, number()?, number()?);
        let state = fields.next()?;
        (!state.starts_with('Z')).then_some(Process { id, parent, group })
    });
    processes.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Process, grow};

    fn tree(root: i32, running: &[(i32, i32, i32)]) -> Vec<i32> {
        let processes = running.iter().map(|&(id, parent, group)| Process { id, parent, group });
        let mut known = BTreeSet::from([root]);
        grow(&mut known, &processes.collect::<Vec<_>>());
        known.into_iter().collect()
    }

    #[test]
    fn descendants_belong_whatever_their_group() {
        assert_eq!(tree(10, &[(12, 11, 11), (11, 10, 11), (10, 1, 10), (20, 1, 20)]), [10, 11, 12]);
    }

    #[test]
    fn orphans_belong_by_their_group() {
        assert_eq!(tree(10, &[(12, 1, 10), (13, 12, 13), (20, 1, 20)]), [10, 12, 13]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_may_hold_parentheses() {
        let running = super::process(7, "7 (a) b (c)) S 3 7 7 0");
        assert_eq!(running, Some(Process { id: 7, parent: 3, group: 7 }));
        assert_eq!(super::process(7, "7 (a) Z 3 7 7 0"), None);
    }
}
