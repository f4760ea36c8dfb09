//! Listing processes from `/proc`.

use memchr::memmem;

use super::{InheritedMarks, ProcessInfo, StartTime};

pub(super) fn list(marks: &InheritedMarks) -> Vec<ProcessInfo> {
    let assignment = marks.marker.assignment();
    let boot = boot_id();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        let (parent, ticks) = read_stat(&String::from_utf8_lossy(&stat))?;
        // The environment of another user's process cannot be read, but it is not ours either.
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let has_limit = |limit| {
            let limits = std::fs::read_to_string(entry.path().join("limits")).unwrap_or_default();
            read_limit(&limits) == Some(limit)
        };
        Some(ProcessInfo {
            id,
            parent,
            marked: has_assignment(&environment, assignment.as_bytes())
                || marks.limit.is_some_and(has_limit),
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

/// The hard limit of file locks in `/proc/PID/limits`; none if there is no limit.
pub(super) fn read_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
