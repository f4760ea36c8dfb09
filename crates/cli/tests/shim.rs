//! The hidden shim mode of the built binary.

use std::path::Path;

use session::UnattendedLimits;
use session::shim::{
    ExitStatus, ProcessMarker, RunId, ShimCommand, ShimConfig, ShimConnection, ShimEvent,
    socket_path, start_shim,
};
use test_support::test_run::mark;

#[test]
fn the_binary_runs_as_a_shim() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("live");
        let config = ShimConfig {
            program: "/bin/cat".into(),
            arguments: Vec::new(),
            environment: mark().into_iter().collect(),
            working_directory: home.path().to_owned(),
            socket: socket_path(&directory, &home.path().join("run"), "s"),
            directory,
            run: RunId(1),
            marker: ProcessMarker::random(),
            unattended: UnattendedLimits::SHORT,
        };
        let towpath = Path::new(env!("CARGO_BIN_EXE_towpath"));
        start_shim(towpath, &config).await.unwrap();
        let (_, mut connection) = ShimConnection::attach(&config.directory, 0).await.unwrap();
        let write = ShimCommand::Write { number: 1, bytes: b"hi\n".to_vec() };
        connection.send(write).await.unwrap();
        connection.send(ShimCommand::CloseStdin).await.unwrap();
        let mut output = Vec::new();
        loop {
            match connection.next().await.expect("an event") {
                ShimEvent::Output { bytes, .. } => output.extend(bytes),
                ShimEvent::Exited { status, .. } => break assert_eq!(status, ExitStatus::Code(0)),
                _ => {}
            }
        }
        assert_eq!(output, b"hi\n");
    });
}

/// A token of Towpath's own is neither in the environment of the agent nor in that of the shim, which
/// the agent could read.
#[cfg(target_os = "linux")]
#[test]
#[expect(clippy::disallowed_methods, reason = "tests start the program they test")]
fn neither_the_agent_nor_the_shim_has_the_token_of_the_bot() {
    use std::os::unix::fs::PermissionsExt as _;

    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name);
    let script =
        "#!/bin/sh\ncd \"$HOME\" && cp /proc/$$/environ agent && cp /proc/$PPID/environ shim\n";
    std::fs::write(path("script"), script).unwrap();
    std::fs::set_permissions(path("script"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["run", "--claude"])
        .args([path("script").as_os_str(), "hello".as_ref()])
        .env("HOME", home.path())
        .env("TOWPATH_DATA", path("data"))
        .env("XDG_RUNTIME_DIR", home.path())
        .env("TOWPATH_TELEGRAM_TOKEN", "123456:secret-of-the-bot")
        .current_dir(home.path())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let environment = |name: &str| {
        let bytes = std::fs::read(path(name)).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    assert!(environment("agent").contains("TOWPATH_AGENT="), "{output:?}");
    for name in ["agent", "shim"] {
        assert!(!environment(name).contains("secret-of-the-bot"), "{}", environment(name));
    }
    // The loader of a program that cargo started needs its search path.
    let of_shim = environment("shim");
    let mut variables = of_shim.split_terminator('\0');
    assert!(variables.all(|it| it.starts_with("LD_LIBRARY_PATH=")), "{of_shim}");
}
