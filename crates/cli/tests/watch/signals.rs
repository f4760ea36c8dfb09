//! `towpath watch` stopped by a signal: the output is a prefix of the input, work in progress is finished
//! or reported, and the exit code has the signal.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::{Pid, Signal, test_kill_process};

use crate::process::{Project, TIMEOUT, WatchProcess};

/// A command that waits for the file `gate`. It ends if the test has failed and its directory is removed.
const GATED: &str =
    "touch ../started; until test -e ../gate || ! test -e ../started; do sleep 0.02; done";

/// A command that never ends, with a process in the background. It writes the ids of both.
const ENDLESS: &str =
    "sleep 1000 & echo $$ $! > ../ids; mv ../ids ../started; while :; do sleep 0.05; done";

fn wait_for_file(project: &Project, name: &str) {
    let start = std::time::Instant::now();
    while !project.sibling(name).exists() {
        assert!(start.elapsed() < TIMEOUT, "no {name}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A process with a delivery in progress and a call without a result.
fn busy_process(project: &Project, arguments: &[&str]) -> WatchProcess {
    project.write("a", "1");
    let mut watch = project.watch(arguments);
    watch.change("t1", "Write", "a");
    watch.call("t2", "Edit", "b");
    watch.wait_for("Edit is about to change");
    wait_for_file(project, "started");
    watch
}

#[test]
fn a_signal_lets_work_in_progress_finish_and_sets_the_exit_code() {
    let plain = ["--exec", GATED].as_slice();
    let copying = ["--exec", GATED, "--copy"].as_slice();
    for (signal, code, arguments) in [
        (Signal::INT, 130, plain),
        (Signal::TERM, 143, plain),
        (Signal::HUP, 129, plain),
        (Signal::TERM, 143, copying),
    ] {
        let project = Project::new();
        let mut watch = busy_process(&project, arguments);
        watch.signal(signal);
        watch.line("the stream continues for a moment");
        fs::write(project.sibling("gate"), "").unwrap();
        let result = watch.wait_for_exit();
        assert_eq!(result.code, code);
        assert_eq!(
            result.changes(),
            [
                format!("a | Write | pushed | {GATED} | -"),
                "b | Edit | unfinished | - | no result received".to_owned()
            ]
        );
    }
}

#[test]
fn the_output_of_a_stopped_stream_is_a_prefix_of_the_input() {
    for options in [[].as_slice(), ["--copy"].as_slice()] {
        let project = Project::new();
        project.write("a", "1");
        let mut watch = project.watch(&[["--to", "../copy"].as_slice(), options].concat());
        watch.change("t1", "Write", "a");
        watch.wait_for("a → ../copy");
        watch.signal(Signal::TERM);
        watch.write_until_closed();
        let result = watch.wait_for_exit();
        assert_eq!(result.code, 143);
        assert_eq!(result.changes(), ["a | Write | pushed | ../copy | -"]);
    }
}

#[test]
fn if_the_stream_ends_after_the_signal_the_exit_code_is_success() {
    let project = Project::new();
    let mut watch = busy_process(&project, &["--exec", GATED]);
    watch.signal(Signal::INT);
    // The agent was stopped as well and writes its last lines.
    watch.result("t2", true);
    watch.end_turn();
    fs::write(project.sibling("gate"), "").unwrap();
    let result = watch.finish();
    assert_eq!((result.code, result.report["turns"].as_u64()), (0, Some(1)));
    assert!(result.changes()[1].starts_with("b | Edit | skipped"), "{:?}", result.changes());
}

#[test]
fn work_that_exceeds_the_grace_time_is_reported() {
    let project = Project::new();
    let watch = busy_process(&project, &["--exec", GATED, "--grace", "1"]);
    watch.signal(Signal::TERM);
    let result = watch.wait_for_exit();
    assert_eq!(result.code, 1);
    assert!(result.changes()[0].ends_with("not finished in time"), "{:?}", result.changes());
    assert!(result.log.iter().any(|it| it.contains("took too long")), "{:?}", result.log);
}

#[test]
fn a_second_signal_exits_at_once() {
    let project = Project::new();
    let mut watch = busy_process(&project, &["--exec", GATED]);
    watch.signal(Signal::TERM);
    watch.wait_for("stopping after");
    watch.signal(Signal::TERM);
    assert_eq!(watch.wait_for_exit().code, 143);
}

/// Waits until the processes of [`ENDLESS`] have ended.
fn wait_for_end_of_command(project: &Project) {
    let ids = fs::read_to_string(project.sibling("started")).expect("a file");
    assert_eq!(ids.split_whitespace().count(), 2, "{ids}");
    for id in ids.split_whitespace() {
        let id = Pid::from_raw(id.parse().expect("a number")).expect("a process id");
        let start = std::time::Instant::now();
        let runs = || {
            // A process that its parent does not wait for is a zombie.
            let status = fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero()));
            test_kill_process(id).is_ok() && !status.is_ok_and(|it| it.contains(") Z "))
        };
        while runs() {
            assert!(start.elapsed() < TIMEOUT, "process {id:?} still runs");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

#[test]
fn commands_and_hooks_end_with_the_watcher_whichever_way_it_ends() {
    for action in ["--exec", "--post"] {
        let project = Project::new();
        let watch = busy_process(&project, &[action, ENDLESS]);
        watch.signal(Signal::KILL);
        watch.wait_for_kill();
        wait_for_end_of_command(&project);

        let project = Project::new();
        let mut watch = busy_process(&project, &[action, ENDLESS]);
        watch.signal(Signal::INT);
        watch.wait_for("stopping after");
        watch.signal(Signal::INT);
        assert_eq!(watch.wait_for_exit().code, 130);
        wait_for_end_of_command(&project);

        let project = Project::new();
        let watch = busy_process(&project, &[action, ENDLESS, "--grace", "0"]);
        watch.finish();
        wait_for_end_of_command(&project);
    }
}

#[test]
fn a_git_hook_that_hangs_ends_after_the_watcher_was_killed() {
    let project = Project::with_repository();
    project.write(".git/hooks/pre-commit", &format!("#!/bin/sh\n{ENDLESS}\n"));
    let hook = project.root().join(".git/hooks/pre-commit");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    project.write("a.txt", "two\n");
    let mut watch = project.watch(&["--commit=change"]);
    watch.change("t1", "Edit", "a.txt");
    wait_for_file(&project, "started");
    watch.signal(Signal::KILL);
    watch.wait_for_kill();
    wait_for_end_of_command(&project);
    let left = fs::read_dir(project.root().join(".git")).unwrap().flatten();
    let names: Vec<_> = left.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    assert!(!names.iter().any(|name| name.contains(".lock")), "{names:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_inherited_ignored_signal_stays_ignored() {
    let project = Project::new();
    project.write("a", "1");
    let mut watch = project.watch_after("trap '' HUP", &["--to", "../copy"]);
    watch.change("t1", "Write", "a");
    watch.wait_for("a → ../copy");
    watch.signal(Signal::HUP);
    project.write("a", "2");
    watch.change("t2", "Write", "a");
    watch.wait_for("a → ../copy");
    let result = watch.finish();
    assert_eq!(result.code, 0);
    assert_eq!(fs::read_to_string(project.sibling("copy/a")).unwrap(), "2");
}
