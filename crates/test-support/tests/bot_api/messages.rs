//! Texts, buttons and files of messages, and changes to messages.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use towpath_test_support::bot_api::{
    BotApiMediaKind, BotApiMessageId, BotApiOptions, BotApiRates, BotApiUserMessage,
};

use crate::fixture::{ANN, NOT_MODIFIED, TestBot, keyboard, png};

#[tokio::test]
async fn a_text_has_one_to_4096_utf_16_units_after_parsing() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN).0;
    let long = "Bad Request: message is too long";
    let cases = [
        ("", "Bad Request: message text is empty".to_owned()),
        (" \n ", "Bad Request: text must be non-empty".to_owned()),
        ("<b></b>", "Bad Request: text must be non-empty".to_owned()),
        (&"x".repeat(4_097), long.to_owned()),
        (&"🦀".repeat(2_049), long.to_owned()),
        (&format!("<b>{}</b>", "x".repeat(4_097)), long.to_owned()),
    ];
    for (text, error) in cases {
        let params = json!({"chat_id": chat, "text": text, "parse_mode": "HTML"});
        assert_eq!(bot.error("sendMessage", params).await, error);
    }
    let fits = ["x".repeat(4_096), "🦀".repeat(2_048), format!("<b>{}</b>", "&lt;".repeat(4_096))];
    for text in fits {
        let params = json!({"chat_id": chat, "text": text, "parse_mode": "HTML"});
        bot.call("sendMessage", params).await;
    }
}

#[tokio::test]
async fn html_is_parsed_or_rejected_with_the_offset_of_the_error() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let bad = [
        ("Hello, wörld<x>", "Unsupported start tag \"x\" at byte offset 13"),
        ("<b>x", "Can't find end tag corresponding to start tag \"b\""),
        (
            "<b><i>x</b></i>",
            "Unmatched end tag at byte offset 7, expected \"</i>\", found \"</b>\"",
        ),
    ];
    for (text, reason) in bad {
        let params = json!({"chat_id": chat.0, "text": text, "parse_mode": "HTML"});
        let error = bot.error("sendMessage", params).await;
        assert_eq!(error, format!("Bad Request: can't parse entities: {reason}"));
    }
    let params = json!({"chat_id": chat.0, "text": "*x*", "parse_mode": "Markup"});
    assert_eq!(bot.error("sendMessage", params).await, "Bad Request: unsupported parse_mode");

    let text = "🦀 <b>a &amp; <code>b</code></b> <pre><code class=\"language-rust\">c</code></pre>";
    let params = json!({"chat_id": chat.0, "text": text, "parse_mode": "html"});
    let sent = bot.call("sendMessage", params).await;
    assert_eq!(sent["text"], "🦀 a & b c");
    let entities = json!([
        {"type": "bold", "offset": 3, "length": 4},
        {"type": "code", "offset": 7, "length": 1},
        {"type": "pre", "offset": 9, "length": 1, "language": "rust"},
    ]);
    assert_eq!(sent["entities"], entities);
    let message = &bot.api.messages(chat)[0];
    let html = "🦀 <b>a &amp; </b><code>b</code> <pre><code class=\"language-rust\">c</code></pre>";
    assert_eq!(message.html, html);
    // Without a parse mode, tags are text.
    let id = bot.send(chat, "<b>x</b>").await;
    let messages = bot.api.messages(chat);
    assert_eq!(messages.iter().find(|it| it.message_id == id).unwrap().text, "<b>x</b>");
}

#[tokio::test]
async fn entities_beyond_a_hundred_or_nested_wrongly_are_dropped_and_counted() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let mut many = String::new();
    for number in 0..120 {
        write!(many, "<b>{number}</b> ").unwrap();
    }
    let nested = "<blockquote>a<blockquote>b</blockquote></blockquote>".to_owned();
    for (text, kept, dropped) in [(many, 100, 20), (nested, 1, 1)] {
        let params = json!({"chat_id": chat.0, "text": text, "parse_mode": "HTML"});
        bot.call("sendMessage", params).await;
        let message = bot.api.messages(chat).pop().unwrap();
        assert_eq!((message.entities.len(), message.dropped_entities), (kept, dropped));
    }
}

#[tokio::test]
async fn button_data_has_one_to_64_bytes() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let invalid = "Bad Request: BUTTON_DATA_INVALID";
    let no_action = "Bad Request: can't parse inline keyboard button: Text buttons are unallowed in \
                     the inline keyboard";
    let long = "é".repeat(33);
    let most: Vec<Value> =
        (0..101).map(|it| json!([{"text": "x", "callback_data": it.to_string()}])).collect();
    let cases = [
        (json!([[{"text": "x", "callback_data": long}]]), invalid),
        (json!([[{"text": "x", "callback_data": ""}]]), invalid),
        (json!([[{"text": "x"}]]), no_action),
        (json!(most), "Bad Request: reply markup is too long"),
    ];
    for (rows, error) in cases {
        // The markup may be an object or a string that contains one.
        for markup in [keyboard(&rows), keyboard(&rows).to_string().into()] {
            let params = json!({"chat_id": chat.0, "text": "x", "reply_markup": markup});
            assert_eq!(bot.error("sendMessage", params).await, error);
        }
    }
    let rows = json!([[{"text": "x", "callback_data": "é".repeat(32)}]]);
    let params = json!({"chat_id": chat.0, "text": "x", "reply_markup": keyboard(&rows)});
    let sent = bot.call("sendMessage", params).await;
    assert_eq!(sent["reply_markup"], keyboard(&rows));
    assert_eq!(bot.api.messages(chat)[0].buttons, [["x"]]);
}

#[tokio::test]
async fn only_the_bots_own_messages_can_be_edited_and_only_if_something_changes() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let user_message = bot.api.user_sends(chat, ANN, "mine");
    let rows = json!([[{"text": "Stop", "callback_data": "s"}]]);
    let params = json!({"chat_id": 7, "text": "a", "reply_markup": keyboard(&rows)});
    let bot_message = bot.call("sendMessage", params).await["message_id"].clone();
    let deleted = bot.send(chat, "deleted").await;
    bot.call("deleteMessage", json!({"chat_id": 7, "message_id": deleted.0})).await;
    let cases = [
        (json!(user_message.0), "b", None, "Bad Request: message can't be edited"),
        (json!(deleted.0), "b", None, "Bad Request: message to edit not found"),
        (json!(99), "b", None, "Bad Request: message to edit not found"),
        (json!(null), "b", None, "Bad Request: message identifier is not specified"),
        (bot_message.clone(), "", None, "Bad Request: message text is empty"),
        (bot_message.clone(), "a", Some(&rows), NOT_MODIFIED),
        (bot_message.clone(), "<i></i>a", Some(&rows), NOT_MODIFIED),
    ];
    for (id, text, rows, error) in cases {
        let mut params =
            json!({"chat_id": 7, "message_id": id, "text": text, "parse_mode": "HTML"});
        if let Some(rows) = rows {
            params["reply_markup"] = keyboard(rows);
        }
        assert_eq!(bot.error("editMessageText", params).await, error);
    }
    // An edit without buttons removes them.
    let params = json!({"chat_id": 7, "message_id": bot_message, "text": "a"});
    let edited = bot.call("editMessageText", params.clone()).await;
    assert_eq!(edited["reply_markup"], Value::Null);
    assert_eq!(bot.error("editMessageText", params).await, NOT_MODIFIED);
    let markup = json!({"chat_id": 7, "message_id": bot_message, "reply_markup": keyboard(&rows)});
    bot.call("editMessageReplyMarkup", markup.clone()).await;
    assert_eq!(bot.error("editMessageReplyMarkup", markup).await, NOT_MODIFIED);
    let message = &bot.api.messages(chat)[1];
    assert_eq!((message.text.as_str(), message.edit_count, message.deleted), ("a", 2, false));
    let caption = json!({"chat_id": 7, "message_id": bot_message, "caption": "c"});
    let error = bot.error("editMessageCaption", caption).await;
    assert_eq!(error, "Bad Request: there is no caption in the message to edit");
}

#[tokio::test]
async fn only_allowed_emoji_are_reactions() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let user_message = bot.api.user_sends(chat, ANN, "x");
    let react = |id: i64, emoji: &[&str]| {
        let reaction: Vec<_> =
            emoji.iter().map(|it| json!({"type": "emoji", "emoji": it})).collect();
        json!({"chat_id": 7, "message_id": id, "reaction": reaction})
    };
    let cases = [
        (react(user_message.0, &["✅"]), "Bad Request: REACTION_INVALID"),
        (react(user_message.0, &["👍", "🔥"]), "Bad Request: REACTIONS_TOO_MANY"),
        (react(99, &["👍"]), "Bad Request: message to react not found"),
    ];
    for (params, error) in cases {
        assert_eq!(bot.error("setMessageReaction", params).await, error);
    }
    bot.call("setMessageReaction", react(user_message.0, &["❤️"])).await;
    assert_eq!(bot.api.messages(chat)[0].reactions, ["❤"]);
    bot.call("setMessageReaction", react(user_message.0, &[])).await;
    assert!(bot.api.messages(chat)[0].reactions.is_empty());
}

#[tokio::test]
async fn messages_are_deleted_and_pinned() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    for text in ["1", "2", "3", "4"] {
        bot.send(chat, text).await;
    }
    let one = |id: i64| json!({"chat_id": 7, "message_id": id});
    let many = |ids: Vec<i64>| json!({"chat_id": 7, "message_ids": ids});
    bot.call("pinChatMessage", one(4)).await;
    assert_eq!(bot.call("getChat", json!({"chat_id": 7})).await["pinned_message"]["text"], "4");
    bot.call("deleteMessage", one(1)).await;
    bot.call("deleteMessages", many(vec![1, 2, 99])).await;
    let cases = [
        ("deleteMessage", one(1), "Bad Request: message to delete not found"),
        ("deleteMessages", many(vec![]), "Bad Request: message identifiers are not specified"),
        (
            "deleteMessages",
            many((1..=101).collect()),
            "Bad Request: too many message identifiers specified",
        ),
        ("pinChatMessage", one(1), "Bad Request: message to pin not found"),
    ];
    for (method, params, error) in cases {
        assert_eq!(bot.error(method, params).await, error);
    }
    let deleted: Vec<bool> = bot.api.messages(chat).iter().map(|it| it.deleted).collect();
    assert_eq!(deleted, [true, true, false, false]);
    let action = |action: &str| json!({"chat_id": 7, "action": action});
    bot.call("sendChatAction", action("typing")).await;
    let error = bot.error("sendChatAction", action("thinking")).await;
    assert_eq!(error, "Bad Request: wrong parameter action in request");
}

#[tokio::test]
async fn an_old_message_cannot_be_deleted() {
    let options =
        BotApiOptions { speed: 1e9, rates: BotApiRates::unlimited(), ..BotApiOptions::default() };
    let bot = TestBot::with(options).await;
    let chat = bot.api.private_chat(ANN);
    let id = bot.send(chat, "x").await;
    // At this speed two days take less than a millisecond.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let error = bot.error("deleteMessage", json!({"chat_id": 7, "message_id": id.0})).await;
    assert_eq!(error, "Bad Request: message can't be deleted for everyone");
}

#[tokio::test]
async fn a_file_has_up_to_fifty_megabytes_and_a_photo_up_to_ten() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let cases = [
        ("sendDocument", "document", vec![0; 51 << 20], (413, "Request Entity Too Large")),
        ("sendDocument", "document", Vec::new(), (400, "Bad Request: file must be non-empty")),
        (
            "sendPhoto",
            "photo",
            png(100, 100, (10 << 20) + 1),
            (
                400,
                "Bad Request: file of size 10485761 bytes is too big for a photo; the maximum size \
                 is 10485760 bytes",
            ),
        ),
        (
            "sendPhoto",
            "photo",
            png(9_000, 1_001, 99),
            (400, "Bad Request: PHOTO_INVALID_DIMENSIONS"),
        ),
        ("sendPhoto", "photo", png(2_100, 100, 99), (400, "Bad Request: PHOTO_INVALID_DIMENSIONS")),
        ("sendPhoto", "photo", b"text".to_vec(), (400, "Bad Request: IMAGE_PROCESS_FAILED")),
    ];
    for (method, field, bytes, (code, error)) in cases {
        let answer = bot.form(method, &[("chat_id", "7")], &[(field, "a.png", &bytes)]).await;
        assert_eq!(answer["error_code"], code, "{answer}");
        assert_eq!(answer["description"], error);
    }
    assert!(bot.api.messages(chat).is_empty());

    let photo = png(300, 200, 10 << 20);
    let fields = [("chat_id", "7"), ("caption", "<b>c</b>"), ("parse_mode", "HTML")];
    let sent = bot.form("sendPhoto", &fields, &[("photo", "a.png", &photo)]).await;
    let largest = &sent["result"]["photo"][1];
    assert_eq!((&largest["width"], &largest["height"]), (&json!(300), &json!(200)));
    let document = bot.form("sendDocument", &[("chat_id", "7")], &[("document", "a.txt", b"hi")]);
    assert_eq!(document.await["result"]["document"]["file_name"], "a.txt");
    let messages = bot.api.messages(chat);
    let media = messages[0].media.as_ref().unwrap();
    assert_eq!((media.kind, media.bytes.len()), (BotApiMediaKind::Photo, photo.len()));
    assert_eq!(messages[0].html, "<b>c</b>");
    let media = messages[1].media.as_ref().unwrap();
    assert_eq!((media.kind, &media.bytes[..]), (BotApiMediaKind::Document, &b"hi"[..]));

    // A stored file is sent again by its id.
    let resend = json!({"chat_id": 7, "photo": largest["file_id"]});
    bot.call("sendPhoto", resend).await;
    let wrong = json!({"chat_id": 7, "photo": "https://a.example/b.png"});
    let error = bot.error("sendPhoto", wrong).await;
    assert_eq!(error, "Bad Request: wrong file identifier/HTTP URL specified");
    let long = json!({"chat_id": 7, "photo": largest["file_id"], "caption": "x".repeat(1_025)});
    assert_eq!(bot.error("sendPhoto", long).await, "Bad Request: message caption is too long");
    let edit = |caption: &str| json!({"chat_id": 7, "message_id": 1, "caption": caption});
    bot.call("editMessageCaption", edit("d")).await;
    assert_eq!(bot.error("editMessageCaption", edit("d")).await, NOT_MODIFIED);
    let text = json!({"chat_id": 7, "message_id": 1, "text": "t"});
    let error = bot.error("editMessageText", text).await;
    assert_eq!(error, "Bad Request: there is no text in the message to edit");
}

#[tokio::test]
async fn an_album_has_two_to_ten_items_of_one_kind() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let photo = png(10, 10, 99);
    let item = |kind: &str| json!({"type": kind, "media": "attach://p", "caption": "c"});
    let cases = [
        (vec![item("photo")], "Bad Request: media group must include 2-10 items"),
        (vec![item("photo"); 11], "Bad Request: too many messages to send as an album"),
        (
            vec![item("photo"), item("document")],
            "Bad Request: document can't be mixed with other media types",
        ),
    ];
    for (items, error) in cases {
        let media = Value::from(items).to_string();
        let fields = [("chat_id", "7"), ("media", media.as_str())];
        let answer = bot.form("sendMediaGroup", &fields, &[("p", "p.png", &photo)]).await;
        assert_eq!(answer["description"], error);
    }
    let media = Value::from(vec![item("photo"), item("photo")]).to_string();
    let fields = [("chat_id", "7"), ("media", media.as_str())];
    let sent = bot.form("sendMediaGroup", &fields, &[("p", "p.png", &photo)]).await;
    assert_eq!(sent["result"].as_array().unwrap().len(), 2, "{sent}");
    assert_eq!(sent["result"][0]["media_group_id"], sent["result"][1]["media_group_id"]);
    assert_eq!(bot.api.notifications(chat), [BotApiMessageId(1)]);
}

#[tokio::test]
async fn files_of_users_can_be_downloaded_up_to_twenty_megabytes() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let small =
        BotApiUserMessage::document("notes.md", "text/markdown", "# Hi").caption("read this");
    bot.api.user_sends(chat, ANN, small);
    bot.api.user_sends(
        chat,
        ANN,
        BotApiUserMessage::document("big.bin", "x/y", vec![0; (20 << 20) + 1]),
    );
    bot.api.user_sends(chat, ANN, BotApiUserMessage::photo(png(640, 480, 99)).album("a"));
    bot.api.user_sends(chat, ANN, BotApiUserMessage::voice("ogg"));
    let updates = bot.updates(0).await;
    let message = |at: usize| &updates[at]["message"];
    assert_eq!(message(0)["caption"], "read this");
    assert_eq!(message(0)["document"]["mime_type"], "text/markdown");
    let id = json!({"file_id": message(0)["document"]["file_id"]});
    let file = bot.call("getFile", id).await;
    let path = file["file_path"].as_str().unwrap();
    assert!(path.starts_with("documents/"), "{path}");
    let url = format!("{}/file/bot{}/{path}", bot.api.url, bot.api.token);
    assert_eq!(bot.client.get(&url).send().await.unwrap().text().await.unwrap(), "# Hi");
    let nowhere = bot.client.get(format!("{url}x")).send().await.unwrap();
    assert_eq!(nowhere.status(), 404);

    let id = json!({"file_id": message(1)["document"]["file_id"]});
    assert_eq!(bot.error("getFile", id).await, "Bad Request: file is too big");
    let error = bot.error("getFile", json!({"file_id": "nonsense"})).await;
    assert_eq!(error, "Bad Request: wrong file_id or the file is temporarily unavailable");
    assert_eq!(message(2)["photo"][1]["width"], 640);
    assert_eq!(message(2)["media_group_id"], "a");
    assert_eq!(message(3)["voice"]["mime_type"], "audio/ogg");
}
