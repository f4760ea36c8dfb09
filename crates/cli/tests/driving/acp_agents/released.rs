//! Released agents as the agents of sessions, without a network and with the scripted model.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use journal::{Entry, Origin};
use session::{RequestAnswer, Session};
use test_support::other_agents::{OtherAgent, ReleasedAgent};
use test_support::packages;
use wire::acp::PermissionChoiceKind;
use wire::note::{Note, QueuePolicy, TurnEnding};

use super::fixture::{acp_spec, create, reader, request, said, turn_ending};
use crate::fixture::{DrivingFixture, JournalReader, agent_line, ann, note, notes, prompt};
use crate::kills::{KilledProcess, kill};
use crate::real_cli;

/// What the model replies, whichever agent asks.
const REPLIES: &str = r#"
api for "say hello" always text "Hello from the model"
api for "make a file" always tool shell {"command":"echo made > made.txt"}
api for "make no file" always tool shell {"command":"echo made > denied.txt"}
api for "make one later" always tool shell {"command":"echo made > later.txt"}
api for "count slowly" always text "one two three four five six seven eight nine ten" slow 3000
api text "That is all."
"#;

fn install(agent: OtherAgent) -> Result<ReleasedAgent, String> {
    agent.install(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// Runs an ignored test of these modules without a network, if the agent can be installed.
pub(super) fn run(agent: OtherAgent, test: &str) {
    if packages::or_skip(install(agent)).is_some() {
        real_cli::without_network(&format!("acp_agents::{test}"));
    }
}

/// A fixture whose agent is the released one, with a model that replies like this.
pub(super) async fn fixture_with(agent: OtherAgent, replies: &str) -> DrivingFixture {
    let installed = install(agent).expect("it was installed just now");
    let mut fixture = DrivingFixture::with_player(replies).await;
    let home = fixture.project().parent().expect("a directory").join("home");
    let script = home.join("agent");
    let command = installed.command(&fixture.api.url, &home);
    std::fs::write(&script, command.to_script()).expect("a script");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    fixture.setup.acp_agent = Some(acp_spec(vec![script.display().to_string()]));
    fixture
}

async fn ask(
    session: &Session,
    reader: &mut JournalReader,
    text: &str,
) -> (TurnEnding, Vec<Entry>) {
    session.prompt(prompt(text)).await.expect("a queued prompt");
    turn_ending(reader).await
}

/// Answers the next request with a choice of this kind.
async fn choose(session: &Session, reader: &mut JournalReader, kind: PermissionChoiceKind) {
    let (id, choices) = request(reader).await;
    let choice = choices.iter().find(|it| it.kind == kind).unwrap_or_else(|| panic!("{choices:?}"));
    let answer = RequestAnswer::Choose { choice: choice.id.clone() };
    session.answer(&id, answer, ann()).await.expect("an answer");
}

/// Text, a queue, calls that are allowed and denied, interrupts, and an agent that is killed.
async fn is_driven(agent: OtherAgent) {
    let fixture = fixture_with(agent, REPLIES).await;
    let towpath = fixture.towpath();
    let session = create(&towpath, &fixture).await;
    let mut reader = reader(&session);
    let has = |name: &str| fixture.project().join(name).exists();
    let name = agent.name();

    let (ending, seen) = ask(&session, &mut reader, "say hello").await;
    assert_eq!(ending, TurnEnding::Completed, "{name}");
    assert!(said(&seen).contains("Hello from the model"), "{name}: {}", said(&seen));

    // The second prompt waits in the queue: agents treat it in four ways.
    session.prompt(prompt("make a file")).await.expect("a queued prompt");
    session.prompt(prompt("say hello")).await.expect("a queued prompt");
    choose(&session, &mut reader, PermissionChoiceKind::AllowOnce).await;
    assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Completed, "{name}");
    assert!(has("made.txt"), "{name}");
    let (ending, seen) = turn_ending(&mut reader).await;
    assert_eq!(ending, TurnEnding::Completed, "{name}");
    assert!(said(&seen).contains("Hello from the model"), "{name}: {}", said(&seen));

    session.prompt(prompt("make no file")).await.expect("a queued prompt");
    choose(&session, &mut reader, PermissionChoiceKind::RejectOnce).await;
    turn_ending(&mut reader).await;
    assert!(!has("denied.txt"), "{name}");

    session.prompt(prompt("count slowly")).await.expect("a queued prompt");
    reader.until(agent_line("agent_message_chunk")).await;
    session.interrupt(QueuePolicy::Keep, ann()).await.expect("an interrupt");
    assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Interrupted, "{name}");

    session.prompt(prompt("make one later")).await.expect("a queued prompt");
    request(&mut reader).await;
    session.interrupt(QueuePolicy::Keep, ann()).await.expect("an interrupt");
    assert_eq!(turn_ending(&mut reader).await.0, TurnEnding::Interrupted, "{name}");

    session.prompt(prompt("make one later")).await.expect("a queued prompt");
    request(&mut reader).await;
    kill(&fixture.setup, session.id(), KilledProcess::Agent);
    let (ending, _) = turn_ending(&mut reader).await;
    // Copilot is two processes. The one that is left may deny the call itself and end the turn, before it is
    // ended too.
    let ends_itself = agent == OtherAgent::Copilot && ending == TurnEnding::Completed;
    assert!(ends_itself || matches!(ending, TurnEnding::Aborted { .. }), "{name}: {ending:?}");
    if ends_itself {
        // A prompt that is sent before might go to the process that is about to end.
        reader.until(|entry| matches!(note(entry), Some(Note::AgentExited { .. }))).await;
    }
    let open = session.journal().open_requests(Some(session.id())).await.expect("requests");
    assert!(open.is_empty(), "{name}");
    assert!(!has("later.txt"), "{name}");
    let (ending, seen) = ask(&session, &mut reader, "say hello").await;
    assert_eq!(ending, TurnEnding::Completed, "{name}");
    assert!(said(&seen).contains("Hello from the model"), "{name}: {}", said(&seen));

    let all = towpath.journal_of(session.id()).await;
    let count = |fits: fn(&Note) -> bool| notes(&all).iter().filter(|it| fits(it)).count();
    let started = count(|it| matches!(it, Note::TurnStarted { .. }));
    assert_eq!(started, count(|it| matches!(it, Note::TurnEnded { .. })), "{name}");
    let opened = count(|it| matches!(it, Note::RequestOpened { .. }));
    assert_eq!(opened, count(|it| matches!(it, Note::RequestResolved { .. })), "{name}");
    for entry in all.iter().filter(|entry| matches!(entry.origin, Origin::Agent | Origin::Sent)) {
        for line in wire::read(&entry.bytes) {
            let text = String::from_utf8_lossy(&entry.bytes);
            assert!(line.event().is_some(), "{name}: {text}");
        }
    }
    session.release().await;
}

#[test]
fn claude_agent_acp_is_driven() {
    run(OtherAgent::Claude, "released::claude_agent_acp");
}

#[test]
fn codex_is_driven() {
    run(OtherAgent::Codex, "released::codex");
}

#[test]
fn opencode_is_driven() {
    run(OtherAgent::Opencode, "released::opencode");
}

#[test]
fn gemini_is_driven() {
    run(OtherAgent::Gemini, "released::gemini");
}

#[test]
fn copilot_is_driven() {
    run(OtherAgent::Copilot, "released::copilot");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn claude_agent_acp() {
    is_driven(OtherAgent::Claude).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn codex() {
    is_driven(OtherAgent::Codex).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn opencode() {
    is_driven(OtherAgent::Opencode).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn gemini() {
    is_driven(OtherAgent::Gemini).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the test above runs it without a network"]
async fn copilot() {
    is_driven(OtherAgent::Copilot).await;
}
