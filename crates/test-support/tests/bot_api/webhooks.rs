//! Updates for who is told of them.

use serde_json::{Value, json};
use tokio::time::timeout;
use towpath_test_support::bot_api::BotApiOptions;

use crate::stand::{ANN, SOON, Stand};

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
