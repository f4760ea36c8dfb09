//! Two processes with one session. Each [`Sessions`] stands for a process: they share the journal's
//! file and the live directory, and nothing else.

use std::io;
use std::path::Path;
use std::time::Duration;

use journal::SessionId;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use uuid::Uuid;
use wire::note::{Delivery, PromptState, QueuePolicy, Setting};

use super::owner_socket_path;
use super::protocol::{OwnerGreeting, VERSION, to_line};
use crate::command::{CommandError, NewPrompt, SessionCommand};
use crate::options::SessionOptions;
use crate::session::{Error, Session};
use crate::sessions::test_setup::{ann, open_sessions};
use crate::sessions::{OpenError, SessionSpec, Sessions};
use crate::shim::Ownership;

async fn new_session(process: &Sessions, directory: &Path) -> Session {
    let options = SessionOptions { directory: directory.to_owned(), ..SessionOptions::default() };
    process.create(SessionSpec { options, ..SessionSpec::default() }).await.unwrap()
}

fn prompt(text: &str) -> NewPrompt {
    NewPrompt {
        id: Uuid::new_v4(),
        text: text.to_owned(),
        images: Vec::new(),
        delivery: Delivery::Queue,
        by: ann(),
    }
}

fn model(name: &str) -> Setting {
    Setting::Model(Some(name.to_owned()))
}

async fn stored_options(process: &Sessions, id: SessionId) -> String {
    process.journal().session(id).await.unwrap().unwrap().options
}

/// Listens in place of an owner.
fn pretend_to_own(process: &Sessions, id: SessionId) -> UnixListener {
    let live = process.config().live_directory(id);
    UnixListener::bind(owner_socket_path(&live, &process.config().runtime)).unwrap()
}

async fn greet(listener: &UnixListener, greeting: &OwnerGreeting) -> UnixStream {
    let (mut client, _) = listener.accept().await.unwrap();
    client.write_all(&to_line(greeting)).await.unwrap();
    client
}

#[tokio::test]
async fn commands_reach_the_owner_in_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let (server, terminal) = (open_sessions(directory.path()), open_sessions(directory.path()));
    let session = new_session(&server, directory.path()).await;
    let remote = terminal.open(session.id()).await.unwrap();
    remote.set(model("opus"), ann()).await.unwrap();
    assert!(stored_options(&terminal, session.id()).await.contains("opus"));
    // Refusals arrive as they are.
    let refused = remote.edit_prompt(Uuid::new_v4(), "x".to_owned()).await;
    assert!(matches!(refused, Err(Error::Refused(CommandError::NoSuchPrompt))), "{refused:?}");
    let refused = remote.set(Setting::PermissionMode("yolo".to_owned()), ann()).await;
    assert!(matches!(refused, Err(Error::Refused(CommandError::Invalid(_)))), "{refused:?}");
    // Large data too.
    let huge = prompt(&"\u{1}€x".repeat(1 << 20));
    assert!(remote.prompt(huge.clone()).await.is_ok());
    let stored = server.journal().prompts(session.id()).await.unwrap();
    assert_eq!(stored.len(), 1);
    assert_eq!(stored[0].text, huge.text);
}

#[tokio::test]
async fn commands_of_one_client_are_carried_out_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let (server, terminal) = (open_sessions(directory.path()), open_sessions(directory.path()));
    let session = new_session(&server, directory.path()).await;
    let remote = terminal.open(session.id()).await.unwrap();
    let mut pending = Vec::new();
    for number in 0..200 {
        let setting = model(&format!("model-{number}"));
        let command = SessionCommand::Set { setting, by: ann() };
        pending.push(remote.start_command(command).await);
    }
    for one in pending {
        one.result().await.unwrap();
    }
    assert!(stored_options(&server, session.id()).await.contains("model-199"));
}

#[tokio::test]
async fn a_client_takes_over_when_the_owner_leaves_and_the_owner_can_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let (server, terminal) = (open_sessions(directory.path()), open_sessions(directory.path()));
    let session = new_session(&server, directory.path()).await;
    let remote = terminal.open(session.id()).await.unwrap();
    assert_eq!(server.release().await, []);
    remote.set(model("sonnet"), ann()).await.unwrap();
    assert!(stored_options(&terminal, session.id()).await.contains("sonnet"));
    // Now the first process is the client.
    let back = server.open(session.id()).await.unwrap();
    back.set(model("haiku"), ann()).await.unwrap();
    assert!(stored_options(&terminal, session.id()).await.contains("haiku"));
    assert_eq!(terminal.release().await, []);
    back.set(model("opus"), ann()).await.unwrap();
    assert!(stored_options(&server, session.id()).await.contains("opus"));
}

#[tokio::test]
async fn a_prompt_whose_owner_died_is_carried_out_once() {
    let directory = tempfile::tempdir().unwrap();
    let terminal = open_sessions(directory.path());
    let session = new_session(&terminal, directory.path()).await;
    let id = session.id();
    assert_eq!(terminal.release().await, []);
    let live = terminal.config().live_directory(id);
    let ownership = Ownership::take(&live).unwrap();
    let greeting = OwnerGreeting { version: VERSION, pid: 1 };
    let listener = pretend_to_own(&terminal, id);
    let (remote, client) = tokio::join!(terminal.open(id), greet(&listener, &greeting));
    let remote = remote.unwrap();
    let new = prompt("hello");
    let sending = tokio::spawn({
        let (remote, new) = (remote.clone(), new.clone());
        async move { remote.prompt(new).await }
    });
    // The owner has received the command and dies before it answers.
    let mut client = BufReader::new(client);
    let mut received = String::new();
    client.read_line(&mut received).await.unwrap();
    assert!(received.contains("hello"), "{received}");
    drop((client, listener, ownership));
    sending.await.unwrap().unwrap();
    // A client that sends it once more gets its state.
    remote.prompt(new.clone()).await.unwrap();
    let stored = terminal.journal().prompts(id).await.unwrap();
    assert_eq!(stored.iter().filter(|it| it.id == new.id).count(), 1);
}

#[tokio::test]
async fn an_interrupt_that_arrives_late_does_not_stop_a_later_turn() {
    let directory = tempfile::tempdir().unwrap();
    let server = open_sessions(directory.path());
    let session = new_session(&server, directory.path()).await;
    let late = SessionCommand::Interrupt { queue: QueuePolicy::Clear, by: ann(), turn: Some(7) };
    session.prompt(prompt("first")).await.unwrap();
    session.command(late).await.unwrap();
    let stored = server.journal().prompts(session.id()).await.unwrap();
    assert!(stored.iter().all(|it| it.state != PromptState::Cancelled), "{stored:?}");
}

#[tokio::test]
async fn a_session_that_another_process_drives_can_be_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let (server, terminal) = (open_sessions(directory.path()), open_sessions(directory.path()));
    for opened in [false, true] {
        let session = new_session(&server, directory.path()).await;
        let live = server.config().live_directory(session.id());
        if opened {
            terminal.open(session.id()).await.unwrap();
        }
        terminal.delete(session.id()).await.unwrap();
        assert!(server.journal().session(session.id()).await.unwrap().is_none());
        // Its files go last.
        while live.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(matches!(terminal.open(session.id()).await, Err(OpenError::NoSuchSession(_))));
    }
}

#[tokio::test]
async fn an_owner_of_another_version_is_not_talked_to() {
    let directory = tempfile::tempdir().unwrap();
    let terminal = open_sessions(directory.path());
    let session = new_session(&terminal, directory.path()).await;
    let id = session.id();
    assert_eq!(terminal.release().await, []);
    let _ownership = Ownership::take(&terminal.config().live_directory(id)).unwrap();
    let greeting = OwnerGreeting { version: VERSION + 1, pid: 1 };
    let listener = pretend_to_own(&terminal, id);
    let opening = terminal.open(id);
    tokio::pin!(opening);
    let refused = loop {
        tokio::select! {
            refused = &mut opening => break refused,
            client = greet(&listener, &greeting) => drop(client),
        }
    };
    assert!(matches!(refused, Err(OpenError::Owned(_))), "{refused:?}");
}

#[tokio::test]
async fn what_is_no_request_ends_the_connection_and_nothing_else() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let server = open_sessions(directory.path());
    let session = new_session(&server, directory.path()).await;
    let live = server.config().live_directory(session.id());
    let path = owner_socket_path(&live, &server.config().runtime);
    let deep = format!("{{\"number\":1,\"request\":{}", "[".repeat(1_000_000));
    for garbage in ["", "{}", "\u{0}", "{\"number\":1}", "null", &deep] {
        let mut socket = UnixStream::connect(&path).await?;
        socket.write_all(garbage.as_bytes()).await?;
        socket.write_all(b"\n").await?;
        let mut rest = String::new();
        // The owner closes the connection after its greeting.
        let _ = socket.read_to_string(&mut rest).await;
        assert_eq!(rest.lines().count(), 1, "{rest}");
    }
    // A request of a later version is answered.
    let mut socket = UnixStream::connect(&path).await?;
    socket.write_all(b"{\"number\":5,\"request\":{\"levitate\":{}}}\n").await?;
    let mut lines = BufReader::new(socket).lines();
    lines.next_line().await?;
    let answer = lines.next_line().await?.unwrap_or_default();
    assert!(answer.contains("\"number\":5") && answer.contains("does not know"), "{answer}");
    session.set(model("opus"), ann()).await.unwrap();
    Ok(())
}

#[cfg(unix)]
#[tokio::test]
async fn the_socket_is_private_and_goes_with_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let server = open_sessions(directory.path());
    let session = new_session(&server, directory.path()).await;
    let live = server.config().live_directory(session.id());
    let path = owner_socket_path(&live, &server.config().runtime);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    session.release().await;
    assert!(!path.exists());
    let long = directory.path().join("x".repeat(200)).join("s");
    assert_eq!(owner_socket_path(&long, Path::new("/run/t")), Path::new("/run/t/owner-s.sock"));
}
