//! Session hosts and their clients. Each [`Sessions`] stands for a process: they share the journal's
//! file and the live directory, and nothing else.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use journal::{Journal, SessionId};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use uuid::Uuid;
use wire::note::{Delivery, PromptState, Setting};

use super::protocol::{AgentLaunch, HostGreeting, HostKind, VERSION};
use super::{
    BackgroundHost, HostClient, HostError, HostListener, HostLock, SessionHost, host_socket_path,
};
use crate::command::NewPrompt;
use crate::config::SessionsConfig;
use crate::options::SessionOptions;
use crate::remote::to_line;
use crate::sessions::test_setup::{ann, open_sessions};
use crate::sessions::{OpenError, SessionSpec, Sessions};

const LINGER: Duration = Duration::from_millis(100);

fn config(directory: &Path) -> SessionsConfig {
    open_sessions(directory).config().clone()
}

fn open_journal(directory: &Path) -> Journal {
    Journal::open(&directory.join("journal.db")).unwrap().journal
}

/// A client that may go away.
fn client(directory: &Path) -> Sessions {
    Sessions::hosted(config(directory), open_journal(directory))
}

fn spec(directory: &Path) -> SessionSpec {
    let options = SessionOptions { directory: directory.to_owned(), ..SessionOptions::default() };
    SessionSpec { options, ..SessionSpec::default() }
}

fn listen(directory: &Path, host: SessionHost) -> HostListener {
    std::fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
    let lock = HostLock::try_acquire(directory).unwrap().expect("no other host");
    HostListener::start(lock, directory, host).unwrap()
}

fn background(directory: &Path) -> (BackgroundHost, HostListener) {
    let host = BackgroundHost::new(config(directory), open_journal(directory));
    let listener = listen(directory, SessionHost::Background(host.clone()));
    (host, listener)
}

fn model(name: &str) -> Setting {
    Setting::Model(Some(name.to_owned()))
}

#[tokio::test]
async fn a_server_drives_the_sessions_of_its_clients() {
    let directory = tempfile::tempdir().unwrap();
    let server = open_sessions(directory.path());
    let _listener = listen(directory.path(), SessionHost::Server(server.clone()));
    let client = client(directory.path());
    let session = client.create(spec(directory.path())).await.unwrap();
    assert!(client.is_remote(session.id()));
    assert_eq!(server.driven(), [session.id()]);
    session.set(model("opus"), ann()).await.unwrap();
    let stored = server.journal().session(session.id()).await.unwrap().unwrap();
    assert!(stored.options.contains("opus"), "{}", stored.options);
    // The client goes away, and the session stays where it is.
    assert_eq!(client.release().await, []);
    assert_eq!(server.driven(), [session.id()]);
    let missing = client.open(SessionId(Uuid::new_v4())).await;
    assert!(matches!(missing, Err(OpenError::NoSuchSession(_))), "{missing:?}");
}

#[tokio::test]
async fn many_sessions_are_opened_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let (host, _listener) = background(directory.path());
    let client = client(directory.path());
    let mut opened = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let (client, spec) = (client.clone(), spec(directory.path()));
        opened.spawn(async move { client.create(spec).await.unwrap().id() });
    }
    let ids = opened.join_all().await;
    assert!(ids.iter().all(|id| client.is_remote(*id)));
    assert_eq!(host.open_sessions(), 40);
}

#[tokio::test]
async fn without_a_host_that_can_be_started_the_process_drives_the_session_itself() {
    let directory = tempfile::tempdir().unwrap();
    // The test's configuration names a program that does not exist.
    let client = client(directory.path());
    let session = client.create(spec(directory.path())).await.unwrap();
    assert!(!client.is_remote(session.id()));
    session.set(model("opus"), ann()).await.unwrap();
}

#[tokio::test]
async fn a_client_goes_on_with_the_next_host() {
    let directory = tempfile::tempdir().unwrap();
    let (first, listener) = background(directory.path());
    let client = client(directory.path());
    let session = client.create(spec(directory.path())).await.unwrap();
    session.set(model("opus"), ann()).await.unwrap();
    // A server takes over: the background host releases the session, and exits.
    let lock = listener.close();
    assert_eq!(first.release().await, []);
    drop(lock);
    let server = open_sessions(directory.path());
    let listener = listen(directory.path(), SessionHost::Server(server.clone()));
    session.set(model("sonnet"), ann()).await.unwrap();
    assert!(client.is_remote(session.id()));
    assert_eq!(server.driven(), [session.id()]);
    // The server goes away too, and no other host can be started here.
    drop(listener);
    assert_eq!(server.release().await, []);
    session.set(model("haiku"), ann()).await.unwrap();
    assert!(!client.is_remote(session.id()));
}

#[tokio::test]
async fn a_background_host_stays_while_there_is_a_client_or_work() {
    let directory = tempfile::tempdir().unwrap();
    let (host, _listener) = background(directory.path());
    let client = client(directory.path());
    let session = client.create(spec(directory.path())).await.unwrap();
    let idle = host.idle(LINGER);
    tokio::pin!(idle);
    // A client is connected.
    assert!(tokio::time::timeout(LINGER * 5, &mut idle).await.is_err());
    // No client is connected, but a prompt waits.
    let prompt = NewPrompt {
        id: Uuid::new_v4(),
        text: "go".to_owned(),
        images: Vec::new(),
        delivery: Delivery::Queue,
        by: ann(),
    };
    assert_eq!(session.prompt(prompt.clone()).await.unwrap(), PromptState::Queued);
    let journal = client.journal().clone();
    assert_eq!(client.release().await, []);
    // No agent can be started here, so the session fails in the end, and nothing is left to do.
    tokio::time::timeout(Duration::from_mins(1), &mut idle).await.unwrap();
    let record = journal.session(session.id()).await.unwrap().unwrap();
    let open = journal.open_prompts(session.id()).await.unwrap();
    assert!(open.is_empty() || record.status == journal::SessionStatus::Failed, "{record:?}");
    host.retire().await;
    assert_eq!(host.open_sessions(), 0);
}

#[tokio::test]
async fn a_background_host_starts_agents_as_each_client_would() {
    let directory = tempfile::tempdir().unwrap();
    let (host, _listener) = background(directory.path());
    let base = config(directory.path());
    let with_variable = |value: &str| {
        let environment = vec![("NAME".into(), value.into())];
        AgentLaunch::of(&SessionsConfig { environment, ..base.clone() })
    };
    let new = open_sessions(directory.path());
    let mut ids = Vec::new();
    for _ in 0..2 {
        let session = new.create(spec(directory.path())).await.unwrap();
        ids.push(session.id());
    }
    assert_eq!(new.release().await, []);
    let mut connection =
        HostClient::connect(directory.path(), directory.path()).await.unwrap().unwrap();
    connection.open(ids[0], &with_variable("one")).await.unwrap();
    connection.open(ids[1], &with_variable("two")).await.unwrap();
    // A session that is open stays as it is.
    connection.open(ids[0], &with_variable("two")).await.unwrap();
    assert_eq!(connection.ping().await.unwrap().sessions, 2);
    let values: Vec<_> =
        host.all_sessions().iter().map(|it| it.config().environment[0].1.clone()).collect();
    assert_eq!(values, ["one", "two"]);
    // What is not used any more is forgotten, however many clients there were.
    assert_eq!(host.release().await, []);
    for number in 0..100 {
        connection.open(ids[0], &with_variable(&number.to_string())).await.unwrap();
        assert_eq!(host.release().await, []);
    }
    assert!(host.all_sessions().len() <= 2);
    let secret = format!("{:?}", with_variable("secret"));
    assert!(!secret.contains("secret"), "{secret}");
}

#[tokio::test]
async fn a_background_host_leaves_when_it_is_asked_to_and_a_server_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let server = open_sessions(directory.path());
    let listener = listen(directory.path(), SessionHost::Server(server.clone()));
    let connect =
        async || HostClient::connect(directory.path(), directory.path()).await.unwrap().unwrap();
    let mut connection = connect().await;
    assert_eq!(connection.kind(), HostKind::Server);
    assert!(matches!(connection.leave().await, Err(HostError::Failed(_))));
    drop(listener);
    let (host, listener) = background(directory.path());
    let mut connection = connect().await;
    assert_eq!((connection.kind(), connection.pid()), (HostKind::Background, std::process::id()));
    connection.leave().await.unwrap();
    host.asked_to_leave().await;
    let agent = AgentLaunch::of(&config(directory.path()));
    let refused = connection.open(SessionId(Uuid::new_v4()), &agent).await;
    assert!(matches!(refused, Err(HostError::Leaving)), "{refused:?}");
    let lock = listener.close();
    assert!(HostClient::connect(directory.path(), directory.path()).await.unwrap().is_none());
    assert_eq!(HostLock::holder(directory.path()), Some(Some(std::process::id())));
    drop(lock);
    assert_eq!(HostLock::holder(directory.path()), None);
}

#[tokio::test]
async fn a_background_host_of_another_version_is_asked_to_leave() {
    let directory = tempfile::tempdir().unwrap();
    let path = host_socket_path(directory.path(), directory.path());
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o700)).unwrap();
    let old = UnixListener::bind(&path).unwrap();
    let data = directory.path().to_owned();
    let leaving = tokio::spawn(async move {
        let (mut socket, _) = old.accept().await.unwrap();
        let greeting = HostGreeting { version: VERSION + 1, pid: 1, kind: HostKind::Background };
        socket.write_all(&to_line(&greeting)).await.unwrap();
        let mut lines = BufReader::new(socket).lines();
        let request = lines.next_line().await.unwrap().unwrap();
        drop(old);
        std::fs::remove_file(&path).unwrap();
        let (host, listener) = background(&data);
        (request, host, listener)
    });
    let client = client(directory.path());
    let session = client.create(spec(directory.path())).await.unwrap();
    let (request, host, _listener) = leaving.await.unwrap();
    assert_eq!(request, r#"{"number":1,"request":"leave"}"#);
    assert!(client.is_remote(session.id()));
    assert_eq!(host.open_sessions(), 1);
}

#[tokio::test]
async fn a_server_of_another_version_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = host_socket_path(directory.path(), directory.path());
    std::fs::create_dir(path.parent().unwrap()).unwrap();
    std::fs::set_permissions(path.parent().unwrap(), Permissions::from_mode(0o700)).unwrap();
    let server = UnixListener::bind(&path).unwrap();
    let asked = tokio::spawn(async move {
        let (mut socket, _) = server.accept().await.unwrap();
        let greeting = HostGreeting { version: VERSION + 1, pid: 1, kind: HostKind::Server };
        socket.write_all(&to_line(&greeting)).await.unwrap();
        let mut rest = String::new();
        socket.read_to_string(&mut rest).await.unwrap();
        rest
    });
    let client = client(directory.path());
    let session = client.create(spec(directory.path())).await.unwrap();
    assert!(!client.is_remote(session.id()), "this process drives the session");
    assert_eq!(asked.await.unwrap(), "");
}

#[tokio::test]
async fn what_is_no_request_ends_the_connection_and_nothing_else() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let (_host, _listener) = background(directory.path());
    let path = host_socket_path(directory.path(), directory.path());
    let deep = format!("{{\"number\":1,\"request\":{}", "[".repeat(1_000_000));
    for garbage in ["", "{}", "\u{0}", "{\"number\":1}", "null", &deep] {
        let mut socket = UnixStream::connect(&path).await?;
        socket.write_all(garbage.as_bytes()).await?;
        socket.write_all(b"\n").await?;
        let mut rest = String::new();
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
    Ok(())
}

#[tokio::test]
async fn a_data_directory_has_one_host_and_its_socket_is_private() {
    let directory = tempfile::tempdir().unwrap();
    let (_host, listener) = background(directory.path());
    assert!(HostLock::try_acquire(directory.path()).unwrap().is_none());
    let path = host_socket_path(directory.path(), directory.path());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    drop(listener);
    assert!(!path.exists());
    // A socket of a host that was killed is no obstacle.
    let (_host, listener) = background(directory.path());
    std::mem::forget(listener.close());
    let long = directory.path().join("x".repeat(200));
    let short = host_socket_path(&long, Path::new("/run/t"));
    assert!(
        short.starts_with("/run/t")
            && short != host_socket_path(&long.join("y"), Path::new("/run/t"))
    );
}
