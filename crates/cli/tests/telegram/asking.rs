//! Permissions, questions and plans, by taps and replies.

use test_support::bot_api::Said;

use crate::stage::{ANN, BOB, PATIENCE, Stage};

/// A command that needs a word, and what is said when it ran.
const TOUCH: &str = "api tool Bash {\"command\":\"touch done\",\"description\":\"make a file\"}\n\
                     api text \"Made it.\"";

#[tokio::test]
async fn a_permission_is_given_by_a_tap_and_its_card_says_by_whom() {
    let stage = Stage::new(TOUCH).await;
    let _bridge = stage.bridge().await;
    let group = stage.telegram.chat_group(&[ANN, BOB]);
    stage.telegram.user_says(group, ANN, "make it");
    let card = stage.bot_message(group, "a card", |it| it.text.contains("touch done")).await;
    assert!(!card.silent, "somebody has to look");
    let data = stage.telegram.calls_of("sendMessage");
    let data = data.iter().map(|it| it.params["reply_markup"].to_string()).collect::<String>();
    assert!(!data.contains("touch"), "what buttons carry says nothing: {data}");
    let word = stage.tap(group, BOB, "Allow").await;
    assert_eq!(word, "Allowed");
    stage.says(group, "Made it.").await;
    let settled = stage.bot_message(group, "the outcome", |it| it.text.contains("Bob")).await;
    assert_eq!(settled.message_id, card.message_id);
    assert!(settled.markup.is_empty(), "{settled:?}");
    assert!(stage.path("project/done").exists());
    stage.check();
}

#[tokio::test]
async fn words_are_no_denial_and_a_reply_to_the_question_why_is_one() {
    let stage = Stage::new(
        "api for \"make it\" tool Bash {\"command\":\"touch done\",\"description\":\"d\"}\n\
         api for \"use make\" text \"I will use make.\"\n\
         api text \"Something else.\"",
    )
    .await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "make it");
    let card = stage.button(chat, "Deny & say why").await;
    stage.telegram.user_says(chat, ANN, "by the way, how are you?");
    stage.says(chat, "/queue").await;
    let still = stage.telegram.messages(chat).into_iter().find(|it| it.message_id == card);
    assert!(!still.expect("the card").markup.is_empty(), "it is still asked");
    stage.tap(chat, ANN, "Deny & say why").await;
    let ask = stage.bot_message(chat, "a question why", |it| it.force_reply).await;
    let reply = Said::from("use make").reply_to(ask.message_id);
    stage.telegram.user_says(chat, ANN, reply);
    stage.says(chat, "I will use make.").await;
    assert!(!stage.path("project/done").exists());
    stage.check();
}

#[tokio::test]
async fn a_tap_that_comes_too_late_says_what_came_of_it() {
    let stage = Stage::new(TOUCH).await;
    let _bridge = stage.bridge().await;
    let group = stage.telegram.chat_group(&[ANN, BOB]);
    stage.telegram.user_says(group, ANN, "make it");
    let card = stage.button(group, "Allow").await;
    let calls = stage.telegram.calls_of("sendMessage");
    let data = |label: &str| {
        let buttons = calls.iter().flat_map(|it| {
            let rows = it.params["reply_markup"]["inline_keyboard"].as_array().cloned();
            rows.unwrap_or_default()
                .into_iter()
                .flat_map(|row| row.as_array().cloned().unwrap_or_default())
        });
        let mut found =
            buttons.filter(|it| it["text"].as_str().is_some_and(|it| it.contains(label)));
        found.next().expect("a button")["callback_data"].as_str().expect("data").to_owned()
    };
    let deny = data("Deny");
    stage.tap(group, ANN, "Allow").await;
    stage.says(group, "Made it.").await;
    let late = stage.telegram.user_taps_late(group, BOB, card, &deny);
    let word = stage.telegram.answer_to(&late, PATIENCE).await.expect("an answer").text;
    assert!(word.to_lowercase().contains("allowed") && word.contains("Ann"), "{word}");
    let nonsense = stage.telegram.user_taps_late(group, BOB, card, "nonsense");
    assert!(stage.telegram.answer_to(&nonsense, PATIENCE).await.is_some());
    stage.check();
}

#[tokio::test]
async fn a_question_is_answered_by_a_choice_or_in_words() {
    let question = "{\"questions\":[{\"question\":\"Which colour?\",\"header\":\"Colour\",\"multiSelect\":false,\
        \"options\":[{\"label\":\"Red\",\"description\":\"warm\"},{\"label\":\"Blue\",\"description\":\"cold\"}]}]}";
    let stage = Stage::new(&format!(
        "api tool AskUserQuestion {question}\napi text \"Blue it is.\"\n\
         api tool AskUserQuestion {question}\napi text \"As you say.\""
    ))
    .await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "paint it");
    stage.bot_message(chat, "the question", |it| it.text.contains("Which colour?")).await;
    stage.tap(chat, ANN, "Blue").await;
    stage.says(chat, "Blue it is.").await;
    stage.telegram.user_says(chat, ANN, "paint the other");
    stage.tap(chat, ANN, "Other").await;
    let ask = stage.bot_message(chat, "a question in words", |it| it.force_reply).await;
    stage.telegram.user_says(chat, ANN, Said::from("ochre").reply_to(ask.message_id));
    stage.says(chat, "As you say.").await;
    let asked = stage.asked();
    assert!(asked.iter().any(|it| it.contains("ochre")), "{asked:?}");
    assert!(asked.iter().any(|it| it.contains("Blue")), "{asked:?}");
    stage.check();
}

#[tokio::test]
async fn a_plan_is_shown_whole_and_approved() {
    let plan = "1. Look around\\n2. Touch nothing";
    let stage = Stage::new(&format!(
        "api tool ExitPlanMode {{\"plan\":\"{plan}\"}}\napi text \"Off I go.\""
    ))
    .await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "/new");
    stage.says(chat, "New session").await;
    stage.telegram.user_says(chat, ANN, "/mode plan");
    stage.says(chat, "From here on").await;
    stage.telegram.user_says(chat, ANN, "make a plan");
    stage.bot_message(chat, "the plan", |it| it.text.contains("Touch nothing")).await;
    stage.tap(chat, ANN, "accept edits").await;
    stage.says(chat, "Off I go.").await;
    stage.check();
}
