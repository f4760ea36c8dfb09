//! Who is listened to, and where they are.

use std::collections::BTreeSet;

use serde_json::json;

use super::{ANN, BOT, at, deeds, in_group, message, put, read, rules, told, update, user};
use crate::front::Front;

#[test]
fn somebody_on_the_list_is_heard_and_nobody_else_gets_an_answer() {
    assert_eq!(
        deeds([message(7, json!({"text": "hello"}))]),
        [r#"prompt private ann [7] "hello""#]
    );
    let eve = json!({"from": user(666), "chat": {"id": 666, "type": "private"}, "text": "/start"});
    assert_eq!(deeds([message(7, eve)]), ["stranger 666 Eve"]);
    let mut closed = rules();
    closed.allow = BTreeSet::new();
    let taken = Front::new(closed).take(&update(1, message(7, json!({"text": "hello"}))), at(0));
    assert_eq!(told(&taken), ["stranger 501 Ann"], "an empty list is nobody");
}

#[test]
fn a_stranger_is_told_of_once_an_hour_whatever_they_do() {
    let mut front = Front::new(rules());
    let hour = 3_600_000;
    let mut counted = Vec::new();
    for (number, moment) in [(1, 0), (2, 10), (3, hour - 1), (4, hour), (5, hour + 1)] {
        let update = match number % 3 {
            0 => read(json!({"update_id": number, "callback_query":
                {"id": "77", "from": user(666), "data": "x", "message": message(1, json!({}))}})),
            1 => update(number, message(number, json!({"from": user(666), "text": "psst"}))),
            _ => super::edit(number, message(number, json!({"from": user(666), "text": "psst"}))),
        };
        let taken = front.take(&update, at(moment));
        assert_eq!(taken.iter().flat_map(|it| &it.updates).collect::<Vec<_>>(), [&number]);
        counted.push(told(&taken).len());
    }
    assert_eq!(counted, [1, 0, 0, 1, 0]);
}

#[test]
fn a_crowd_of_strangers_does_not_fill_the_log() {
    let mut front = Front::new(rules());
    let told = (1..=1000).map(|id| {
        let from = json!({"id": 10_000 + id, "first_name": "x"});
        told(&front.take(&update(id, message(id, json!({"from": from, "text": "x"}))), at(0))).len()
    });
    assert_eq!(told.sum::<usize>(), 100);
}

#[test]
fn bots_channels_and_whoever_speaks_for_a_chat_are_nobody() {
    let group = json!({"id": -1_001_234_567_890_i64, "type": "supergroup", "title": "Team"});
    let anonymous = json!({"id": 1_087_968_824, "is_bot": true, "first_name": "Group"});
    for more in [
        json!({"from": user(BOT), "text": "me"}),
        json!({"from": anonymous, "sender_chat": group, "text": "admin"}),
        json!({"sender_chat": group, "text": "in the group's name"}),
        json!({"from": null, "text": "nobody"}),
        json!({"chat": {"id": -100, "type": "channel", "title": "News"}, "text": "post"}),
        json!({"new_chat_members": [user(ANN)]}),
        json!({"pinned_message": {"message_id": 1}}),
        json!({"text": "/stop@other_bot"}),
    ] {
        assert_eq!(deeds([in_group(7, more.clone())]), [""; 0], "{more}");
    }
    let post = read(json!({"update_id": 1, "channel_post": message(1, json!({"text": "x"}))}));
    assert_eq!(Front::new(rules()).take(&post, at(0))[0].updates, [1]);
}

#[test]
fn topics_are_places_and_threads_of_replies_are_not() {
    let topic = json!({"message_thread_id": 42, "is_topic_message": true});
    for (more, site) in [
        (json!({}), "team"),
        (topic.clone(), "team/42"),
        (json!({"message_thread_id": 42}), "team"),
        (json!({"message_thread_id": 1, "is_topic_message": true}), "team"),
    ] {
        let mut message = in_group(50, json!({"text": "hi"}));
        put(&mut message, more);
        assert_eq!(deeds([message]), [format!(r#"prompt group {site} [50] "hi""#)]);
    }
    let mut private = message(50, json!({"text": "hi"}));
    put(&mut private, topic);
    assert_eq!(deeds([private]), [r#"prompt private ann/42 [50] "hi""#]);
}

#[test]
fn commands_come_with_their_place_and_at_once() {
    let mut front = Front::new(rules());
    let topic = json!({"message_thread_id": 42, "is_topic_message": true, "text": "/new@Towpath_Bot ~/x",
        "entities": [{"type": "bot_command", "offset": 0, "length": 16}]});
    let taken = front.take(&update(1, in_group(50, topic)), at(0));
    assert_eq!(told(&taken), [r#"command group team/42 50 New(Some("~/x")) by Ann"#]);
    assert_eq!(
        deeds([message(3, json!({"text": "/nonsense"}))]),
        [r#"command private ann 3 Unknown("nonsense") by Ann"#]
    );
    assert_eq!(
        deeds([message(3, json!({"text": "//review 5"}))]),
        [r#"prompt private ann [3] "/review 5""#]
    );
}

#[test]
fn taps_are_passed_on() {
    let tap = |message| {
        let query = json!({"id": "4382bfdwdsb323b2d9", "from": user(ANN), "message": message,
            "chat_instance": "1", "data": "x9:a"});
        told(
            &Front::new(rules())
                .take(&read(json!({"update_id": 1, "callback_query": query})), at(0)),
        )
    };
    let topic = json!({"from": user(BOT), "message_thread_id": 42, "is_topic_message": true, "text": "May I?"});
    assert_eq!(tap(in_group(8, topic)), ["tap group team/42 8 4382bfdwdsb323b2d9 x9:a by Ann"]);
    let old = json!({"message_id": 8, "date": 0, "chat": {"id": ANN, "type": "private"}});
    assert_eq!(tap(old), ["tap private ann 8 4382bfdwdsb323b2d9 x9:a by Ann"]);
    assert_eq!(tap(json!(null)), [""; 0]);
}

#[test]
fn a_group_that_becomes_a_supergroup_is_the_same_place() {
    let more = json!({"chat": {"id": -55, "type": "group", "title": "Team"}, "from": user(666),
        "migrate_to_chat_id": -1_001_234_567_890_i64});
    assert_eq!(deeds([message(9, more)]), ["moved -55 -1001234567890"]);
}
