//! Released agents without a network, with `towpath stub` as their model.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use test_support::other_agents::{OtherAgent, ReleasedAgent};
use test_support::packages;

use crate::client::{AgentClient, Permissions};
use crate::real_cli;

/// What the model replies, whichever agent asks.
const SCENARIO: &str = r#"# Replies for any agent

api for "say hello" always text "Hello from the model"
api for "make a file" always text "I will." tool shell {"command":"echo made > made.txt"}
api for "make no file" always tool shell {"command":"echo made > denied.txt"}
api for "write a file" always tool write {"path":"written.txt","content":"one\ntwo\n"}
api for "look at this" always text "A small picture"
api text "That is all."

> user "a scenario needs a step"
"#;

/// A picture of one pixel.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A running `towpath stub`.
struct Stub {
    child: Child,
    url: String,
}

impl Stub {
    fn start(directory: &Path) -> Self {
        let scenario = directory.join("replies.scenario");
        std::fs::write(&scenario, SCENARIO).expect("a scenario");
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        command.args(["stub", "--json", "--requests"]).arg(directory.join("requests.jsonl"));
        command.arg(scenario).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the stub starts");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        stdout.read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("a line of JSON");
        Self { child, url: ready["url"].as_str().expect("a URL").to_owned() }
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn install(agent: OtherAgent) -> Result<ReleasedAgent, String> {
    agent.install(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// Runs an ignored test of this module without a network, if the agent can be installed.
fn run(agent: OtherAgent, test: &str) {
    if packages::or_skip(install(agent)).is_some() {
        real_cli::without_network(&format!("released::{test}"));
    }
}

/// Text, calls that are allowed and denied, a written file and a picture.
fn converse(agent: OtherAgent) {
    let installed = install(agent).expect("it was installed just now");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (home, project) = (directory.path().join("home"), directory.path().join("home/project"));
    std::fs::create_dir_all(&project).expect("a directory");
    let git = Command::new("git").args(["init", "-q"]).arg(&project).status();
    assert!(git.is_ok_and(|it| it.success()), "git makes a repository");
    let stub = Stub::start(directory.path());
    let start = Instant::now();
    let mut command = installed.command(&stub.url, &home).to_command();
    command.current_dir(&project);
    let mut client = AgentClient::spawn(command);
    let initialized = client.initialize(&json!({}));
    assert_eq!(initialized["protocolVersion"], 1);
    let session = client.new_session(&project.display().to_string());
    let ready = start.elapsed();

    let say = |client: &mut AgentClient, text: &str| {
        client.seen.clear();
        let response = client.say(&session, text);
        let stop = response["result"]["stopReason"].as_str().unwrap_or_default().to_owned();
        (stop, client.text("agent_message_chunk"))
    };
    let has = |name: &str| project.join(name).exists();
    let (stop, text) = say(&mut client, "say hello");
    assert!(stop == "end_turn" && text.contains("Hello from the model"), "{stop}: {text}");

    let (stop, text) = say(&mut client, "make a file");
    assert!(stop == "end_turn" && text.contains("That is all."), "{stop}: {text}");
    let requests = client.requests("session/request_permission");
    assert_eq!(requests.len(), 1, "{:#?}", client.seen);
    assert!(requests[0]["params"]["toolCall"].to_string().contains("made.txt"));
    assert!(has("made.txt"), "{:#?}", client.seen);

    client.permissions = Permissions::Choose("reject_once");
    let (stop, _) = say(&mut client, "make no file");
    assert!(["end_turn", "cancelled"].contains(&stop.as_str()), "{stop}");
    assert!(client.requests("session/request_permission").len() == 1 && !has("denied.txt"));

    client.permissions = Permissions::Choose("allow_once");
    let (stop, text) = say(&mut client, "write a file");
    assert!(stop == "end_turn" && text.contains("That is all."), "{stop}: {text}");
    let written = std::fs::read_to_string(project.join("written.txt")).unwrap_or_default();
    assert_eq!(written.trim_end(), "one\ntwo", "{:#?}", client.seen);

    if initialized["agentCapabilities"]["promptCapabilities"]["image"] == true {
        let prompt = json!([
            { "type": "text", "text": "look at this" },
            { "type": "image", "mimeType": "image/png", "data": IMAGE },
        ]);
        client.call("session/prompt", &json!({ "sessionId": session, "prompt": prompt }));
        assert!(client.text("agent_message_chunk").contains("A small picture"));
        let requests = std::fs::read_to_string(directory.path().join("requests.jsonl"));
        // Some agents encode pictures again, so that only their beginning is the same.
        let has_image = requests.expect("requests").contains(&IMAGE[..16]);
        assert!(has_image, "the picture did not reach the model");
    }
    println!("{}: ready after {ready:?}, done after {:?}", agent.name(), start.elapsed());
}

#[test]
fn claude_agent_acp_talks_to_the_stub() {
    run(OtherAgent::Claude, "claude_agent_acp");
}

#[test]
fn codex_talks_to_the_stub() {
    run(OtherAgent::Codex, "codex");
}

#[test]
fn opencode_talks_to_the_stub() {
    run(OtherAgent::Opencode, "opencode");
}

#[test]
fn gemini_talks_to_the_stub() {
    run(OtherAgent::Gemini, "gemini");
}

#[test]
fn copilot_talks_to_the_stub() {
    run(OtherAgent::Copilot, "copilot");
}

#[test]
#[ignore = "the test above runs it without a network"]
fn claude_agent_acp() {
    converse(OtherAgent::Claude);
}

#[test]
#[ignore = "the test above runs it without a network"]
fn codex() {
    converse(OtherAgent::Codex);
}

#[test]
#[ignore = "the test above runs it without a network"]
fn opencode() {
    converse(OtherAgent::Opencode);
}

#[test]
#[ignore = "the test above runs it without a network"]
fn gemini() {
    converse(OtherAgent::Gemini);
}

#[test]
#[ignore = "the test above runs it without a network"]
fn copilot() {
    converse(OtherAgent::Copilot);
}
