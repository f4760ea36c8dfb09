//! An agent that is a few lines of a shell script.

use session::NewPrompt;
use wire::note::{Delivery, Note, PromptState, Setting, TurnEnding};

use super::fixture::{create, methods, reader, sent, turn_ending, with_command};
use crate::fixture::{agent_line, ann, notes, prompt};

/// It accepts prompts into a running turn, except those that say so, and ends the turn with one that it
/// accepted. It has a mode and an option.
const STEERED: &str = r#"
say() { printf '%s\n' "$1"; }
while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\).*/\1/p')
    case "$line" in
    *'"method":"initialize"'*)
        say '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"_meta":{"steering":{"supported":true}}}}' ;;
    *'"method":"session/new"'*)
        say '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s","modes":{"currentModeId":"a","availableModes":[]},"configOptions":[{"id":"fast","type":"boolean"}]}}' ;;
    *'"method":"session/set_mode"'*'"nonsense"'*)
        say '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32602,"message":"no such mode"}}' ;;
    *'"method":"session/prompt"'*'later'*)
        say '{"jsonrpc":"2.0","id":'"$id"',"result":{"stopReason":"end_turn"}}' ;;
    *'"method":"session/prompt"'*)
        prompt=$id
        say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"working"}}}}' ;;
    *'"method":"_session/steering"'*'later'*)
        say '{"jsonrpc":"2.0","id":'"$id"',"result":{"outcome":"promptRequired"}}' ;;
    *'"method":"_session/steering"'*)
        say '{"jsonrpc":"2.0","id":'"$id"',"result":{"outcome":"injected"}}'
        say '{"jsonrpc":"2.0","id":'"$prompt"',"result":{"stopReason":"end_turn"}}' ;;
    *) [ -z "$id" ] || say '{"jsonrpc":"2.0","id":'"$id"',"result":{}}' ;;
    esac
done
"#;

fn command() -> Vec<String> {
    ["/bin/sh", "-c", STEERED].map(str::to_owned).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_steered_prompt_joins_the_turn_or_waits_for_its_own() {
    let fixture = with_command(command()).await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    session.prompt(prompt("go")).await.expect("a queued prompt");
    reader.until(agent_line("working")).await;
    let steer = |text| NewPrompt { delivery: Delivery::Steer, ..prompt(text) };
    let (refused, accepted) = (steer("later"), steer("now"));
    for prompt in [&refused, &accepted] {
        session.prompt(prompt.clone()).await.expect("a queued prompt");
    }
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    let done = Note::PromptStateChanged { prompt: accepted.id, state: PromptState::Done };
    assert!(notes(&seen).contains(&done), "{:?}", notes(&seen));
    let back = Note::PromptStateChanged { prompt: refused.id, state: PromptState::Queued };
    let seen_back = notes(&seen).contains(&back);
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed);
    assert!(seen_back || notes(&seen).contains(&back), "{:?}", notes(&seen));
    let done = Note::PromptStateChanged { prompt: refused.id, state: PromptState::Done };
    assert!(notes(&seen).contains(&done), "{:?}", notes(&seen));
    session.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_reach_the_agent_and_its_next_process() {
    let fixture = with_command(command()).await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    session.wake().await.expect("an agent");
    let set = |setting| session.set(setting, ann());
    set(Setting::PermissionMode("b".to_owned())).await.expect("a mode of the agent");
    let option =
        |value: &str| Setting::AgentOption { id: "fast".to_owned(), value: value.to_owned() };
    set(option("true")).await.expect("an option of the agent");
    for setting in
        [Setting::PermissionMode("nonsense".to_owned()), option("maybe"), Setting::Model(None)]
    {
        set(setting.clone()).await.expect_err("it is refused");
    }
    session.close().await.expect("a stopped agent");
    let mut reader = reader(&session);
    reader
        .until(|entry| matches!(crate::fixture::note(entry), Some(Note::AgentExited { .. })))
        .await;
    session.prompt(prompt("later")).await.expect("a queued prompt");
    let (_, seen) = turn_ending(&mut reader).await;
    let order = methods(&seen);
    let at = |method: &str| order.iter().position(|it| it == method).expect("it was sent");
    assert!(at("session/set_mode") < at("session/prompt"), "{order:?}");
    let set = sent(&seen);
    let value = |method: &str| &set.iter().find(|it| it["method"] == method).expect("it")["params"];
    assert_eq!(value("session/set_mode")["modeId"], "b");
    assert_eq!(value("session/set_config_option")["value"], true);
    session.release().await;
}
