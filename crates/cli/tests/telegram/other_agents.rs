//! A released agent of the Agent Client Protocol in a chat.

use std::path::Path;

use test_support::other_agents::{OtherAgent, ReleasedAgent};
use test_support::packages;

use crate::fixture::{ANN, Fixture};
use crate::real_cli;

fn install() -> Result<ReleasedAgent, String> {
    OtherAgent::Codex.install(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

#[test]
fn a_released_agent_is_answered_by_a_tap_on_its_own_choice() {
    if packages::or_skip(install()).is_some() {
        real_cli::without_network("other_agents::codex");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn codex() {
    let fixture = Fixture::new(
        "api for \"make it\" tool shell {\"command\":\"touch made-it\"}\n\
         api text \"It is there.\"",
    )
    .await;
    let agent = install().expect("it was installed just now");
    let home = fixture.path("home");
    let script = agent.command(&fixture.api.url, &home).to_script();
    let path = fixture.path("other-agent");
    std::fs::write(&path, script).expect("a script");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a mode");
    let config = home.join(".config/towpath");
    std::fs::create_dir_all(&config).expect("a directory");
    let table =
        format!("agent = \"mine\"\n[agents.mine]\ncommand = [{:?}]\n", path.display().to_string());
    std::fs::write(config.join("config.toml"), table).expect("a configuration");
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "make it");
    let is_card = |it: &test_support::bot_api::MessageSnapshot| {
        it.text.contains("touch made-it") && !it.buttons.is_empty()
    };
    let card = fixture.wait_for_message(chat, "the card of the request", is_card).await;
    assert!(!fixture.path("project/made-it").exists(), "nothing is run before the tap");
    // The agent's own words for allowing it once, which are not those of Towpath.
    let label = card.buttons.iter().flatten().find(|it| it.contains("Yes, proceed")).cloned();
    let label = label.unwrap_or_else(|| panic!("{:?}", card.buttons));
    fixture.tap(chat, ANN, &label).await;
    fixture.wait_for_text(chat, "It is there.").await;
    let outcome = fixture.wait_for_text(chat, "Ann").await;
    assert_eq!(outcome.message_id, card.message_id);
    assert!(outcome.buttons.is_empty(), "{outcome:?}");
    assert!(fixture.path("project/made-it").exists());
    fixture.assert_correct();
}
