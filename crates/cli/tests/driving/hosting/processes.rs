//! The background host as a process: one at a time, detached, private, and gone when it is not needed.

use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use futures_util::future::join_all;
use journal::Seq;
use rustix::process::Pid;

use super::{HostedFixture, LINGER, to_pid, wait_for_end};
use crate::fixture::{JournalReader, agent_line, is_turn_over, prompt, wait_until};

const SOCKET_VARIABLE: &str = "TOWPATH_TEST_SOCKET";

/// Many clients at the same moment get one host, which drives all their sessions.
pub(crate) async fn check_one_host() {
    let fixture = HostedFixture::new("api text \"hello\"").await;
    let clients: Vec<_> = (0..8).map(|_| fixture.client()).collect();
    let sessions = join_all(clients.iter().map(|client| client.create(&fixture.driving))).await;
    let host = fixture.host().expect("a host");
    for session in &sessions {
        assert_eq!(fixture.owner(session.id()), Some(host));
    }
    let huge = prompt(&"a lot of text ".repeat(300_000));
    sessions[0].prompt(huge).await.expect("a queued prompt");
    JournalReader::new(&sessions[0], Seq::default()).until(is_turn_over).await;
    assert_eq!(fixture.host(), Some(host));
}

/// A host exits when nothing is left to do, with its agents, and not before.
pub(crate) async fn check_exit() {
    let fixture = HostedFixture::new("api text \"one two three four\" hold gate after 2").await;
    let client = fixture.client();
    let session = client.create(&fixture.driving).await;
    let id = session.id();
    session.prompt(prompt("count")).await.expect("a queued prompt");
    JournalReader::new(&session, Seq::default()).until(agent_line("text_delta")).await;
    let host = fixture.host().expect("a host");
    let journal = session.journal().clone();
    assert_eq!(client.sessions.release().await, []);
    drop((client, session));
    // Without a client the turn goes on, however long it takes.
    tokio::time::sleep(LINGER + LINGER / 5).await;
    assert_eq!(fixture.host(), Some(host));
    fixture.driving.api.open("gate");
    let over = Instant::now();
    wait_for_end(host).await;
    assert!(over.elapsed() >= LINGER, "it waits a while: {:?}", over.elapsed());
    wait_until("no agent is left", || fixture.setup().processes().is_empty()).await;
    let record = journal.session(id).await.expect("a journal").expect("a session");
    assert_eq!((record.turn, record.turn_ended), (1, 1));
    assert!(!session::shim::is_running(&fixture.setup().config().live_directory(id)));
    // The next client starts another one, which continues the session.
    let client = fixture.client();
    let session = client.sessions.open(id).await.expect("a session");
    session.prompt(prompt("more")).await.expect("a queued prompt");
    JournalReader::new(&session, record.last).until(is_turn_over).await;
    assert!(fixture.host().is_some_and(|it| it != host));
}

fn read(process: Pid, name: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{}/{name}", process.as_raw_nonzero())).unwrap_or_default()
}

/// A host has nothing of the process that started it: no terminal, no variables, no open files.
#[expect(clippy::disallowed_methods, reason = "the test starts the program itself")]
pub(crate) async fn check_detachment() {
    let fixture = HostedFixture::new("api text \"hello\"").await;
    let client = fixture.client();
    let session = client.create(&fixture.driving).await;
    let host = fixture.host().expect("a host");
    let environment = String::from_utf8_lossy(&read(host, "environ")).into_owned();
    for name in environment.split('\0').filter_map(|it| it.split('=').next()) {
        assert!(matches!(name, "" | "LD_LIBRARY_PATH"), "{name}");
    }
    let stat = String::from_utf8_lossy(&read(host, "stat")).into_owned();
    let fields: Vec<&str> = stat.rsplit_once(')').expect("a name").1.split_whitespace().collect();
    let own = host.as_raw_nonzero().to_string();
    // The process group, the session and the terminal.
    assert_eq!((fields[2], fields[3], fields[4]), (own.as_str(), own.as_str(), "0"));
    client.sessions.delete(session.id()).await.expect("a deleted session");
    fixture.kill_host();
    wait_for_end(host).await;

    let inherited = fixture.setup().project().join("inherited");
    std::fs::write(&inherited, "").expect("a file");
    let script = "exec 7<\"$1\"; exec 23<\"$1\"; exec \"$0\" host --data \"$2\" --runtime \"$3\"";
    let mut shell = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_towpath")])
        .arg(&inherited)
        .arg(fixture.setup().data())
        .arg(fixture.setup().config().runtime)
        .stdin(Stdio::null())
        .spawn()
        .expect("a shell");
    let host = to_pid(shell.id()).expect("a process");
    let socket = fixture.setup().data().join("live/host.sock");
    wait_until("the host listens", || {
        UnixStream::connect(&socket).is_ok() && fixture.host() == Some(host)
    })
    .await;
    let files = std::fs::read_dir(format!("/proc/{}/fd", host.as_raw_nonzero())).expect("files");
    for file in files.filter_map(Result::ok) {
        let target = std::fs::read_link(file.path()).unwrap_or_default();
        assert_ne!(target, inherited, "it was inherited");
    }
    shell.kill().expect("a kill");
    shell.wait().expect("an end");
}

/// Another user is refused, even if the socket's file lets them connect.
#[expect(clippy::disallowed_methods, reason = "the test starts itself once more")]
pub(crate) async fn check_other_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can run a process as another user");
        return;
    }
    let fixture = HostedFixture::new("api text \"hello\"").await;
    let client = fixture.client();
    let session = client.create(&fixture.driving).await;
    let live = fixture.setup().data().join("live");
    let own = live.join(session.id().to_string());
    let open = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("permissions");
    };
    let root = fixture.setup().data().parent().expect("a directory").to_owned();
    for directory in [&root, &fixture.setup().data(), &live, &own] {
        open(directory, 0o755);
    }
    for (socket, greeted) in [("host.sock", true), ("host.sock", false), ("owner.sock", false)] {
        let directory = if socket == "host.sock" { &live } else { &own };
        let path = directory.join(socket);
        open(&path, 0o666);
        // Other users may not be able to run the file of this test where it is.
        let program = root.join("other-user");
        std::fs::copy(std::env::current_exe().expect("this program"), &program).expect("a copy");
        open(&program, 0o755);
        let mut command = Command::new(program);
        command.args(["--exact", "the_client_of_another_user", "--ignored", "--nocapture"]);
        command.env(SOCKET_VARIABLE, &path).current_dir("/");
        if !greeted {
            command.uid(65534).gid(65534);
        }
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(if greeted { "GREETED" } else { "REFUSED" }), "{socket}: {said}");
    }
    for directory in [&live, &own] {
        open(directory, 0o700);
    }
}

/// The other process: connects, and tells whether it was greeted.
pub(crate) fn run_other_user() {
    #[expect(clippy::disallowed_methods, reason = "set by the test that starts this process")]
    let path = std::env::var_os(SOCKET_VARIABLE).expect("only another test starts this one");
    let mut socket = UnixStream::connect(path).expect("a connection");
    let read = socket.read(&mut [0; 1]);
    println!("{}", if matches!(read, Ok(1)) { "GREETED" } else { "REFUSED" });
}
