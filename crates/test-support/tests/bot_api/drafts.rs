//! What is shown while it is written.

use std::time::Duration;

use serde_json::json;
use towpath_test_support::bot_api::{BotApiOptions, ChatId, Excess};

use crate::stand::{ANN, Stand};

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
