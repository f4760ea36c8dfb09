//! `towpath play --acp` as it behaves if it is told nothing.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::test_run::clear_environment;

use crate::client::{AgentClient, Permissions};
use crate::programs;
use crate::records::Records;

/// A directory for the player: its home and its project.
pub(crate) struct PlayerDirectory {
    root: TempDir,
}

impl PlayerDirectory {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(root.path().join("project")).expect("a directory");
        Self { root }
    }

    pub(crate) fn path(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn project(&self) -> String {
        self.root.path().join("project").display().to_string()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.root.path().join("project").join(name).exists()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
        clear_environment(command.args(["play", "--acp"]).args(arguments));
        command.env("HOME", self.root.path()).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("TOWPATH_PLAY_PACE", "1").current_dir(self.root.path());
        command
    }

    /// Starts the player, and agrees on a version.
    pub(crate) fn start(&self, misbehaviors: &str) -> AgentClient {
        let mut arguments = vec!["--misbehave", misbehaviors];
        if misbehaviors.is_empty() {
            arguments.clear();
        }
        let mut client = AgentClient::spawn(self.command(&arguments));
        client.initialize(&json!({ "elicitation": { "form": {}, "url": {} } }));
        client
    }

    /// A player with a session.
    pub(crate) fn with_session(&self, misbehaviors: &str) -> (AgentClient, String) {
        let mut client = self.start(misbehaviors);
        let session = client.new_session(&self.project());
        (client, session)
    }

    pub(crate) fn reference(&self, session: &str) -> Value {
        json!({ "sessionId": session, "cwd": self.project(), "mcpServers": [] })
    }
}

/// The prompts that choose a reply.
pub(crate) const PROMPTS: [&str; 14] = [
    "tour", "think", "run", "fail", "write", "edit", "parallel", "plan", "question", "link",
    "mode", "recall", "long", "error",
];

#[test]
fn a_word_in_the_prompt_chooses_the_reply() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    let mut said = |text: &str| {
        client.seen.clear();
        let response = client.say(&session, text);
        (response["result"]["stopReason"].clone(), client.text("agent_message_chunk"))
    };
    assert_eq!(said("Hello there"), (json!("end_turn"), "You said: Hello there".to_owned()));
    assert_eq!(said("think").1, "I have thought about it.");
    assert_eq!(said("long").1.len(), 12_400);
    assert_eq!(said("a question").1, "You chose blue.");
    assert_eq!(said("a link").1, "The page was opened.");
    assert!(said("recall").1.starts_with("Before, you said: Hello there | think | long"));
    let (stop, text) = said("huge");
    assert_eq!((stop, text.len() > 4_900_000), (json!("end_turn"), true));
}

#[test]
fn calls_are_made_only_if_they_are_allowed() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    client.permissions = Permissions::Choose("reject_once");
    client.say(&session, "$ touch denied");
    client.permissions = Permissions::Choose("allow_once");
    client.say(&session, "$ touch allowed\n$ exit 3");
    assert!(directory.has("allowed") && !directory.has("denied"));
    let statuses: Vec<&Value> =
        client.updates("tool_call_update").iter().map(|it| &it["status"]).collect();
    assert_eq!(statuses, ["failed", "in_progress", "completed", "in_progress", "failed"]);
    assert_eq!(client.requests("session/request_permission").len(), 3);
    client.permissions = Permissions::Choose("allow_always");
    client.say(&session, "$ true\n$ true");
    assert_eq!(client.requests("session/request_permission").len(), 4);
}

#[test]
fn a_changed_file_is_shown_as_a_diff() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    client.say(&session, "edit");
    let file = std::fs::read_to_string(directory.path().join("project/towpath-player.txt"));
    assert_eq!(file.expect("a file"), "one\n2\ntwo and a half\nthree\n");
    let last = client.updates("tool_call_update").pop().expect("an update")["content"][0].clone();
    let diff = (&last["type"], &last["oldText"], &last["newText"]);
    let (old, new) = (json!("one\ntwo\nthree\n"), json!("one\n2\ntwo and a half\nthree\n"));
    assert_eq!(diff, (&json!("diff"), &old, &new));
}

#[test]
fn attachments_reach_the_player() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    let image = "A".repeat(8_000_000);
    let prompt = json!([
        { "type": "text", "text": "look" },
        { "type": "image", "mimeType": "image/png", "data": image },
    ]);
    client.call("session/prompt", &json!({ "sessionId": session, "prompt": prompt }));
    let text = client.text("agent_message_chunk");
    assert!(text.ends_with("I was given an image (image/png, 6000000 bytes)."), "{text}");
}

#[test]
fn a_turn_can_be_cancelled_in_the_middle_and_while_it_asks() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    let id = client.prompt(&session, "wait");
    client.until(|it| it["params"]["update"]["content"]["text"] == "stopped.");
    client.cancel(&session);
    assert_eq!(client.response(id)["result"]["stopReason"], "cancelled");
    client.permissions = Permissions::Wait;
    let id = client.prompt(&session, "write");
    let request = client.until(|it| it["method"] == "session/request_permission");
    client.cancel(&session);
    client.reply(&request, &json!({ "outcome": { "outcome": "cancelled" } }));
    assert_eq!(client.response(id)["result"]["stopReason"], "cancelled");
    assert!(!directory.has("towpath-player.txt"));
    client.permissions = Permissions::Choose("allow_once");
    assert_eq!(client.say(&session, "write")["result"]["stopReason"], "end_turn");
}

#[test]
fn a_second_prompt_waits_for_the_first() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    let first = client.prompt(&session, "slow");
    let second = client.prompt(&session, "next");
    assert_eq!(client.response(first)["result"]["stopReason"], "end_turn");
    assert!(!client.text("agent_message_chunk").contains("next"));
    assert_eq!(client.response(second)["result"]["stopReason"], "end_turn");
}

#[test]
fn something_can_be_added_to_a_running_turn() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    let prompt = json!([{ "type": "text", "text": "and the eggs" }]);
    let added = json!({ "sessionId": session, "prompt": prompt });
    let outcome = client.call("_session/steering", &added);
    assert_eq!(outcome, json!({ "outcome": "promptRequired", "reason": "noRunningTurn" }));
    for prompt in ["wait", "slow"] {
        let id = client.prompt(&session, prompt);
        client.until(|it| it["params"]["update"]["sessionUpdate"] == "agent_message_chunk");
        let outcome = client.call("_session/steering", &added);
        assert_eq!(outcome["outcome"], "injected", "{prompt}");
        client.until(|it| it["params"]["update"]["content"]["text"] == "eggs");
        client.cancel(&session);
        client.response(id);
        assert!(
            client.text("agent_message_chunk").ends_with("You added: and the eggs"),
            "{prompt}"
        );
    }
    let mut client = directory.start("no-steering");
    assert_eq!(client.call_error("_session/steering", &added)["code"], -32601);
}

#[test]
fn sessions_last_longer_than_the_process() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    client.say(&session, "remember the milk");
    client.call("session/set_mode", &json!({ "sessionId": session, "modeId": "auto" }));
    let fast =
        json!({ "sessionId": session, "configId": "fast", "type": "boolean", "value": true });
    client.call("session/set_config_option", &fast);
    client.prompt(&session, "wait");
    client.until(|it| it["params"]["update"]["content"]["text"] == "stopped.");
    client.child.kill().expect("a process");

    let mut client = directory.start("");
    let listed = client.call("session/list", &json!({ "cwd": directory.project() }));
    assert_eq!(listed["sessions"][0]["sessionId"], session.as_str());
    assert_eq!(listed["sessions"][0]["title"], "remember the milk");
    assert_eq!(client.call("session/list", &json!({ "cwd": "/elsewhere" }))["sessions"], json!([]));
    let loaded = client.call("session/load", &directory.reference(&session));
    assert_eq!(loaded["modes"]["currentModeId"], "auto");
    assert_eq!(client.text("user_message_chunk"), "remember the milkwait");
    // The reply that was cut is stored or not, as the moment of the kill has it.
    let replayed = client.text("agent_message_chunk");
    assert!(replayed.starts_with("You said: remember the milk"), "{replayed}");

    let mut client = directory.start("");
    client.call("session/resume", &directory.reference(&session));
    assert!(client.updates("user_message_chunk").is_empty());
    client.say(&session, "recall");
    assert_eq!(client.text("agent_message_chunk"), "Before, you said: remember the milk | wait");
    client.call("session/close", &json!({ "sessionId": session }));
    assert_eq!(client.say(&session, "hello")["error"]["code"], -32002);
    client.call("session/delete", &json!({ "sessionId": session }));
    let error = client.call_error("session/load", &directory.reference(&session));
    assert_eq!(error["code"], -32002);
}

#[test]
fn wrong_requests_are_answered_with_errors_and_the_player_lives_on() {
    let directory = PlayerDirectory::new();
    let (mut client, session) = directory.with_session("");
    let code = |error: &Value| error["code"].as_i64();
    let params = json!({ "cwd": "relative", "mcpServers": [] });
    assert_eq!(code(&client.call_error("session/new", &params)), Some(-32602));
    assert_eq!(code(&client.call_error("wibble", &json!({}))), Some(-32601));
    let escape = json!({ "sessionId": "../../etc/passwd", "cwd": "/", "mcpServers": [] });
    assert_eq!(code(&client.call_error("session/load", &escape)), Some(-32002));
    let mode = json!({ "sessionId": session, "modeId": "yolo" });
    assert_eq!(code(&client.call_error("session/set_mode", &mode)), Some(-32602));
    client.send(&json!({ "not": "a request" }));
    client.until(|it| it["error"]["code"] == -32600);
    assert_eq!(client.say(&session, "hello")["result"]["stopReason"], "end_turn");
    let (code, time) = client.hang_up();
    assert!(code == Some(0) && time < Duration::from_secs(5), "{code:?} after {time:?}");
}

#[test]
fn every_line_of_the_player_conforms_to_the_schema() {
    if programs::node().is_none() {
        return;
    }
    let directory = PlayerDirectory::new();
    let records = Records::new(directory.path().join("records"));
    for misbehaviors in [
        "",
        "no-message-id,no-usage,late-updates,two-always,error-as-text",
        "system-error,uninvited-fs,deny-cancels,cumulative-cost,terminal-output",
        "empty-input-first,withdraws-permission,cancel-before-answer,updates-after-cancel",
        "answers-together,no-resume",
        "second-prompt-cancels,no-load,uninvited-questions",
    ] {
        let (mut client, session) = directory.with_session(misbehaviors);
        for permissions in ["allow_once", "reject_once", "allow_always"] {
            client.permissions = Permissions::Choose(permissions);
            for prompt in PROMPTS {
                client.say(&session, prompt);
            }
        }
        let id = client.prompt(&session, "wait");
        client.cancel(&session);
        client.response(id);
        client.call("session/list", &json!({}));
        client.call_any("session/load", &directory.reference(&session));
        client.call_any("session/resume", &directory.reference(&session));
        records.add(&client.sent, &client.received);
    }
    println!("{} lines conform to the schema", records.check());
}
