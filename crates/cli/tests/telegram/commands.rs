//! Commands.

use crate::fixture::{ANN, Fixture};
use crate::texts::{
    COMMAND_REPLIES, DIRECTORY_REJECTED, NO_SESSION, PROMPT_CHANGED, PROMPT_NOT_CHANGED, QUEUED,
    STOP, STOPPING,
};

#[tokio::test]
async fn commands_are_registered_and_each_is_answered() {
    let fixture = Fixture::new("api text \"Hello.\"").await;
    let _bridge = fixture.start_bridge().await;
    let registered = fixture.telegram.calls_of("setMyCommands");
    let names = registered.last().expect("a call").params["commands"].to_string();
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "/status");
    fixture.wait_for_text(chat, NO_SESSION).await;
    fixture.telegram.user_sends(chat, ANN, "hello");
    fixture.wait_for_text(chat, "Hello.").await;
    for (command, words) in COMMAND_REPLIES {
        let name = command.split_whitespace().next().expect("a word").trim_start_matches('/');
        assert!(name == "nonsense" || names.contains(name), "{name} is not in {names}");
        let reply = fixture.wait_for_reply(chat, ANN, command).await;
        assert!(reply.text.contains(words), "{command}: {}", reply.text);
    }
    fixture.assert_correct();
}

#[tokio::test]
async fn a_new_session_works_only_below_the_roots() {
    let fixture = Fixture::new("api text \"Here.\"").await;
    std::fs::create_dir(fixture.path("project/inner")).expect("a directory");
    std::os::unix::fs::symlink("/etc", fixture.path("project/link")).expect("a link");
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    for directory in ["/etc", "..", "link", "../home", "inner/../..", "/", "none"] {
        let reply = fixture.wait_for_reply(chat, ANN, &format!("/new {directory}")).await;
        assert!(reply.text.contains(DIRECTORY_REJECTED), "{directory}: {}", reply.text);
        assert!(reply.text.contains(&fixture.project()), "no roots in: {}", reply.text);
    }
    let reply = fixture.wait_for_reply(chat, ANN, "/new inner").await;
    assert!(!reply.text.contains(DIRECTORY_REJECTED), "{}", reply.text);
    fixture.telegram.user_sends(chat, ANN, "where are you?");
    fixture.wait_for_text(chat, "Here.").await;
    let status = fixture.wait_for_reply(chat, ANN, "/status").await;
    assert!(status.text.contains("inner"), "{}", status.text);
    fixture.assert_correct();
}

#[tokio::test]
async fn a_command_or_a_button_stops_the_turn_and_the_queue_waits_to_be_resumed() {
    let fixture = Fixture::new(
        "api for \"slowly\" text \"one two three four five six\" hold gate after 2\n\
         api for \"again\" text \"seven eight nine ten\" hold other after 2\n\
         api for \"waiting\" text \"My turn.\"\n\
         api text \"Hm.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "slowly");
    fixture.wait_for_button(chat, STOP).await;
    fixture.telegram.user_sends(chat, ANN, "waiting");
    fixture.wait_for_text(chat, QUEUED).await;
    let reply = fixture.wait_for_reply(chat, ANN, "/stop").await;
    assert!(reply.text.contains(STOPPING), "{}", reply.text);
    assert!(reply.text.contains("/resume"), "{}", reply.text);
    fixture.wait_for_text(chat, "Interrupted").await;
    assert_eq!(fixture.count_prompts("waiting"), 0, "it is held");
    fixture.telegram.user_sends(chat, ANN, "/resume");
    fixture.wait_for_text(chat, "My turn.").await;
    fixture.wait_for_no_button(chat, STOP).await;
    fixture.telegram.user_sends(chat, ANN, "again");
    let notification = fixture.tap(chat, ANN, STOP).await;
    assert!(notification.contains(STOPPING), "{notification}");
    fixture.wait_for_no_button(chat, STOP).await;
    fixture.assert_correct();
}

#[tokio::test]
async fn a_message_that_waits_for_a_budget_says_so_and_is_sent_with_resume() {
    let fixture = Fixture::new("api text \"The first.\"\napi text \"The second.\"").await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.wait_for_reply(chat, ANN, "/new --budget 0.000001").await;
    fixture.telegram.user_sends(chat, ANN, "one");
    fixture.wait_for_text(chat, "The first.").await;
    fixture.wait_for_no_button(chat, STOP).await;
    let reply = fixture.wait_for_reply(chat, ANN, "two").await;
    assert!(reply.text.contains(" spent. Go on?"), "{}", reply.text);
    assert_eq!(fixture.count_prompts("two"), 0, "it waits");
    fixture.telegram.user_sends(chat, ANN, "/resume");
    fixture.wait_for_text(chat, "The second.").await;
    fixture.assert_correct();
}

#[tokio::test]
async fn a_queued_message_can_be_edited_and_cancelled() {
    let fixture = Fixture::new(
        "api for \"first\" text \"one two three\" hold gate after 1\n\
         api for \"better\" text \"To the better words.\"\n\
         api text \"To something else.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    let first = fixture.telegram.user_sends(chat, ANN, "first");
    fixture.wait_for_button(chat, STOP).await;
    let second = fixture.telegram.user_sends(chat, ANN, "worse words");
    fixture.wait_for_message(chat, "queued", |it| it.reply_to == Some(second)).await;
    fixture.telegram.user_edits(chat, second, "better words");
    fixture.wait_for_text(chat, PROMPT_CHANGED).await;
    fixture.wait_for_reply(chat, ANN, "never mind").await;
    fixture.telegram.user_sends(chat, ANN, "/queue");
    fixture.tap(chat, ANN, "never mind").await;
    fixture.telegram.user_edits(chat, first, "too late");
    fixture.wait_for_text(chat, PROMPT_NOT_CHANGED).await;
    fixture.api.open("gate");
    fixture.wait_for_text(chat, "To the better words.").await;
    assert_eq!(fixture.count_prompts("worse words"), 0);
    assert_eq!(fixture.count_prompts("never mind"), 0);
    fixture.assert_correct();
}

#[tokio::test]
async fn verbosity_can_be_set() {
    let fixture = Fixture::new(
        "api text \"Let me look.\" tool Read {\"file_path\":\"$cwd/none\"}\napi text \"Done one.\"\n\
         api text \"Let me look again.\" tool Read {\"file_path\":\"$cwd/none\"}\napi text \"Done two.\"",
    )
    .await;
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "look");
    fixture.wait_for_text(chat, "Done one.").await;
    assert_eq!(fixture.count_texts(chat, "Let me look."), 1, "{:?}", fixture.bot_texts(chat));
    fixture.wait_for_reply(chat, ANN, "/verbose 0").await;
    fixture.telegram.user_sends(chat, ANN, "look again");
    fixture.wait_for_text(chat, "Done two.").await;
    assert_eq!(fixture.count_texts(chat, "Let me look again."), 0, "{:?}", fixture.bot_texts(chat));
    fixture.assert_correct();
}
