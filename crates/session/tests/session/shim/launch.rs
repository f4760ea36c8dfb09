//! Launching a shim: errors are reported, and files are private.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use towpath_session::shim::{
    LaunchError, RunId, ShimCommand, ShimStartError, StdinState, socket_path, start_shim,
};

use super::fixture::{SHIM_ALONE, ShimFixture, read_rest, read_until, wait_gone};

async fn refusal(fixture: &ShimFixture) -> LaunchError {
    match start_shim(Path::new(SHIM_ALONE), &fixture.config).await {
        Err(ShimStartError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_that_cannot_be_started_is_reported_and_leaves_no_files() {
    let mut fixture = ShimFixture::new("");
    fixture.config.program = "no-such-agent".into();
    let refused = refusal(&fixture).await;
    assert!(matches!(&refused, LaunchError::Agent { os_error: Some(2), .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.starts_with("could not start the agent `no-such-agent`: "), "{text}");
    fixture.config.program = fixture.path("").into();
    assert!(matches!(refusal(&fixture).await, LaunchError::Agent { os_error: Some(13), .. }));

    fixture.config.working_directory = fixture.path("nowhere");
    assert!(matches!(refusal(&fixture).await, LaunchError::WorkingDirectory { .. }));

    // The same run can be started later.
    fixture.config.program = "sh".into();
    fixture.config.working_directory = fixture.path("");
    fixture.start().await;
}

#[tokio::test]
async fn a_program_that_is_not_a_shim_is_an_error() {
    let fixture = ShimFixture::new("");
    let error = start_shim(Path::new("true"), &fixture.config).await.unwrap_err();
    assert!(matches!(error, ShimStartError::Shim { .. }), "{error:?}");
    let error = start_shim(Path::new("/no/such/towpath"), &fixture.config).await.unwrap_err();
    assert!(matches!(error, ShimStartError::Shim { .. }), "{error:?}");
}

#[tokio::test]
async fn a_directory_has_one_shim_and_each_run_once() {
    let mut fixture = ShimFixture::new("read -r line; echo $line");
    let started = fixture.start().await;
    fixture.config.run = RunId(2);
    assert!(matches!(refusal(&fixture).await, LaunchError::Occupied { .. }));
    let (_, mut connection) = fixture.attach(0).await;
    connection.send(ShimCommand::CloseStdin).await.unwrap();
    read_rest(&mut connection).await;
    drop(connection);
    wait_gone(&[started.shim]).await;
    fixture.config.run = RunId(1);
    assert!(matches!(refusal(&fixture).await, LaunchError::Occupied { .. }));
    fixture.config.run = RunId(2);
    fixture.start().await;
    let (hello, _connection) = fixture.attach(0).await;
    assert_eq!((hello.run, hello.end, hello.stdin), (Some(RunId(2)), 0, StdinState::Open));
}

#[tokio::test]
async fn all_files_are_private() {
    let mut fixture = ShimFixture::new("echo hi; read -r line");
    let open = fixture.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    let live = std::mem::replace(&mut fixture.config.directory, open);
    assert!(matches!(refusal(&fixture).await, LaunchError::Files { .. }));
    fixture.config.directory = live;

    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    read_until(&mut connection, "hi\n").await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(fixture.live()), 0o700);
    let names: Vec<_> = std::fs::read_dir(fixture.live()).unwrap().map(Result::unwrap).collect();
    for file in &names {
        assert_eq!(mode(&file.path()), 0o600, "{file:?}");
    }
    assert!(names.len() >= 4, "{names:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_user_gets_no_answer_even_if_the_directories_are_open() {
    let hello = |fixture: &ShimFixture, user: &str| {
        // A copy, because another user may not be able to reach the built program.
        let program = fixture.path("shim-alone");
        let socket = fixture.config.socket.to_str().expect("a path").to_owned();
        std::process::Command::new("setpriv")
            .args([&format!("--reuid={user}"), "--clear-groups"])
            .arg(program)
            .args(["hello", &socket])
            .output()
    };
    let fixture = ShimFixture::new("read -r line");
    if !rustix::process::geteuid().is_root() || hello(&fixture, "0").is_err() {
        println!("skipped: becoming another user takes root and `setpriv`");
        return;
    }
    std::fs::copy(SHIM_ALONE, fixture.path("shim-alone")).unwrap();
    fixture.start().await;
    for path in [fixture.path(""), fixture.live().to_owned(), fixture.config.socket.clone()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let other = hello(&fixture, "65534").unwrap();
    let answered = String::from_utf8_lossy(&other.stdout);
    let reset = String::from_utf8_lossy(&other.stderr);
    assert!(
        answered.trim() == "0" || reset.contains("reset") || reset.contains("Broken"),
        "{reset}"
    );
    let ours = hello(&fixture, "0").unwrap();
    assert_eq!(String::from_utf8_lossy(&ours.stdout).trim(), "64");
}

#[tokio::test]
async fn the_agent_has_exactly_the_configured_environment() {
    let mut fixture = ShimFixture::new("pwd; env | sort; read -r line");
    fixture.config.environment.push(("SECRET".into(), "a b=\"c\"".into()));
    let started = fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    connection.send(ShimCommand::CloseStdin).await.unwrap();
    let (output, _) = read_rest(&mut connection).await;
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("SECRET=a b=\"c\"\n") && output.contains("TOWPATH_AGENT="), "{output}");
    assert!(!output.contains("HOME=") && !output.contains("CARGO"), "{output}");
    let home = fixture.path("").canonicalize().unwrap();
    assert_eq!(Path::new(output.lines().next().unwrap()), home);
    assert_ne!(started.shim, started.agent);
}

#[tokio::test]
async fn a_long_path_has_its_socket_elsewhere() {
    let mut fixture = ShimFixture::new("echo hi; read -r line");
    let deep = fixture.path(&"d".repeat(120));
    fixture.config.socket = socket_path(&deep, &fixture.path("run"), "s");
    fixture.config.directory = deep;
    fixture.start().await;
    let (_, mut connection) = fixture.attach(0).await;
    read_until(&mut connection, "hi\n").await;
    assert!(fixture.path("run/s.sock").exists());
}
