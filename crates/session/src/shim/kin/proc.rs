//! All processes, from `/proc`.

use memchr::memmem;

use super::process::{Born, Process};
use crate::shim::plan::Marker;

/// Every process that runs.
pub(super) fn census(marker: &Marker) -> Vec<Process> {
    let assignment = marker.assignment();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        let (parent, ticks) = read_stat(&String::from_utf8_lossy(&stat))?;
        // Another user's environment cannot be read, and another user's process is not ours.
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let carries = carries(&environment, assignment.as_bytes());
        Some(Process {
            id,
            parent,
            marked: carries,
            born: Born(format!("{} {ticks}", boot.trim())),
        })
    });
    processes.collect()
}

/// The parent and the birth in `/proc/PID/stat`, where the name in parentheses may hold anything;
/// nothing if the process only waits to be buried.
fn read_stat(stat: &str) -> Option<(i32, u64)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    // The birth is the 22nd field; the parent was the fourth.
    Some((parent, fields.nth(17)?.parse().ok()?))
}

/// Whether an environment has this assignment, whole.
fn carries(environment: &[u8], assignment: &[u8]) -> bool {
    memmem::find_iter(environment, assignment).any(|at| {
        let starts = at == 0 || environment.get(at - 1) == Some(&0);
        starts && matches!(environment.get(at + assignment.len()), None | Some(0))
    })
}

#[cfg(test)]
mod tests {
    use super::{carries, read_stat};

    #[test]
    fn a_name_may_hold_parentheses() {
        let stat = "7 (a) b (c)) S 3 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 2 3";
        assert_eq!(read_stat(stat), Some((3, 4711)));
        assert_eq!(read_stat(&stat.replace(") S ", ") Z ")), None);
    }

    #[test]
    fn only_a_whole_assignment_counts() {
        assert!(carries(b"A=1\0M=x\0B=2\0", b"M=x"));
        assert!(carries(b"M=x\0", b"M=x"));
        assert!(!carries(b"A=M=x\0", b"M=x"));
        assert!(!carries(b"M=xy\0", b"M=x"));
    }
}
