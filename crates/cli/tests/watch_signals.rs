//! `towpath watch` when somebody ends it: what was passed on is whole, what was under way is finished
//! or reported, and the exit code says what happened.

#[expect(dead_code, reason = "commits and trees are shown elsewhere")]
mod pipeline;

use std::fs;

use pipeline::{Project, Running};
use rustix::process::Signal;

/// A command that waits until it may go on.
const GATED: &str = "touch ../begun; until test -e ../gate; do sleep 0.02; done";

fn wait_for(project: &Project, name: &str) {
    let begun = std::time::Instant::now();
    while !project.beside(name).exists() {
        assert!(begun.elapsed() < pipeline::PATIENCE, "no {name}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A push that is under way, and a call without a result.
fn at_work(project: &Project, arguments: &[&str]) -> Running {
    project.write("a", "1");
    let mut watch = project.watch(arguments);
    watch.change("t1", "Write", "a");
    watch.call("t2", "Edit", "b");
    watch.hear("Edit is going to change");
    wait_for(project, "begun");
    watch
}

#[test]
fn a_signal_lets_what_is_under_way_finish_and_the_code_says_which_it_was() {
    let plain = ["--exec", GATED].as_slice();
    let copying = ["--exec", GATED, "--copy"].as_slice();
    for (signal, code, arguments) in [
        (Signal::INT, 130, plain),
        (Signal::TERM, 143, plain),
        (Signal::HUP, 129, plain),
        (Signal::TERM, 143, copying),
    ] {
        let project = Project::new();
        let mut watch = at_work(&project, arguments);
        watch.signal(signal);
        watch.line("the stream goes on for a moment");
        fs::write(project.beside("gate"), "").unwrap();
        let ended = watch.end();
        assert_eq!(ended.code, code);
        let command = GATED;
        assert_eq!(
            ended.changes(),
            [
                format!("a | Write | pushed | {command} | -"),
                "b | Edit | unfinished | - | its result never came".to_owned()
            ]
        );
    }
}

#[test]
fn a_stream_that_is_cut_in_full_flow_is_a_beginning_of_itself() {
    for way in [[].as_slice(), ["--copy"].as_slice()] {
        let project = Project::new();
        project.write("a", "1");
        let mut watch = project.watch(&[["--to", "../copy"].as_slice(), way].concat());
        watch.change("t1", "Write", "a");
        watch.hear("a → ../copy");
        watch.signal(Signal::TERM);
        watch.pump();
        let ended = watch.end();
        assert_eq!(ended.code, 143);
        assert_eq!(ended.changes(), ["a | Write | pushed | ../copy | -"]);
    }
}

#[test]
fn whoever_ends_the_whole_pipeline_gets_the_code_of_a_stream_that_ended() {
    let project = Project::new();
    let mut watch = at_work(&project, &["--exec", GATED]);
    watch.signal(Signal::INT);
    // The agent has last words, too.
    watch.result("t2", true);
    watch.end_turn();
    fs::write(project.beside("gate"), "").unwrap();
    let finished = watch.finish();
    assert_eq!((finished.code, finished.report["turns"].as_u64()), (0, Some(1)));
    assert!(finished.changes()[1].starts_with("b | Edit | skipped"), "{:?}", finished.changes());
}

#[test]
fn what_takes_longer_than_the_patience_is_reported() {
    let project = Project::new();
    let watch = at_work(&project, &["--exec", GATED, "--grace", "1"]);
    watch.signal(Signal::TERM);
    let ended = watch.end();
    assert_eq!(ended.code, 1);
    assert!(ended.changes()[0].ends_with("no time was left for it"), "{:?}", ended.changes());
    assert!(ended.remarks.iter().any(|it| it.contains("took too long")), "{:?}", ended.remarks);
}

#[test]
fn whoever_asks_twice_is_obeyed_at_once() {
    let project = Project::new();
    let mut watch = at_work(&project, &["--exec", GATED]);
    watch.signal(Signal::TERM);
    watch.hear("stopping once");
    watch.signal(Signal::TERM);
    assert_eq!(watch.end().code, 143);
}

#[cfg(target_os = "linux")]
#[test]
fn a_terminal_that_goes_does_not_matter_to_whoever_was_told_to_stay() {
    let project = Project::new();
    project.write("a", "1");
    let mut watch = project.watch_after("trap '' HUP", &["--to", "../copy"]);
    watch.change("t1", "Write", "a");
    watch.hear("a → ../copy");
    watch.signal(Signal::HUP);
    project.write("a", "2");
    watch.change("t2", "Write", "a");
    watch.hear("a → ../copy");
    let finished = watch.finish();
    assert_eq!(finished.code, 0);
    assert_eq!(fs::read_to_string(project.beside("copy/a")).unwrap(), "2");
}
