//! Servers and other commands beside a background host.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};

use journal::{Seq, SessionId};
use rustix::process::{Pid, Signal, kill_process};
use test_support::test_run::clear_environment;
use uuid::Uuid;
use wire::note::{Note, TurnEnding};

use super::{ClientProcess, HostedFixture, to_pid, wait_for_end};
use crate::fixture::{
    JournalReader, TIMEOUT, agent_line, format_entries, is_turn_over, notes, prompt, suspend,
    wait_until,
};
use crate::kills::KillPoint;

/// `towpath serve`, which is killed when it is dropped.
struct RunningServer {
    child: Child,
}

impl RunningServer {
    async fn start(fixture: &HostedFixture) -> Self {
        let agent = fixture.setup().data().join("agent.sh");
        let player = format!("#!/bin/sh\nexec '{}' play \"$@\"\n", env!("CARGO_BIN_EXE_towpath"));
        std::fs::write(&agent, player).expect("a script");
        std::fs::set_permissions(&agent, Permissions::from_mode(0o700)).expect("permissions");
        let mut command = command(fixture, &["serve", "--json", "--listen", "127.0.0.1:0"]);
        command.arg("--claude").arg(agent).arg("--root").arg(fixture.setup().project());
        command.stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().expect("a server");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let ready = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            stdout.read_line(&mut line).map(|_| (line, stdout))
        });
        let ready = tokio::time::timeout(TIMEOUT, ready).await.expect("in time");
        let (line, stdout) = ready.expect("no panic").expect("output");
        assert!(line.contains("\"url\""), "{line}");
        // A server ends when its output cannot be read.
        std::mem::forget(stdout);
        Self { child }
    }

    fn pid(&self) -> Pid {
        to_pid(self.child.id()).expect("a process")
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The built binary with the fixture's data and environment.
#[expect(clippy::disallowed_methods, reason = "the test starts the program itself")]
fn command(fixture: &HostedFixture, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    clear_environment(command.args(arguments)).envs(fixture.setup().config().environment);
    command.env("TOWPATH_DATA", fixture.setup().data()).stdin(Stdio::null());
    command.current_dir(fixture.setup().project());
    command
}

fn run(fixture: &HostedFixture, arguments: &[&str]) -> Output {
    command(fixture, arguments).output().expect("it runs")
}

/// A server that starts takes a turn over from a background host, and nothing is lost.
pub(crate) async fn check_server_in_mid_turn(point: KillPoint) {
    let fixture = HostedFixture::new(point.replies()).await;
    let id = SessionId(Uuid::new_v4());
    let _client = ClientProcess::start(&fixture, point, id).await;
    let host = fixture.host().expect("a host");
    let server = RunningServer::start(&fixture).await;
    wait_for_end(host).await;
    assert_eq!(fixture.host(), Some(server.pid()));
    fixture.wait_for_owner(id, server.pid()).await;
    let towpath = fixture.client();
    let session = towpath.sessions.open(id).await.expect("a session");
    assert!(towpath.sessions.is_remote(id));
    point.passes(&fixture.driving, &session).await;
    let seen = JournalReader::new(&session, Seq::default()).until(is_turn_over).await;
    let whole = Note::TurnEnded { turn: 1, ending: TurnEnding::Completed };
    assert!(notes(&seen).contains(&whole), "{}", format_entries(&seen));
    let asked = fixture.driving.model_requests();
    let last = asked.last().expect("a request");
    assert_eq!(last.matches("Are you there?").count(), 1, "{last}");
    session.close().await.expect("a stopped agent");
}

/// The sessions of a server go on in a background host when the server stops or is killed, and come
/// back to the next one.
pub(crate) async fn check_server() {
    let replies = "api text \"one two three four\" hold first after 2\n\
                   api text \"five six seven eight\" hold second after 2\n\
                   api text \"nine ten\"";
    let fixture = HostedFixture::new(replies).await;
    let server = RunningServer::start(&fixture).await;
    let client = fixture.client();
    let session = client.create(&fixture.driving).await;
    let id = session.id();
    assert_eq!(fixture.owner(id), Some(server.pid()));
    let mut reader = JournalReader::new(&session, Seq::default());
    session.prompt(prompt("count")).await.expect("a queued prompt");
    reader.until(agent_line("text_delta")).await;
    // The server stops in mid-turn. The client starts a background host, which goes on.
    kill_process(server.pid(), Signal::TERM).expect("a signal");
    wait_until("a background host drives the session", || {
        fixture.host().is_some_and(|it| it != server.pid()) && fixture.owner(id) == fixture.host()
    })
    .await;
    fixture.driving.api.open("first");
    let mut seen = reader.until(is_turn_over).await;
    drop(server);
    // The next server takes it back, and is killed in mid-turn.
    let server = RunningServer::start(&fixture).await;
    session.prompt(prompt("go on")).await.expect("a queued prompt");
    seen.extend(reader.until(agent_line("five")).await);
    fixture.wait_for_owner(id, server.pid()).await;
    drop(server);
    fixture.driving.api.open("second");
    seen.extend(reader.until(is_turn_over).await);
    session.prompt(prompt("and the rest")).await.expect("a queued prompt");
    seen.extend(reader.until(is_turn_over).await);
    let completed =
        |note: &&Note| matches!(note, Note::TurnEnded { ending: TurnEnding::Completed, .. });
    assert_eq!(notes(&seen).iter().filter(completed).count(), 3, "{}", format_entries(&seen));
    let asked = fixture.driving.model_requests();
    let last = asked.last().expect("a request");
    for words in ["count", "go on", "and the rest"] {
        assert_eq!(last.matches(words).count(), 1, "{words} in {last}");
    }
    session.close().await.expect("a stopped agent");
    assert_eq!(client.sessions.release().await, []);
}

/// `doctor` shows the host, and `serve --stop` stops it and its agents.
pub(crate) async fn check_commands() {
    let fixture = HostedFixture::new("api text \"one two three four\" hold gate after 2").await;
    let finding = || {
        let output = run(&fixture, &["doctor", "--demo", "--json"]);
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let mut checks = found["checks"].as_array().expect("checks").iter();
        let host = checks.find(|check| check["name"] == "host").expect("a check of the host");
        (host["good"].as_bool(), host["text"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(finding(), (Some(true), "none runs; one is started when it is needed".to_owned()));
    let client = fixture.client();
    let session = client.create(&fixture.driving).await;
    session.prompt(prompt("count")).await.expect("a queued prompt");
    JournalReader::new(&session, Seq::default()).until(agent_line("text_delta")).await;
    let host = fixture.host().expect("a host");
    let number = host.as_raw_nonzero();
    let expected = format!("in the background, process {number}, 1 open session");
    assert_eq!(finding(), (Some(true), expected));
    // A host that hangs is reported.
    suspend(host).await;
    let (good, text) = finding();
    assert_eq!(good, Some(false), "{text}");
    assert!(text.starts_with(&format!("process {number} hosts the sessions")), "{text}");
    kill_process(host, Signal::CONT).expect("a signal");

    let listed = run(&fixture, &["sessions", "--json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed[0]["status"], "running", "{listed}");
    assert_eq!(client.sessions.release().await, []);
    let stopped = run(&fixture, &["serve", "--stop"]);
    let said = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert_eq!(stopped.status.code(), Some(0), "{said}");
    let short: String = session.id().to_string().chars().take(8).collect();
    let expected = format!("stopped the background host and 1 agent (session {short})");
    assert!(said.contains(&expected), "{said}");
    wait_for_end(host).await;
    wait_until("nothing is left", || fixture.setup().processes().is_empty()).await;
    let again = run(&fixture, &["serve", "--stop"]);
    assert_eq!(again.status.code(), Some(1), "{}", String::from_utf8_lossy(&again.stderr));
}
