//! The hidden mode, through the built binary.

use std::path::Path;
use std::time::Duration;

use session::shim::{Exit, Link, Marker, News, Order, Plan, Run, socket_path, start};

#[test]
fn the_binary_is_a_shim_when_asked() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("live");
        let plan = Plan {
            program: "/bin/cat".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            working_directory: home.path().to_owned(),
            socket: socket_path(&directory, &home.path().join("run"), "s"),
            directory,
            run: Run(1),
            marker: Marker::random(),
            grace: Duration::from_mins(1),
            ask_grace: Duration::from_mins(1),
            unowned_limit: Duration::from_mins(1),
        };
        let towpath = Path::new(env!("CARGO_BIN_EXE_towpath"));
        start(towpath, &plan).await.unwrap();
        let (_, mut link) = Link::attach(&plan.directory, 0).await.unwrap();
        link.order(Order::Write { number: 1, bytes: b"hi\n".to_vec() }).await.unwrap();
        link.order(Order::CloseStdin).await.unwrap();
        let mut output = Vec::new();
        loop {
            match link.next().await.expect("news") {
                News::Output { bytes, .. } => output.extend(bytes),
                News::Exited { exit, .. } => break assert_eq!(exit, Exit::Code(0)),
                _ => {}
            }
        }
        assert_eq!(output, b"hi\n");
    });
}
