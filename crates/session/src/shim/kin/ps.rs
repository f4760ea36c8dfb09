//! All processes, as `ps` shows them: for systems without `/proc`.

#![cfg_attr(
    all(target_os = "linux", not(test)),
    expect(dead_code, reason = "on Linux only tests use it; it must compile everywhere")
)]

use std::process::Stdio;

use super::process::{Born, Process};
use crate::shim::plan::Marker;

/// All processes with their environments behind their commands, uncut. What is `e` elsewhere is `E` on
/// macOS, where `e` means all.
const LETTERS: &str = if cfg!(target_os = "macos") { "-axEww" } else { "axeww" };

/// Every process that runs, but for the `ps` that says so; none if there is no `ps`.
#[expect(clippy::disallowed_methods, reason = "a system without /proc has no other way")]
pub(super) fn census(marker: &Marker) -> Vec<Process> {
    let ps = std::process::Command::new("ps")
        .args([LETTERS, "-o", "pid=,ppid=,stat=,lstart=,command="])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(ps) = ps else { return Vec::new() };
    // It is a child of the shim's like any other, and would be found anew at every look.
    let itself = i32::try_from(ps.id()).ok();
    let Ok(output) = ps.wait_with_output() else { return Vec::new() };
    let assignment = marker.assignment();
    let text = String::from_utf8_lossy(&output.stdout);
    let processes = text.lines().filter_map(|line| read_line(line, &assignment));
    processes.filter(|process| Some(process.id) != itself).collect()
}

/// `  41  1 Ss Sun Nov 15 12:25:02 2026 sh -c … PATH=… TOWPATH_AGENT=…`
fn read_line(line: &str, assignment: &str) -> Option<Process> {
    let mut fields = line.split_whitespace();
    let mut number = || fields.next()?.parse().ok();
    let (id, parent) = (number()?, number()?);
    if fields.next()?.starts_with('Z') {
        return None;
    }
    let born: Vec<&str> = fields.by_ref().take(5).collect();
    let marked = fields.any(|word| word == assignment);
    Some(Process { id, parent, marked, born: Born(born.join(" ")) })
}

#[cfg(test)]
mod tests {
    use super::{Born, Process, census, read_line};
    use crate::shim::plan::Marker;

    #[test]
    fn a_line_of_ps_says_whose_a_process_is() {
        let line = "  41   1 Ss Sun Nov 15 12:25:02 2026 sh -c x A=1 M=x B=2";
        let born = Born("Sun Nov 15 12:25:02 2026".to_owned());
        let marked = Process { id: 41, parent: 1, marked: true, born };
        assert_eq!(read_line(line, "M=x"), Some(marked.clone()));
        assert_eq!(read_line(line, "M=y"), Some(Process { marked: false, ..marked }));
        assert_eq!(read_line("  41   1 Z  Sun Nov 15 12:25:02 2026 sh", "M=x"), None);
        assert_eq!(read_line("", "M=x"), None);
    }

    #[test]
    fn ps_shows_this_process_and_a_marked_child() {
        let marker = Marker::random();
        let ours = i32::try_from(std::process::id()).unwrap();
        if census(&marker).is_empty() {
            eprintln!("skipped: there is no `ps` here");
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "a test starts a process")]
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .env(crate::shim::plan::MARKER_VARIABLE, marker.as_str())
            .spawn()
            .unwrap();
        let id = i32::try_from(child.id()).unwrap();
        let processes = census(&marker);
        child.kill().unwrap();
        child.wait().unwrap();
        let found = processes.iter().find(|process| process.id == id).unwrap();
        assert_eq!((found.parent, found.marked), (ours, true));
        assert!(processes.iter().any(|process| process.id == ours && !process.marked));
    }
}
