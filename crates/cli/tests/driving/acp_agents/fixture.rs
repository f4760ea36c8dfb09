//! A fixture whose sessions are driven with an agent over the Agent Client Protocol.

use std::collections::BTreeMap;

use journal::{Entry, Origin, Seq};
use serde_json::Value;
use session::{AgentProtocol, AgentSpec, Session, SessionOptions};
use wire::acp::PermissionChoice;
use wire::note::{Note, TurnEnding};

use crate::fixture::{DrivingFixture, JournalReader, TowpathInstance, is_turn_over, note, notes};

/// The name of the agent in the catalog.
pub(super) const AGENT: &str = "acp-player";

/// A fixture with the player, which does these things wrong.
pub(super) async fn with_player(misbehaviors: &str) -> DrivingFixture {
    let mut command = vec![env!("CARGO_BIN_EXE_towpath").to_owned()];
    command.extend(["play", "--acp"].map(str::to_owned));
    if !misbehaviors.is_empty() {
        command.extend(["--misbehave".to_owned(), misbehaviors.to_owned()]);
    }
    with_command(command).await
}

pub(super) async fn with_command(command: Vec<String>) -> DrivingFixture {
    let mut fixture = DrivingFixture::with_player(r#"api text "not asked""#).await;
    fixture.setup.acp_agent = Some(acp_spec(command));
    fixture
}

/// The agent with this command.
pub(super) fn acp_spec(command: Vec<String>) -> AgentSpec {
    AgentSpec {
        name: AGENT.to_owned(),
        title: "The player".to_owned(),
        protocol: AgentProtocol::Acp,
        command,
        environment: BTreeMap::new(),
        mode: None,
        install: None,
        sign_in: Some("run `towpath play --acp --sign-in`".to_owned()),
        color: None,
    }
}

pub(super) async fn create(towpath: &TowpathInstance, fixture: &DrivingFixture) -> Session {
    let options = SessionOptions {
        directory: fixture.project(),
        agent: Some(AGENT.to_owned()),
        ..SessionOptions::default()
    };
    towpath.create_with(options).await
}

pub(super) fn reader(session: &Session) -> JournalReader {
    JournalReader::new(session, Seq::default())
}

/// Waits for the end of a turn, and returns how it ended with all that came before.
pub(super) async fn turn_ending(reader: &mut JournalReader) -> (TurnEnding, Vec<Entry>) {
    let seen = reader.until(is_turn_over).await;
    let ending = notes(&seen).into_iter().rev().find_map(|note| match note {
        Note::TurnEnded { ending, .. } => Some(ending),
        _ => None,
    });
    (ending.expect("an ending"), seen)
}

/// Waits for a request, and returns its id and its choices.
pub(super) async fn request(reader: &mut JournalReader) -> (String, Vec<PermissionChoice>) {
    let mut found = None;
    reader
        .until(|entry| match note(entry) {
            Some(Note::RequestOpened { request, choices, .. }) => {
                found = Some((request, choices));
                true
            }
            _ => false,
        })
        .await;
    found.expect("a request")
}

/// The text that the agent wrote.
pub(super) fn said(entries: &[Entry]) -> String {
    let lines = entries.iter().filter(|entry| entry.origin == Origin::Agent);
    let values = lines.filter_map(|entry| serde_json::from_slice::<Value>(&entry.bytes).ok());
    let updates = values.map(|line| line["params"]["update"].clone());
    let chunks = updates.filter(|it| it["sessionUpdate"] == "agent_message_chunk");
    chunks.map(|it| it["content"]["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The lines that were sent to the agent.
pub(super) fn sent(entries: &[Entry]) -> Vec<Value> {
    let lines = entries.iter().filter(|entry| entry.origin == Origin::Sent);
    lines.map(|entry| serde_json::from_slice(&entry.bytes).expect("JSON")).collect()
}

/// The methods of the lines that were sent to the agent.
pub(super) fn methods(entries: &[Entry]) -> Vec<String> {
    let method = |line: Value| Some(line["method"].as_str()?.to_owned());
    sent(entries).into_iter().filter_map(method).collect()
}
