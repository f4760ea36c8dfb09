//! How often one may speak.

use std::time::Duration;

use serde_json::json;
use towpath_test_support::bot_api::{BotApiOptions, Excess, Rates, UserId};

use crate::stand::{ANN, Stand};

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
