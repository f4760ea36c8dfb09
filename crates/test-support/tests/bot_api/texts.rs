//! What a message may say and carry.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::stand::{ANN, Stand, keyboard};

#[tokio::test]
async fn a_text_has_one_to_4096_utf_16_units_after_parsing() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN).0;
    let long = "Bad Request: message is too long";
    let cases = [
        ("", "Bad Request: message text is empty".to_owned()),
        (" \n ", "Bad Request: text must be non-empty".to_owned()),
        ("<b></b>", "Bad Request: text must be non-empty".to_owned()),
        (&"x".repeat(4_097), long.to_owned()),
        (&"🦀".repeat(2_049), long.to_owned()),
        (&format!("<b>{}</b>", "x".repeat(4_097)), long.to_owned()),
    ];
    for (text, refusal) in cases {
        let params = json!({"chat_id": chat, "text": text, "parse_mode": "HTML"});
        assert_eq!(stand.refused("sendMessage", params).await, refusal);
    }
    let fits = ["x".repeat(4_096), "🦀".repeat(2_048), format!("<b>{}</b>", "&lt;".repeat(4_096))];
    for text in fits {
        let params = json!({"chat_id": chat, "text": text, "parse_mode": "HTML"});
        stand.call("sendMessage", params).await;
    }
}

#[tokio::test]
async fn html_is_parsed_or_refused_with_the_place_of_the_fault() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let bad = [
        ("Hello, wörld<x>", "Unsupported start tag \"x\" at byte offset 13"),
        ("<b>x", "Can't find end tag corresponding to start tag \"b\""),
        (
            "<b><i>x</b></i>",
            "Unmatched end tag at byte offset 7, expected \"</i>\", found \"</b>\"",
        ),
    ];
    for (text, why) in bad {
        let params = json!({"chat_id": chat.0, "text": text, "parse_mode": "HTML"});
        let refusal = stand.refused("sendMessage", params).await;
        assert_eq!(refusal, format!("Bad Request: can't parse entities: {why}"));
    }
    let params = json!({"chat_id": chat.0, "text": "*x*", "parse_mode": "Markup"});
    assert_eq!(stand.refused("sendMessage", params).await, "Bad Request: unsupported parse_mode");

    let text = "🦀 <b>a &amp; <code>b</code></b> <pre><code class=\"language-rust\">c</code></pre>";
    let params = json!({"chat_id": chat.0, "text": text, "parse_mode": "html"});
    let sent = stand.call("sendMessage", params).await;
    assert_eq!(sent["text"], "🦀 a & b c");
    let entities = json!([
        {"type": "bold", "offset": 3, "length": 4},
        {"type": "code", "offset": 7, "length": 1},
        {"type": "pre", "offset": 9, "length": 1, "language": "rust"},
    ]);
    assert_eq!(sent["entities"], entities);
    let seen = &stand.api.messages(chat)[0];
    let html = "🦀 <b>a &amp; </b><code>b</code> <pre><code class=\"language-rust\">c</code></pre>";
    assert_eq!(seen.html, html);
    // Without a mode, tags are text.
    let id = stand.send(chat, "<b>x</b>").await;
    let seen = stand.api.messages(chat);
    assert_eq!(seen.iter().find(|it| it.message_id == id).unwrap().text, "<b>x</b>");
}

#[tokio::test]
async fn what_is_beyond_a_hundred_entities_or_nested_wrongly_is_lost_and_counted() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let mut many = String::new();
    for number in 0..120 {
        write!(many, "<b>{number}</b> ").unwrap();
    }
    let nested = "<blockquote>a<blockquote>b</blockquote></blockquote>".to_owned();
    for (text, kept, lost) in [(many, 100, 20), (nested, 1, 1)] {
        let params = json!({"chat_id": chat.0, "text": text, "parse_mode": "HTML"});
        stand.call("sendMessage", params).await;
        let seen = stand.api.messages(chat).pop().unwrap();
        assert_eq!((seen.entities.len(), seen.entities_lost), (kept, lost));
    }
}

#[tokio::test]
async fn buttons_carry_one_to_64_bytes() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
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
    for (rows, refusal) in cases {
        // A markup may come as an object or as a string that holds one.
        for markup in [keyboard(&rows), keyboard(&rows).to_string().into()] {
            let params = json!({"chat_id": chat.0, "text": "x", "reply_markup": markup});
            assert_eq!(stand.refused("sendMessage", params).await, refusal);
        }
    }
    let rows = json!([[{"text": "x", "callback_data": "é".repeat(32)}]]);
    let params = json!({"chat_id": chat.0, "text": "x", "reply_markup": keyboard(&rows)});
    let sent = stand.call("sendMessage", params).await;
    assert_eq!(sent["reply_markup"], keyboard(&rows));
    assert_eq!(stand.api.messages(chat)[0].markup, [["x"]]);
}
