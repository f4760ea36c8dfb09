//! Many chats at once.

use std::time::{Duration, Instant};

use test_support::bot_api::{ChatId, UserId};

use crate::stage::{PATIENCE, Stage};

/// How many.
const CHATS: i64 = 200;

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_chats_stream_at_once_and_each_gets_its_answer_in_order() {
    let replies: Vec<String> = (0..CHATS)
        .map(|n| {
            let words = format!("w{n} ").repeat(40);
            format!(
                "api for \"chat-{n}!\" text \"First {n}: {words}end.\" hold gate after 3 slow 100\n\
                 api for \"more-{n}!\" text \"Second {n}.\"\n"
            )
        })
        .collect();
    let mut stage = Stage::new(&replies.concat()).await;
    stage.allow = (0..CHATS).map(|n| 1_000 + n).collect();
    let bridge = stage.bridge().await;
    let began = Instant::now();
    let chats: Vec<ChatId> = (0..CHATS)
        .map(|n| {
            let user = UserId(1_000 + n);
            let chat = stage.telegram.chat_private(user);
            stage.telegram.user_says(chat, user, format!("chat-{n}!"));
            chat
        })
        .collect();
    let patience = PATIENCE * 4;
    let all = || (stage.asked().len() >= chats.len()).then_some(());
    let at_work = async || {
        while all().is_none() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(patience, at_work()).await.expect("all agents have begun");
    let held = began.elapsed();
    stage.model.open("gate");
    let began = Instant::now();
    for (n, chat) in chats.iter().enumerate() {
        let whole = |seen: &[test_support::bot_api::Seen]| {
            seen.iter().any(|it| {
                it.text.starts_with(&format!("First {n}:"))
                    && it.text.contains("end.")
                    && !it.silent
            })
        };
        let seen = stage.telegram.wait_until(*chat, whole, patience).await;
        seen.unwrap_or_else(|not| panic!("chat {n}: {not}\n{}", stage.log()));
    }
    let first = began.elapsed();
    for (n, chat) in chats.iter().enumerate() {
        stage.telegram.user_says(*chat, UserId(chat.0), format!("more-{n}!"));
    }
    for (n, chat) in chats.iter().enumerate() {
        let both = |seen: &[test_support::bot_api::Seen]| {
            seen.iter().any(|it| it.text.starts_with(&format!("Second {n}.")))
        };
        let seen = stage.telegram.wait_until(*chat, both, patience).await;
        let seen = seen.unwrap_or_else(|not| panic!("chat {n}: {not}\n{}", stage.log()));
        let loud: Vec<_> = seen.iter().filter(|it| it.from_bot && !it.silent).collect();
        assert_eq!(loud.len(), 2, "chat {n}: {loud:?}");
        assert!(
            loud[0].text.starts_with("First") && loud[1].text.starts_with("Second"),
            "in order"
        );
    }
    let calls = stage.telegram.calls();
    let count = |method: &str| calls.iter().filter(|it| it.is(method)).count();
    let cpu = cpu(bridge.ready["pid"].as_u64().expect("a pid"));
    println!(
        "{CHATS} chats, all at work after {held:?}: first answers after {first:?}, all after {:?}; {} messages, {} drafts, {} edits, \
         {} deletions; {cpu:?} of CPU for the bridge; {} breaches",
        began.elapsed(),
        count("sendMessage"),
        count("sendMessageDraft"),
        count("editMessageText"),
        count("deleteMessage"),
        stage.telegram.breaches().len(),
    );
    stage.check();
}

/// What a process has used of the processor.
fn cpu(pid: u64) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}
