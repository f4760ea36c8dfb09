//! Listing processes with `ps`, for systems without `/proc`.

use super::{InheritedMarks, ProcessInfo, StartTime, Stdio};

/// All processes with their environments behind their commands, not cut off. The letter for the
/// environment is `e`, but `E` on macOS, where `e` means all processes.
const OPTIONS: &str = if cfg!(target_os = "macos") { "-axEww" } else { "axeww" };

/// Lists all processes but the `ps` itself; none if there is no `ps`.
#[expect(clippy::disallowed_methods, reason = "a system without /proc has no other way")]
pub(super) fn list(marks: &InheritedMarks) -> Vec<ProcessInfo> {
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
    let assignment = marks.marker.assignment();
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
