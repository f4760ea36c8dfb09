//! What is going on: the progress message and drafts.

use serde_json::json;
use towpath_telegram::chat::Meaning;
use towpath_telegram::{Failure, Kind};

use super::room::Room;
use super::script::{
    bash, began, delta, id, init, queued, result, starts, text, thinking, thinks, thought, writes,
};

#[test]
fn a_turn_that_takes_its_time_is_seen_to_run_and_no_thought_leaks() {
    let mut room = Room::asked(1);
    room.line(&starts("m1")).line(&thinks()).line(&thought("a secret")).wait(1_900);
    assert_eq!(room.log(), ["typing"]);
    room.wait(1_000);
    assert_eq!(room.log(), ["1: Thinking… [■ Stop]"]);
    room.line(&thinking("m1", "a secret")).line(&bash("m1", "c1", "cargo test")).wait(400);
    room.wait(3_000);
    assert_eq!(room.log(), ["1 = Working…⏎… Run cargo test [■ Stop]"]);
    room.note(&queued(id(2), "more")).wait(2_000);
    assert_eq!(room.log(), ["1 = Working…⏎… Run cargo test⏎1 prompt waits [■ Stop]"]);
    room.wait(60_000);
    let log = room.log();
    assert!(log.len() < 8, "{log:?}");
    assert_eq!(log[0], "1 = Working… · 10 s⏎… Run cargo test⏎1 prompt waits [■ Stop]");
    assert_eq!(room.tap("Stop"), Meaning::Stop);
    room.line(&result("c1", "ok")).line(&text("m2", "Green.")).over(1).settle();
    assert_eq!(room.log(), ["2: loud Green.⏎⏎✔ 7.0 s · 5 tokens in, 1 out", "1 gone"]);
}

#[test]
fn a_tool_that_is_quick_is_not_shown() {
    let mut room = Room::asked(1);
    room.line(&bash("m1", "c1", "ls")).wait(400).line(&result("c1", "")).wait(1_000);
    assert_eq!(room.log(), ["typing"]);
    room.line(&bash("m1", "c2", "sleep")).wait(400);
    assert_eq!(room.log(), [""; 0]);
    room.wait(200);
    assert_eq!(room.log().len(), 1);
}

#[test]
fn in_private_what_is_written_is_a_draft() {
    let mut room = Room::asked(1);
    room.line(&starts("m1")).line(&writes());
    for n in 0..20 {
        room.line(&delta(&format!("word{n} "))).wait(100);
    }
    let log = room.log();
    assert_eq!(log[..2], ["draft word0".to_owned(), "typing".to_owned()]);
    assert!((4..=6).contains(&log.len()), "{log:?}");
    assert_eq!(log.last().unwrap(), "1: Writing… [■ Stop]");
    // The message that shows what is going on takes the draft away, so it comes again.
    room.wait(700);
    assert!(room.log()[0].starts_with("draft word0 "));
    room.line(&delta("end")).wait(700);
    assert!(room.log().pop().unwrap().ends_with("word19 end"));
    room.line(&text("m1", "words, all of them")).over(1).settle();
    assert_eq!(room.log(), ["2: loud words, all of them⏎⏎✔ 7.0 s · 5 tokens in, 1 out", "1 gone"]);
}

#[test]
fn a_server_that_knows_no_drafts_is_not_asked_twice() {
    let mut room = Room::asked(1);
    room.line(&starts("m1")).line(&writes()).line(&delta("hello"));
    room.failing = vec![Failure::Refused("unknown method".to_owned())];
    room.wait(3_000).line(&delta(" world")).wait(3_000);
    assert_eq!(
        room.log(),
        ["typing", "1: hello⏎⏎Writing… [■ Stop]", "1 = hello world⏎⏎Writing… [■ Stop]"]
    );
}

#[test]
fn in_a_group_what_is_written_is_part_of_the_progress() {
    let mut room = Room::of(Kind::Group, 1);
    room.note(&queued(id(1), "go")).note(&began(1, &[id(1)])).line(&init()).settle();
    room.log();
    room.line(&starts("m1")).line(&writes());
    for _ in 0..100 {
        room.line(&delta("0123456789 ")).wait(100);
    }
    let log = room.log();
    assert!(log[0].starts_with("2: 0123456789 "), "{log:?}");
    assert!((3..=4).contains(&log.len()), "{log:?}");
}

#[test]
fn progress_goes_to_the_end_of_the_chat() {
    let mut room = Room::asked(1);
    room.wait(3_000);
    assert_eq!(room.log(), ["typing", "1: Thinking… [■ Stop]"]);
    room.line(&text("m1", "I look.")).line(&bash("m1", "c1", "ls")).wait(3_000);
    assert_eq!(
        room.log(),
        ["2: I look.", "1 gone", "3: Thinking… [■ Stop]", "3 = Working…⏎… Run ls [■ Stop]"]
    );
    room.line(&result("c1", "")).over(1).settle();
    assert_eq!(room.log(), ["4: loud ✔ 7.0 s", "3 gone"]);
}

#[test]
fn a_turn_that_is_over_cannot_be_stopped() {
    let mut room = Room::asked(1);
    room.wait(3_000);
    let (message, data) = room.telegram.button("Stop");
    room.over(1).settle();
    let stale = room.chat.tapped(message, &data, &super::script::ann());
    assert_eq!(stale, Meaning::Stale("That turn is over.".to_owned()));
}

#[test]
fn progress_of_an_earlier_life_is_taken_up_or_taken_away() {
    let mut room = Room::asked(1);
    room.wait(3_000);
    let kept = room.chat.memory().clone();
    room.log();
    room.restart(kept.clone());
    room.line(&bash("m1", "c1", "ls")).wait(3_000);
    assert_eq!(room.log(), ["1 = Working…⏎… Run ls [■ Stop]"]);
    room.line(&result("c1", "")).over(1);
    room.restart(kept);
    room.settle();
    assert_eq!(room.log(), ["2: loud ✔ 7.0 s", "1 gone"]);
}

#[test]
fn a_long_text_is_shown_from_its_end() {
    for kind in [Kind::Private, Kind::Group] {
        let mut room = Room::of(kind, 1);
        room.note(&queued(id(1), "go")).note(&began(1, &[id(1)])).line(&init());
        room.line(&starts("m1")).line(&writes());
        room.line(&delta(&"👍 ".repeat(9_000))).line(&delta("the end")).wait(5_000);
        let shown = room.log().into_iter().find(|line| line.contains("the end"));
        assert!(shown.is_some());
    }
}

#[test]
fn nothing_is_said_while_nothing_happens() {
    let mut room = Room::private();
    room.line(&json!({"type":"rate_limit_event"})).wait(3_600_000);
    assert_eq!(room.log(), [""; 0]);
}

#[test]
fn progress_stays_below_what_people_write() {
    let mut room = Room::asked(1);
    room.wait(3_000).log();
    room.chat.prompted(&[towpath_telegram::MessageId(600)], id(2));
    room.note(&queued(id(2), "and")).wait(2_000);
    assert_eq!(room.log(), ["1 gone", "2: Thinking…⏎1 prompt waits [■ Stop]"]);
}
