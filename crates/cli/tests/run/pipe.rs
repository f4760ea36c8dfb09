//! `towpath run` without a terminal: output, exit codes, and what is stored.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use crate::home::{Output, TestHome};
use serde_json::Value;

const READING: &str = "# A file is read\n\napi text \"Let me look.\" tool Read {\"file_path\":\"$cwd/notes.txt\"}\n\
                       api text \"It says: **milk**\"\n> user \"what do my notes say?\"\n< result/success\n";

/// Runs one turn whose replies come from a scenario.
fn with_scenario(home: &TestHome, scenario: &str, arguments: &[&str]) -> Output {
    let path = home.file("this.scenario", scenario.as_bytes()).display().to_string();
    let mut command = home.command(&[&["run", "--demo"], arguments].concat());
    Output::of(command.env("TOWPATH_PLAY_SCENARIO", path), "")
}

fn shown(home: &TestHome) -> Value {
    home.json(&["sessions", "show", "last", "--json"])
}

#[test]
fn the_agents_text_goes_to_stdout_and_everything_else_to_stderr() {
    let home = TestHome::new();
    home.file("notes.txt", b"milk");
    let output = with_scenario(&home, READING, &["what do my notes say?"]);
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(output.stdout, "Let me look.\n\nIt says: **milk**\n");
    assert!(output.stderr.starts_with("✔ Read notes.txt"), "{output}");
    assert!(output.stderr.contains("tokens"), "{output}");
    assert!(!output.stderr.contains('\x1b'), "no colours in a pipe: {output}");
}

#[test]
fn requests_are_denied_and_the_agent_learns_why() {
    let home = TestHome::new();
    let output = home.towpath(&["run", "--demo", "permission please"]);
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stderr.contains("Denied by towpath"), "{output}");
    assert!(!home.work().join("towpath-demo.txt").exists());
    let lines = home.towpath(&["sessions", "export", "last"]).stdout;
    let told =
        |line: &str| line.contains("tool_result") && line.contains("no user is present to answer");
    assert!(lines.lines().any(told), "{lines}");
    assert_eq!(shown(&home)["requests"][0]["outcome"], "denied");
}

#[test]
fn calls_that_the_mode_allows_are_not_requested() {
    let home = TestHome::new();
    let output = home.towpath(&["run", "--demo", "--mode", "acceptEdits", "permission please"]);
    assert_eq!(output.code, 0, "{output}");
    assert!(home.work().join("towpath-demo.txt").exists());
    assert_eq!(shown(&home)["requests"], Value::Array(Vec::new()));
}

#[test]
fn piped_text_is_the_prompt_or_is_appended_to_it() {
    let home = TestHome::new();
    assert_eq!(Output::of(&mut home.command(&["run", "--demo"]), "think\n").code, 0);
    assert_eq!(shown(&home)["prompts"][0]["text"], "think");
    assert_eq!(Output::of(&mut home.command(&["run", "--demo", "think:"]), "a\nb\n").code, 0);
    assert_eq!(shown(&home)["prompts"][0]["text"], "think:\n\na\nb");
}

#[test]
fn a_dash_is_the_text_on_stdin() {
    let home = TestHome::new();
    assert_eq!(Output::of(&mut home.command(&["run", "--demo", "-"]), "think\n").code, 0);
    assert_eq!(shown(&home)["prompts"][0]["text"], "think");
}

#[test]
fn a_prompt_over_64_mib_is_refused_with_the_limit() {
    let home = TestHome::new();
    let huge = home.file("huge.txt", "0123456789abcde\n".repeat(65 << 16).as_bytes());
    let endless = || std::fs::File::open("/dev/zero").expect("a device");
    for (arguments, stdin) in [
        (&["run", "--demo", "-"][..], std::fs::File::open(&huge).expect("a file")),
        (&["run", "--demo", "--json", "look at this"], std::fs::File::open(&huge).expect("a file")),
        (&["run", "--demo"], endless()),
    ] {
        let output = home.command(arguments).stdin(stdin).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains("longer than 64 MiB"), "{arguments:?}: {stderr}");
        assert!(stderr.contains("name the file in the prompt"), "{arguments:?}: {stderr}");
    }
    assert_eq!(home.json(&["sessions", "--json"]), serde_json::json!([]), "no session is created");
}

#[test]
fn json_output_is_unchanged_and_the_export_has_everything_that_is_stored() {
    let home = TestHome::new();
    home.file("notes.txt", b"milk");
    let output = with_scenario(&home, READING, &["--json", "what do my notes say?"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    let printed: Vec<&str> = output.stdout.lines().collect();
    assert!(printed.iter().any(|line| line.contains("stream_event")));
    assert!(!printed.iter().any(|line| line.contains(r#""type":"towpath""#)));
    let export = home.towpath(&["sessions", "export", "last"]).stdout;
    let exported: Vec<&str> = export.lines().collect();
    let is_delta = |line: &str| line.contains(r#""type":"content_block_delta""#);
    assert!(
        exported.iter().all(|line| !is_delta(line)),
        "deltas of finished messages are not kept"
    );
    let lasts = |line: &&str| !line.contains(r#""type":"stream_event""#);
    let lasting: Vec<&str> = printed.iter().copied().filter(lasts).collect();
    // An agent that is stopped may print more lines after the turn.
    let exported: Vec<&str> = exported.into_iter().filter(lasts).take(lasting.len()).collect();
    assert_eq!(exported, lasting, "byte for byte");
    let all = home.towpath(&["sessions", "export", "last", "--all"]).stdout;
    assert!(all.contains(r#"{"type":"towpath","note":"turn_ended""#), "{all}");
}

#[test]
fn a_turn_that_fails_is_exit_code_1() {
    let home = TestHome::new();
    let failing = "# It fails\n\napi error 400 invalid_request_error \"no such thing\"\n\
                   > user \"x\"\n< result\n";
    let output = with_scenario(&home, failing, &["x"]);
    assert_eq!(output.code, 1, "{output}");
    assert!(output.stderr.contains("no such thing"), "{output}");
    assert_eq!(shown(&home)["prompts"][0]["state"], "done");
}

#[test]
fn a_run_that_cannot_start_is_exit_code_2_with_a_hint() {
    let home = TestHome::new();
    let text = home.file("notes.txt", b"milk").display().to_string();
    for (arguments, error, hint) in [
        (&["run", "x"][..], "agent `no-such-agent` not found", "`--demo`"),
        (&["run", "--demo"], "no prompt was given", "give a prompt"),
        (&["run", "--demo", "--resume", "last", "x"], "there are no sessions yet", "towpath run"),
        (
            &["run", "--demo", "--resume", "abc", "x"],
            "no session matches `abc`",
            "towpath sessions",
        ),
        (&["run", "--demo", "--image", &text, "x"], "cannot attach", "convert it to PNG"),
        (&["run", "--demo", "--cwd", "/no/where", "x"], "the session cannot be opened", "--cwd"),
        (&["run", "--claude", "/bin/false", "x"], "exited with code 1", "towpath doctor"),
    ] {
        let output = home.towpath(arguments);
        assert_eq!(output.code, 2, "{arguments:?}: {output}");
        assert!(output.stderr.contains(error), "{arguments:?}: {output}");
        assert!(output.stderr.contains("hint") && output.stderr.contains(hint), "{output}");
    }
}

#[test]
fn a_session_is_resumed_by_any_of_its_names_and_forked() {
    let home = TestHome::new();
    assert_eq!(home.towpath(&["run", "--demo", "think"]).code, 0);
    let id = shown(&home)["session"]["id"].as_str().expect("an id").to_owned();
    for name in ["last", &id[..6], &id] {
        assert_eq!(home.towpath(&["run", "--demo", "--resume", name, "think"]).code, 0, "{name}");
    }
    let session = shown(&home)["session"].clone();
    assert_eq!((&session["id"], &session["turns"]), (&Value::from(id.as_str()), &Value::from(4)));

    let output = home.towpath(&["run", "--demo", "--resume", &id, "--fork", "think more"]);
    assert_eq!(output.code, 0, "{output}");
    let listed = home.json(&["sessions", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(2));
    assert_ne!(listed[0]["id"], *id);
    let branch = listed[0]["agent_ids"].as_array().expect("ids");
    assert!(branch.last().is_some_and(|last| *last != *id), "it has an id of its own: {branch:?}");
    // The id still names the original.
    assert_eq!(home.towpath(&["run", "--demo", "--resume", &id[..6], "think"]).code, 0);
    assert_eq!(shown(&home)["session"]["id"], *id);
}

#[test]
fn a_conversation_of_the_cli_is_resumed() {
    let home = TestHome::new();
    let id = "0b7ab7a8-7f0e-4c43-a4b5-59d0f4e4bc4b";
    // The demo does not read the conversations of the user.
    let mut play = home.command(&["play", "-p", "think", "--session-id", id]);
    let output = Output::of(play.env("HOME", home.data().join("demo-home")), "");
    assert_eq!(output.code, 0, "{output}");
    let output = home.towpath(&["run", "--demo", "--resume", id, "think"]);
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(shown(&home)["session"]["agent_ids"], serde_json::json!([id]));
    // The journal has it now.
    assert_eq!(home.towpath(&["run", "--demo", "--resume", &id[..8], "think"]).code, 0);
    assert_eq!(home.json(&["sessions", "--json"]).as_array().map(Vec::len), Some(1));
}

#[test]
fn a_second_run_joins_the_session_of_the_first() {
    let home = TestHome::new();
    let mut child = begin_slow_turn(&home);
    let output = home.towpath(&["run", "--demo", "--resume", "last", "think"]);
    assert_eq!(output.code, 0, "{output}");
    child.wait().expect("an exit status");
    let sessions = home.json(&["sessions", "--json"]);
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
    let export = home.towpath(&["sessions", "export", "last"]).stdout;
    let results = export.lines().filter(|line| line.contains(r#""type":"result""#));
    assert_eq!(results.count(), 2, "{export}");
}

#[test]
fn agent_options_are_stored_and_can_be_changed() {
    let home = TestHome::new();
    let first = ["run", "--demo", "--model", "haiku", "--max-turns", "7", "think"];
    assert_eq!(home.towpath(&first).code, 0);
    let before = shown(&home)["model"].clone();
    assert!(before.as_str().is_some_and(|it| it.contains("haiku")), "{before}");
    let again = ["run", "--demo", "--resume", "last", "--model", "sonnet", "think"];
    assert_eq!(home.towpath(&again).code, 0);
    let after = shown(&home)["model"].clone();
    assert!(after.as_str().is_some_and(|it| it.contains("sonnet")), "{after}");
}

#[test]
fn an_image_is_attached_to_the_prompt() {
    let home = TestHome::new();
    // The smallest valid GIF.
    let gif = b"GIF89a\x01\x00\x01\x00\x00\x00\x00;";
    let path = home.file("a cat.gif", gif).display().to_string();
    let output = home.towpath(&["run", "--demo", "--image", &path, "think about it"]);
    assert_eq!(output.code, 0, "{output}");
    let lines = home.towpath(&["sessions", "export", "last"]).stdout;
    let replayed = |line: &str| line.contains("image/gif") && line.contains("think about it");
    assert!(lines.lines().any(replayed), "{lines}");
}

const SLOW: &str = "# Slow words\n\napi repeat \"step \" 300 slow 20\n> user \"go slowly\"\n\
                    < result/success\n";

/// Starts a slow turn and waits for its first output.
fn begin_slow_turn(home: &TestHome) -> std::process::Child {
    let path = home.file("slow.scenario", SLOW.as_bytes());
    let mut command = home.command(&["run", "--demo", "go slowly"]);
    command.env("TOWPATH_PLAY_SCENARIO", path).stdin(Stdio::null());
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut first = [0; 9];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("the first words");
    assert_eq!(&first, b"step step");
    child
}

#[test]
fn the_agent_of_a_killed_run_finishes_and_the_next_command_reads_the_rest() {
    let home = TestHome::new();
    let mut child = begin_slow_turn(&home);
    child.kill().expect("it runs");
    child.wait().expect("an exit status");
    assert_eq!(home.json(&["sessions", "--json"])[0]["status"], "running");
    home.wait_until("the agent has finished and stopped", |home| {
        home.json(&["sessions", "--json"])[0]["status"] == "dead"
    });
    let export = home.towpath(&["sessions", "export", "last"]).stdout;
    let results = export.lines().filter(|line| line.contains(r#""type":"result""#));
    assert_eq!(results.count(), 1, "{export}");
    let whole = "step ".repeat(300);
    assert!(export.contains(whole.trim_end()), "no word is missing");
    let shown = shown(&home);
    assert_eq!(shown["prompts"][0]["state"], "done");
    assert_eq!(shown["session"]["turns"], 1);
    // The session can be resumed.
    assert_eq!(home.towpath(&["run", "--demo", "--resume", "last", "think"]).code, 0);
}

#[test]
fn an_interrupt_stops_the_turn_and_is_exit_code_1() {
    let home = TestHome::new();
    let child = begin_slow_turn(&home);
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("an exit status");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("Interrupted"), "{stderr}");
    assert_eq!(home.json(&["sessions", "--json"])[0]["status"], "idle");
}

#[test]
fn a_terminated_run_leaves_the_agent_to_finish_its_turn() {
    let home = TestHome::new();
    let mut child = begin_slow_turn(&home);
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
    let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
    let said = stderr.lines().map_while(Result::ok).collect::<Vec<_>>().join("\n");
    child.wait().expect("an exit status");
    assert!(said.contains("the agent finishes its turn alone"), "{said}");
    // A resumed run sees the end of the turn.
    let rest = home.towpath(&["run", "--demo", "--resume", "last"]);
    assert_eq!(rest.code, 0, "{rest}");
    assert_eq!(shown(&home)["prompts"][0]["state"], "done");
}
