//! The progress message and drafts.

use serde_json::json;
use towpath_telegram::chat::UserIntent;
use towpath_telegram::{BotCallError, ChatKind};

use super::harness::{
    TestChat, bash, began, delta, id, init, queued, result, starts, text, thinking, thinks,
    thought, writes,
};

#[test]
fn a_long_turn_has_a_progress_message_without_thoughts() {
    let mut test = TestChat::with_turn(1);
    test.line(&starts("m1")).line(&thinks()).line(&thought("a secret")).wait(1_900);
    assert_eq!(test.log(), ["typing"]);
    test.wait(1_000);
    assert_eq!(test.log(), ["1: Thinking… [Stop]"]);
    test.line(&thinking("m1", "a secret")).line(&bash("m1", "c1", "cargo test")).wait(400);
    test.wait(3_000);
    assert_eq!(test.log(), ["1 = Working…⏎… Run cargo test [Stop]"]);
    test.note(&queued(id(2), "more")).wait(2_000);
    assert_eq!(test.log(), ["1 = Working…⏎… Run cargo test⏎1 message queued [Stop]"]);
    test.wait(60_000);
    let log = test.log();
    assert!(log.len() < 8, "{log:?}");
    assert_eq!(log[0], "1 = Working… · 10 s⏎… Run cargo test⏎1 message queued [Stop]");
    assert_eq!(test.tap("Stop"), UserIntent::Stop);
    test.line(&result("c1", "ok")).line(&text("m2", "Green.")).over(1).run_calls();
    assert_eq!(test.log(), ["2: loud Green.⏎⏎✔ 7.0 s · 5 tokens in, 1 out", "1 gone"]);
}

#[test]
fn a_quick_tool_call_is_not_shown() {
    let mut test = TestChat::with_turn(1);
    test.line(&bash("m1", "c1", "ls")).wait(400).line(&result("c1", "")).wait(1_000);
    assert_eq!(test.log(), ["typing"]);
    test.line(&bash("m1", "c2", "sleep")).wait(400);
    assert_eq!(test.log(), [""; 0]);
    test.wait(200);
    assert_eq!(test.log().len(), 1);
}

#[test]
fn a_text_being_written_is_a_draft_in_a_private_chat() {
    let mut test = TestChat::with_turn(1);
    test.line(&starts("m1")).line(&writes());
    for n in 0..20 {
        test.line(&delta(&format!("word{n} "))).wait(100);
    }
    let log = test.log();
    assert_eq!(log[..2], ["draft word0".to_owned(), "typing".to_owned()]);
    assert!((4..=6).contains(&log.len()), "{log:?}");
    assert_eq!(log.last().unwrap(), "1: Writing… [Stop]");
    // The progress message removes the draft, so it is shown again.
    test.wait(700);
    assert!(test.log()[0].starts_with("draft word0 "));
    test.line(&delta("end")).wait(700);
    assert!(test.log().pop().unwrap().ends_with("word19 end"));
    test.line(&text("m1", "words, all of them")).over(1).run_calls();
    assert_eq!(test.log(), ["2: loud words, all of them⏎⏎✔ 7.0 s · 5 tokens in, 1 out", "1 gone"]);
}

#[test]
fn a_server_without_drafts_is_not_asked_twice() {
    let mut test = TestChat::with_turn(1);
    test.line(&starts("m1")).line(&writes()).line(&delta("hello"));
    test.failing = vec![BotCallError::Rejected("unknown method".to_owned())];
    test.wait(3_000).line(&delta(" world")).wait(3_000);
    assert_eq!(
        test.log(),
        ["typing", "1: hello⏎⏎Writing… [Stop]", "1 = hello world⏎⏎Writing… [Stop]"]
    );
}

#[test]
fn a_text_being_written_is_part_of_the_progress_message_in_a_group() {
    let mut test = TestChat::new(ChatKind::Group, 1);
    test.note(&queued(id(1), "go")).note(&began(1, &[id(1)])).line(&init()).run_calls();
    test.log();
    test.line(&starts("m1")).line(&writes());
    for _ in 0..100 {
        test.line(&delta("0123456789 ")).wait(100);
    }
    let log = test.log();
    assert!(log[0].starts_with("2: 0123456789 "), "{log:?}");
    assert!((3..=4).contains(&log.len()), "{log:?}");
}

#[test]
fn the_progress_message_moves_to_the_end_of_the_chat() {
    let mut test = TestChat::with_turn(1);
    test.wait(3_000);
    assert_eq!(test.log(), ["typing", "1: Thinking… [Stop]"]);
    test.line(&text("m1", "I look.")).line(&bash("m1", "c1", "ls")).wait(3_000);
    assert_eq!(
        test.log(),
        ["2: I look.", "1 gone", "3: Thinking… [Stop]", "3 = Working…⏎… Run ls [Stop]"]
    );
    test.line(&result("c1", "")).over(1).run_calls();
    assert_eq!(test.log(), ["4: loud ✔ 7.0 s", "3 gone"]);
}

#[test]
fn a_turn_that_is_over_cannot_be_stopped() {
    let mut test = TestChat::with_turn(1);
    test.wait(3_000);
    let (message, data) = test.telegram.button("Stop");
    test.over(1).run_calls();
    let stale = test.chat.read_tap(message, &data);
    assert_eq!(stale, UserIntent::Stale("This turn has already ended.".to_owned()));
}

#[test]
fn a_progress_message_of_an_earlier_process_is_edited_or_deleted() {
    let mut test = TestChat::with_turn(1);
    test.wait(3_000);
    let stored = test.chat.checkpoint().clone();
    test.log();
    test.restart(stored.clone());
    test.line(&bash("m1", "c1", "ls")).wait(3_000);
    assert_eq!(test.log(), ["1 = Working…⏎… Run ls [Stop]"]);
    test.line(&result("c1", "")).over(1);
    test.restart(stored);
    test.run_calls();
    assert_eq!(test.log(), ["2: loud ✔ 7.0 s", "1 gone"]);
}

#[test]
fn a_long_text_is_shown_from_its_end() {
    for kind in [ChatKind::Private, ChatKind::Group] {
        let mut test = TestChat::new(kind, 1);
        test.note(&queued(id(1), "go")).note(&began(1, &[id(1)])).line(&init());
        test.line(&starts("m1")).line(&writes());
        test.line(&delta(&"👍 ".repeat(9_000))).line(&delta("the end")).wait(5_000);
        let shown = test.log().into_iter().find(|line| line.contains("the end"));
        assert!(shown.is_some());
    }
}

#[test]
fn an_idle_chat_makes_no_calls() {
    let mut test = TestChat::private();
    test.line(&json!({"type":"rate_limit_event"})).wait(3_600_000);
    assert_eq!(test.log(), [""; 0]);
}

#[test]
fn the_progress_message_stays_below_the_messages_of_users() {
    let mut test = TestChat::with_turn(1);
    test.wait(3_000).log();
    test.chat.add_prompt(&[towpath_telegram::MessageId(600)], id(2));
    test.note(&queued(id(2), "and")).wait(2_000);
    assert_eq!(test.log(), ["1 gone", "2: Thinking…⏎1 message queued [Stop]"]);
}
