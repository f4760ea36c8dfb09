//! Continuing sessions, also those that the CLI ran without Towpath.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::home::TestHome;

const ID: &str = "0f0c5d2e-58d1-4d1c-9f6c-000000000001";
const OTHER_ID: &str = "0f0c5d2e-58d1-4d1c-9f6c-000000000002";

/// Where the built-in agent keeps its session files.
fn store(home: &TestHome) -> PathBuf {
    home.data().join("demo-home/.claude/projects")
}

/// The session file of a directory.
fn transcript(home: &TestHome, directory: &Path, id: &str) -> PathBuf {
    let directory = directory.canonicalize().expect("a directory");
    let letter = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
    let folder: String = directory.display().to_string().chars().map(letter).collect();
    let folder = store(home).join(folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder.join(format!("{id}.jsonl"))
}

/// A session file that is written line by line.
struct TranscriptText {
    text: String,
    directory: PathBuf,
    last: Option<String>,
    count: u64,
}

impl TranscriptText {
    fn new(directory: &Path) -> Self {
        let directory = directory.canonicalize().expect("a directory");
        Self { text: String::new(), directory, last: None, count: 0 }
    }

    fn add(&mut self, mut line: Value) -> &mut Self {
        self.count += 1;
        let id = format!("0f0c5d2e-58d1-4d1c-9f6c-{:012}", self.count);
        line["uuid"] = id.clone().into();
        if line.get("parentUuid").is_none() {
            line["parentUuid"] = self.last.clone().into();
        }
        line["sessionId"] = ID.into();
        line["isSidechain"] = false.into();
        line["cwd"] = self.directory.display().to_string().into();
        line["timestamp"] = "2026-11-15T09:36:40.000Z".into();
        self.last = Some(id);
        writeln!(self.text, "{line}").expect("text");
        self
    }

    fn turn(&mut self, prompt: &str, reply: &str) -> &mut Self {
        let message = format!("msg_{}", self.count);
        self.add(json!({"type": "user", "message": {"role": "user", "content": prompt}}));
        self.add(json!({"type": "assistant", "message": {"id": message, "role": "assistant",
            "model": "claude-opus-5", "usage": {"input_tokens": 1000, "output_tokens": 5},
            "content": [{"type": "text", "text": reply}]}}))
    }

    fn write(&self, path: &Path) {
        fs::write(path, &self.text).expect("a file");
    }
}

fn set_age(path: &Path, seconds: u64) {
    let file = File::options().write(true).open(path).expect("a file");
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("a time");
}

fn sessions(home: &TestHome) -> Vec<Value> {
    home.json(&["sessions", "--json"]).as_array().expect("a list").clone()
}

#[test]
fn a_session_of_the_cli_is_continued_with_what_was_said_before() {
    let home = TestHome::new();
    let path = transcript(&home, &home.work(), ID);
    let mut text = TranscriptText::new(&home.work());
    text.turn("what is the capital of Norway?", "Oslo.");
    let first = text.last.clone();
    text.turn("forget this question", "Forgotten.");
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "AskUserQuestion",
        "input": {"questions": [{"question": "Which?", "options": [{"label": "A"}]}]}});
    text.add(json!({"type": "user", "parentUuid": first,
        "message": {"role": "user", "content": "and of Sweden?"}}));
    text.add(json!({"type": "assistant", "message": {"id": "m9", "role": "assistant",
        "content": [{"type": "text", "text": "Stockholm."}, call]}}));
    text.text.push_str("{\"type\":\"cost-state\",\"totalCostUSD\":5.5}\n");
    // A process that was killed leaves half a line.
    text.text.push_str("{\"type\":\"assistant\",\"mess");
    text.write(&path);

    let output = home.towpath(&["run", "--demo", "--continue", "think"]);
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stderr.contains(ID), "{output}");
    let list = sessions(&home);
    assert_eq!((list.len(), &list[0]["turns"]), (1, &1.into()), "{list:?}");
    assert_eq!(list[0]["title"], "what is the capital of Norway?");
    let shown = home.towpath(&["sessions", "show", "last", "--full"]);
    for said in ["capital of Norway", "Oslo", "of Sweden", "Stockholm", "think", "Imported 5 lines"]
    {
        assert!(shown.stdout.contains(said), "{said}: {shown}");
    }
    assert!(!shown.stdout.contains("Forgotten"), "{shown}");
    let json = home.json(&["sessions", "show", "last", "--json"]);
    let open = json["requests"].as_array().expect("a list");
    assert!(open.iter().all(|it| it["outcome"].is_string()), "{json}");
    assert!(json["usage"]["cost"].as_f64().unwrap_or(0.0) < 5.0, "{json}");
    assert!(json["usage"]["tokens"]["input"].as_u64().unwrap_or(0) < 1000, "{json}");
    // An export with its notes shows the same.
    let all = home.towpath(&["sessions", "export", "--all", "last"]);
    let file = home.file("exported.jsonl", all.stdout.as_bytes());
    let viewed = home.towpath(&["view", file.to_str().expect("a path")]);
    assert!(viewed.stdout.contains("Oslo") && viewed.stdout.contains("think"), "{viewed}");

    // The lines are the file's, byte for byte.
    let exported = home.towpath(&["sessions", "export", "--all", "last"]);
    let active = text.text.lines().filter(|line| {
        !line.contains("orget this") && !line.contains("Forgotten") && line.ends_with('}')
    });
    let active: Vec<&str> = active.collect();
    let imported: Vec<&str> = exported.stdout.lines().skip(1).take(active.len()).collect();
    assert_eq!(imported, active);
    // The agent's own output does not contain them.
    let exported = home.towpath(&["sessions", "export", "last"]);
    assert!(!exported.stdout.contains("Norway"), "{exported}");
}

#[test]
fn last_is_the_newest_session_of_this_directory() {
    let home = TestHome::new();
    let elsewhere = home.work().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    let there = elsewhere.to_str().expect("a path");
    assert_eq!(home.towpath(&["run", "--demo", "--cwd", there, "think zero"]).code, 0);
    let none = home.towpath(&["run", "--demo", "--resume", "last", "think"]);
    assert_eq!(none.code, 2, "{none}");
    assert!(none.stderr.contains("no session of the directory"), "{none}");

    assert_eq!(home.towpath(&["run", "--demo", "think one"]).code, 0);
    assert_eq!(home.towpath(&["run", "--demo", "--cwd", there, "--continue", "think two"]).code, 0);
    let own = home.towpath(&["run", "--demo", "--continue", "think more"]);
    assert_eq!(own.code, 0, "{own}");
    assert!(own.stderr.contains("think one"), "{own}");
    assert_eq!(sessions(&home).len(), 2, "none of them is new");

    let path = transcript(&home, &home.work(), ID);
    TranscriptText::new(&home.work()).turn("from a terminal", "yes").write(&path);
    set_age(&path, 3600);
    let own = home.towpath(&["run", "--demo", "--continue", "think even more"]);
    assert!(own.stderr.contains("think one"), "the older one: {own}");
    set_age(&path, 0);
    let of_cli = home.towpath(&["run", "--demo", "--continue", "think"]);
    assert!(of_cli.code == 0 && of_cli.stderr.contains(ID), "{of_cli}");
    assert_eq!(sessions(&home).len(), 3);
}

#[test]
fn an_id_finds_a_session_of_the_cli_in_any_project() {
    let home = TestHome::new();
    let elsewhere = home.work().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    for id in [ID, OTHER_ID] {
        let path = transcript(&home, &elsewhere, id);
        TranscriptText::new(&elsewhere).turn(&format!("prompt of {id}"), "yes").write(&path);
    }
    let ambiguous = home.towpath(&["run", "--demo", "--resume", &ID[..8], "think"]);
    assert!(ambiguous.code == 2 && ambiguous.stderr.contains("2 sessions"), "{ambiguous}");
    let found = home.towpath(&["run", "--demo", "--resume", ID, "think"]);
    assert_eq!(found.code, 0, "{found}");
    let list = sessions(&home);
    let directory = elsewhere.canonicalize().expect("a directory");
    assert_eq!(list[0]["directory"], directory.display().to_string());
    // The second time it is a session of Towpath's.
    assert_eq!(home.towpath(&["run", "--demo", "--resume", ID, "think"]).code, 0);
    assert_eq!(sessions(&home).len(), 1);
    fs::remove_dir(&elsewhere).expect("an empty directory");
    let gone = home.towpath(&["run", "--demo", "--resume", OTHER_ID, "think"]);
    assert!(gone.code == 2 && gone.stderr.contains("does not exist any more"), "{gone}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_that_is_open_in_a_terminal_can_only_be_copied() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TestHome::new();
    let script = home.file("claude", b"#!/bin/sh\nwhile true; do sleep 1; done\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).expect("a script");
    let mut program = home.program(script.to_str().expect("a path"));
    let mut terminal = program.stdin(Stdio::null()).spawn().expect("the script starts");
    let path = transcript(&home, &home.work(), ID);
    home.wait_until("the script runs", |_| {
        let command = fs::read(format!("/proc/{}/cmdline", terminal.id())).unwrap_or_default();
        command.windows(7).any(|part| part == b"/claude")
    });
    TranscriptText::new(&home.work()).turn("from a terminal", "yes").write(&path);

    let refused = home.towpath(&["run", "--demo", "--continue", "think"]);
    let copied = home.towpath(&["run", "--demo", "--continue", "--fork", "think"]);
    terminal.kill().and_then(|()| terminal.wait()).expect("it ends");
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.stderr.contains("in another terminal"), "{refused}");
    assert!(refused.stderr.contains("--fork"), "{refused}");
    assert_eq!(copied.code, 0, "{copied}");
    let shown = home.towpath(&["sessions", "show", "last", "--full"]);
    assert!(shown.stdout.contains("from a terminal"), "{shown}");
    assert_eq!(sessions(&home).len(), 1);
}

#[test]
fn a_killed_import_of_a_large_session_is_not_seen_and_can_be_repeated() {
    const TURNS: usize = 40;
    let home = TestHome::new();
    let path = transcript(&home, &home.work(), ID);
    let mut text = TranscriptText::new(&home.work());
    for number in 0..TURNS {
        text.turn(&format!("question {number}"), &format!("{number} {}", "x".repeat(1 << 20)));
    }
    text.write(&path);
    let mut run = home.command(&["run", "--demo", "--resume", ID, "think"]);
    let run = run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = run.spawn().expect("the binary starts");
    home.wait_until("a part is imported", |home| {
        let log = fs::metadata(home.data().join("journal.db-wal"));
        log.is_ok_and(|log| log.len() > 4 << 20) || run_ended(home)
    });
    run.kill().and_then(|()| run.wait()).expect("it is killed");
    let list = sessions(&home);
    assert!(list.is_empty() || list[0]["entries"].as_u64() > Some(2 * TURNS as u64), "{list:?}");
    let output = home.towpath(&["run", "--demo", "--resume", ID, "think"]);
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(sessions(&home).len(), 1);
    let exported = home.towpath(&["sessions", "export", "--all", "last"]);
    let imported: Vec<&str> = exported.stdout.lines().skip(1).take(2 * TURNS).collect();
    assert!(imported == text.text.lines().collect::<Vec<_>>());
}

fn run_ended(home: &TestHome) -> bool {
    !sessions(home).is_empty()
}

#[test]
fn sessions_of_both_kinds_are_listed_together() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "think"]).code, 0);
    let path = transcript(&home, &home.work(), ID);
    TranscriptText::new(&home.work()).turn("asked in a terminal", "yes").write(&path);
    set_age(&path, 3600);
    assert_eq!(sessions(&home).len(), 1, "only Towpath's without `--all`");
    // The list without an agent looks where the real CLI keeps its files.
    let real = home.work().parent().expect("a home").join(".claude");
    fs::create_dir(&real).expect("a directory");
    fs::rename(store(&home), real.join("projects")).expect("a move");
    for _ in 0..2 {
        let list = home.json(&["sessions", "list", "--all", "--json"]);
        let list = list.as_array().expect("a list");
        assert_eq!(list.len(), 2, "{list:?}");
        let origins: Vec<_> = list.iter().map(|it| it["origin"].as_str()).collect();
        assert_eq!(origins, [Some("towpath"), Some("cli")]);
        assert_eq!(list[1]["title"], "asked in a terminal");
        assert_eq!((&list[1]["messages"], &list[1]["id"]), (&2.into(), &ID.into()));
    }
    let table = home.towpath(&["sessions", "--all"]);
    assert!(
        table.stdout.contains("asked in a terminal") && table.stdout.contains("think"),
        "{table}"
    );
}
