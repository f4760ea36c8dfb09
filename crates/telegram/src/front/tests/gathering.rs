//! What belongs together, and until when it is waited for.

use serde_json::{Value, json};

use super::{ANN, BOB, BOT, at, deeds, edit, in_group, message, rules, told, update, user};
use crate::front::Front;

fn of_album(id: i64, caption: Option<&str>) -> Value {
    let photo = json!([{"file_id": format!("P{id}"), "width": 9, "height": 9, "file_size": 9}]);
    message(id, json!({"media_group_id": "13", "photo": photo, "caption": caption}))
}

fn forward(id: i64, from: Value, text: &str) -> Value {
    message(id, json!({"forward_origin": from, "text": text}))
}

#[test]
fn an_album_is_one_prompt_however_its_parts_come() {
    let album =
        [of_album(8, None), of_album(7, Some("which is better?")), of_album(9, Some("or this"))];
    assert_eq!(
        deeds(album),
        ["prompt private ann [7 8 9] \"which is better?\\nor this\" \
         +picture P7 photo-7.jpg +picture P8 photo-8.jpg +picture P9 photo-9.jpg"]
    );
}

#[test]
fn an_album_that_replies_has_one_quote() {
    let replied = message(3, json!({"from": user(BOT), "text": "Show me."}));
    let album =
        [of_album(7, None), of_album(8, Some("here")), of_album(9, None)].map(|mut part| {
            part["reply_to_message"] = replied.clone();
            part
        });
    assert!(
        deeds(album)[0].starts_with(r#"prompt private ann [7 8 9] to 3 "> Show me.\n\nhere" +"#)
    );
}

#[test]
fn forwards_say_who_wrote_them_and_the_comment_on_them_stands_in_front() {
    let zoe = json!({"type": "user", "sender_user": {"id": 1, "first_name": "Zoë"}, "date": 1});
    let hidden = json!({"type": "hidden_user", "sender_user_name": "Someone Shy", "date": 1});
    let channel = json!({"type": "channel", "chat": {"id": -9, "type": "channel", "title": "News"}, "date": 1});
    let told = deeds([
        message(6, json!({"text": "what do they want?"})),
        forward(7, zoe.clone(), "it broke"),
        forward(8, zoe.clone(), "again"),
        forward(9, hidden, "/stop"),
        forward(10, channel, "all is lost"),
        forward(11, json!({}), "hm"),
        message(12, json!({"forward_origin": zoe, "voice": {"file_id": "V"}})),
    ]);
    assert_eq!(
        told,
        [
            "prompt private ann [6 7 8 9 10 11 12] \"what do they want?\\n\\nForwarded from Zoë:\\nit broke\
         \\n\\nagain\\n\\nForwarded from Someone Shy:\\n/stop\\n\\nForwarded from News:\\nall is lost\
         \\n\\nForwarded from somebody:\\nhm\\n\\nForwarded from Zoë:\\n(voice-12.ogg)\" +file V voice-12.ogg"
        ]
    );
}

#[test]
fn a_text_that_the_client_cut_is_put_together() {
    let halves = ["x".repeat(4_096), "y".repeat(10)];
    let mut front = Front::new(rules());
    assert_eq!(front.take(&update(1, message(7, json!({"text": halves[0]}))), at(0)), []);
    assert_eq!(front.take(&update(2, message(8, json!({"text": halves[1]}))), at(900)), []);
    assert_eq!(
        told(&front.due(at(1_900))),
        [format!("prompt private ann [7 8] {:?}", halves.join("\n"))]
    );
}

#[test]
fn words_wait_a_breath_and_parts_a_second_for_the_next() {
    let mut front = Front::new(rules());
    let hello = || message(7, json!({"text": "hello"}));
    assert_eq!(front.wakes(), None);
    assert_eq!(front.take(&update(1, hello()), at(0)), []);
    assert_eq!(front.wakes(), Some(at(400)));
    assert_eq!(front.held().collect::<Vec<_>>(), [1]);
    assert_eq!(front.due(at(399)), []);
    assert_eq!(front.due(at(400))[0].updates, [1]);
    assert_eq!(front.held().count(), 0);

    assert_eq!(front.take(&update(2, of_album(10, None)), at(1_000)), []);
    assert_eq!(front.take(&update(3, of_album(11, None)), at(1_900)), []);
    assert_eq!(front.wakes(), Some(at(2_900)));
    // What is due comes first, whoever asks.
    let taken = front.take(&update(4, message(12, json!({"text": "/status"}))), at(2_900));
    assert_eq!(
        taken.iter().map(|it| it.updates.clone()).collect::<Vec<_>>(),
        [vec![2, 3], vec![4]]
    );
}

#[test]
fn nothing_waits_longer_than_ten_seconds_or_for_more_than_twenty_parts() {
    let mut front = Front::new(rules());
    for number in 0..=10 {
        let taken =
            front.take(&update(number, of_album(number, None)), at(number.unsigned_abs() * 990));
        assert_eq!(taken, [], "{number}");
    }
    assert_eq!(front.wakes(), Some(at(10_000)));
    let mut front = Front::new(rules());
    for number in 1..20 {
        assert_eq!(front.take(&update(number, of_album(number, None)), at(0)), []);
    }
    assert_eq!(front.take(&update(20, of_album(20, None)), at(0))[0].updates.len(), 20);
}

#[test]
fn what_was_sent_minutes_apart_and_came_at_once_is_not_one_prompt() {
    let later =
        |id, seconds| message(id, json!({"text": "hello", "date": 1_763_200_000 + seconds}));
    assert_eq!(
        deeds([later(1, 0), later(2, 2), later(3, 60)]),
        [r#"prompt private ann [1 2] "hello\nhello""#, r#"prompt private ann [3] "hello""#]
    );
}

#[test]
fn people_and_places_are_kept_apart() {
    let topic = json!({"text": "c", "message_thread_id": 42, "is_topic_message": true});
    assert_eq!(
        deeds([
            in_group(1, json!({"text": "a"})),
            in_group(2, json!({"text": "b", "from": user(BOB)})),
            in_group(3, topic),
            in_group(4, json!({"text": "d"})),
        ]),
        [
            r#"prompt group team [2] "b""#,
            r#"prompt group team/42 [3] "c""#,
            r#"prompt group team [1 4] "a\nd""#
        ]
    );
}

#[test]
fn a_reply_to_us_goes_at_once_and_alone() {
    let reply = json!({"text": "the blue one", "reply_to_message": {"message_id": 3, "from": user(BOT),
        "text": "Which?", "date": 1, "chat": {"id": ANN, "type": "private"}}});
    let mut front = Front::new(rules());
    front.take(&update(1, message(7, json!({"text": "hm"}))), at(0));
    assert_eq!(
        told(&front.take(&update(2, message(8, reply)), at(10))),
        [
            r#"prompt private ann [7] "hm""#,
            r#"prompt private ann [8] to 3 "> Which?\n\nthe blue one""#
        ]
    );
}

#[test]
fn a_command_comes_after_what_was_sent_before_it() {
    let told = deeds([of_album(7, None), message(8, json!({"text": "/stop"}))]);
    assert_eq!(
        told,
        [
            "prompt private ann [7] \"\" +picture P7 photo-7.jpg",
            "command private ann 8 Stop by Ann"
        ]
    );
}

#[test]
fn an_edit_changes_what_is_being_put_together_and_rewords_what_is() {
    let mut front = Front::new(rules());
    front.take(&update(1, of_album(7, Some("which?"))), at(0));
    assert_eq!(front.take(&edit(2, of_album(7, Some("which one?"))), at(100)), []);
    front.take(&update(3, of_album(8, None)), at(200));
    let taken = front.due(at(5_000));
    assert_eq!(taken[0].updates, [1, 2, 3]);
    assert!(told(&taken)[0].contains("which one?"));

    let words = |id, text: &str| message(id, json!({ "text": text, "edit_date": 1_763_200_009 }));
    let mut edits = |number, message| told(&front.take(&edit(number, message), at(6_000)));
    assert_eq!(
        edits(4, of_album(8, Some("or this"))),
        [r#"reword ann 8 whole "which one?\nor this""#]
    );
    assert_eq!(edits(5, of_album(8, Some("or this"))), [""; 0], "nothing that anybody sees");
    assert_eq!(
        edits(6, words(99, "of an earlier life")),
        [r#"reword ann 99 part "of an earlier life""#]
    );
    assert_eq!(edits(7, words(99, "/new x")), [""; 0], "a command is carried out once");
}

#[test]
fn a_clock_that_is_set_back_holds_nothing_up() {
    let mut front = Front::new(rules());
    front.take(&update(1, of_album(7, None)), at(7_200_000));
    assert_eq!(front.due(at(0)).len(), 1);
}
