//! `towpath fleet` with a released NATS server.
//!
//! The server is installed under `target/` on first use. Without Python or a way to install it, the test
//! prints that it was skipped; with `CI=true` it fails.

#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;

/// What a run printed.
struct Output {
    code: i32,
    stdout: String,
    stderr: String,
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exit code {}\n{}{}", self.code, self.stdout, self.stderr)
    }
}

fn fleet(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    let output = command.arg("fleet").args(arguments).stdin(Stdio::null()).output();
    let output = output.expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Output { code: output.status.code().expect("an exit code"), stdout, stderr }
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

#[test]
fn servers_are_set_up_checked_and_listed() {
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Some(program) = packages::or_skip(program) else { return };
    let servers = NatsServers::start(&program, &NatsServerOptions::single());
    let (nats, monitor) = (&servers.addresses()[0], &servers.monitors()[0]);

    let before = fleet(&["check", "--single", "--nats", nats, "--monitor", monitor]);
    assert_eq!(before.code, 1, "{before}");
    assert!(before.stdout.contains("run: towpath fleet init"), "{before}");
    let too_few = fleet(&["init", "--nats", nats]);
    assert_eq!(too_few.code, 2, "{too_few}");
    assert!(too_few.stderr.contains("--single"), "{too_few}");

    let created = fleet(&["init", "--single", "--nats", nats]);
    assert_eq!(created.code, 0, "{created}");
    assert_eq!(created.stdout.matches(" created").count(), 8, "{created}");
    let again = fleet(&["init", "--single", "--nats", nats, "--json"]);
    assert!(
        json(&again)["streams"].as_array().unwrap().iter().all(|it| it["action"] == "unchanged")
    );

    let good = fleet(&["check", "--single", "--nats", nats, "--monitor", monitor]);
    assert_eq!(good.code, 0, "{good}");
    assert!(good.stdout.contains("the servers lose nothing"), "{good}");
    let one = fleet(&["check", "--nats", nats, "--monitor", monitor, "--json"]);
    assert_eq!(one.code, 1, "{one}");
    let one = json(&one);
    assert_eq!(one["good"], false);
    let refused =
        one["findings"].as_array().unwrap().iter().filter(|it| it["severity"] == "refused");
    assert_eq!(refused.count(), 8, "{one}");
    // What could not be found out is not called good.
    let unknown = fleet(&["check", "--single", "--nats", nats]);
    assert_eq!(unknown.code, 3, "{unknown}");
    assert!(unknown.stdout.contains("could not be checked"), "{unknown}");
    let accepted = fleet(&["check", "--single", "--nats", nats, "--without-monitor"]);
    assert_eq!(accepted.code, 0, "{accepted}");

    let status = fleet(&["status", "--nats", nats]);
    assert_eq!(status.code, 0, "{status}");
    assert!(status.stdout.contains("0 workers") && status.stdout.contains("TP_E"), "{status}");
    let status = fleet(&["status", "--nats", nats, "--json"]);
    assert_eq!(json(&status)["sessions"], 0);
    let pruned = fleet(&["prune", "--nats", nats, "--dry-run"]);
    assert_eq!(pruned.code, 0, "{pruned}");
    assert!(pruned.stdout.contains("0 deleted sessions"), "{pruned}");
    let pruned = fleet(&["prune", "--nats", nats, "--json"]);
    assert_eq!(json(&pruned)["sessions"], Value::Array(Vec::new()));
}

#[test]
fn servers_that_are_not_there_are_an_error_with_a_hint() {
    // Nothing listens on port 1.
    for action in ["init", "check", "status"] {
        let output = fleet(&[action, "--nats", "nats://127.0.0.1:1"]);
        assert_eq!(output.code, 2, "{output}");
        assert!(output.stdout.is_empty(), "{output}");
        assert!(output.stderr.contains("could not connect to the NATS servers"), "{output}");
        assert!(output.stderr.contains("hint"), "{output}");
    }
}
