//! What follows from calls that come to nothing.

use std::time::Duration;

use serde_json::json;
use towpath_telegram::chat::Next;
use towpath_telegram::{Buttons, Failure, MessageId, Place, ThreadId};
use view::telegram::Text;
use wire::note::Outcome;

use super::room::Room;
use super::script::{asks, bash, began, id, init, queued, resolved, result, text};
use super::telegram::CHAT;

fn answered() -> Room {
    let mut room = Room::asked(1);
    room.settle().log();
    room.line(&text("m1", "**Yes.**")).over(1);
    room
}

#[test]
fn what_was_not_heard_is_said_again() {
    let mut room = answered();
    room.failing = vec![
        Failure::NotReached("no route".to_owned()),
        Failure::TooFast(Duration::from_secs(3)),
        Failure::Unknown("cut off".to_owned()),
    ];
    room.settle();
    assert_eq!(room.log(), ["1: loud Yes.⏎⏎✔ 7.0 s"]);
}

#[test]
fn refused_tags_become_plain_words() {
    let mut room = answered();
    room.failing = vec![Failure::Tags("unclosed".to_owned())];
    room.step();
    let Next::Do(towpath_telegram::Call::Send(message), _) = room.chat.next(room.now) else {
        panic!("it is still to be said");
    };
    assert_eq!(message.words.html, "Yes.\n\n✔ 7.0 s");
    room.settle();
    assert_eq!(room.log(), ["1: loud Yes.⏎⏎✔ 7.0 s"]);
}

#[test]
fn what_is_refused_for_good_is_passed_over_with_a_word() {
    let mut room = answered();
    room.failing = vec![Failure::Tags("a".to_owned()), Failure::Tags("b".to_owned())];
    room.settle();
    assert_eq!(room.log(), ["1: loud ⚠️ Something that was said could not be shown here. b"]);
    room.note(&queued(id(2), "and")).note(&began(2, &[id(2)])).line(&init());
    room.line(&text("m2", "More.")).over(2);
    room.failing = vec![Failure::Refused("x".to_owned()); 4];
    room.settle();
    assert_eq!(room.log(), [""; 0], "neither it nor the word about it");
    assert_eq!(room.chat.memory().turn, 2);
}

#[test]
fn where_nobody_wants_to_hear_it_rests_until_somebody_speaks() {
    let mut room = answered();
    room.failing = vec![Failure::NotWanted("blocked".to_owned())];
    room.settle().wait(600_000);
    assert_eq!(room.log(), [""; 0]);
    room.chat.say(Text::plain("Hello again"), Buttons::new(), Some(MessageId(501)));
    room.settle();
    assert_eq!(room.log(), ["1: re 501 loud Hello again", "2: loud Yes.⏎⏎✔ 7.0 s"]);
}

#[test]
fn in_a_new_topic_everything_open_is_shown_anew() {
    let mut room = Room::asked(1);
    room.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    room.settle().wait(3_000).log();
    room.failing = vec![Failure::NoSuchThread];
    room.chat.say(Text::plain("Hi"), Buttons::new(), None);
    room.settle();
    assert_eq!(room.log(), [""; 0]);
    room.chat.moved(Place { chat: CHAT, thread: Some(ThreadId(9)) });
    room.settle();
    let log = room.log();
    assert!(log[0].ends_with("Hi") && log[1].contains("🔐 Run ls"), "{log:?}");
}

#[test]
fn a_card_that_was_deleted_is_shown_again_while_it_matters() {
    let mut room = Room::asked(1);
    room.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    room.settle().log();
    room.tap("Always");
    room.failing = vec![Failure::NoSuchMessage];
    room.settle();
    let log = room.log();
    assert!(log.len() == 1 && log[0].starts_with("2: loud 🔐 Run ls"), "{log:?}");
    room.note(&resolved("r1", Outcome::Allowed));
    room.failing = vec![Failure::NoSuchMessage];
    room.settle();
    assert_eq!(room.log(), [""; 0]);
    assert!(room.chat.memory().cards["r1"].settled);
}

#[test]
fn a_card_that_is_refused_is_not_tried_for_ever() {
    let mut room = Room::asked(1);
    room.line(&bash("m1", "c1", "ls")).line(&asks("r1", "c1", "Bash", &json!({"command":"ls"})));
    room.failing = vec![Failure::Refused("no".to_owned())];
    room.settle();
    let log = room.log();
    assert_eq!(log[0], "1: loud ⚠️ The agent asks something that could not be shown here. no");
    room.note(&resolved("r1", Outcome::Allowed)).line(&result("c1", "")).over(1).settle();
    assert_eq!(room.log().last().unwrap(), "2: loud ✔ 7.0 s");
}

#[test]
fn progress_that_is_gone_comes_anew() {
    let mut room = Room::asked(1);
    room.wait(3_000).log();
    room.failing = vec![Failure::NoSuchMessage];
    room.line(&bash("m1", "c1", "ls")).wait(5_000);
    assert_eq!(room.log(), ["2: Working…⏎… Run ls [■ Stop]"]);
}

#[test]
fn progress_that_is_refused_is_left_until_the_next_turn() {
    let mut room = Room::asked(1);
    room.settle();
    room.failing = vec![Failure::Refused("no".to_owned())];
    room.wait(100_000);
    assert_eq!(room.log(), ["typing"]);
    room.over(1).note(&queued(id(2), "and")).note(&began(2, &[id(2)])).wait(3_000);
    assert!(room.log().pop().unwrap().contains("Stop"));
}

#[test]
fn a_reply_to_a_message_that_is_gone_is_still_said() {
    let mut room = Room::private();
    room.chat.say(Text::plain("Here"), Buttons::new(), Some(MessageId(5)));
    room.failing = vec![Failure::NoSuchMessage];
    room.settle();
    assert_eq!(room.log(), ["1: loud Here"]);
}

#[test]
fn files_come_behind_the_answer_and_a_refused_one_is_named() {
    let mut room = answered();
    room.chat.attach("/p/.towpath/outbox/a.png".into(), true);
    room.chat.attach("/p/.towpath/outbox/b.zip".into(), false);
    room.settle();
    assert_eq!(
        room.log(),
        [
            "1: loud Yes.⏎⏎✔ 7.0 s",
            "2: file /p/.towpath/outbox/a.png",
            "3: file /p/.towpath/outbox/b.zip",
        ]
    );
    room.chat.attach("/p/.towpath/outbox/c.iso".into(), false);
    room.failing = vec![Failure::Refused("too large".to_owned())];
    room.settle();
    assert_eq!(room.log(), ["4: loud ⚠️ The file c.iso could not be sent. too large"]);
}
