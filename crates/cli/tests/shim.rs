//! The hidden shim mode of the built binary.

use std::path::Path;

use session::UnattendedLimits;
use session::shim::{
    ExitStatus, ProcessMarker, RunId, ShimCommand, ShimConfig, ShimConnection, ShimEvent,
    socket_path, start_shim,
};

#[test]
fn the_binary_runs_as_a_shim() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("live");
        let config = ShimConfig {
            program: "/bin/cat".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
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
