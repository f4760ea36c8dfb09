//! Calls that fail.

use std::time::Duration;

use serde_json::json;
use towpath_telegram::chat::NextCall;
use towpath_telegram::{BotCallError, BotKeyboard, ChatAddress, MessageId, TopicId};
use view::telegram::FormattedText;
use wire::note::{Outcome, RequestKind};

use super::harness::{
    CHAT, TestChat, asks, bash, began, id, init, offered, queued, resolved, result, text,
};

fn answered() -> TestChat {
    let mut test = TestChat::with_turn(1);
    test.run_calls().log();
    test.line(&text("m1", "**Yes.**")).over(1);
    test
}

#[test]
fn a_lost_call_is_repeated() {
    let mut test = answered();
    test.failing = vec![
        BotCallError::Unreachable("no route".to_owned()),
        BotCallError::RateLimited(Duration::from_secs(3)),
        BotCallError::NoResponse("cut off".to_owned()),
    ];
    test.run_calls();
    assert_eq!(test.log(), ["1: loud Yes.⏎⏎✔ 7.0 s"]);
}

#[test]
fn rejected_formatting_is_removed() {
    let mut test = answered();
    test.failing = vec![BotCallError::InvalidMarkup("unclosed".to_owned())];
    test.step();
    let NextCall::Call(towpath_telegram::BotCall::Send(message), _) = test.chat.next_call(test.now)
    else {
        panic!("no call");
    };
    assert_eq!(message.text.html, "Yes.\n\n✔ 7.0 s");
    test.run_calls();
    assert_eq!(test.log(), ["1: loud Yes.⏎⏎✔ 7.0 s"]);
}

#[test]
fn a_rejected_message_is_skipped_and_reported() {
    let mut test = answered();
    test.failing = vec![
        BotCallError::InvalidMarkup("a".to_owned()),
        BotCallError::InvalidMarkup("b".to_owned()),
    ];
    test.run_calls();
    assert_eq!(test.log(), ["1: loud ⚠️ A message could not be shown here: b"]);
    test.note(&queued(id(2), "and")).note(&began(2, &[id(2)])).line(&init());
    test.line(&text("m2", "More.")).over(2);
    test.failing = vec![BotCallError::Rejected("x".to_owned()); 4];
    test.run_calls();
    assert_eq!(test.log(), [""; 0], "neither the message nor the report");
    assert_eq!(test.chat.checkpoint().turn, 2);
}

#[test]
fn a_blocked_chat_is_idle_until_a_user_writes() {
    let mut test = answered();
    test.failing = vec![BotCallError::Forbidden("blocked".to_owned())];
    test.run_calls().wait(600_000);
    assert_eq!(test.log(), [""; 0]);
    test.chat.reply(&FormattedText::plain("Hello again"), BotKeyboard::new(), Some(MessageId(501)));
    test.run_calls();
    assert_eq!(test.log(), ["1: re 501 loud Hello again", "2: loud Yes.⏎⏎✔ 7.0 s"]);
}

#[test]
fn everything_open_is_shown_again_in_a_new_topic() {
    let mut test = TestChat::with_turn(1);
    test.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    test.run_calls().wait(3_000).log();
    test.failing = vec![BotCallError::TopicNotFound];
    test.chat.reply(&FormattedText::plain("Hi"), BotKeyboard::new(), None);
    test.run_calls();
    assert_eq!(test.log(), [""; 0]);
    test.chat.migrate(ChatAddress { chat: CHAT, topic: Some(TopicId(9)) });
    test.run_calls();
    let log = test.log();
    assert!(log[0].ends_with("Hi") && log[1].contains("🔐 Run ls"), "{log:?}");
}

#[test]
fn a_deleted_card_is_sent_again_while_its_request_is_open() {
    let mut test = TestChat::with_turn(1);
    test.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    let rules = wire::consent::rules("Bash", r#"{"command":"ls"}"#, "/p/q");
    test.note(&offered("r1", RequestKind::Permission, rules)).run_calls().log();
    test.tap("Always");
    test.failing = vec![BotCallError::MessageNotFound];
    test.run_calls();
    let log = test.log();
    assert!(log.len() == 1 && log[0].starts_with("2: loud 🔐 Run ls"), "{log:?}");
    test.note(&resolved("r1", Outcome::Allowed));
    test.failing = vec![BotCallError::MessageNotFound];
    test.run_calls();
    assert_eq!(test.log(), [""; 0]);
    assert!(test.chat.checkpoint().cards["r1"].closed);
}

#[test]
fn a_rejected_card_is_not_retried_forever() {
    let mut test = TestChat::with_turn(1);
    test.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    test.failing = vec![BotCallError::Rejected("no".to_owned())];
    test.run_calls();
    let log = test.log();
    assert_eq!(log[0], "1: loud ⚠️ A request of the agent could not be shown here: no");
    test.note(&resolved("r1", Outcome::Allowed)).line(&result("c1", "")).over(1).run_calls();
    assert_eq!(test.log().last().unwrap(), "2: loud ✔ 7.0 s");
}

#[test]
fn a_deleted_progress_message_is_sent_again() {
    let mut test = TestChat::with_turn(1);
    test.wait(3_000).log();
    test.failing = vec![BotCallError::MessageNotFound];
    test.line(&bash("m1", "c1", "ls")).wait(5_000);
    assert_eq!(test.log(), ["2: Working…⏎… Run ls [Stop]"]);
}

#[test]
fn a_rejected_progress_message_is_not_retried_before_the_next_turn() {
    let mut test = TestChat::with_turn(1);
    test.run_calls();
    test.failing = vec![BotCallError::Rejected("no".to_owned())];
    test.wait(100_000);
    assert_eq!(test.log(), ["typing"]);
    test.over(1).note(&queued(id(2), "and")).note(&began(2, &[id(2)])).wait(3_000);
    assert!(test.log().pop().unwrap().contains("Stop"));
}

#[test]
fn a_reply_to_a_deleted_message_is_still_sent() {
    let mut test = TestChat::private();
    test.chat.reply(&FormattedText::plain("Here"), BotKeyboard::new(), Some(MessageId(5)));
    test.failing = vec![BotCallError::MessageNotFound];
    test.run_calls();
    assert_eq!(test.log(), ["1: loud Here"]);
}

#[test]
fn files_follow_the_answer_and_a_rejected_one_is_reported() {
    let mut test = answered();
    test.chat.attach("/p/.towpath/outbox/a.png".into(), true);
    test.chat.attach("/p/.towpath/outbox/b.zip".into(), false);
    test.run_calls();
    assert_eq!(
        test.log(),
        [
            "1: loud Yes.⏎⏎✔ 7.0 s",
            "2: file /p/.towpath/outbox/a.png",
            "3: file /p/.towpath/outbox/b.zip",
        ]
    );
    test.chat.attach("/p/.towpath/outbox/c.iso".into(), false);
    test.failing = vec![BotCallError::Rejected("too large".to_owned())];
    test.run_calls();
    assert_eq!(test.log(), ["4: loud ⚠️ The file c.iso could not be sent: too large"]);
}
