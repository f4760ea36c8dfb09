//! A whole conversation with the real CLI, in a network of its own.

use std::ffi::OsString;

use crate::release;
use crate::stage::{ANN, BOB, Stage};

#[tokio::test]
async fn the_real_cli_is_talked_to_and_survives_a_killed_bridge() {
    match release::command().await {
        Ok(_) => release::without_network("real::all_of_it_with_the_real_cli"),
        Err(why) => release::skip(&why),
    }
}

#[tokio::test]
#[ignore = "it runs inside the test above, without a network"]
async fn all_of_it_with_the_real_cli() {
    let command = release::command().await.expect("it was there just now");
    let stage = Stage::new(
        "api for \"make it\" tool Bash {\"command\":\"touch done\",\"description\":\"make a file\"}\n\
         api for \"tell\" text \"alpha beta gamma delta epsilon\" hold gate after 2\n\
         api for \"tool_result\" text \"Made it.\"\n\
         api text \"Made it.\"",
    )
    .await;
    let quoted = |word: &OsString| format!("'{}'", word.to_string_lossy());
    let words = command.iter().map(quoted).collect::<Vec<_>>().join(" ");
    stage.agent(&format!(
        "#!/bin/sh\nexport IS_SANDBOX=1 LANG=C.UTF-8 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 \
         CLAUDE_CODE_MAX_RETRIES=1 DISABLE_AUTOUPDATER=1 DISABLE_TELEMETRY=1\nexec {words} \"$@\"\n"
    ));
    let bridge = stage.bridge().await;
    let group = stage.telegram.chat_group(&[ANN, BOB]);
    stage.telegram.user_says(group, ANN, "make it");
    let card = stage.button(group, "Allow").await;
    stage.remembers(card).await;
    bridge.kill().await;
    let bridge = stage.bridge().await;
    assert_eq!(stage.tap(group, BOB, "Allow").await, "Allowed");
    stage.says(group, "Made it.").await;
    assert!(stage.path("project/done").exists());
    let settled = stage.bot_message(group, "the outcome", |it| it.text.contains("Bob")).await;
    assert_eq!(settled.message_id, card);

    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "tell");
    let progress = stage.button(chat, "Stop").await;
    stage.remembers(progress).await;
    bridge.kill().await;
    let _bridge = stage.bridge().await;
    stage.model.open("gate");
    stage.says(chat, "alpha beta gamma delta epsilon").await;
    assert_eq!(stage.times_said(chat, "alpha"), 1, "{:?}", stage.said(chat));
    let asked = stage.asked().iter().filter(|it| it.contains("\"tell\"")).count();
    assert_eq!(asked, 1, "{:#?}", stage.asked());
    stage.check();
}
