//! `towpath watch` stopped by a signal: the output is a prefix of the input, work in progress is finished
//! or reported, and the exit code has the signal.

use std::fs;

use rustix::process::Signal;

use crate::process::{Project, TIMEOUT, WatchProcess};

/// A command that waits for the file `gate`.
const GATED: &str = "touch ../started; until test -e ../gate; do sleep 0.02; done";

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
