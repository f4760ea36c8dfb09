//! What prompts are made of.

use serde_json::{Value, json};

use super::{ANN, BOB, BOT, deeds, in_group, message, prompt, user};

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
        let told = deeds([message(7, more.clone())]);
        assert_eq!(told, [format!(r#"prompt private ann [7] "" {expected}"#)], "{more}");
    }
    // Old bots are shown such a film as a document too.
    let animation = json!({"file_id": "A", "mime_type": "video/mp4", "file_name": "cat.mp4"});
    let both = json!({"animation": animation, "document": animation, "caption": "this cat"});
    assert_eq!(deeds([message(7, both)]), [r#"prompt private ann [7] "this cat" +file A cat.mp4"#]);
}

#[test]
fn a_picture_too_large_for_the_model_is_a_file() {
    let scan = json!({"file_id": "F", "file_name": "scan.png", "mime_type": "image/png", "file_size": 9_000_000});
    assert!(!prompt([message(7, json!({ "document": scan }))]).attachments[0].picture);
}

#[test]
fn a_file_too_large_to_fetch_is_said_and_the_words_go_on() {
    let film = json!({"file_id": "F", "file_name": "film.mkv", "file_size": 30_000_000});
    let left =
        r#"left private ann 7 TooLarge { name: "film.mkv", size: 30000000, most: 20971520 }"#;
    assert_eq!(
        deeds([message(7, json!({"document": film, "caption": "why is it so large?"}))]),
        [left, r#"prompt private ann [7] "why is it so large?""#]
    );
    assert_eq!(deeds([message(7, json!({ "document": film }))]), [left]);
}

#[test]
fn what_no_prompt_can_be_made_of_is_said_to_one_person_and_not_to_a_group() {
    let poll = json!({"poll": {"id": "1", "question": "?", "options": []}});
    assert_eq!(deeds([message(7, poll.clone())]), [r#"left private ann 7 Unreadable("polls")"#]);
    assert_eq!(deeds([in_group(7, poll)]), [""; 0]);
    let sticker = |emoji: Value| message(7, json!({"sticker": {"file_id": "S", "emoji": emoji}}));
    assert_eq!(deeds([sticker(json!("👍"))]), [r#"prompt private ann [7] "👍""#]);
    assert_eq!(deeds([sticker(Value::Null)]), [r#"left private ann 7 Unreadable("that sticker")"#]);
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
        assert_eq!(draft.words(), expected);
        assert_eq!(draft.text, "really?", "an answer has no quote in it");
        assert_eq!(draft.reply_to.map(|it| it.0), Some(3));
    }
    let long = replied(BOT, &"ä".repeat(5_000));
    let draft = prompt([message(7, json!({"text": "?", "reply_to_message": long}))]);
    assert_eq!(draft.quote.unwrap().chars().count(), 503);
    let picked = json!({"text": "?", "reply_to_message": replied(BOT, "one two three"),
        "quote": {"text": "two", "position": 4, "is_manual": true}});
    assert_eq!(prompt([message(7, picked)]).words(), "> two\n\n?");
    // In another chat: nothing to reply to, but the words are there.
    let elsewhere = json!({"text": "?", "external_reply": {}, "quote": {"text": "two"}});
    let draft = prompt([message(7, elsewhere)]);
    assert_eq!((draft.words().as_str(), draft.reply_to), ("> two\n\n?", None));
}

#[test]
fn the_first_message_of_a_topic_is_not_replied_to() {
    let topic = json!({"message_thread_id": 42, "is_topic_message": true, "text": "hi", "reply_to_message":
        {"message_id": 42, "from": user(BOT), "date": 1, "chat": {"id": -5, "type": "supergroup"},
         "forum_topic_created": {"name": "Bug", "icon_color": 7_322_096}}});
    assert_eq!(deeds([in_group(50, topic.clone())]), [r#"prompt group team/42 [50] "hi""#]);
    let mut other = topic.clone();
    other["reply_to_message"]["message_id"] = json!(41);
    assert_eq!(deeds([in_group(50, other)]), [r#"prompt group team/42 [50] "hi""#]);
    let mut bare = topic;
    bare["reply_to_message"]["forum_topic_created"] = Value::Null;
    bare["reply_to_message"]["text"] = json!("begin");
    assert_eq!(deeds([in_group(50, bare)]), [r#"prompt group team/42 [50] "hi""#]);
}

#[test]
fn a_command_for_the_agent_stands_first() {
    let replied =
        json!({"message_id": 3, "text": "x", "date": 1, "chat": {"id": ANN, "type": "private"}});
    let draft = prompt([message(7, json!({"text": "//review", "reply_to_message": replied}))]);
    assert_eq!(draft.words(), "/review");
}

#[test]
fn the_name_of_the_bot_in_front_is_not_part_of_the_words() {
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
fn ids_of_prompts_are_of_their_first_message_alone() {
    let one = prompt([message(7, json!({"text": "a"}))]).id;
    assert_eq!(prompt([message(7, json!({"text": "b"}))]).id, one);
    assert_ne!(prompt([message(8, json!({"text": "a"}))]).id, one);
    assert_ne!(prompt([in_group(7, json!({"text": "a"}))]).id, one);
    assert_eq!(one.get_version_num(), 5);
}
