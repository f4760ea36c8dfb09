//! The Bot API over HTTP, as a bot and the people in its chats see it.

use std::fmt::Write as _;
use std::time::Duration;

use reqwest::Client;
use serde_json::{Value, json};
use tokio::time::timeout;
use towpath_testbed::botapi::{
    BotApi, BotApiOptions, ChatId, Excess, Fault, MediaKind, MessageId, Network, Outcome, Rates,
    Said, Span, ThreadId, UserId,
};

const ANN: UserId = UserId(7);
const BOB: UserId = UserId(8);
const SOON: Duration = Duration::from_secs(10);
const SAME: &str = "Bad Request: message is not modified: specified new message content and reply \
                    markup are exactly the same as a current content and reply markup of the \
                    message";

/// A server whose rates are out of the way, and a bot.
struct Stand {
    api: BotApi,
    client: Client,
}

impl Stand {
    async fn new() -> Self {
        Self::with(BotApiOptions { rates: Rates::unlimited(), ..BotApiOptions::default() }).await
    }

    async fn with(options: BotApiOptions) -> Self {
        let api = BotApi::start(options).await.expect("a free port");
        Self { api, client: client() }
    }

    /// The whole answer to a call.
    async fn answer(&self, method: &str, params: Value) -> Value {
        let request = self.client.post(self.api.method(method)).json(&params);
        let response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        let body: Value = response.json().await.expect("JSON");
        assert_eq!(body["ok"] == true, status == 200, "{body}");
        if body["ok"] != true {
            assert_eq!(body["error_code"], status, "{body}");
        }
        body
    }

    /// The result of a call that must succeed.
    async fn call(&self, method: &str, params: Value) -> Value {
        let body = self.answer(method, params).await;
        assert_eq!(body["ok"], true, "{method}: {body}");
        body["result"].clone()
    }

    /// Why a call that must fail was refused.
    async fn refused(&self, method: &str, params: Value) -> String {
        let body = self.answer(method, params).await;
        assert_eq!(body["ok"], false, "{method}: {body}");
        body["description"].as_str().expect("a description").to_owned()
    }

    async fn send(&self, chat: ChatId, text: &str) -> MessageId {
        let sent = self.call("sendMessage", json!({"chat_id": chat.0, "text": text})).await;
        MessageId(sent["message_id"].as_i64().expect("a number"))
    }

    async fn updates(&self, offset: i64) -> Vec<Value> {
        let updates = self.call("getUpdates", json!({"offset": offset})).await;
        updates.as_array().expect("a list").clone()
    }

    async fn form(
        &self,
        method: &str,
        fields: &[(&str, &str)],
        files: &[(&str, &str, &[u8])],
    ) -> Value {
        let mut body = Vec::new();
        for (name, value) in fields {
            let head = format!("--xyz\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(value.as_bytes());
            body.extend_from_slice(b"\r\n");
        }
        for (name, file, bytes) in files {
            let head = format!(
                "--xyz\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\
                 Content-Type: application/octet-stream\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--xyz--\r\n");
        let request = self.client.post(self.api.method(method));
        let request = request.header("content-type", "multipart/form-data; boundary=xyz");
        let response = request.body(body).send().await.expect("an answer");
        response.json().await.expect("JSON")
    }
}

fn client() -> Client {
    Client::builder().no_proxy().build().expect("a client")
}

/// A PNG of this size, as far as anyone here looks, and as many bytes as are wanted.
fn png(width: u32, height: u32, length: usize) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    png.extend_from_slice(&width.to_be_bytes());
    png.extend_from_slice(&height.to_be_bytes());
    png.resize(length.max(png.len()), 0);
    png
}

fn keyboard(rows: &Value) -> Value {
    json!({"inline_keyboard": rows})
}

#[tokio::test]
async fn a_method_is_called_in_any_of_the_four_ways() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let url = |method: &str| stand.api.method(method);
    let get = stand.client.get(format!("{}?chat_id={chat}&text=a+b%26", url("sendMessage")));
    let form = stand.client.post(url("SENDMESSAGE"));
    let form = form.header("content-type", "application/x-www-form-urlencoded");
    let form = form.body(format!("chat_id={chat}&text=a+b%26"));
    let json = stand.client.post(url("sendmessage")).json(&json!({"chat_id": 7, "text": "a b&"}));
    for request in [get, form, json] {
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["result"]["text"], "a b&", "{answer}");
    }
    let fields = [("chat_id", "7"), ("text", "a b&")];
    let answer = stand.form("sendMessage", &fields, &[]).await;
    assert_eq!(answer["result"]["text"], "a b&", "{answer}");
    assert_eq!(stand.api.messages(chat).len(), 4);
}

#[tokio::test]
async fn strangers_and_unknown_methods_are_turned_away() {
    let stand = Stand::new().await;
    let url = format!("{}/bot700001:wrong/getMe", stand.api.url);
    let response = stand.client.get(url).send().await.unwrap();
    assert_eq!(response.status(), 401);
    let body: Value = response.json().await.unwrap();
    assert_eq!(body, json!({"ok": false, "error_code": 401, "description": "Unauthorized"}));
    assert_eq!(stand.refused("getMoney", json!({})).await, "Not Found");
    assert_eq!(stand.call("GETME", json!({})).await["username"], "towpath_bot");
}

#[tokio::test]
async fn updates_stay_until_an_offset_confirms_them() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    for text in ["/start now", "two", "three"] {
        stand.api.user_says(chat, ANN, text);
    }
    let first = stand.updates(0).await;
    assert_eq!(first.len(), 3);
    assert_eq!(first[0]["message"]["text"], "/start now");
    let command = json!([{"type": "bot_command", "offset": 0, "length": 6}]);
    assert_eq!(first[0]["message"]["entities"], command);
    assert_eq!(first[0]["message"]["chat"]["type"], "private");
    assert_eq!(first[0]["message"]["from"]["id"], 7);
    // Whoever comes back without having confirmed gets them again.
    assert_eq!(stand.updates(0).await, first);
    let second = first[1]["update_id"].as_i64().unwrap();
    assert_eq!(stand.updates(second).await, first[1..]);
    assert_eq!(stand.updates(0).await, first[1..]);
    let limited = stand.call("getUpdates", json!({"limit": 1})).await;
    assert_eq!(limited, json!([first[1]]));
    assert_eq!(stand.updates(-1).await, first[2..]);
    assert_eq!(stand.api.pending_updates(), 1);
    stand.api.user_says(chat, ANN, "four");
    let last = stand.updates(second + 2).await;
    assert_eq!(last[0]["update_id"], second + 2);
}

#[tokio::test]
async fn a_long_poll_ends_with_the_first_update() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let poll = stand.call("getUpdates", json!({"timeout": 50}));
    let say = async {
        stand.api.eventually(SOON, |api| api.calls_of("getUpdates").pop()).await.unwrap();
        stand.api.user_says(chat, ANN, "hello");
    };
    let (updates, ()) = timeout(SOON, async { tokio::join!(poll, say) }).await.unwrap();
    assert_eq!(updates[0]["message"]["text"], "hello");
}

#[tokio::test]
async fn a_long_poll_waits_no_longer_than_asked_on_the_clock_of_the_api() {
    let stand = Stand::with(BotApiOptions { speed: 100.0, ..BotApiOptions::default() }).await;
    let before = stand.api.now();
    assert_eq!(stand.call("getUpdates", json!({"timeout": 10})).await, json!([]));
    assert!(stand.api.now() >= before + Duration::from_secs(10));
}

#[tokio::test]
async fn only_the_kinds_asked_for_are_kept() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    stand.call("getUpdates", json!({"allowed_updates": ["edited_message"]})).await;
    let message = stand.api.user_says(chat, ANN, "one");
    stand.api.user_edits(chat, message, "two");
    let updates = stand.updates(0).await;
    assert_eq!(updates.len(), 1);
    assert_eq!(updates[0]["edited_message"]["text"], "two");
    assert!(updates[0]["edited_message"]["edit_date"].is_u64());
}

#[tokio::test]
async fn the_second_of_two_pollers_ends_the_first() {
    let stand = Stand::new().await;
    let first = stand.refused("getUpdates", json!({"timeout": 50}));
    let second = async {
        stand.api.eventually(SOON, |api| api.calls_of("getUpdates").pop()).await.unwrap();
        stand.updates(0).await
    };
    let (refusal, updates) = timeout(SOON, async { tokio::join!(first, second) }).await.unwrap();
    assert_eq!(
        refusal,
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is \
         running"
    );
    assert!(updates.is_empty());
}

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

#[tokio::test]
async fn only_the_bots_own_messages_can_be_edited_and_only_to_something_else() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let theirs = stand.api.user_says(chat, ANN, "mine");
    let rows = json!([[{"text": "Stop", "callback_data": "s"}]]);
    let params = json!({"chat_id": 7, "text": "a", "reply_markup": keyboard(&rows)});
    let ours = stand.call("sendMessage", params).await["message_id"].clone();
    let gone = stand.send(chat, "gone").await;
    stand.call("deleteMessage", json!({"chat_id": 7, "message_id": gone.0})).await;
    let cases = [
        (json!(theirs.0), "b", None, "Bad Request: message can't be edited"),
        (json!(gone.0), "b", None, "Bad Request: message to edit not found"),
        (json!(99), "b", None, "Bad Request: message to edit not found"),
        (json!(null), "b", None, "Bad Request: message identifier is not specified"),
        (ours.clone(), "", None, "Bad Request: message text is empty"),
        (ours.clone(), "a", Some(&rows), SAME),
        (ours.clone(), "<i></i>a", Some(&rows), SAME),
    ];
    for (id, text, rows, refusal) in cases {
        let mut params =
            json!({"chat_id": 7, "message_id": id, "text": text, "parse_mode": "HTML"});
        if let Some(rows) = rows {
            params["reply_markup"] = keyboard(rows);
        }
        assert_eq!(stand.refused("editMessageText", params).await, refusal);
    }
    // Whoever does not name the buttons again takes them away.
    let params = json!({"chat_id": 7, "message_id": ours, "text": "a"});
    let edited = stand.call("editMessageText", params.clone()).await;
    assert_eq!(edited["reply_markup"], Value::Null);
    assert_eq!(stand.refused("editMessageText", params).await, SAME);
    let markup = json!({"chat_id": 7, "message_id": ours, "reply_markup": keyboard(&rows)});
    stand.call("editMessageReplyMarkup", markup.clone()).await;
    assert_eq!(stand.refused("editMessageReplyMarkup", markup).await, SAME);
    let seen = &stand.api.messages(chat)[1];
    assert_eq!((seen.text.as_str(), seen.edits, seen.deleted), ("a", 2, false));
    let caption = json!({"chat_id": 7, "message_id": ours, "caption": "c"});
    let refusal = stand.refused("editMessageCaption", caption).await;
    assert_eq!(refusal, "Bad Request: there is no caption in the message to edit");
}

#[tokio::test]
async fn a_tap_reaches_the_bot_and_its_answer_the_person() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_group(&[ANN, BOB]);
    let rows = json!([
        [{"text": "Allow", "callback_data": "a"}, {"text": "Deny", "callback_data": "d"}],
        [{"text": "Docs", "url": "https://docs.example/"}],
    ]);
    let params = json!({"chat_id": chat.0, "text": "May I?", "reply_markup": keyboard(&rows)});
    let id = MessageId(stand.call("sendMessage", params).await["message_id"].as_i64().unwrap());
    let tap = stand.api.user_taps(chat, BOB, id, "Deny").unwrap();
    let query = stand.updates(0).await.pop().unwrap()["callback_query"].clone();
    assert_eq!(query["data"], "d");
    assert_eq!(query["from"]["id"], 8);
    assert_eq!(query["message"]["message_id"], id.0);
    let answer = json!({"callback_query_id": query["id"], "text": "Denied", "show_alert": true});
    stand.call("answerCallbackQuery", answer.clone()).await;
    let seen = stand.api.answer_to(&tap, SOON).await.unwrap();
    assert_eq!((seen.text.as_str(), seen.alert), ("Denied", true));
    // Answered is answered.
    let old = "Bad Request: query is too old and response timeout expired or query ID is invalid";
    assert_eq!(stand.refused("answerCallbackQuery", answer).await, old);

    assert!(stand.api.user_taps(chat, BOB, id, (0, 1)).is_ok());
    assert!(stand.api.user_taps(chat, BOB, id, "Maybe").is_err());
    assert!(stand.api.user_taps(chat, BOB, id, (1, 0)).is_err());
    assert!(stand.api.user_taps(chat, BOB, MessageId(99), "Deny").is_err());
}

#[tokio::test]
async fn a_tap_is_answered_in_time_or_not_at_all() {
    let options = BotApiOptions { callback_life: Duration::ZERO, ..BotApiOptions::default() };
    let stand = Stand::with(options).await;
    let chat = stand.api.chat_private(ANN);
    let id = stand.send(chat, "x").await;
    let tap = stand.api.user_taps_late(chat, ANN, id, "old");
    let old = "Bad Request: query is too old and response timeout expired or query ID is invalid";
    for id in [tap.0.as_str(), "nonsense"] {
        let answer = json!({"callback_query_id": id});
        assert_eq!(stand.refused("answerCallbackQuery", answer).await, old);
    }
    assert!(stand.api.answer_to(&tap, Duration::from_millis(20)).await.is_none());
}

#[tokio::test]
async fn a_chat_must_exist_and_want_the_bot() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let group = stand.api.chat_group(&[ANN]);
    let cases = [
        (json!({"text": "x"}), "Bad Request: chat_id is empty"),
        (json!({"chat_id": 99, "text": "x"}), "Bad Request: chat not found"),
        (json!({"chat_id": "@nobody", "text": "x"}), "Bad Request: chat not found"),
    ];
    for (params, refusal) in cases {
        assert_eq!(stand.refused("sendMessage", params).await, refusal);
    }
    let shut = [
        (chat, "Forbidden: bot was blocked by the user", "member"),
        (group, "Forbidden: bot was kicked from the supergroup chat", "administrator"),
    ];
    for (chat, refusal, member) in shut {
        stand.send(chat, "hello").await;
        stand.api.bot_is_shut_out(chat);
        let params = json!({"chat_id": chat.0, "text": "x"});
        let answer = stand.answer("sendMessage", params.clone()).await;
        assert_eq!((&answer["error_code"], &answer["description"]), (&json!(403), &json!(refusal)));
        let told = stand.updates(0).await.pop().unwrap()["my_chat_member"].clone();
        assert_eq!(told["old_chat_member"]["status"], member);
        assert_eq!(told["new_chat_member"]["status"], "kicked");
        stand.api.bot_is_let_in(chat);
        stand.call("sendMessage", params).await;
    }
}

#[tokio::test]
async fn a_draft_is_shown_until_a_message_takes_its_place() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let group = stand.api.chat_group(&[ANN]);
    let draft = |chat: ChatId, id: i64, text: &str| json!({"chat_id": chat.0, "draft_id": id, "text": text, "parse_mode": "HTML"});
    for text in ["Hel", "Hello, <b>wo</b>"] {
        assert_eq!(stand.call("sendMessageDraft", draft(chat, 5, text)).await, true);
    }
    let shown = stand.api.drafts(chat);
    assert_eq!(
        shown.iter().map(|it| (it.draft_id, it.text.as_str())).collect::<Vec<_>>(),
        [(5, "Hello, wo")]
    );
    assert!(stand.api.messages(chat).is_empty());
    stand.send(chat, "Hello, world").await;
    assert!(stand.api.drafts(chat).is_empty());

    let cases = [
        (draft(group, 5, "x"), "Bad Request: TEXTDRAFT_PEER_INVALID"),
        (draft(chat, 0, "x"), "Bad Request: draft identifier must be non-zero"),
        (draft(chat, 5, ""), "Bad Request: text must be non-empty"),
        (draft(chat, 5, &"x".repeat(4_097)), "Bad Request: message is too long"),
    ];
    for (params, refusal) in cases {
        assert_eq!(stand.refused("sendMessageDraft", params).await, refusal);
    }
}

#[tokio::test]
async fn a_draft_that_nobody_changes_vanishes() {
    let life = Duration::ZERO;
    let options =
        BotApiOptions { draft_life: life, empty_drafts: true, ..BotApiOptions::default() };
    let stand = Stand::with(options).await;
    let chat = stand.api.chat_private(ANN);
    stand.call("sendMessageDraft", json!({"chat_id": 7, "draft_id": 1})).await;
    assert!(stand.api.drafts(chat).is_empty());
}

#[tokio::test]
async fn a_chat_that_gets_too_much_says_when_to_come_back() {
    // A slow clock, so that a busy machine cannot wait the limits out.
    let stand = Stand::with(BotApiOptions { speed: 0.25, ..BotApiOptions::default() }).await;
    let chat = stand.api.chat_private(ANN);
    let params = json!({"chat_id": chat.0, "text": "x"});
    let mut told = None;
    for _ in 0..5 {
        let answer = stand.answer("sendMessage", params.clone()).await;
        if answer["ok"] == false {
            told = Some(answer);
            break;
        }
    }
    let expected = json!({
        "ok": false,
        "error_code": 429,
        "description": "Too Many Requests: retry after 1",
        "parameters": {"retry_after": 1},
    });
    assert_eq!(told, Some(expected));
    let breaches = stand.api.breaches();
    assert_eq!(breaches.len(), 1);
    assert_eq!((breaches[0].chat, breaches[0].excess), (chat, Excess::Chat));
    // An edit counts like a message, and who does not wait breaches again.
    let edit = json!({"chat_id": chat.0, "message_id": 1, "text": "y"});
    let again = stand.answer("editMessageText", edit).await;
    assert_eq!(again["error_code"], 429);
    assert_eq!(stand.api.breaches()[1].excess, Excess::DuringWait);
    tokio::time::sleep(Duration::from_secs(4)).await;
    stand.call("sendMessage", params).await;
}

#[tokio::test]
async fn limits_of_groups_and_of_all_chats_are_kept_on_a_fast_clock_too() {
    let rates = Rates { chat_burst: 100, ..Rates::default() };
    let options = BotApiOptions { rates: rates.clone(), speed: 10.0, ..BotApiOptions::default() };
    let stand = Stand::with(options).await;
    let group = stand.api.chat_group(&[ANN]);
    for _ in 0..20 {
        stand.send(group, "x").await;
    }
    let answer = stand.answer("sendMessage", json!({"chat_id": group.0, "text": "x"})).await;
    assert_eq!(answer["error_code"], 429);
    let wait = answer["parameters"]["retry_after"].as_u64().unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    assert_eq!(stand.api.breaches()[0].excess, Excess::Group);
    tokio::time::sleep(Duration::from_millis(wait * 100)).await;
    stand.send(group, "y").await;

    // A slow clock, so that thirty calls fit into a second of it on any machine.
    let slow = BotApiOptions { rates, speed: 0.05, ..BotApiOptions::default() };
    let stand = Stand::with(slow).await;
    for user in 1..=30 {
        let chat = stand.api.chat_private(UserId(user));
        stand.send(chat, "x").await;
    }
    stand.api.chat_private(UserId(31));
    let refusal = stand.refused("sendMessage", json!({"chat_id": 31, "text": "x"})).await;
    assert_eq!(refusal, "Too Many Requests: retry after 1");
    assert_eq!(stand.api.breaches()[0].excess, Excess::Overall);
}

#[tokio::test]
async fn drafts_have_a_rate_of_their_own() {
    let stand = Stand::with(BotApiOptions { speed: 0.1, ..BotApiOptions::default() }).await;
    let chat = stand.api.chat_private(ANN);
    let mut refused = 0;
    for number in 0..4 {
        let params = json!({"chat_id": chat.0, "draft_id": 1, "text": number.to_string()});
        let answer = stand.answer("sendMessageDraft", params).await;
        refused += usize::from(answer["error_code"] == 429);
    }
    assert_eq!(refused, 1);
    assert_eq!(stand.api.breaches()[0].excess, Excess::Drafts);
}

#[tokio::test]
async fn files_go_up_to_fifty_megabytes_and_photos_to_ten() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
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
    for (method, field, bytes, (code, refusal)) in cases {
        let answer = stand.form(method, &[("chat_id", "7")], &[(field, "a.png", &bytes)]).await;
        assert_eq!(answer["error_code"], code, "{answer}");
        assert_eq!(answer["description"], refusal);
    }
    assert!(stand.api.messages(chat).is_empty());

    let photo = png(300, 200, 10 << 20);
    let fields = [("chat_id", "7"), ("caption", "<b>c</b>"), ("parse_mode", "HTML")];
    let sent = stand.form("sendPhoto", &fields, &[("photo", "a.png", &photo)]).await;
    let largest = &sent["result"]["photo"][1];
    assert_eq!((&largest["width"], &largest["height"]), (&json!(300), &json!(200)));
    let document = stand.form("sendDocument", &[("chat_id", "7")], &[("document", "a.txt", b"hi")]);
    assert_eq!(document.await["result"]["document"]["file_name"], "a.txt");
    let seen = stand.api.messages(chat);
    let media = seen[0].media.as_ref().unwrap();
    assert_eq!((media.kind, media.bytes.len()), (MediaKind::Photo, photo.len()));
    assert_eq!(seen[0].html, "<b>c</b>");
    let media = seen[1].media.as_ref().unwrap();
    assert_eq!((media.kind, &media.bytes[..]), (MediaKind::Document, &b"hi"[..]));

    // What is there already is sent again by its name.
    let again = json!({"chat_id": 7, "photo": largest["file_id"]});
    stand.call("sendPhoto", again).await;
    let wrong = json!({"chat_id": 7, "photo": "https://a.example/b.png"});
    let refusal = stand.refused("sendPhoto", wrong).await;
    assert_eq!(refusal, "Bad Request: wrong file identifier/HTTP URL specified");
    let long = json!({"chat_id": 7, "photo": largest["file_id"], "caption": "x".repeat(1_025)});
    assert_eq!(stand.refused("sendPhoto", long).await, "Bad Request: message caption is too long");
    let edit = |caption: &str| json!({"chat_id": 7, "message_id": 1, "caption": caption});
    stand.call("editMessageCaption", edit("d")).await;
    assert_eq!(stand.refused("editMessageCaption", edit("d")).await, SAME);
    let text = json!({"chat_id": 7, "message_id": 1, "text": "t"});
    let refusal = stand.refused("editMessageText", text).await;
    assert_eq!(refusal, "Bad Request: there is no text in the message to edit");
}

#[tokio::test]
async fn an_album_holds_two_to_ten_of_one_kind() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
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
    for (items, refusal) in cases {
        let media = Value::from(items).to_string();
        let fields = [("chat_id", "7"), ("media", media.as_str())];
        let answer = stand.form("sendMediaGroup", &fields, &[("p", "p.png", &photo)]).await;
        assert_eq!(answer["description"], refusal);
    }
    let media = Value::from(vec![item("photo"), item("photo")]).to_string();
    let fields = [("chat_id", "7"), ("media", media.as_str())];
    let sent = stand.form("sendMediaGroup", &fields, &[("p", "p.png", &photo)]).await;
    assert_eq!(sent["result"].as_array().unwrap().len(), 2, "{sent}");
    assert_eq!(sent["result"][0]["media_group_id"], sent["result"][1]["media_group_id"]);
    assert_eq!(stand.api.notifications(chat), [MessageId(1)]);
}

#[tokio::test]
async fn what_people_send_can_be_fetched_up_to_twenty_megabytes() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let small = Said::document("notes.md", "text/markdown", "# Hi").caption("read this");
    stand.api.user_says(chat, ANN, small);
    stand.api.user_says(chat, ANN, Said::document("big.bin", "x/y", vec![0; (20 << 20) + 1]));
    stand.api.user_says(chat, ANN, Said::photo(png(640, 480, 99)).album("a"));
    stand.api.user_says(chat, ANN, Said::voice("ogg"));
    let updates = stand.updates(0).await;
    let message = |at: usize| &updates[at]["message"];
    assert_eq!(message(0)["caption"], "read this");
    assert_eq!(message(0)["document"]["mime_type"], "text/markdown");
    let id = json!({"file_id": message(0)["document"]["file_id"]});
    let file = stand.call("getFile", id).await;
    let path = file["file_path"].as_str().unwrap();
    assert!(path.starts_with("documents/"), "{path}");
    let url = format!("{}/file/bot{}/{path}", stand.api.url, stand.api.token);
    assert_eq!(stand.client.get(&url).send().await.unwrap().text().await.unwrap(), "# Hi");
    let nowhere = stand.client.get(format!("{url}x")).send().await.unwrap();
    assert_eq!(nowhere.status(), 404);

    let id = json!({"file_id": message(1)["document"]["file_id"]});
    assert_eq!(stand.refused("getFile", id).await, "Bad Request: file is too big");
    let refusal = stand.refused("getFile", json!({"file_id": "nonsense"})).await;
    assert_eq!(refusal, "Bad Request: wrong file_id or the file is temporarily unavailable");
    assert_eq!(message(2)["photo"][1]["width"], 640);
    assert_eq!(message(2)["media_group_id"], "a");
    assert_eq!(message(3)["voice"]["mime_type"], "audio/ogg");
}

#[tokio::test]
async fn replies_quotes_and_forwards_arrive_as_such() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let ours = stand.send(chat, "a long answer").await;
    stand.api.user_says(chat, ANN, Said::from("why?").reply_to(ours).quote("long"));
    stand.api.user_says(chat, ANN, Said::from("look").forwarded_from("Carol"));
    let updates = stand.updates(0).await;
    let reply = &updates[0]["message"];
    assert_eq!(reply["reply_to_message"]["message_id"], ours.0);
    assert_eq!(reply["reply_to_message"]["from"]["is_bot"], true);
    assert_eq!(reply["quote"]["text"], "long");
    assert_eq!(updates[1]["message"]["forward_origin"]["sender_user_name"], "Carol");

    let answer = |reply: Value| json!({"chat_id": 7, "text": "x", "reply_parameters": reply});
    let sent = stand.call("sendMessage", answer(json!({"message_id": 2, "quote": "why"}))).await;
    assert_eq!(sent["reply_to_message"]["text"], "why?");
    let cases = [
        (json!({"message_id": 99}), "Bad Request: message to be replied not found"),
        (json!({"message_id": 2, "quote": "how"}), "Bad Request: QUOTE_TEXT_INVALID"),
    ];
    for (reply, refusal) in cases {
        assert_eq!(stand.refused("sendMessage", answer(reply)).await, refusal);
    }
    let lenient = json!({"message_id": 99, "allow_sending_without_reply": true});
    stand.call("sendMessage", answer(lenient)).await;
}

#[tokio::test]
async fn topics_are_made_used_and_deleted() {
    let stand = Stand::new().await;
    let forum = stand.api.chat_forum(&[ANN]);
    let group = stand.api.chat_group(&[ANN]);
    let create = |chat: ChatId, name: &str| json!({"chat_id": chat.0, "name": name});
    let made = stand.call("createForumTopic", create(forum, "fix the build")).await;
    let topic = ThreadId(made["message_thread_id"].as_i64().unwrap());
    let there = |topic: i64| json!({"chat_id": forum.0, "message_thread_id": topic, "text": "x"});
    let sent = stand.call("sendMessage", there(topic.0)).await;
    assert_eq!(
        (&sent["message_thread_id"], &sent["is_topic_message"]),
        (&json!(topic.0), &json!(true))
    );
    stand.api.user_says(forum, ANN, Said::from("in it").in_topic(topic).reply_to_topic_root());
    stand.api.user_says(forum, ANN, "in general");
    let theirs = stand.api.user_opens_topic(forum, ANN, "mine");
    let updates = stand.updates(0).await;
    assert_eq!(updates[0]["message"]["message_thread_id"], topic.0);
    let root = &updates[0]["message"]["reply_to_message"];
    assert_eq!(root["message_id"], topic.0);
    assert_eq!(root["forum_topic_created"]["name"], "fix the build");
    assert_eq!(updates[1]["message"]["message_thread_id"], Value::Null);
    assert_eq!(updates[2]["message"]["forum_topic_created"]["name"], "mine");

    let edit = |topic: ThreadId, name: &str| json!({"chat_id": forum.0, "message_thread_id": topic.0, "name": name});
    stand.call("editForumTopic", edit(theirs, "ours")).await;
    let cases = [
        ("createForumTopic", create(group, "x"), "Bad Request: the chat is not a forum"),
        ("createForumTopic", create(forum, " "), "Bad Request: topic name must be non-empty"),
        ("editForumTopic", edit(theirs, "ours"), "Bad Request: TOPIC_NOT_MODIFIED"),
        ("editForumTopic", edit(ThreadId(99), "x"), "Bad Request: TOPIC_ID_INVALID"),
        // The general topic is written to without a number.
        ("sendMessage", there(1), "Bad Request: message thread not found"),
        (
            "sendMessage",
            json!({"chat_id": group.0, "message_thread_id": 1, "text": "x"}),
            "Bad Request: message thread not found",
        ),
    ];
    for (method, params, refusal) in cases {
        assert_eq!(stand.refused(method, params).await, refusal);
    }
    stand.call("closeForumTopic", edit(theirs, "")).await;
    assert_eq!(
        stand.refused("closeForumTopic", edit(theirs, "")).await,
        "Bad Request: TOPIC_NOT_MODIFIED"
    );
    stand.call("reopenForumTopic", edit(theirs, "")).await;
    stand.call("deleteForumTopic", edit(theirs, "")).await;
    stand.api.user_deletes_topic(forum, topic);
    for gone in [theirs, topic] {
        let refusal = stand.refused("sendMessage", there(gone.0)).await;
        assert_eq!(refusal, "Bad Request: message thread not found");
    }
    let left: Vec<_> = stand.api.visible(forum).into_iter().map(|it| it.text).collect();
    assert_eq!(left, ["in general"]);
}

#[tokio::test]
async fn reactions_are_of_the_allowed_set() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let theirs = stand.api.user_says(chat, ANN, "x");
    let react = |id: i64, emoji: &[&str]| {
        let reaction: Vec<_> =
            emoji.iter().map(|it| json!({"type": "emoji", "emoji": it})).collect();
        json!({"chat_id": 7, "message_id": id, "reaction": reaction})
    };
    let cases = [
        (react(theirs.0, &["✅"]), "Bad Request: REACTION_INVALID"),
        (react(theirs.0, &["👍", "🔥"]), "Bad Request: REACTIONS_TOO_MANY"),
        (react(99, &["👍"]), "Bad Request: message to react not found"),
    ];
    for (params, refusal) in cases {
        assert_eq!(stand.refused("setMessageReaction", params).await, refusal);
    }
    stand.call("setMessageReaction", react(theirs.0, &["❤️"])).await;
    assert_eq!(stand.api.messages(chat)[0].reactions, ["❤"]);
    stand.call("setMessageReaction", react(theirs.0, &[])).await;
    assert!(stand.api.messages(chat)[0].reactions.is_empty());
}

#[tokio::test]
async fn messages_are_deleted_and_pinned() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    for text in ["1", "2", "3", "4"] {
        stand.send(chat, text).await;
    }
    let one = |id: i64| json!({"chat_id": 7, "message_id": id});
    let many = |ids: Vec<i64>| json!({"chat_id": 7, "message_ids": ids});
    stand.call("pinChatMessage", one(4)).await;
    assert_eq!(stand.call("getChat", json!({"chat_id": 7})).await["pinned_message"]["text"], "4");
    stand.call("deleteMessage", one(1)).await;
    stand.call("deleteMessages", many(vec![1, 2, 99])).await;
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
    for (method, params, refusal) in cases {
        assert_eq!(stand.refused(method, params).await, refusal);
    }
    let gone: Vec<bool> = stand.api.messages(chat).iter().map(|it| it.deleted).collect();
    assert_eq!(gone, [true, true, false, false]);
    let action = |action: &str| json!({"chat_id": 7, "action": action});
    stand.call("sendChatAction", action("typing")).await;
    let refusal = stand.refused("sendChatAction", action("thinking")).await;
    assert_eq!(refusal, "Bad Request: wrong parameter action in request");
}

#[tokio::test]
async fn an_old_message_stays() {
    let options =
        BotApiOptions { speed: 1e9, rates: Rates::unlimited(), ..BotApiOptions::default() };
    let stand = Stand::with(options).await;
    let chat = stand.api.chat_private(ANN);
    let id = stand.send(chat, "x").await;
    // Two days there are less than a millisecond here.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let refusal = stand.refused("deleteMessage", json!({"chat_id": 7, "message_id": id.0})).await;
    assert_eq!(refusal, "Bad Request: message can't be deleted for everyone");
}

#[tokio::test]
async fn commands_are_kept_for_each_scope() {
    let stand = Stand::new().await;
    let commands = |name: &str, text: &str| json!([{"command": name, "description": text}]);
    let cases = [
        (commands("New", "x"), "Bad Request: BOT_COMMAND_INVALID"),
        (commands(&"x".repeat(33), "x"), "Bad Request: BOT_COMMAND_INVALID"),
        (commands("new", ""), "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID"),
        (commands("new", &"x".repeat(257)), "Bad Request: BOT_COMMAND_DESCRIPTION_INVALID"),
    ];
    for (commands, refusal) in cases {
        let params = json!({"commands": commands});
        assert_eq!(stand.refused("setMyCommands", params).await, refusal);
    }
    let scope = json!({"type": "all_group_chats"});
    let new = commands("new", "a new session");
    stand.call("setMyCommands", json!({"commands": new})).await;
    let stop = json!({"commands": commands("stop", "stop it"), "scope": scope});
    stand.call("setMyCommands", stop).await;
    assert_eq!(stand.call("getMyCommands", json!({})).await, new);
    stand.call("deleteMyCommands", json!({})).await;
    assert_eq!(stand.call("getMyCommands", json!({})).await, json!([]));
    let left = stand.call("getMyCommands", json!({"scope": scope})).await;
    assert_eq!(left[0]["command"], "stop");
}

#[tokio::test]
async fn phones_ring_for_new_messages_that_are_not_silent() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let loud = stand.send(chat, "done").await;
    let quiet = json!({"chat_id": 7, "text": "…", "disable_notification": true});
    let quiet = stand.call("sendMessage", quiet).await["message_id"].clone();
    stand.call("editMessageText", json!({"chat_id": 7, "message_id": quiet, "text": "x"})).await;
    assert_eq!(stand.api.notifications(chat), [loud]);
    let silent: Vec<bool> = stand.api.messages(chat).iter().map(|it| it.silent).collect();
    assert_eq!(silent, [false, true]);
}

#[tokio::test]
async fn whoever_waits_for_a_chat_sees_it_change_or_hears_what_it_holds() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let wait = stand.api.wait_until(chat, |seen| seen.iter().any(|it| it.text == "two"), SOON);
    let send = async {
        stand.send(chat, "one").await;
        stand.send(chat, "two").await;
    };
    let (seen, ()) = tokio::join!(wait, send);
    assert_eq!(seen.unwrap().len(), 2);
    let short = Duration::from_millis(20);
    let missed = stand.api.wait_until(chat, |seen| seen.len() > 2, short).await.unwrap_err();
    assert!(missed.to_string().contains("bot: \"one\""), "{missed}");
}

#[tokio::test]
async fn calls_fail_as_they_are_told() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let send = || {
        let request = stand.client.post(stand.api.method("sendMessage"));
        request.json(&json!({"chat_id": 7, "text": "x"})).timeout(SOON)
    };
    let texts = || stand.api.messages(chat).len();
    stand.api.fail("sendMessage", Fault::Refuse, Span::Calls(1));
    assert!(send().send().await.is_err());
    assert_eq!(texts(), 0);
    stand.api.fail("sendMessage", Fault::Hang, Span::Calls(1));
    let hung = send().timeout(Duration::from_millis(300)).send().await;
    assert!(hung.unwrap_err().is_timeout());
    assert_eq!(texts(), 0);
    stand.api.fail("sendMessage", Fault::LoseAnswer, Span::Calls(1));
    assert!(!send().send().await.unwrap_err().is_timeout());
    assert_eq!(texts(), 1);
    let calls = stand.api.calls_of("sendMessage");
    assert_eq!(calls[0].outcome, Outcome::Lost);
    assert!(matches!(&calls[2].outcome, Outcome::Done(_)) && !calls[2].answered);

    stand.api.fail_all(Fault::Html(502), Span::Calls(1));
    let response = send().send().await.unwrap();
    assert_eq!(response.status(), 502);
    assert!(response.text().await.unwrap().starts_with("<html>"));
    stand.api.fail_all(Fault::Error(500), Span::Time(SOON));
    stand.api.fail("getMe", Fault::Hang, Span::Time(SOON));
    assert_eq!(stand.refused("sendMessage", json!({})).await, "Internal Server Error");
    stand.api.mend();
    stand.api.fail("sendMessage", Fault::RetryAfter(3), Span::Calls(1));
    let answer = stand.answer("sendMessage", json!({"chat_id": 7, "text": "x"})).await;
    assert_eq!(answer["parameters"]["retry_after"], 3);
    assert_eq!(texts(), 1);
    stand.send(chat, "x").await;
    assert!(stand.api.breaches().is_empty());
}

#[tokio::test]
async fn a_network_that_is_gone_takes_every_call_with_it_and_loses_no_update() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    stand.send(chat, "before").await;
    let call = |timeout: u64| {
        let request = stand.client.post(stand.api.method("sendMessage"));
        let request = request.json(&json!({"chat_id": 7, "text": "lost"}));
        request.timeout(Duration::from_millis(timeout)).send()
    };
    stand.api.set_network(Network::Refusing);
    assert!(!call(5_000).await.unwrap_err().is_timeout());
    stand.api.set_network(Network::Dead);
    assert!(call(200).await.unwrap_err().is_timeout());
    stand.api.eventually(SOON, |api| (api.held_calls() == 0).then_some(())).await.unwrap();
    stand.api.user_says(chat, ANN, "anyone?");
    let hung = call(10_000);
    let back = async {
        stand.api.eventually(SOON, |api| (api.held_calls() > 0).then_some(())).await.unwrap();
        stand.api.set_network(Network::Up);
    };
    let (hung, ()) = tokio::join!(hung, back);
    assert!(!hung.unwrap_err().is_timeout());
    assert_eq!(stand.updates(0).await[0]["message"]["text"], "anyone?");
    let said: Vec<_> = stand.api.messages(chat).into_iter().map(|it| it.text).collect();
    assert_eq!(said, ["before", "anyone?"]);
}

#[tokio::test]
async fn a_server_that_is_dropped_is_gone() {
    let stand = Stand::new().await;
    let url = stand.api.method("getMe");
    stand.client.get(&url).send().await.unwrap();
    drop(stand.api);
    tokio::task::yield_now().await;
    assert!(stand.client.get(&url).timeout(SOON).send().await.is_err());
}

/// Where a webhook leads: each request goes to the test, which answers it with a status.
async fn landing() -> (String, tokio::sync::mpsc::Receiver<Landed>) {
    let (arrived, landed) = tokio::sync::mpsc::channel(1);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let take = move |headers: axum::http::HeaderMap, update: axum::Json<Value>| {
        let arrived = arrived.clone();
        async move {
            let (answer, status) = tokio::sync::oneshot::channel();
            let secret = headers.get("x-telegram-bot-api-secret-token");
            let secret = secret.map(|it| it.to_str().expect("text").to_owned());
            arrived.send(Landed { update: update.0, secret, answer }).await.expect("a test");
            axum::http::StatusCode::from_u16(status.await.expect("an answer")).expect("a status")
        }
    };
    let router = axum::Router::new().route("/hook", axum::routing::post(take));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, landed)
}

struct Landed {
    update: Value,
    secret: Option<String>,
    answer: tokio::sync::oneshot::Sender<u16>,
}

#[tokio::test]
async fn a_webhook_gets_each_update_until_it_takes_it_and_nobody_polls_meanwhile() {
    let stand = Stand::with(BotApiOptions { speed: 50.0, ..BotApiOptions::default() }).await;
    let chat = stand.api.chat_private(ANN);
    let (url, mut landed) = landing().await;
    let bad = [
        (
            json!({"url": "http://a.example/"}),
            "Bad Request: bad webhook: An HTTPS URL must be provided for webhook",
        ),
        (
            json!({"url": url, "secret_token": "a b"}),
            "Bad Request: secret token contains unallowed characters",
        ),
    ];
    for (params, refusal) in bad {
        assert_eq!(stand.refused("setWebhook", params).await, refusal);
    }
    stand.api.user_says(chat, ANN, "old");
    let set = json!({"url": url, "secret_token": "s3cret", "drop_pending_updates": true});
    stand.call("setWebhook", set).await;
    let conflict = "Conflict: can't use getUpdates method while webhook is active; use \
                    deleteWebhook to delete the webhook first";
    assert_eq!(stand.refused("getUpdates", json!({})).await, conflict);

    stand.api.user_says(chat, ANN, "one");
    stand.api.user_says(chat, ANN, "two");
    for (text, status) in [("one", 500), ("one", 200), ("two", 204)] {
        let it = timeout(SOON, landed.recv()).await.unwrap().unwrap();
        assert_eq!(it.update["message"]["text"], text);
        assert_eq!(it.secret.as_deref(), Some("s3cret"));
        it.answer.send(status).unwrap();
    }
    stand.api.eventually(SOON, |api| (api.pending_updates() == 0).then_some(())).await.unwrap();
    let info = stand.call("getWebhookInfo", json!({})).await;
    assert_eq!((&info["url"], &info["pending_update_count"]), (&json!(url), &json!(0)));
    let why = "Wrong response from the webhook: 500 Internal Server Error";
    assert_eq!(info["last_error_message"], why);

    stand.call("deleteWebhook", json!({})).await;
    stand.api.user_says(chat, ANN, "three");
    assert_eq!(stand.updates(0).await[0]["message"]["text"], "three");
}

#[tokio::test]
async fn a_webhook_ends_the_poll_that_waits() {
    let stand = Stand::new().await;
    let (url, _landed) = landing().await;
    let poll = stand.refused("getUpdates", json!({"timeout": 50}));
    let set = async {
        stand.api.eventually(SOON, |api| api.calls_of("getUpdates").pop()).await.unwrap();
        stand.call("setWebhook", json!({"url": url})).await;
    };
    let (refusal, ()) = timeout(SOON, async { tokio::join!(poll, set) }).await.unwrap();
    assert_eq!(refusal, "Conflict: terminated by setWebhook request");
}

#[tokio::test]
async fn a_poller_that_was_killed_is_not_in_the_way_of_the_next() {
    let stand = Stand::new().await;
    let chat = stand.api.chat_private(ANN);
    let poll = stand.client.post(stand.api.method("getUpdates")).json(&json!({"timeout": 50}));
    let killed = tokio::spawn(poll.send());
    stand.api.eventually(SOON, |api| api.calls_of("getUpdates").pop()).await.unwrap();
    killed.abort();
    stand.api.user_says(chat, ANN, "still here");
    let updates = stand.call("getUpdates", json!({"timeout": 50})).await;
    assert_eq!(updates[0]["message"]["text"], "still here");
}

#[tokio::test]
async fn private_chats_have_topics_where_the_bot_has_them_on() {
    let options = BotApiOptions { private_topics: true, ..BotApiOptions::default() };
    let stand = Stand::with(options).await;
    let chat = stand.api.chat_private(ANN);
    assert_eq!(stand.call("getMe", json!({})).await["has_topics_enabled"], true);
    let topic = stand.call("createForumTopic", json!({"chat_id": 7, "name": "a"})).await;
    let draft = |thread: &Value| json!({"chat_id": 7, "draft_id": 1, "text": "x", "message_thread_id": thread});
    stand.call("sendMessageDraft", draft(&topic["message_thread_id"])).await;
    stand.call("sendMessageDraft", draft(&Value::Null)).await;
    // A message ends the draft of its own topic only.
    stand.send(chat, "done").await;
    let threads: Vec<_> = stand.api.drafts(chat).into_iter().map(|it| it.thread).collect();
    assert_eq!(threads, [topic["message_thread_id"].as_i64().map(ThreadId)]);
}
