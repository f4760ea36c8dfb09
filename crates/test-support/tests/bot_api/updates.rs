//! Updates by long polling and by webhook.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use towpath_test_support::bot_api::BotApiOptions;

use crate::fixture::{ANN, TIMEOUT, TestBot};

#[tokio::test]
async fn updates_stay_queued_until_an_offset_confirms_them() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    for text in ["/start now", "two", "three"] {
        bot.api.user_sends(chat, ANN, text);
    }
    let first = bot.updates(0).await;
    assert_eq!(first.len(), 3);
    assert_eq!(first[0]["message"]["text"], "/start now");
    let command = json!([{"type": "bot_command", "offset": 0, "length": 6}]);
    assert_eq!(first[0]["message"]["entities"], command);
    assert_eq!(first[0]["message"]["chat"]["type"], "private");
    assert_eq!(first[0]["message"]["from"]["id"], 7);
    // A poll that confirms nothing gets the same updates.
    assert_eq!(bot.updates(0).await, first);
    let second = first[1]["update_id"].as_i64().unwrap();
    assert_eq!(bot.updates(second).await, first[1..]);
    assert_eq!(bot.updates(0).await, first[1..]);
    let limited = bot.call("getUpdates", json!({"limit": 1})).await;
    assert_eq!(limited, json!([first[1]]));
    assert_eq!(bot.updates(-1).await, first[2..]);
    assert_eq!(bot.api.pending_updates(), 1);
    bot.api.user_sends(chat, ANN, "four");
    let last = bot.updates(second + 2).await;
    assert_eq!(last[0]["update_id"], second + 2);
}

#[tokio::test]
async fn a_long_poll_ends_with_the_first_update() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let poll = bot.call("getUpdates", json!({"timeout": 50}));
    let send = async {
        bot.api.wait_for(TIMEOUT, |api| api.calls_of("getUpdates").pop()).await.unwrap();
        bot.api.user_sends(chat, ANN, "hello");
    };
    let (updates, ()) = timeout(TIMEOUT, async { tokio::join!(poll, send) }).await.unwrap();
    assert_eq!(updates[0]["message"]["text"], "hello");
}

#[tokio::test]
async fn a_long_poll_ends_after_its_timeout_on_the_clock_of_the_api() {
    let bot = TestBot::with(BotApiOptions { speed: 100.0, ..BotApiOptions::default() }).await;
    let before = bot.api.now();
    assert_eq!(bot.call("getUpdates", json!({"timeout": 10})).await, json!([]));
    assert!(bot.api.now() >= before + Duration::from_secs(10));
}

#[tokio::test]
async fn only_allowed_kinds_of_updates_are_queued() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    bot.call("getUpdates", json!({"allowed_updates": ["edited_message"]})).await;
    let message = bot.api.user_sends(chat, ANN, "one");
    bot.api.user_edits(chat, message, "two");
    let updates = bot.updates(0).await;
    assert_eq!(updates.len(), 1);
    assert_eq!(updates[0]["edited_message"]["text"], "two");
    assert!(updates[0]["edited_message"]["edit_date"].is_u64());
}

#[tokio::test]
async fn a_second_poll_ends_the_first() {
    let bot = TestBot::new().await;
    let first = bot.error("getUpdates", json!({"timeout": 50}));
    let second = async {
        bot.api.wait_for(TIMEOUT, |api| api.calls_of("getUpdates").pop()).await.unwrap();
        bot.updates(0).await
    };
    let (error, updates) = timeout(TIMEOUT, async { tokio::join!(first, second) }).await.unwrap();
    assert_eq!(
        error,
        "Conflict: terminated by other getUpdates request; make sure that only one bot instance is \
         running"
    );
    assert!(updates.is_empty());
}

#[tokio::test]
async fn a_poll_of_a_killed_client_does_not_block_the_next() {
    let bot = TestBot::new().await;
    let chat = bot.api.private_chat(ANN);
    let poll = bot.client.post(bot.api.method_url("getUpdates")).json(&json!({"timeout": 50}));
    let killed = tokio::spawn(poll.send());
    bot.api.wait_for(TIMEOUT, |api| api.calls_of("getUpdates").pop()).await.unwrap();
    killed.abort();
    bot.api.user_sends(chat, ANN, "still here");
    let updates = bot.call("getUpdates", json!({"timeout": 50})).await;
    assert_eq!(updates[0]["message"]["text"], "still here");
}

/// Starts a webhook server. It passes each request to the test, which answers it with a status.
async fn webhook_server() -> (String, tokio::sync::mpsc::Receiver<WebhookRequest>) {
    let (sender, requests) = tokio::sync::mpsc::channel(1);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let handler = move |headers: axum::http::HeaderMap, update: axum::Json<Value>| {
        let sender = sender.clone();
        async move {
            let (status, response) = tokio::sync::oneshot::channel();
            let secret = headers.get("x-telegram-bot-api-secret-token");
            let secret = secret.map(|it| it.to_str().expect("text").to_owned());
            sender.send(WebhookRequest { update: update.0, secret, status }).await.expect("a test");
            axum::http::StatusCode::from_u16(response.await.expect("an answer")).expect("a status")
        }
    };
    let router = axum::Router::new().route("/hook", axum::routing::post(handler));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, requests)
}

struct WebhookRequest {
    update: Value,
    secret: Option<String>,
    status: tokio::sync::oneshot::Sender<u16>,
}

#[tokio::test]
async fn a_webhook_gets_each_update_until_it_accepts_it_and_polls_are_rejected() {
    let bot = TestBot::with(BotApiOptions { speed: 50.0, ..BotApiOptions::default() }).await;
    let chat = bot.api.private_chat(ANN);
    let (url, mut requests) = webhook_server().await;
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
    for (params, error) in bad {
        assert_eq!(bot.error("setWebhook", params).await, error);
    }
    bot.api.user_sends(chat, ANN, "old");
    let set = json!({"url": url, "secret_token": "s3cret", "drop_pending_updates": true});
    bot.call("setWebhook", set).await;
    let conflict = "Conflict: can't use getUpdates method while webhook is active; use \
                    deleteWebhook to delete the webhook first";
    assert_eq!(bot.error("getUpdates", json!({})).await, conflict);

    bot.api.user_sends(chat, ANN, "one");
    bot.api.user_sends(chat, ANN, "two");
    for (text, status) in [("one", 500), ("one", 200), ("two", 204)] {
        let request = timeout(TIMEOUT, requests.recv()).await.unwrap().unwrap();
        assert_eq!(request.update["message"]["text"], text);
        assert_eq!(request.secret.as_deref(), Some("s3cret"));
        request.status.send(status).unwrap();
    }
    bot.api.wait_for(TIMEOUT, |api| (api.pending_updates() == 0).then_some(())).await.unwrap();
    let info = bot.call("getWebhookInfo", json!({})).await;
    assert_eq!((&info["url"], &info["pending_update_count"]), (&json!(url), &json!(0)));
    let message = "Wrong response from the webhook: 500 Internal Server Error";
    assert_eq!(info["last_error_message"], message);

    bot.call("deleteWebhook", json!({})).await;
    bot.api.user_sends(chat, ANN, "three");
    assert_eq!(bot.updates(0).await[0]["message"]["text"], "three");
}

#[tokio::test]
async fn setting_a_webhook_ends_a_pending_poll() {
    let bot = TestBot::new().await;
    let (url, _requests) = webhook_server().await;
    let poll = bot.error("getUpdates", json!({"timeout": 50}));
    let set = async {
        bot.api.wait_for(TIMEOUT, |api| api.calls_of("getUpdates").pop()).await.unwrap();
        bot.call("setWebhook", json!({"url": url})).await;
    };
    let (error, ()) = timeout(TIMEOUT, async { tokio::join!(poll, set) }).await.unwrap();
    assert_eq!(error, "Conflict: terminated by setWebhook request");
}
