//! Options and profiles in a chat: what the agent gets, who may set what, and bounds.

use serde_json::{Value, json};
use session::{OPTIONS, SessionOptions};
use test_support::agent_recorder::{AgentRecorder, AgentStart};

use crate::fixture::{ANN, BOB, BridgeProcess, Fixture};
use crate::texts::{BYPASS_NOT_ALLOWED, CONFIRM_BYPASS, NEEDS_ADMIN};

const HELLO: &str = "api text \"Hello.\"\napi text \"Hello again.\"\napi text \"And again.\"";

/// Replaces the agent by one that records how it is started.
fn record_starts(fixture: &Fixture) -> AgentRecorder {
    let player = format!("'{}' play", env!("CARGO_BIN_EXE_towpath"));
    let recorder = AgentRecorder::new(&fixture.path("starts"), &player);
    fixture.set_agent(&format!("#!/bin/sh\nexec '{}' \"$@\"\n", recorder.program().display()));
    recorder
}

fn latest(recorder: &AgentRecorder) -> AgentStart {
    recorder.starts().pop().expect("an agent that was started")
}

/// The stored options of the only session.
async fn stored_options(fixture: &Fixture) -> SessionOptions {
    let path = fixture.path("data/journal.db");
    let journal = journal::Journal::open(&path).expect("a journal").journal;
    let mut sessions = journal.sessions().await.expect("sessions");
    journal.close().await.expect("the journal closes");
    let record = sessions.pop().expect("a session");
    SessionOptions::from_json(&record.options, record.directory).expect("options")
}

async fn start_with_admin(fixture: &Fixture, more: &[&str]) -> BridgeProcess {
    let admin = ANN.0.to_string();
    fixture.start(&[&["telegram", "--admin", &admin], more].concat()).await
}

#[tokio::test]
async fn a_session_is_started_with_every_option_and_the_agent_gets_them() {
    let fixture = Fixture::new(HELLO).await;
    let recorder = record_starts(&fixture);
    std::fs::create_dir(fixture.path("project/inner")).expect("a directory");
    std::fs::create_dir(fixture.path("project/more")).expect("a directory");
    let _bridge = start_with_admin(&fixture, &[]).await;
    let chat = fixture.telegram.private_chat(ANN);
    let more = fixture.path("project/more").canonicalize().expect("a directory");
    let command = format!(
        "/new inner agent=claude model=claude-test effort=high mode=acceptEdits fallback-model=sonnet\n\
         max_turns=7 max_budget_usd=$2.50\n\
         append_system_prompt=“Don't use <b>tags</b> & *stars*.” idle_timeout=1h30m\n\
         allowed_tools=\"Read, Bash(git log:*)\" disallowed_tools=WebSearch\n\
         extra_directories={more} environment=\"TOKEN=s3cret\" \
         mcp_config={{\"mcpServers\": {{\"fi<i>les\": {{\"command\": \"true\", \"env\": {{\"K\": \"s3cret\"}}}}}}}}\n\
         continue_after_cut=on session_persistence=off delete_when_ended=on",
        more = more.display()
    );
    for spec in OPTIONS {
        let written = command.replace('-', "_").contains(&format!("{}=", spec.name));
        assert!(written, "{} is missing from this test", spec.name);
    }
    let reply = fixture.wait_for_reply(chat, ANN, &command).await;
    for part in ["inner", "model=claude-test", "max_turns=7", "<b>tags</b> & *stars*", "1h30m"] {
        assert!(reply.text.contains(part), "{part}: {}", reply.text);
    }
    assert!(!reply.text.contains("s3cret"), "{}", reply.text);
    fixture.telegram.user_sends(chat, ANN, "hello");
    fixture.wait_for_text(chat, "Hello.").await;
    let start = latest(&recorder);
    for (argument, value) in [
        ("--model", "claude-test"),
        ("--permission-mode", "acceptEdits"),
        ("--fallback-model", "sonnet"),
        ("--max-turns", "7"),
        ("--max-budget-usd", "2.5"),
        ("--allowedTools", "Read,Bash(git log:*)"),
        ("--disallowedTools", "WebSearch"),
    ] {
        assert_eq!(start.value(argument), Some(value), "{:?}", start.arguments);
    }
    assert_eq!(start.value("--add-dir"), more.to_str());
    let prompt = start.value("--append-system-prompt").expect("a system prompt");
    assert!(prompt.contains(".towpath/outbox"), "{prompt}");
    assert!(prompt.ends_with("\n\nDon't use <b>tags</b> & *stars*."), "{prompt}");
    let servers: Value =
        serde_json::from_str(start.value("--mcp-config").expect("servers")).expect("JSON");
    assert_eq!(servers["mcpServers"]["fi<i>les"]["command"], "true");
    let is_given = |argument: &str| start.arguments.iter().any(|it| it == argument);
    assert!(is_given("--no-session-persistence"), "{:?}", start.arguments);
    for (name, value) in [("TOKEN", "s3cret"), ("CLAUDE_CODE_EFFORT_LEVEL", "high")] {
        assert_eq!(start.environment.get(name).map(String::as_str), Some(value));
    }
    // These are Towpath's own.
    let stored = stored_options(&fixture).await;
    assert_eq!(stored.idle_timeout, "1h30m".parse().ok());
    assert!(stored.continue_after_cut && stored.delete_when_ended);
    let list = fixture.wait_for_reply(chat, ANN, "/set").await;
    assert!(list.text.contains("max_turns = 7") && list.text.contains("fi<i>les"), "{}", list.text);
    assert!(list.text.contains("TOKEN=•••") && !list.text.contains("s3cret"), "{}", list.text);
    assert!(!list.text.contains("often on a phone"), "{}", list.text);
    let status = fixture.wait_for_reply(chat, ANN, "/status").await;
    assert!(status.text.contains("max_turns=7"), "{}", status.text);
    assert!(!status.text.contains("s3cret"), "{}", status.text);
    fixture.assert_correct();
}

#[tokio::test]
async fn an_option_is_changed_by_text_and_by_button_and_the_agent_is_restarted_with_it() {
    let fixture = Fixture::new(HELLO).await;
    let recorder = record_starts(&fixture);
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "hello");
    fixture.wait_for_text(chat, "Hello.").await;
    assert_eq!(latest(&recorder).value("--max-turns"), None);
    let reply = fixture.wait_for_reply(chat, ANN, "/set Max-Turns 3").await;
    assert!(reply.text.contains("max_turns is now 3"), "{}", reply.text);
    fixture.wait_for_reply(chat, ANN, "/set append_system_prompt - be <kind>\n- be brief").await;
    fixture.telegram.user_sends(chat, ANN, "hello?");
    fixture.wait_for_text(chat, "Hello again.").await;
    let start = latest(&recorder);
    assert_eq!(start.value("--max-turns"), Some("3"));
    let prompt = start.value("--append-system-prompt").expect("a system prompt");
    assert!(prompt.contains("outbox") && prompt.ends_with("- be <kind>\n- be brief"), "{prompt}");
    assert!(start.value("--resume").is_some(), "it remembers the conversation");
    let shown = fixture.wait_for_reply(chat, ANN, "/set append_system_prompt").await;
    assert!(shown.text.contains("- be <kind> - be brief"), "{}", shown.text);
    let reply = fixture.wait_for_reply(chat, ANN, "/set max_turns default").await;
    assert!(reply.text.contains("default again"), "{}", reply.text);
    fixture.telegram.user_sends(chat, ANN, "/set mode");
    fixture.tap(chat, ANN, "Plan").await;
    fixture.wait_for_text(chat, "mode is now plan").await;
    fixture.telegram.user_sends(chat, ANN, "/set");
    fixture.tap(chat, ANN, "idle_timeout").await;
    fixture.tap(chat, ANN, "never").await;
    fixture.wait_for_text(chat, "idle_timeout is now never").await;
    let stored = stored_options(&fixture).await;
    assert_eq!((stored.max_turns, stored.idle_timeout), (None, "never".parse().ok()));
    for (command, words) in [
        ("/set max_truns 3", "max_turns"),
        ("/set <b>x</b> 3", "There is no option <b>x</b>"),
        ("/set max_turns many", "whole number"),
        ("/set max_turns -1", "whole number"),
        ("/set effort enormous", "none of"),
        ("/set model --dangerously-skip-permissions", "Not set"),
        ("/set session_persistence off", "new session"),
        ("/set extra_directories /etc", "root"),
        ("/set append_system_prompt", "Now:"),
        ("/new model=x and more", "not an option"),
        ("/new model=\"x", "not closed"),
        ("/new profile=none-such", "no profile"),
        ("/new maxturns=3", "max_turns"),
    ] {
        let reply = fixture.wait_for_reply(chat, ANN, command).await;
        assert!(reply.text.contains(words), "{command}: {}", reply.text);
    }
    let long = format!("/set append_system_prompt {}", "é".repeat(4060));
    let reply = fixture.wait_for_reply(chat, ANN, &long).await;
    assert!(reply.text.contains("too long"), "{}", reply.text);
    fixture.assert_correct();
}

#[tokio::test]
async fn only_an_admin_sets_what_runs_programs_and_bypass_needs_the_server_and_a_tap() {
    let fixture = Fixture::new(HELLO).await;
    let recorder = record_starts(&fixture);
    let bridge = start_with_admin(&fixture, &[]).await;
    let group = fixture.telegram.create_group(&[ANN, BOB]);
    fixture.wait_for_reply(group, BOB, "/new").await;
    for command in [
        "/set environment A=1",
        "/set environment default",
        "/set mcp_config {\"mcpServers\":{}}",
        "/new environment=A=1",
    ] {
        let reply = fixture.wait_for_reply(group, BOB, command).await;
        assert!(reply.text.contains(NEEDS_ADMIN), "{command}: {}", reply.text);
    }
    for command in
        ["/mode bypassPermissions", "/set mode bypass permissions", "/new mode=bypassPermissions"]
    {
        let reply = fixture.wait_for_reply(group, ANN, command).await;
        assert!(reply.text.contains(BYPASS_NOT_ALLOWED), "{command}: {}", reply.text);
    }
    fixture.wait_for_reply(group, ANN, "/set environment A=1").await;
    bridge.terminate().await;
    let _bridge = start_with_admin(&fixture, &["--allow-bypass"]).await;
    let reply = fixture.wait_for_reply(group, BOB, "/mode bypassPermissions").await;
    assert!(reply.text.contains(NEEDS_ADMIN), "{}", reply.text);
    let reply = fixture.wait_for_reply(group, ANN, "/mode bypassPermissions").await;
    assert!(reply.text.contains("without asking"), "{}", reply.text);
    assert_eq!(stored_options(&fixture).await.permission_mode, None, "nothing before the tap");
    // The button is visible to everyone in the group.
    fixture.tap(group, BOB, CONFIRM_BYPASS).await;
    fixture.wait_for_texts(group, NEEDS_ADMIN, 6).await;
    assert_eq!(stored_options(&fixture).await.permission_mode, None, "not by this user");
    fixture.tap(group, ANN, CONFIRM_BYPASS).await;
    fixture.wait_for_text(group, "mode is now").await;
    fixture.telegram.user_sends(group, ANN, "hello");
    fixture.wait_for_text(group, "Hello.").await;
    let start = latest(&recorder);
    assert_eq!(start.value("--permission-mode"), Some("bypassPermissions"));
    assert!(start.environment.get("A").is_some_and(|it| it == "1"));
    fixture.assert_correct();
}

#[tokio::test]
async fn a_profile_is_listed_and_used() {
    let fixture = Fixture::new(HELLO).await;
    let recorder = record_starts(&fixture);
    let config = fixture.path("home/.config/towpath");
    std::fs::create_dir_all(&config).expect("a directory");
    let profiles = "[profiles.review]\ndescription = \"Looks <b>closely</b>\"\nmodel = \"claude-test\"\n\
                    append_system_prompt = \"Find bugs.\"\nenvironment = { KEY = \"s3cret\" }\n\
                    [profiles.quick]\nmax_turns = 2\n";
    std::fs::write(config.join("config.toml"), profiles).expect("a file");
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    let list = fixture.wait_for_reply(chat, ANN, "/profile").await;
    assert!(list.text.contains("Looks <b>closely</b>"), "{}", list.text);
    assert!(!list.text.contains("s3cret"), "{}", list.text);
    fixture.tap(chat, ANN, "New session: review").await;
    fixture.wait_for_text(chat, "New session in").await;
    fixture.telegram.user_sends(chat, ANN, "hello");
    fixture.wait_for_text(chat, "Hello.").await;
    let start = latest(&recorder);
    assert_eq!(start.value("--model"), Some("claude-test"));
    assert!(start.value("--append-system-prompt").expect("a prompt").ends_with("Find bugs."));
    assert!(start.environment.get("KEY").is_some_and(|it| it == "s3cret"));
    let reply = fixture.wait_for_reply(chat, ANN, "/new profile=quick model=other").await;
    assert!(reply.text.contains("max_turns=2"), "{}", reply.text);
    fixture.telegram.user_sends(chat, ANN, "hello?");
    fixture.wait_for_text(chat, "Hello again.").await;
    let start = latest(&recorder);
    assert_eq!((start.value("--model"), start.value("--max-turns")), (Some("other"), Some("2")));
    // Another button of the same list starts another session.
    fixture.tap(chat, ANN, "New session: quick").await;
    fixture.wait_for_texts(chat, "New session in", 3).await;
    fixture.telegram.user_sends(chat, ANN, "hello!");
    fixture.wait_for_text(chat, "And again.").await;
    let start = latest(&recorder);
    assert_eq!((start.value("--model"), start.value("--max-turns")), (None, Some("2")));
    fixture.assert_correct();
}

#[tokio::test]
async fn huge_values_are_shown_in_bounds() {
    let fixture = Fixture::new(HELLO).await;
    let bridge = fixture.start_server().await;
    let (url, token) = (&bridge.ready["url"], &bridge.ready["token"]);
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let servers: serde_json::Map<String, Value> = (0..500)
        .map(|number| (format!("<i>server</i> *{number}*"), json!({ "command": "true" })))
        .collect();
    let new = json!({
        "cwd": fixture.project(),
        "title": "huge",
        "append_system_prompt": "<b>&_*`".repeat(14_000),
        "mcp_config": { "mcpServers": servers },
        "allowed_tools": (0..200).map(|number| format!("Tool{number}")).collect::<Vec<_>>(),
    });
    let request = test_support::http_client()
        .post(format!("{}/api/v1/sessions", text(url)))
        .bearer_auth(text(token))
        .json(&new);
    let response = request.send().await.expect("a response");
    assert_eq!(response.status(), 201, "{:?}", response.text().await);
    let chat = fixture.telegram.private_chat(ANN);
    fixture.telegram.user_sends(chat, ANN, "/resume");
    fixture.tap(chat, ANN, "huge").await;
    fixture.wait_for_text(chat, "now shows").await;
    let commands =
        ["/set", "/set append_system_prompt", "/set mcp_config", "/set allowed_tools", "/status"];
    let before = fixture.bot_texts(chat).len();
    for command in commands {
        let reply = fixture.wait_for_reply(chat, ANN, command).await;
        assert!(reply.text.len() < 4096, "{command}");
    }
    // Replies come in order, so all parts of those before have arrived with the last one.
    fixture.wait_for_reply(chat, ANN, "/queue").await;
    let messages = fixture.bot_texts(chat).len() - before;
    assert_eq!(messages, commands.len() + 1, "each reply is one message");
    fixture.assert_correct();
}
