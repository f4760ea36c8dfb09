//! `towpath doctor`: what it finds, and what it says to do about it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use crate::house::House;
use serde_json::Value;

/// What was found of one thing.
fn check<'a>(found: &'a Value, name: &str) -> &'a Value {
    let mut checks = found["checks"].as_array().expect("checks").iter();
    checks.find(|check| check["name"] == name).unwrap_or_else(|| panic!("no `{name}` in {found}"))
}

/// Looks, and gives the exit code with what was found.
fn doctor(house: &House, arguments: &[&str]) -> (i32, Value) {
    let output = house.towpath(&[&["doctor", "--json"], arguments].concat());
    (output.code, serde_json::from_str(&output.stdout).expect("JSON on stdout"))
}

#[test]
fn with_the_built_in_agent_all_is_well() {
    let house = House::new();
    let output = house.towpath(&["doctor", "--demo"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    for words in [
        "✔ data     ",
        "✔ journal  sound, 0 sessions",
        "✔ sockets  can be made",
        "✔ version  2.1.325 (towpath play)",
        "✔ answers  `initialize` in ",
        "all is well",
    ] {
        assert!(output.stdout.contains(words), "{words}: {output}");
    }
    assert_eq!(house.json(&["sessions", "--json"]), serde_json::json!([]), "nothing is left of it");
}

#[test]
fn a_missing_agent_is_found_with_what_to_do() {
    let house = House::new();
    let (code, found) = doctor(&house, &[]);
    assert_eq!(code, 1);
    assert_eq!(found["good"], false);
    assert_eq!(check(&found, "data")["good"], true);
    let agent = check(&found, "agent");
    assert_eq!(agent["text"], "there is no agent `no-such-agent`");
    assert!(agent["hint"].as_str().is_some_and(|hint| hint.contains("TOWPATH_CLAUDE")));
}

#[test]
fn an_agent_that_does_not_answer_is_found() {
    let house = House::new();
    let script = "#!/bin/sh\ntest \"$1\" = --version && echo '9.9.9 (Mute)' && exit 0\n\
                  echo 'please sign in' >&2\nexit 3\n";
    let path = house.file("mute", script.as_bytes());
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("permissions");
    let (code, found) = doctor(&house, &["--claude", "./mute"]);
    assert_eq!(code, 1);
    assert_eq!(check(&found, "version")["text"], "9.9.9 (Mute)");
    let answers = check(&found, "answers");
    let text = answers["text"].as_str().expect("a text");
    assert!(text.contains("exited with code 3: please sign in"), "{text}");

    let silent = house.file("silent", b"#!/bin/sh\nsleep 1000\n");
    std::fs::set_permissions(&silent, Permissions::from_mode(0o755)).expect("permissions");
    let (code, found) = doctor(&house, &["--claude", "./silent", "--timeout", "1"]);
    assert_eq!(code, 1);
    assert_eq!(check(&found, "version")["text"], "it says nothing within 1 s");
}

#[test]
fn a_data_directory_that_others_can_read_is_found() {
    let house = House::new();
    assert_eq!(doctor(&house, &["--demo"]).0, 0);
    std::fs::set_permissions(house.data(), Permissions::from_mode(0o755)).expect("permissions");
    let (code, found) = doctor(&house, &["--demo"]);
    assert_eq!(code, 1);
    let data = check(&found, "data");
    assert!(data["text"].as_str().is_some_and(|it| it.contains("is open to others")), "{data}");
    assert!(data["hint"].as_str().is_some_and(|it| it.contains("chmod 700")), "{data}");
}

#[test]
fn a_damaged_journal_is_found() {
    let house = House::new();
    assert_eq!(house.towpath(&["run", "--demo", "think"]).code, 0);
    let file = house.data().join("journal.db");
    let mut bytes = std::fs::read(&file).expect("a journal");
    let middle = bytes.len() / 2;
    bytes[100..middle].fill(0x55);
    std::fs::write(&file, bytes).expect("a file");
    // What a process that was killed may have left beside it would put it right.
    let _ = std::fs::remove_file(house.data().join("journal.db-wal"));
    let (code, found) = doctor(&house, &["--demo"]);
    assert_eq!(code, 1);
    let journal = check(&found, "journal");
    assert_eq!(journal["good"], false, "{journal}");
    assert!(journal["text"].as_str().is_some_and(|it| it.contains("damaged")), "{journal}");
}
