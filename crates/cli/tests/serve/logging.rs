//! The log of the server, and what it leaves in the file system.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use serde_json::json;
use uuid::Uuid;

use crate::fixture::Fixture;

#[tokio::test]
async fn the_server_logs_to_stderr_and_to_a_private_file_without_secrets_and_messages() {
    let fixture = Fixture::new("api text \"the answer is 42\"").await;
    let server = fixture.serve().await;
    let session = server.session(&fixture).await;
    server.prompt(&session, "a very private question").await;
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    client.until(|page| page.snapshots > 0 && page.is_idle() && page.contains("42")).await;
    let file = fixture.path("data/logs/serve.log");
    let mode = std::fs::metadata(&file).expect("a log file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let logged = std::fs::read_to_string(&file).expect("a log file");
    for log in [&logged, &fixture.log()] {
        assert!(log.contains("the server starts"), "{log}");
        for secret in [server.token.as_str(), "private question", "the answer is", "\u{1b}["] {
            assert!(!log.contains(secret), "{secret}: {log}");
        }
    }
    assert!(logged.starts_with("20"), "the file has times: {logged}");
}

#[tokio::test]
async fn in_the_journal_of_systemd_lines_have_a_priority_and_no_time() {
    let fixture = Fixture::new("api text \"hi\"").await;
    std::fs::write(fixture.path("log"), "").expect("a file");
    let stderr = std::fs::metadata(fixture.path("log")).expect("a file");
    let agent = fixture.path("agent").display().to_string();
    let mut command = fixture.command(&["--claude", &agent]);
    command.env("JOURNAL_STREAM", format!("{}:{}", stderr.dev(), stderr.ino()));
    let _server = fixture.start(command).await;
    let log = fixture.log();
    assert!(log.lines().any(|it| it.starts_with("<6>the server starts")), "{log}");
    assert!(log.lines().all(|it| it.starts_with('<')), "{log}");
}

/// All paths below a directory.
fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        found.push(entry.path().display().to_string());
        found.extend(files(&entry.path()));
    }
    found
}

#[tokio::test]
async fn the_demo_leaves_the_home_directory_alone() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let home = fixture.path("home");
    std::fs::create_dir(home.join(".claude")).expect("a directory");
    std::fs::write(home.join(".claude/settings.json"), "{}").expect("a file");
    let before = files(&home);
    let mut command = fixture.command(&["--demo"]);
    command.env_remove("ANTHROPIC_BASE_URL").env_remove("ANTHROPIC_API_KEY");
    let mut server = fixture.start(command).await;
    let sessions = server.get("/sessions").await;
    let session = sessions["sessions"][0]["id"].as_str().expect("a session").to_owned();
    let mut client = server.follow(&format!("/sessions/{session}/follow")).await;
    let prompt = json!({ "id": Uuid::new_v4(), "text": "hello" });
    assert_eq!(server.post(&format!("/sessions/{session}/prompts"), prompt).await.0, 202);
    client.until(|page| page.snapshots > 0 && !page.requests().is_empty()).await;
    let transcripts = |below: &Path| {
        files(below)
            .into_iter()
            .filter(|it| Path::new(it).extension().is_some_and(|it| it == "jsonl"))
            .collect::<Vec<_>>()
    };
    assert!(!transcripts(&fixture.path("tmp")).is_empty(), "it has a home of its own");
    assert_eq!(files(&home), before);
    let pid = server.child.id().expect("it runs").to_string();
    let stopped = std::process::Command::new("kill").args(["-TERM", &pid]).status();
    assert!(stopped.expect("kill runs").success());
    server.child.wait().await.expect("it stops");
    assert_eq!(transcripts(&fixture.path("tmp")), Vec::<String>::new(), "it is removed");
    assert_eq!(files(&home), before);
}

#[tokio::test]
async fn a_data_directory_that_others_could_read_is_closed_and_reported() {
    let fixture = Fixture::new("api text \"hi\"").await;
    let data = fixture.path("data");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&data, open).expect("a mode");
    let _server = fixture.serve().await;
    let mode = std::fs::metadata(&data).expect("a directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let log = std::fs::read_to_string(data.join("logs/serve.log")).expect("a log");
    assert!(log.contains("WARN") && log.contains("accessible to other users"), "{log}");
}
