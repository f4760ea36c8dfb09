//! Commands.

use crate::stage::{ANN, Stage};

#[tokio::test]
async fn commands_are_registered_and_each_is_answered() {
    let stage = Stage::new("api text \"Hello.\"").await;
    let _bridge = stage.bridge().await;
    let registered = stage.telegram.calls_of("setMyCommands");
    let names = registered.last().expect("a call").params["commands"].to_string();
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "/status");
    stage.says(chat, "no session here").await;
    stage.telegram.user_says(chat, ANN, "hello");
    stage.says(chat, "Hello.").await;
    for (command, words) in [
        ("/help", "/new"),
        ("/status", "Directory"),
        ("/cost", "turn"),
        ("/model", "The model is"),
        ("/mode", "The mode is"),
        ("/queue", "Nothing waits"),
        ("/verbose", "How much"),
        ("/sessions", "hello"),
        ("/stop", "Nothing is running"),
        ("/diff", "changed no files"),
        ("/resume zz", "No session"),
        ("/new nowhere", "can’t work in"),
        ("/nonsense", "don’t know"),
    ] {
        let name = command.split_whitespace().next().expect("a word").trim_start_matches('/');
        assert!(name == "nonsense" || names.contains(name), "{name} is not in {names}");
        let message = stage.telegram.user_says(chat, ANN, command);
        let reply = stage.bot_message(chat, command, |it| it.reply_to == Some(message)).await;
        assert!(reply.text.contains(words), "{command}: {}", reply.text);
    }
    stage.check();
}

#[tokio::test]
async fn a_new_session_works_only_below_the_roots() {
    let stage = Stage::new("api text \"Here.\"").await;
    std::fs::create_dir(stage.path("project/inner")).expect("a directory");
    std::os::unix::fs::symlink("/etc", stage.path("project/link")).expect("a link");
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    for directory in ["/etc", "..", "link", "../home", "inner/../..", "/", "none"] {
        let message = stage.telegram.user_says(chat, ANN, format!("/new {directory}"));
        let reply = stage.bot_message(chat, directory, |it| it.reply_to == Some(message)).await;
        assert!(reply.text.contains("can’t work"), "{directory}: {}", reply.text);
        assert!(reply.text.contains(&stage.project()), "the roots are named: {}", reply.text);
    }
    stage.telegram.user_says(chat, ANN, "/new inner");
    stage.says(chat, "New session in").await;
    stage.telegram.user_says(chat, ANN, "where are you?");
    stage.says(chat, "Here.").await;
    let message = stage.telegram.user_says(chat, ANN, "/status");
    let status = stage.bot_message(chat, "a status", |it| it.reply_to == Some(message)).await;
    assert!(status.text.contains("inner"), "{}", status.text);
    stage.check();
}

#[tokio::test]
async fn stop_stops_by_word_and_by_button_and_what_waits_goes_on() {
    let stage = Stage::new(
        "api for \"slowly\" text \"one two three four five six\" hold gate after 2\n\
         api for \"again\" text \"seven eight nine ten\" hold other after 2\n\
         api for \"waiting\" text \"My turn.\"\n\
         api text \"Hm.\"",
    )
    .await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "slowly");
    stage.button(chat, "Stop").await;
    stage.telegram.user_says(chat, ANN, "waiting");
    stage.says(chat, "/queue").await;
    stage.telegram.user_says(chat, ANN, "/stop");
    stage.says(chat, "Stopping").await;
    stage.says(chat, "My turn.").await;
    stage.no_button(chat, "Stop").await;
    stage.telegram.user_says(chat, ANN, "again");
    let word = stage.tap(chat, ANN, "Stop").await;
    assert!(word.contains("Stopping"), "{word}");
    stage.no_button(chat, "Stop").await;
    stage.check();
}

#[tokio::test]
async fn a_message_that_waits_can_be_edited_and_taken_back() {
    let stage = Stage::new(
        "api for \"first\" text \"one two three\" hold gate after 1\n\
         api for \"better\" text \"To the better words.\"\n\
         api text \"To something else.\"",
    )
    .await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    let first = stage.telegram.user_says(chat, ANN, "first");
    stage.button(chat, "Stop").await;
    let second = stage.telegram.user_says(chat, ANN, "worse words");
    stage.bot_message(chat, "it waits", |it| it.reply_to == Some(second)).await;
    stage.telegram.user_edits(chat, second, "better words");
    stage.says(chat, "Changed").await;
    let third = stage.telegram.user_says(chat, ANN, "never mind");
    stage.bot_message(chat, "it waits", |it| it.reply_to == Some(third)).await;
    stage.telegram.user_says(chat, ANN, "/queue");
    stage.tap(chat, ANN, "never mind").await;
    stage.telegram.user_edits(chat, first, "too late");
    stage.bot_message(chat, "too late", |it| it.text.contains("as it was")).await;
    stage.model.open("gate");
    stage.says(chat, "To the better words.").await;
    assert_eq!(stage.times_asked("worse words"), 0);
    assert_eq!(stage.times_asked("never mind"), 0);
    stage.check();
}

#[tokio::test]
async fn how_much_is_told_can_be_chosen() {
    let stage = Stage::new(
        "api text \"Let me look.\" tool Read {\"file_path\":\"$cwd/none\"}\napi text \"Done one.\"\n\
         api text \"Let me look again.\" tool Read {\"file_path\":\"$cwd/none\"}\napi text \"Done two.\"",
    )
    .await;
    let _bridge = stage.bridge().await;
    let chat = stage.telegram.chat_private(ANN);
    stage.telegram.user_says(chat, ANN, "look");
    stage.says(chat, "Done one.").await;
    assert_eq!(stage.times_said(chat, "Let me look."), 1, "{:?}", stage.said(chat));
    stage.telegram.user_says(chat, ANN, "/verbose 0");
    stage.says(chat, "answers only").await;
    stage.telegram.user_says(chat, ANN, "look again");
    stage.says(chat, "Done two.").await;
    assert_eq!(stage.times_said(chat, "Let me look again."), 0, "{:?}", stage.said(chat));
    stage.check();
}
