//! Real processes, and the formats in which systems list them.

use super::{InheritedMarks, PS, ProcessInfo, ProcessTree, SOURCE, StartTime, members, ps};
use crate::shim::launch::{MARKER_VARIABLE, ProcessMarker};
use crate::shim::protocol::AgentSignal;

fn random_marks() -> InheritedMarks {
    InheritedMarks { marker: ProcessMarker::random(), limit: None }
}

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
    check(&[(12, 11, false), (11, 10, false), (10, 1, false), (20, 1, false)], None, &[10, 11, 12]);
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
    if ps::list(&random_marks()).is_empty() {
        println!("skipped for `ps`: there is none");
    } else {
        sources.push(PS);
    }
    for source in sources {
        let marks = random_marks();
        let mut parent = spawn_tree(&marks.marker);
        let mut line = [0];
        std::io::Read::read(parent.stdout.as_mut().unwrap(), &mut line).unwrap();
        let tree = ProcessTree { marks, agent: None, shim: None, source };
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        // A process that is just becoming another program has no environment for a moment.
        while tree.members().len() != 3 {
            assert!(std::time::Instant::now() < deadline, "{:?}", tree.members());
        }
        assert_eq!(tree.signal(AgentSignal::Kill).len(), 3);
        parent.wait().unwrap();
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
    let marks = random_marks();
    let ours = i32::try_from(std::process::id()).unwrap();
    if ps::list(&marks).is_empty() {
        eprintln!("skipped: there is no `ps` here");
        return;
    }
    #[expect(clippy::disallowed_methods, reason = "a test starts a process")]
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .env(MARKER_VARIABLE, marks.marker.as_str())
        .spawn()
        .unwrap();
    let id = i32::try_from(child.id()).unwrap();
    let processes = ps::list(&marks);
    child.kill().unwrap();
    child.wait().unwrap();
    let found = processes.iter().find(|process| process.id == id).unwrap();
    assert_eq!((found.parent, found.marked), (ours, true));
    assert!(processes.iter().any(|process| process.id == ours && !process.marked));
}

#[cfg(target_os = "linux")]
#[test]
fn the_hard_limit_is_read() {
    use super::proc::read_limit;

    let limits = |hard: &str| {
        format!("Limit   Soft Limit  Hard Limit  Units\nMax file locks   7  {hard}  locks\n")
    };
    assert_eq!(read_limit(&limits("4611686018427387000")), Some(4_611_686_018_427_387_000));
    assert_eq!(read_limit(&limits("unlimited")), None);
    assert_eq!(read_limit(""), None);
}
