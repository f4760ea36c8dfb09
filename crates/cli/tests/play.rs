//! `towpath play` as a process: its lines, files and exit codes.

#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_support::test_run::clear_environment;

/// A player that runs in a temporary directory.
struct PlayerProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Box<dyn Iterator<Item = Value>>,
}

const STREAM: [&str; 6] =
    ["-p", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"];

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    clear_environment(command.arg("play").args(arguments).current_dir(home));
    command.env("HOME", home).env("TMPDIR", home).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.env("TOWPATH_PLAY_PACE", "1").env("IS_SANDBOX", "1");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl PlayerProcess {
    fn start(home: &TempDir, arguments: &[&str]) -> Self {
        Self::spawn(command(home.path(), &[&STREAM, arguments].concat()))
    }

    fn spawn(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the player starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let lines = stdout.lines().map(|line| {
            let line = line.expect("UTF-8");
            serde_json::from_str(&line).unwrap_or_else(|_| Value::String(line))
        });
        Self { child, stdin, lines: Box::new(lines) }
    }

    fn send(&mut self, line: &Value) {
        let stdin = self.stdin.as_mut().expect("an open stdin");
        writeln!(stdin, "{line}").expect("a reader");
    }

    fn prompt(&mut self, text: &str) {
        self.send(&json!({"type": "user", "message": {"role": "user", "content": text}}));
    }

    /// The next line of a type.
    fn next(&mut self, kind: &str) -> Value {
        self.lines.find(|line| line["type"] == kind).unwrap_or_else(|| panic!("no {kind} came"))
    }

    fn exit(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().expect("an exit status").code()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs");
        assert!(sent.success());
    }
}

fn home() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn a_session_is_resumed_in_another_process() {
    let home = home();
    let mut first = PlayerProcess::start(&home, &[]);
    first.prompt("think");
    let session = first.next("result")["session_id"].as_str().expect("an id").to_owned();
    assert_eq!(first.exit(), Some(0));

    let mut second = PlayerProcess::start(&home, &["--resume", &session]);
    second.prompt("think");
    assert_eq!(second.next("system")["session_id"], *session);
    assert_eq!(second.exit(), Some(0));

    let in_use = PlayerProcess::start(&home, &["--session-id", &session]);
    assert_eq!(in_use.exit(), Some(1));

    let mut fork = PlayerProcess::start(&home, &["--resume", &session, "--fork-session"]);
    fork.prompt("think");
    assert_ne!(fork.next("system")["session_id"], *session);

    let mut missing =
        PlayerProcess::start(&home, &["--resume", "0b7ab7a8-7f0e-4c43-a4b5-59d0f4e4bc4b"]);
    assert_eq!(missing.next("result")["subtype"], "error_during_execution");
    assert_eq!(missing.exit(), Some(1));
}

#[test]
fn the_session_file_of_a_compacted_session_is_read_without_anything_unknown() {
    let home = home();
    let mut player = PlayerProcess::start(&home, &[]);
    player.prompt("think");
    let session = player.next("result")["session_id"].as_str().expect("an id").to_owned();
    player.prompt("/compact");
    assert_eq!(player.next("result")["is_error"], false);
    player.prompt("think");
    assert_eq!(player.next("result")["is_error"], false);
    assert_eq!(player.exit(), Some(0));

    let folders = std::fs::read_dir(home.path().join(".claude/projects")).expect("a directory");
    let file = folders.flatten().map(|folder| folder.path().join(format!("{session}.jsonl")));
    let file = file.into_iter().find(|file| file.exists()).expect("a session file");
    let text = std::fs::read_to_string(&file).expect("a session file");
    // Otherwise nothing was compacted, and the rest says nothing.
    assert!(text.contains(r#""subtype":"compact_boundary""#), "{text}");
    let output = Command::new(env!("CARGO_BIN_EXE_towpath"))
        .args(["inspect", "--strict"])
        .arg(&file)
        .output()
        .expect("towpath runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
}

#[test]
fn a_file_is_written_once_the_host_allows_it() {
    let home = home();
    let mut player = PlayerProcess::start(&home, &["--permission-prompt-tool", "stdio"]);
    player.prompt("permission please");
    let request = player.next("control_request");
    let file = home.path().join("towpath-demo.txt");
    assert!(!file.exists());
    let payload = json!({"behavior": "allow", "updatedInput": request["request"]["input"]});
    let response =
        json!({"subtype": "success", "request_id": request["request_id"], "response": payload});
    player.send(&json!({"type": "control_response", "response": response}));
    assert_eq!(player.next("result")["is_error"], false);
    assert_eq!(std::fs::read_to_string(file).expect("a file"), "one\ntwo\nthree\n");
    assert_eq!(player.exit(), Some(0));
}

#[test]
fn signals_end_the_player_as_they_end_the_cli() {
    let home = home();
    let mut player = PlayerProcess::start(&home, &["--include-partial-messages"]);
    player.prompt("something long");
    player.next("stream_event");
    player.signal("INT");
    assert_eq!(player.next("result")["subtype"], "error_during_execution");
    assert_eq!(player.exit(), Some(0));

    let mut player = PlayerProcess::start(&home, &["--include-partial-messages"]);
    player.prompt("something long");
    player.next("stream_event");
    player.signal("TERM");
    assert_eq!(player.exit(), Some(143));
}

#[test]
fn an_unreadable_line_ends_the_player() {
    let home = home();
    let mut child = command(home.path(), &STREAM).spawn().expect("the player starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"this is not json\n").expect("a reader");
    let output = child.wait_with_output().expect("an exit status");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("Error parsing streaming input line"), "{stderr}");
}

#[test]
fn text_and_json_output_and_the_version() {
    let home = home();
    let out = |arguments: &[&str]| {
        let mut command = command(home.path(), arguments);
        let output = command.stdin(Stdio::null()).output().expect("the player runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(out(&["--version"]), "2.1.325 (towpath play)\n");
    assert_eq!(out(&["-p", "think"]), "I have thought about it.\n");
    let one: Value =
        serde_json::from_str(&out(&["-p", "--output-format", "json", "think"])).unwrap();
    assert_eq!(one["type"], "result");
    let all = out(&["-p", "--verbose", "--output-format=json", "think"]);
    let all: Value = serde_json::from_str(&all).unwrap();
    assert_eq!(all[0]["subtype"], "init");
}

#[test]
fn faults_are_injected_on_demand() {
    let home = home();
    let start = |fault: &str| {
        let mut command = command(home.path(), &STREAM);
        command.env("TOWPATH_PLAY_FAULT", fault);
        let mut player = PlayerProcess::spawn(command);
        player.prompt("think");
        player
    };
    assert_eq!(start("die-mid-turn").exit(), Some(137));
    let mut half = start("half-line");
    assert!(half.lines.any(|line| line.is_string()), "a line that is not JSON");
    let mut big = start("big-line");
    assert!(big.next("user")["message"]["content"].as_str().expect("a text").len() >= 20_000_000);
    let mut unknown = start("unknown-event");
    unknown.next("wibble");
    unknown.next("result");
}

#[test]
fn replies_are_taken_from_a_scenario() {
    let home = home();
    let scenario = home.path().join("read.scenario");
    let text = "# A file is read\n\nfile notes.txt \"milk\"\n\
                api tool Read {\"file_path\":\"$cwd/notes.txt\"}\napi text \"It says: milk\"\n\
                > user \"what do my notes say?\"\n< result/success\neof\nexit 0\n";
    std::fs::write(&scenario, text).expect("a file");
    std::fs::write(home.path().join("notes.txt"), "milk").expect("a file");
    let path = scenario.display().to_string();
    let mut player = PlayerProcess::start(&home, &["--scenario", &path]);
    player.prompt("what do my notes say?");
    let result = player.next("user")["message"]["content"][0]["content"].clone();
    assert_eq!(result, "1\tmilk");
    assert_eq!(player.next("result")["result"], "It says: milk");
    assert_eq!(player.exit(), Some(0));
}
