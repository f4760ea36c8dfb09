//! `towpath doctor`: its findings and hints.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use crate::home::TestHome;
use rustix::process::{Pid, test_kill_process};
use serde_json::Value;

/// The result of one check.
fn check<'a>(found: &'a Value, name: &str) -> &'a Value {
    let mut checks = found["checks"].as_array().expect("checks").iter();
    checks.find(|check| check["name"] == name).unwrap_or_else(|| panic!("no `{name}` in {found}"))
}

/// Runs `doctor`, and returns its exit code and findings.
fn doctor(home: &TestHome, arguments: &[&str]) -> (i32, Value) {
    let output = home.towpath(&[&["doctor", "--json"], arguments].concat());
    (output.code, serde_json::from_str(&output.stdout).expect("JSON on stdout"))
}

#[test]
fn with_the_built_in_agent_everything_works() {
    let home = TestHome::new();
    let output = home.towpath(&["doctor", "--demo"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    for words in [
        "✔ data      ",
        "✔ journal   intact, 0 sessions",
        "✔ sockets   can be created",
        "✔ version   2.1.325 (towpath play)",
        "✔ response  `initialize` in ",
        "everything works",
    ] {
        assert!(output.stdout.contains(words), "{words}: {output}");
    }
    assert_eq!(
        home.json(&["sessions", "--json"]),
        serde_json::json!([]),
        "the probe leaves nothing behind"
    );
}

#[test]
fn a_missing_agent_is_reported_with_a_hint() {
    let home = TestHome::new();
    let (code, found) = doctor(&home, &[]);
    assert_eq!(code, 1);
    assert_eq!(found["good"], false);
    assert_eq!(check(&found, "data")["good"], true);
    let agent = check(&found, "agent");
    assert_eq!(agent["text"], "agent `no-such-agent` not found");
    assert!(agent["hint"].as_str().is_some_and(|hint| hint.contains("TOWPATH_CLAUDE")));
}

#[test]
fn an_agent_that_does_not_respond_is_reported() {
    let home = TestHome::new();
    let script = "#!/bin/sh\ntest \"$1\" = --version && echo '9.9.9 (Mute)' && exit 0\n\
                  echo 'please sign in' >&2\nexit 3\n";
    let path = home.file("mute", script.as_bytes());
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("permissions");
    let (code, found) = doctor(&home, &["--claude", "./mute"]);
    assert_eq!(code, 1);
    let version = check(&found, "version");
    let remark = "9.9.9 (Mute); this CLI is newer than Towpath has been proven with (2.";
    assert!(version["text"].as_str().is_some_and(|it| it.starts_with(remark)), "{version}");
    assert_eq!(version["good"], true, "a newer CLI may well work");
    let response = check(&found, "response");
    let text = response["text"].as_str().expect("a text");
    assert!(text.contains("exited with code 3: please sign in"), "{text}");

    let silent = home.file("silent", b"#!/bin/sh\nsleep 1000 &\necho $! > started\nwait\n");
    std::fs::set_permissions(&silent, Permissions::from_mode(0o755)).expect("permissions");
    let (code, found) = doctor(&home, &["--claude", "./silent", "--timeout", "1"]);
    assert_eq!(code, 1);
    assert_eq!(check(&found, "version")["text"], "no output of `--version` within 1 s");
    let started = std::fs::read_to_string(home.work().join("started")).expect("a process");
    let started = started.trim().parse().ok().and_then(Pid::from_raw).expect("an id");
    home.wait_until("what it started is stopped too", |_| test_kill_process(started).is_err());
}

#[test]
fn a_data_directory_that_others_can_read_is_reported() {
    let home = TestHome::new();
    assert_eq!(doctor(&home, &["--demo"]).0, 0);
    std::fs::set_permissions(home.data(), Permissions::from_mode(0o755)).expect("permissions");
    let (code, found) = doctor(&home, &["--demo"]);
    assert_eq!(code, 1);
    let data = check(&found, "data");
    assert!(
        data["text"].as_str().is_some_and(|it| it.contains("was accessible to other users")),
        "{data}"
    );
    let mode = std::fs::metadata(home.data()).expect("the directory").permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "it is closed again");
    assert_eq!(doctor(&home, &["--demo"]).0, 0);
}

#[test]
fn a_damaged_journal_is_reported() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "think"]).code, 0);
    let file = home.data().join("journal.db");
    let mut bytes = std::fs::read(&file).expect("a journal");
    let middle = bytes.len() / 2;
    bytes[100..middle].fill(0x55);
    std::fs::write(&file, bytes).expect("a file");
    // A write-ahead log that a killed process left would restore the pages.
    let _ = std::fs::remove_file(home.data().join("journal.db-wal"));
    let (code, found) = doctor(&home, &["--demo"]);
    assert_eq!(code, 1);
    let journal = check(&found, "journal");
    assert_eq!(journal["good"], false, "{journal}");
    assert!(journal["text"].as_str().is_some_and(|it| it.contains("damaged")), "{journal}");
}
