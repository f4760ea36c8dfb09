//! What prompts are made of, and which messages belong together.

use serde_json::{Value, json};

use super::{
    ANN, BOB, BOT, actions, at, config, described, edit, in_group, message, prompt, update, user,
};
use crate::inbound::Inbound;

fn of_album(id: i64, caption: Option<&str>) -> Value {
    let photo = json!([{"file_id": format!("P{id}"), "width": 9, "height": 9, "file_size": 9}]);
    message(id, json!({"media_group_id": "13", "photo": photo, "caption": caption}))
}

fn forward(id: i64, from: Value, text: &str) -> Value {
    message(id, json!({"forward_origin": from, "text": text}))
}

#[test]
fn an_album_is_one_prompt_in_any_order() {
    let album =
        [of_album(8, None), of_album(7, Some("which is better?")), of_album(9, Some("or this"))];
    assert_eq!(
        actions(album),
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
        actions(album)[0].starts_with(r#"prompt private ann [7 8 9] to 3 "> Show me.\n\nhere" +"#)
    );
}

#[test]
fn forwarded_messages_name_their_author_and_follow_the_comment() {
    let zoe = json!({"type": "user", "sender_user": {"id": 1, "first_name": "Zoë"}, "date": 1});
    let hidden = json!({"type": "hidden_user", "sender_user_name": "Someone Shy", "date": 1});
    let channel = json!({"type": "channel", "chat": {"id": -9, "type": "channel", "title": "News"}, "date": 1});
    let described = actions([
        message(6, json!({"text": "what do they want?"})),
        forward(7, zoe.clone(), "it broke"),
        forward(8, zoe.clone(), "again"),
        forward(9, hidden, "/stop"),
        forward(10, channel, "all is lost"),
        forward(11, json!({}), "hm"),
        message(12, json!({"forward_origin": zoe, "voice": {"file_id": "V"}})),
    ]);
    assert_eq!(
        described,
        [
            "prompt private ann [6 7 8 9 10 11 12] \"what do they want?\\n\\nForwarded from Zoë:\\nit broke\
         \\n\\nagain\\n\\nForwarded from Someone Shy:\\n/stop\\n\\nForwarded from News:\\nall is lost\
         \\n\\nForwarded from an unknown sender:\\nhm\\n\\nForwarded from Zoë:\\n(voice-12.ogg)\" +file V voice-12.ogg"
        ]
    );
}

#[test]
fn a_text_that_the_client_split_is_joined() {
    let halves = ["x".repeat(4_096), "y".repeat(10)];
    let mut inbound = Inbound::new(config());
    assert_eq!(inbound.receive(&update(1, message(7, json!({"text": halves[0]}))), at(0)), []);
    assert_eq!(inbound.receive(&update(2, message(8, json!({"text": halves[1]}))), at(900)), []);
    assert_eq!(
        described(&inbound.take_due(at(1_900))),
        [format!("prompt private ann [7 8] {:?}", halves.join("\n"))]
    );
}

#[test]
fn a_short_text_waits_briefly_and_anything_else_a_second() {
    let mut inbound = Inbound::new(config());
    let hello = || message(7, json!({"text": "hello"}));
    assert_eq!(inbound.next_due(), None);
    assert_eq!(inbound.receive(&update(1, hello()), at(0)), []);
    assert_eq!(inbound.next_due(), Some(at(400)));
    assert_eq!(inbound.pending_updates().collect::<Vec<_>>(), [1]);
    assert_eq!(inbound.take_due(at(399)), []);
    assert_eq!(inbound.take_due(at(400))[0].updates, [1]);
    assert_eq!(inbound.pending_updates().count(), 0);

    assert_eq!(inbound.receive(&update(2, of_album(10, None)), at(1_000)), []);
    assert_eq!(inbound.receive(&update(3, of_album(11, None)), at(1_900)), []);
    assert_eq!(inbound.next_due(), Some(at(2_900)));
    // A prompt that is due comes first.
    let batches = inbound.receive(&update(4, message(12, json!({"text": "/status"}))), at(2_900));
    assert_eq!(
        batches.iter().map(|it| it.updates.clone()).collect::<Vec<_>>(),
        [vec![2, 3], vec![4]]
    );
}

#[test]
fn nothing_waits_longer_than_ten_seconds_or_for_more_than_twenty_parts() {
    let mut inbound = Inbound::new(config());
    for number in 0..=10 {
        let batches = inbound
            .receive(&update(number, of_album(number, None)), at(number.unsigned_abs() * 990));
        assert_eq!(batches, [], "{number}");
    }
    assert_eq!(inbound.next_due(), Some(at(10_000)));
    let mut inbound = Inbound::new(config());
    for number in 1..20 {
        assert_eq!(inbound.receive(&update(number, of_album(number, None)), at(0)), []);
    }
    assert_eq!(inbound.receive(&update(20, of_album(20, None)), at(0))[0].updates.len(), 20);
}

#[test]
fn messages_sent_minutes_apart_that_arrive_together_are_not_one_prompt() {
    let later =
        |id, seconds| message(id, json!({"text": "hello", "date": 1_763_200_000 + seconds}));
    assert_eq!(
        actions([later(1, 0), later(2, 2), later(3, 60)]),
        [r#"prompt private ann [1 2] "hello\nhello""#, r#"prompt private ann [3] "hello""#]
    );
}

#[test]
fn users_and_chats_are_kept_apart() {
    let topic = json!({"text": "c", "message_thread_id": 42, "is_topic_message": true});
    assert_eq!(
        actions([
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
fn a_reply_to_the_bot_is_a_prompt_of_its_own_at_once() {
    let reply = json!({"text": "the blue one", "reply_to_message": {"message_id": 3, "from": user(BOT),
        "text": "Which?", "date": 1, "chat": {"id": ANN, "type": "private"}}});
    let mut inbound = Inbound::new(config());
    inbound.receive(&update(1, message(7, json!({"text": "hm"}))), at(0));
    assert_eq!(
        described(&inbound.receive(&update(2, message(8, reply)), at(10))),
        [
            r#"prompt private ann [7] "hm""#,
            r#"prompt private ann [8] to 3 "> Which?\n\nthe blue one""#
        ]
    );
}

#[test]
fn a_command_follows_the_messages_before_it() {
    let described = actions([of_album(7, None), message(8, json!({"text": "/stop"}))]);
    assert_eq!(
        described,
        [
            "prompt private ann [7] \"\" +picture P7 photo-7.jpg",
            "command private ann 8 Stop by Ann"
        ]
    );
}

#[test]
fn an_edit_changes_an_open_assembly_and_a_finished_prompt() {
    let mut inbound = Inbound::new(config());
    inbound.receive(&update(1, of_album(7, Some("which?"))), at(0));
    assert_eq!(inbound.receive(&edit(2, of_album(7, Some("which one?"))), at(100)), []);
    inbound.receive(&update(3, of_album(8, None)), at(200));
    let batches = inbound.take_due(at(5_000));
    assert_eq!(batches[0].updates, [1, 2, 3]);
    assert!(described(&batches)[0].contains("which one?"));

    let words = |id, text: &str| message(id, json!({ "text": text, "edit_date": 1_763_200_009 }));
    let mut edits =
        |number, message| described(&inbound.receive(&edit(number, message), at(6_000)));
    assert_eq!(
        edits(4, of_album(8, Some("or this"))),
        [r#"edit ann 8 whole "which one?\nor this""#]
    );
    assert_eq!(edits(5, of_album(8, Some("or this"))), [""; 0], "nothing visible changed");
    assert_eq!(
        edits(6, words(99, "of an earlier life")),
        [r#"edit ann 99 part "of an earlier life""#]
    );
    assert_eq!(edits(7, words(99, "/new x")), [""; 0], "a command runs once");
}

#[test]
fn a_clock_that_is_set_back_delays_nothing() {
    let mut inbound = Inbound::new(config());
    inbound.receive(&update(1, of_album(7, None)), at(7_200_000));
    assert_eq!(inbound.take_due(at(0)).len(), 1);
}

fn photo(name: &str) -> Value {
    json!([
        {"file_id": format!("{name}-s"), "file_unique_id": "a", "file_size": 1_000, "width": 90, "height": 60},
        {"file_id": format!("{name}-l"), "file_unique_id": "b", "file_size": 90_000, "width": 1280, "height": 853},
        {"file_id": format!("{name}-m"), "file_unique_id": "c", "file_size": 20_000, "width": 320, "height": 213}
    ])
}

#[test]
fn pictures_are_pictures_and_everything_else_is_a_file() {
    let file = |sort: &str, mime: &str, name: Value| json!({ sort: {"file_id": "F", "file_unique_id": "u", "file_size": 1234, "mime_type": mime, "file_name": name}});
    let none = Value::Null;
    for (more, expected) in [
        (json!({"photo": photo("P")}), "+picture P-l photo-7.jpg"),
        (file("document", "image/png", json!("shot.png")), "+picture F shot.png"),
        (file("document", "image/webp", none.clone()), "+picture F file-7.webp"),
        (file("document", "image/svg+xml", json!("logo.svg")), "+file F logo.svg"),
        (file("document", "image/heic", json!("IMG_1.HEIC")), "+file F IMG_1.HEIC"),
        (file("document", "application/pdf", json!("a\nb.pdf")), "+file F a_b.pdf"),
        (file("document", "application/x-unheard-of", none.clone()), "+file F file-7"),
        (json!({"document": {"file_id": "F", "file_name": "x.JPG"}}), "+picture F x.JPG"),
        (file("voice", "audio/ogg", none.clone()), "+file F voice-7.ogg"),
        (file("audio", "audio/mpeg", json!("song.mp3")), "+file F song.mp3"),
        (file("audio", "audio/x-m4a", none.clone()), "+file F audio-7.m4a"),
        (file("video", "video/quicktime", none.clone()), "+file F video-7.mov"),
        (
            json!({"video_note": {"file_id": "F", "length": 240, "duration": 3}}),
            "+file F video-note-7.mp4",
        ),
    ] {
        let described = actions([message(7, more.clone())]);
        assert_eq!(described, [format!(r#"prompt private ann [7] "" {expected}"#)], "{more}");
    }
    // Telegram repeats an animation as a document.
    let animation = json!({"file_id": "A", "mime_type": "video/mp4", "file_name": "cat.mp4"});
    let both = json!({"animation": animation, "document": animation, "caption": "this cat"});
    assert_eq!(
        actions([message(7, both)]),
        [r#"prompt private ann [7] "this cat" +file A cat.mp4"#]
    );
}

#[test]
fn a_picture_too_large_for_the_model_is_a_file() {
    let scan = json!({"file_id": "F", "file_name": "scan.png", "mime_type": "image/png", "file_size": 9_000_000});
    assert!(!prompt([message(7, json!({ "document": scan }))]).attachments[0].picture);
}

#[test]
fn a_file_too_large_to_download_is_reported_and_its_text_is_used() {
    let film = json!({"file_id": "F", "file_name": "film.mkv", "file_size": 30_000_000});
    let left =
        r#"rejected private ann 7 TooLarge { name: "film.mkv", size: 30000000, limit: 20971520 }"#;
    assert_eq!(
        actions([message(7, json!({"document": film, "caption": "why is it so large?"}))]),
        [left, r#"prompt private ann [7] "why is it so large?""#]
    );
    assert_eq!(actions([message(7, json!({ "document": film }))]), [left]);
}

#[test]
fn unsupported_content_is_reported_in_private_and_ignored_in_a_group() {
    let poll = json!({"poll": {"id": "1", "question": "?", "options": []}});
    assert_eq!(
        actions([message(7, poll.clone())]),
        [r#"rejected private ann 7 Unsupported("polls")"#]
    );
    assert_eq!(actions([in_group(7, poll)]), [""; 0]);
    let sticker = |emoji: Value| message(7, json!({"sticker": {"file_id": "S", "emoji": emoji}}));
    assert_eq!(actions([sticker(json!("👍"))]), [r#"prompt private ann [7] "👍""#]);
    assert_eq!(
        actions([sticker(Value::Null)]),
        [r#"rejected private ann 7 Unsupported("this sticker")"#]
    );
}

#[test]
fn replies_are_quotes() {
    let replied = |from: i64, text: &str| {
        json!({"message_id": 3, "from": user(from), "date": 1, "text": text,
        "chat": {"id": ANN, "type": "private"}})
    };
    for (reply, expected) in [
        (replied(BOT, "Done.\n\nAll is well."), "> Done.\n>\n> All is well.\n\nreally?"),
        (replied(ANN, "do it"), "> do it\n\nreally?"),
        (replied(BOB, "do it"), "> Bob: do it\n\nreally?"),
        (replied(BOT, ""), "really?"),
    ] {
        let draft = prompt([message(7, json!({"text": "really?", "reply_to_message": reply}))]);
        assert_eq!(draft.prompt_text(), expected);
        assert_eq!(draft.text, "really?", "an answer contains no quote");
        assert_eq!(draft.reply_to.map(|it| it.0), Some(3));
    }
    let long = replied(BOT, &"ä".repeat(5_000));
    let draft = prompt([message(7, json!({"text": "?", "reply_to_message": long}))]);
    assert_eq!(draft.quote.unwrap().chars().count(), 503);
    let picked = json!({"text": "?", "reply_to_message": replied(BOT, "one two three"),
        "quote": {"text": "two", "position": 4, "is_manual": true}});
    assert_eq!(prompt([message(7, picked)]).prompt_text(), "> two\n\n?");
    // A quote from another chat has no message to reply to.
    let elsewhere = json!({"text": "?", "external_reply": {}, "quote": {"text": "two"}});
    let draft = prompt([message(7, elsewhere)]);
    assert_eq!((draft.prompt_text().as_str(), draft.reply_to), ("> two\n\n?", None));
}

#[test]
fn the_first_message_of_a_topic_is_not_replied_to() {
    let topic = json!({"message_thread_id": 42, "is_topic_message": true, "text": "hi", "reply_to_message":
        {"message_id": 42, "from": user(BOT), "date": 1, "chat": {"id": -5, "type": "supergroup"},
         "forum_topic_created": {"name": "Bug", "icon_color": 7_322_096}}});
    assert_eq!(actions([in_group(50, topic.clone())]), [r#"prompt group team/42 [50] "hi""#]);
    let mut other = topic.clone();
    other["reply_to_message"]["message_id"] = json!(41);
    assert_eq!(actions([in_group(50, other)]), [r#"prompt group team/42 [50] "hi""#]);
    let mut bare = topic;
    bare["reply_to_message"]["forum_topic_created"] = Value::Null;
    bare["reply_to_message"]["text"] = json!("begin");
    assert_eq!(actions([in_group(50, bare)]), [r#"prompt group team/42 [50] "hi""#]);
}

#[test]
fn a_command_for_the_agent_comes_first() {
    let replied =
        json!({"message_id": 3, "text": "x", "date": 1, "chat": {"id": ANN, "type": "private"}});
    let draft = prompt([message(7, json!({"text": "//review", "reply_to_message": replied}))]);
    assert_eq!(draft.prompt_text(), "/review");
}

#[test]
fn a_leading_mention_of_the_bot_is_removed() {
    for (text, words) in [
        ("@towpath_bot fix it", "fix it"),
        ("@Towpath_Bot: fix it", "fix it"),
        ("@towpath_bots fix it", "@towpath_bots fix it"),
        ("ask @towpath_bot", "ask @towpath_bot"),
    ] {
        assert_eq!(prompt([in_group(7, json!({ "text": text }))]).text, words);
    }
}

#[test]
fn the_id_of_a_prompt_depends_only_on_its_first_message() {
    let one = prompt([message(7, json!({"text": "a"}))]).id;
    assert_eq!(prompt([message(7, json!({"text": "b"}))]).id, one);
    assert_ne!(prompt([message(8, json!({"text": "a"}))]).id, one);
    assert_ne!(prompt([in_group(7, json!({"text": "a"}))]).id, one);
    assert_eq!(one.get_version_num(), 5);
}
