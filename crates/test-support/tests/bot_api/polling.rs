//! Updates for who asks for them.

use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use towpath_test_support::bot_api::BotApiOptions;

use crate::stand::{ANN, SOON, Stand};

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
