//! Sessions that branch off the conversation of another, and MCP servers that are given in a file.

use serde_json::json;
use session::{SessionOptions, SessionSpec};
use wire::note::{Note, TurnEnding};

use super::fixture::{AGENT, create, methods, reader, said, sent, turn_ending, with_player};
use crate::fixture::{notes, prompt};

#[tokio::test(flavor = "multi_thread")]
async fn a_copied_session_knows_what_was_said_and_adds_nothing_to_the_original() {
    for (misbehavior, forks) in [("", true), ("no-resume", false)] {
        let fixture = with_player(misbehavior).await;
        let towpath = fixture.towpath();
        let original = create(&towpath, &fixture).await;
        let mut first = reader(&original);
        original.prompt(prompt("remember the milk")).await.expect("a queued prompt");
        turn_ending(&mut first).await;
        let record = original.journal().session(original.id()).await.expect("a journal");
        let record = record.expect("a record");
        let options = SessionOptions::from_json(&record.options, record.directory);
        let options = options.expect("options").for_fork().expect("a copy");
        let resume = record.agent_ids.last().cloned();
        let spec = SessionSpec { options, resume, ..SessionSpec::default() };
        let copy = towpath.sessions.create(spec).await.expect("a session");
        let mut second = reader(&copy);
        for text in ["and the eggs", "recall"] {
            copy.prompt(prompt(text)).await.expect("a queued prompt");
            let (ending, seen) = turn_ending(&mut second).await;
            assert_eq!(ending, TurnEnding::Completed, "{misbehavior}");
            let is_lost =
                |it: &Note| matches!(it, Note::Problem { text } if text.contains("cannot copy"));
            if text == "recall" {
                assert_eq!(said(&seen).contains("remember the milk"), forks, "{}", said(&seen));
                assert!(said(&seen).contains("and the eggs"), "{}", said(&seen));
            } else {
                let opened = if forks { "session/fork" } else { "session/new" };
                assert!(methods(&seen).contains(&opened.to_owned()), "{:?}", methods(&seen));
                assert_eq!(notes(&seen).iter().any(is_lost), !forks, "{misbehavior}");
            }
        }
        original.prompt(prompt("recall")).await.expect("a queued prompt");
        let (_, seen) = turn_ending(&mut first).await;
        assert!(said(&seen).ends_with("Before, you said: remember the milk"), "{}", said(&seen));
        assert_eq!(towpath.sessions.release().await, []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mcp_servers_in_a_file_and_in_an_option_reach_the_agent() {
    let servers =
        r#"{"mcpServers":{"files":{"command":"mcp-files","args":["-v"],"env":{"A":"1"}}}}"#;
    let fixture = with_player("").await;
    std::fs::write(fixture.project().join("mcp.json"), servers).expect("a file");
    let towpath = fixture.towpath();
    for (config, given) in [("mcp.json", true), (servers, true), ("missing.json", false)] {
        let options = SessionOptions {
            directory: fixture.project(),
            agent: Some(AGENT.to_owned()),
            mcp_config: Some(config.to_owned()),
            ..SessionOptions::default()
        };
        let session = towpath.create_with(options).await;
        let mut reader = reader(&session);
        session.prompt(prompt("hello")).await.expect("a queued prompt");
        let (ending, seen) = turn_ending(&mut reader).await;
        assert_eq!(ending, TurnEnding::Completed, "{config}");
        let new = sent(&seen).into_iter().find(|it| it["method"] == "session/new");
        let list = new.expect("a new session")["params"]["mcpServers"].clone();
        let said_so = notes(&seen)
            .iter()
            .any(|it| matches!(it, Note::Problem { text } if text.contains("could not be read")));
        assert_eq!(said_so, !given, "{config}");
        if given {
            let server = json!({"name": "files", "command": "mcp-files", "args": ["-v"],
                "env": [{"name": "A", "value": "1"}]});
            assert_eq!(list, json!([server]), "{config}");
        } else {
            assert_eq!(list, json!([]), "{config}");
        }
        session.release().await;
    }
}
