//! What the model and the disk show of session options, with any agent.

use std::ffi::OsString;

use journal::Seq;
use serde_json::{Map, Value, json};
use session::{OptionChanges, SessionOptions};
use test_support::agent_recorder::every_option;
use testbed::api::ApiRequestKind;
use wire::note::{ExitCause, Note};

use crate::fixture::{DrivingFixture, JournalReader, ann, is_turn_over, note, notes, prompt};

/// Runs all of them.
pub(crate) async fn check(agent: &[OsString]) {
    every_option_has_its_effect(agent.to_vec()).await;
    a_changed_option_holds_for_the_resumed_conversation(agent.to_vec()).await;
}

fn changes(values: &Value) -> OptionChanges {
    OptionChanges::new(values.as_object().unwrap_or(&Map::new())).expect("valid options")
}

/// The body of the last request of the conversation.
fn last_request(fixture: &DrivingFixture) -> Value {
    let requests = fixture.api.requests().into_iter();
    let mut main = requests.filter(|it| it.kind == ApiRequestKind::Main);
    main.next_back().map(|it| it.body).expect("a request")
}

/// The names of the tools in a request.
fn tools(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().expect("tools").iter();
    tools.filter_map(|it| it["name"].as_str().map(str::to_owned)).collect()
}

async fn every_option_has_its_effect(agent: Vec<OsString>) {
    let fixture = DrivingFixture::new(agent, "api text \"one\"\napi text \"two\"").await;
    let extra = fixture.project().join("extra");
    std::fs::create_dir(&extra).expect("a directory");
    let mut values = every_option(&extra);
    values["delete_when_ended"] = json!(false);
    let mut options = SessionOptions { directory: fixture.project(), ..SessionOptions::default() };
    changes(&values).apply(&mut options).expect("valid options");
    let towpath = fixture.towpath();
    let session = towpath.create_with(options).await;
    let mut reader = JournalReader::new(&session, Seq::default());
    session.prompt(prompt("a secret")).await.expect("a queued prompt");
    let seen = reader.until(is_turn_over).await;
    assert!(seen.iter().any(|it| String::from_utf8_lossy(&it.bytes).contains("one")));

    let request = last_request(&fixture);
    assert_eq!(request["model"], "claude-opus-4-5");
    assert!(request["system"].to_string().contains("Be brief."), "{}", request["system"]);
    let names = tools(&request);
    assert!(names.contains(&"Read".to_owned()) && !names.contains(&"WebFetch".to_owned()));
    let transcripts = fixture.project().with_file_name("home").join(".claude/projects");
    let stored = walk(&transcripts);
    assert!(stored.iter().all(|it| !it.contains("a secret")), "the agent left a transcript");

    // What was said before is gone with the process, and the conversation says so.
    session.close().await.expect("a stopped agent");
    session.prompt(prompt("again")).await.expect("a queued prompt");
    let seen = reader.until(is_turn_over).await;
    let said = |it: &Note| matches!(it, Note::Problem { text } if text.contains("keeps nothing"));
    assert!(notes(&seen).iter().any(said), "{:?}", notes(&seen));
    assert!(!last_request(&fixture)["messages"].to_string().contains("a secret"));
    session.close().await.expect("a stopped agent");
    session.release().await;
}

async fn a_changed_option_holds_for_the_resumed_conversation(agent: Vec<OsString>) {
    let fixture = DrivingFixture::new(agent, "api text \"one\"\napi text \"two\"").await;
    let towpath = fixture.towpath();
    let session = towpath.create(&fixture).await;
    let mut reader = JournalReader::new(&session, Seq::default());
    session.prompt(prompt("remember this")).await.expect("a queued prompt");
    reader.until(is_turn_over).await;
    assert!(tools(&last_request(&fixture)).contains(&"Write".to_owned()));
    let reading = changes(&json!({ "disallowed_tools": ["Write"] }));
    session.change_options(&reading, &ann()).await.expect("changed options");
    let stopped =
        |it: &_| matches!(note(it), Some(Note::AgentExited { cause: ExitCause::Restarted }));
    reader.until(stopped).await;
    session.prompt(prompt("and now")).await.expect("a queued prompt");
    reader.until(is_turn_over).await;
    let request = last_request(&fixture);
    let names = tools(&request);
    assert!(names.contains(&"Read".to_owned()) && !names.contains(&"Write".to_owned()));
    assert!(request["messages"].to_string().contains("remember this"), "the conversation goes on");
    session.close().await.expect("a stopped agent");
    session.release().await;
}

/// The content of all files below a directory.
fn walk(directory: &std::path::Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let mut contents = Vec::new();
    for path in entries.filter_map(|it| it.ok().map(|it| it.path())) {
        if path.is_dir() {
            contents.extend(walk(&path));
        } else {
            let content = std::fs::read(&path).unwrap_or_default();
            contents.push(String::from_utf8_lossy(&content).into_owned());
        }
    }
    contents
}
