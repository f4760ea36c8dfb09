//! Starting: what goes wrong is said, and what is made is for its owner alone.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use towpath_session::shim::{Order, Refusal, Run, StartError, Stdin, start};

use crate::stage::{SHIM_ALONE, Stage, gone, printed, rest};

async fn refusal(stage: &Stage) -> Refusal {
    match start(Path::new(SHIM_ALONE), &stage.plan).await {
        Err(StartError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_that_cannot_be_started_says_why_and_leaves_no_trace() {
    let mut stage = Stage::new("");
    stage.plan.program = "no-such-agent".into();
    let refused = refusal(&stage).await;
    assert!(matches!(&refused, Refusal::Agent { os_error: Some(2), .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(text.starts_with("could not start the agent `no-such-agent`: "), "{text}");
    stage.plan.program = stage.path("").into();
    assert!(matches!(refusal(&stage).await, Refusal::Agent { os_error: Some(13), .. }));

    stage.plan.working_directory = stage.path("nowhere");
    assert!(matches!(refusal(&stage).await, Refusal::WorkingDirectory { .. }));

    // The same run can then be started after all.
    stage.plan.program = "sh".into();
    stage.plan.working_directory = stage.path("");
    stage.start().await;
}

#[tokio::test]
async fn a_program_that_is_no_shim_is_not_waited_for() {
    let stage = Stage::new("");
    let error = start(Path::new("true"), &stage.plan).await.unwrap_err();
    assert!(matches!(error, StartError::Shim { .. }), "{error:?}");
    let error = start(Path::new("/no/such/towpath"), &stage.plan).await.unwrap_err();
    assert!(matches!(error, StartError::Shim { .. }), "{error:?}");
}

#[tokio::test]
async fn one_shim_lives_in_a_directory_and_a_run_is_there_once() {
    let mut stage = Stage::new("read -r line; echo $line");
    let started = stage.start().await;
    stage.plan.run = Run(2);
    assert!(matches!(refusal(&stage).await, Refusal::Occupied { .. }));
    let (_, mut link) = stage.attach(0).await;
    link.order(Order::CloseStdin).await.unwrap();
    rest(&mut link).await;
    drop(link);
    gone(&[started.shim]).await;
    stage.plan.run = Run(1);
    assert!(matches!(refusal(&stage).await, Refusal::Occupied { .. }));
    stage.plan.run = Run(2);
    stage.start().await;
    let (greeting, _link) = stage.attach(0).await;
    assert_eq!((greeting.run, greeting.end, greeting.stdin), (Some(Run(2)), 0, Stdin::Open));
}

#[tokio::test]
async fn what_is_made_is_for_its_owner_alone() {
    let mut stage = Stage::new("echo hi; read -r line");
    let open = stage.path("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    let live = std::mem::replace(&mut stage.plan.directory, open);
    assert!(matches!(refusal(&stage).await, Refusal::Place { .. }));
    stage.plan.directory = live;

    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    printed(&mut link, "hi\n").await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(stage.live()), 0o700);
    let names: Vec<_> = std::fs::read_dir(stage.live()).unwrap().map(Result::unwrap).collect();
    for file in &names {
        assert_eq!(mode(&file.path()), 0o600, "{file:?}");
    }
    assert!(names.len() >= 4, "{names:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn another_user_is_not_answered_even_where_the_directories_let_it_in() {
    let call = |stage: &Stage, user: &str| {
        // A copy: the one that was built may lie where another user cannot go.
        let program = stage.path("shim-alone");
        let socket = stage.plan.socket.to_str().expect("a path").to_owned();
        std::process::Command::new("setpriv")
            .args([&format!("--reuid={user}"), "--clear-groups"])
            .arg(program)
            .args(["call", &socket])
            .output()
    };
    let stage = Stage::new("read -r line");
    if !rustix::process::geteuid().is_root() || call(&stage, "0").is_err() {
        println!("skipped: becoming another user takes root and `setpriv`");
        return;
    }
    std::fs::copy(SHIM_ALONE, stage.path("shim-alone")).unwrap();
    stage.start().await;
    for path in [stage.path(""), stage.live().to_owned(), stage.plan.socket.clone()] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let stranger = call(&stage, "65534").unwrap();
    let said = String::from_utf8_lossy(&stranger.stdout);
    let reset = String::from_utf8_lossy(&stranger.stderr);
    assert!(said.trim() == "0" || reset.contains("reset") || reset.contains("Broken"), "{reset}");
    let ours = call(&stage, "0").unwrap();
    assert_eq!(String::from_utf8_lossy(&ours.stdout).trim(), "64");
}

#[tokio::test]
async fn the_agent_has_the_planned_surroundings_and_no_others() {
    let mut stage = Stage::new("pwd; env | sort; read -r line");
    stage.plan.environment.push(("SECRET".into(), "a b=\"c\"".into()));
    let started = stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    link.order(Order::CloseStdin).await.unwrap();
    let (output, _) = rest(&mut link).await;
    let output = String::from_utf8(output).unwrap();
    assert!(output.contains("SECRET=a b=\"c\"\n") && output.contains("TOWPATH_AGENT="), "{output}");
    assert!(!output.contains("HOME=") && !output.contains("CARGO"), "{output}");
    let home = stage.path("").canonicalize().unwrap();
    assert_eq!(Path::new(output.lines().next().unwrap()), home);
    assert_ne!(started.shim, started.agent);
}

#[tokio::test]
async fn a_long_directory_has_its_socket_elsewhere() {
    let mut stage = Stage::new("echo hi; read -r line");
    let deep = stage.path(&"d".repeat(120));
    stage.plan.socket = towpath_session::shim::socket_path(&deep, &stage.path("run"), "s");
    stage.plan.directory = deep;
    stage.start().await;
    let (_, mut link) = stage.attach(0).await;
    printed(&mut link, "hi\n").await;
    assert!(stage.path("run/s.sock").exists());
}
