//! Sessions in a chat: commits of what the agent changes, and sessions that began in a terminal.

use std::process::Command;

use uuid::Uuid;

use crate::fixture::{ANN, Fixture};
use crate::texts::{ALLOW, SESSION_ATTACHED};

fn git(fixture: &Fixture, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.current_dir(fixture.path("project")).env("HOME", fixture.path("home"));
    command.args(["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]).args(arguments);
    let output = command.output().expect("git");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn what_the_agent_changes_is_committed_as_long_as_the_chat_wants_it() {
    let write = |name: &str| {
        format!(
            "api tool Write {{\"file_path\":\"$cwd/{name}\",\"content\":\"x\"}}\napi text \"Wrote {name}.\"\n"
        )
    };
    let fixture = Fixture::new(&[write("one.txt"), write("two.txt")].concat()).await;
    git(&fixture, &["init", "-q", "-b", "main"]);
    let identity = "[user]\n\tname = Ann\n\temail = ann@example.org\n";
    std::fs::write(fixture.path("home/.gitconfig"), identity).expect("a file");
    git(&fixture, &["commit", "-q", "--allow-empty", "-m", "Begin"]);
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    fixture.wait_for_reply(chat, ANN, "/new").await;
    let reply = fixture.wait_for_reply(chat, ANN, "/commit on").await;
    assert!(reply.text.contains("committed at the end of each turn"), "{}", reply.text);
    fixture.telegram.user_sends(chat, ANN, "write one");
    fixture.tap(chat, ANN, ALLOW).await;
    fixture.wait_for_text(chat, "Wrote one.txt.").await;
    // The commit follows the answer.
    let mut log = String::new();
    for _ in 0..200 {
        log = fixture.wait_for_reply(chat, ANN, "/commit status").await.text;
        if log.contains('•') {
            break;
        }
    }
    assert!(log.contains("one.txt") || log.contains("commit"), "{log}");
    assert!(git(&fixture, &["show", "--stat", "HEAD"]).contains("one.txt"));
    let reply = fixture.wait_for_reply(chat, ANN, "/commit off").await;
    assert!(reply.text.contains("not committed"), "{}", reply.text);
    let before = git(&fixture, &["rev-parse", "HEAD"]);
    fixture.telegram.user_sends(chat, ANN, "write two");
    fixture.tap(chat, ANN, ALLOW).await;
    fixture.wait_for_text(chat, "Wrote two.txt.").await;
    fixture.wait_for_reply(chat, ANN, "/commit").await;
    assert_eq!(git(&fixture, &["rev-parse", "HEAD"]), before);
    fixture.assert_correct();
}

#[tokio::test]
async fn a_session_that_began_in_a_terminal_is_listed_found_and_continued() {
    let fixture = Fixture::new("api text \"As I said.\"").await;
    let project = fixture.path("project").canonicalize().expect("a directory");
    let folder: String = project
        .to_str()
        .expect("text")
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() { it } else { '-' })
        .collect();
    let store = fixture.path("home/.claude/projects").join(folder);
    std::fs::create_dir_all(&store).expect("a directory");
    let (id, elsewhere) = (Uuid::new_v4(), Uuid::new_v4());
    let transcript = |id: Uuid, directory: &str| {
        let line = |kind: &str, number: u128, parent: Option<u128>, message: &str| {
            let parent =
                parent.map_or("null".to_owned(), |it| format!("\"{}\"", Uuid::from_u128(it)));
            format!(
                "{{\"parentUuid\":{parent},\"isSidechain\":false,\"userType\":\"external\",\
                 \"cwd\":\"{directory}\",\"sessionId\":\"{id}\",\"version\":\"2.1.37\",\
                 \"type\":\"{kind}\",\"message\":{message},\"uuid\":\"{}\",\
                 \"timestamp\":\"2026-11-15T10:00:00.000Z\"}}\n",
                Uuid::from_u128(number)
            )
        };
        let answer = "{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"x\",\
                      \"content\":[{\"type\":\"text\",\"text\":\"Forty-two.\"}]}";
        line("user", 1, None, "{\"role\":\"user\",\"content\":\"What is <b>it</b>?\"}")
            + &line("assistant", 2, Some(1), answer)
    };
    let project = project.to_str().expect("text");
    std::fs::write(store.join(format!("{id}.jsonl")), transcript(id, project)).expect("a file");
    let other = transcript(elsewhere, "/etc");
    std::fs::write(store.join(format!("{elsewhere}.jsonl")), other).expect("a file");
    let _bridge = fixture.start_bridge().await;
    let chat = fixture.telegram.private_chat(ANN);
    let list = fixture.wait_for_reply(chat, ANN, "/resume").await;
    assert!(list.text.contains("Started in a terminal"), "{}", list.text);
    assert!(list.text.contains("What is <b>it</b>?"), "{}", list.text);
    assert_eq!(list.buttons.len(), 1, "only those that began here: {}", list.text);
    let refused = fixture.wait_for_reply(chat, ANN, &format!("/resume {elsewhere}")).await;
    assert!(refused.text.contains("No session"), "{}", refused.text);
    let found = fixture.wait_for_reply(chat, ANN, "/search \"forty-two\"").await;
    assert!(found.text.contains("Forty-two."), "{}", found.text);
    assert_eq!(found.buttons.len(), 1, "only below the roots: {}", found.text);
    fixture.tap(chat, ANN, "1. What is").await;
    fixture.wait_for_text(chat, SESSION_ATTACHED).await;
    let found = fixture.wait_for_reply(chat, ANN, "/search forty").await;
    assert_eq!(found.buttons.len(), 1, "it is found once: {}", found.text);
    let list = fixture.wait_for_reply(chat, ANN, "/resume").await;
    assert!(!list.text.contains("Started in a terminal"), "it is ours now: {}", list.text);
    fixture.assert_correct();
}
