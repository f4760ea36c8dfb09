//! Other agents than Claude Code in a chat.

use crate::fixture::{ANN, Fixture};
use crate::texts::ALLOW;

/// Adds an agent that speaks the Agent Client Protocol to the configuration.
fn add_agent(fixture: &Fixture, name: &str, title: &str) {
    let directory = fixture.path("home/.config/towpath");
    std::fs::create_dir_all(&directory).expect("a directory");
    let program = env!("CARGO_BIN_EXE_towpath");
    let table = format!(
        "[agents.{name}]\ntitle = \"{title}\"\ncommand = [\"{program}\", \"play\", \"--acp\"]\n"
    );
    std::fs::write(directory.join("config.toml"), table).expect("a file");
}

#[tokio::test]
async fn another_agent_is_chosen_with_a_word_or_a_button_and_named_in_lists() {
    let fixture = Fixture::new("api text \"Hello.\"").await;
    add_agent(&fixture, "player", "The <player>");
    std::fs::create_dir(fixture.path("project/inner")).expect("a directory");
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    let reply = fixture.wait_for_reply(chat, ANN, "/new inner").await;
    assert!(!reply.text.contains("player"), "{}", reply.text);
    fixture.tap(chat, ANN, "With The <player>").await;
    let created = fixture.wait_for_text(chat, "New session with The <player> in").await;
    assert!(created.text.contains("inner"), "{}", created.text);
    assert!(created.buttons.is_empty(), "{:?}", created.buttons);
    let reply = fixture.wait_for_reply(chat, ANN, "/new --agent player").await;
    assert!(reply.text.contains("with The <player>"), "{}", reply.text);
    fixture.telegram.user_sends(chat, ANN, "well then");
    fixture.wait_for_text(chat, "You said: well then").await;
    let list = fixture.wait_for_reply(chat, ANN, "/sessions").await;
    assert_eq!(list.text.matches("The <player> · ").count(), 2, "{}", list.text);
    let status = fixture.wait_for_reply(chat, ANN, "/status").await;
    assert!(status.text.contains("agent=player"), "{}", status.text);
    let reply = fixture.wait_for_reply(chat, ANN, "/new --agent plaier").await;
    assert!(reply.text.contains("There is no agent plaier"), "{}", reply.text);
    fixture.assert_correct();
}

#[tokio::test]
async fn an_agents_own_modes_models_and_options_are_menus() {
    let fixture = Fixture::new("api text \"Hello.\"").await;
    add_agent(&fixture, "player", "The player");
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.wait_for_reply(chat, ANN, "/new --agent player").await;
    // The agent is started for it.
    let reply = fixture.wait_for_reply(chat, ANN, "/mode").await;
    assert!(reply.text.contains("Mode: Ask."), "{}", reply.text);
    assert_eq!(reply.buttons.len(), 3, "{:?}", reply.buttons);
    fixture.tap(chat, ANN, "Auto").await;
    fixture.wait_for_text(chat, "Mode set to Auto.").await;
    let reply = fixture.wait_for_reply(chat, ANN, "/mode").await;
    assert!(reply.text.contains("Mode: Auto."), "{}", reply.text);
    let reply = fixture.wait_for_reply(chat, ANN, "/mode bypassPermissions").await;
    assert!(reply.text.contains("There is no mode bypassPermissions"), "{}", reply.text);
    let reply = fixture.wait_for_reply(chat, ANN, "/model").await;
    assert!(reply.text.contains("Scripted, large"), "{}", reply.text);
    let reply = fixture.wait_for_reply(chat, ANN, "/model large").await;
    assert!(reply.text.contains("Model set to Scripted, large."), "{}", reply.text);
    let reply = fixture.wait_for_reply(chat, ANN, "/options").await;
    assert!(reply.text.contains("Effort: Low."), "{}", reply.text);
    assert!(reply.text.contains("Fast mode: Off."), "{}", reply.text);
    fixture.tap(chat, ANN, "Fast mode: On").await;
    fixture.wait_for_text(chat, "Fast mode set to On.").await;
    let reply = fixture.wait_for_reply(chat, ANN, "/options effort high").await;
    assert!(reply.text.contains("Effort set to High."), "{}", reply.text);
    let reply = fixture.wait_for_reply(chat, ANN, "/options colour red").await;
    assert!(reply.text.contains("There is no option colour red"), "{}", reply.text);
    let reply = fixture.wait_for_reply(chat, ANN, "/options").await;
    assert!(reply.text.contains("Effort: High.") && reply.text.contains("Fast mode: On."));
    // In the mode that was chosen the agent asks nothing.
    fixture.telegram.user_sends(chat, ANN, "run something");
    fixture.wait_for_text(chat, "That is what it looks like.").await;
    let messages = fixture.telegram.visible_messages(chat);
    assert!(!messages.iter().any(|it| format!("{:?}", it.buttons).contains(ALLOW)));
    fixture.assert_correct();
}
