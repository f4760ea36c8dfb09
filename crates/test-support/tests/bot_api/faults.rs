//! Faults on command.

use std::time::Duration;

use serde_json::json;
use towpath_test_support::bot_api::{Fault, Network, Outcome, Span};

use crate::stand::{ANN, SOON, Stand};

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
