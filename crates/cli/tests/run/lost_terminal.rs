//! `towpath run` whose terminal goes away, or whose output is not read any more.
//!
//! The terminal of these tests is not the controlling one, so the program gets no SIGHUP when it is
//! closed, like one that was started with `nohup` or outlived its `tmux` server.

use std::io::Read as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::home::{Output, TestHome};
use crate::screen::{OrphanedProgram, Terminal};

const CTRL_D: &str = "\x04";

const SLOW: &str = "# Slow words\n\napi repeat \"step \" 400 slow 10\n> user \"go slowly\"\n\
                    < result/success\n";

/// The arguments of a turn whose answer comes from a scenario.
fn run_with_scenario(home: &TestHome, scenario: &str, prompt: &str) -> [String; 5] {
    let path = home.file("this.scenario", scenario.as_bytes()).display().to_string();
    let set = format!("TOWPATH_PLAY_SCENARIO={path}");
    ["run".into(), "--demo".into(), "--env".into(), set, prompt.into()]
}

fn start_slow_turn(home: &TestHome) -> Terminal {
    let arguments = run_with_scenario(home, SLOW, "go slowly");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut terminal = Terminal::start(home, &arguments);
    terminal.wait_for("step step");
    terminal
}

/// Waits for the program to exit, and checks that it did not spin until then.
#[expect(clippy::print_stdout, reason = "it says what it could not measure")]
fn expect_quiet_end(program: OrphanedProgram) -> i32 {
    let (code, used) = program.end();
    match used {
        Some(used) => assert!(used < Duration::from_secs(1), "it used {used:?} to leave"),
        None => println!("skipped: the processor time is unknown without /proc"),
    }
    code
}

fn status(home: &TestHome) -> String {
    home.json(&["sessions", "--json"])[0]["status"].as_str().expect("a status").to_owned()
}

/// Resumes the session in another terminal and has it run one more turn.
fn expect_resumable(home: &TestHome) {
    let mut terminal = Terminal::start(home, &["run", "--demo", "--resume", "last"]);
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press("think\r");
    terminal.wait_for("❯ think");
    terminal.wait_for("✔");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn a_run_at_the_prompt_leaves_when_its_terminal_is_gone() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "think"]);
    terminal.wait_for("I have thought about it.");
    terminal.wait_for("? help · Ctrl-D exits");
    assert_eq!(expect_quiet_end(terminal.close()), 0);
    assert_eq!(status(&home), "idle");
    expect_resumable(&home);
}

#[test]
fn a_run_without_a_turn_leaves_when_its_terminal_is_gone() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo"]);
    terminal.wait_for("? help · Ctrl-D exits");
    // The start of a paste whose end will never come.
    terminal.press("draft\x1b[200~half a paste");
    terminal.wait_for("❯ draft");
    assert_eq!(expect_quiet_end(terminal.close()), 0);
    expect_resumable(&home);
}

#[test]
fn the_agent_finishes_its_turn_when_the_terminal_is_gone_while_it_writes() {
    let home = TestHome::new();
    let terminal = start_slow_turn(&home);
    expect_quiet_end(terminal.close());
    home.wait_until("the turn is over", |home| status(home) != "running");
    let export = home.towpath(&["sessions", "export", "last"]).stdout;
    assert!(export.contains("step ".repeat(400).trim_end()), "no word is missing");
    let shown = home.json(&["sessions", "show", "last", "--json"]);
    assert_eq!(shown["prompts"][0]["state"], "done");
}

#[test]
fn a_request_stays_open_when_the_terminal_is_gone() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("? Allow Write towpath-demo.txt?");
    terminal.wait_for("y yes");
    expect_quiet_end(terminal.close());
    assert_eq!(status(&home), "waiting");
    assert!(!home.work().join("towpath-demo.txt").exists());
    // The run that resumes it loses its terminal too.
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--resume", "last"]);
    terminal.wait_for("y yes");
    terminal.press("d");
    terminal.wait_for("Enter sends, Esc goes back");
    expect_quiet_end(terminal.close());
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--once", "--resume", "last"]);
    terminal.wait_for("y yes");
    terminal.press("y");
    terminal.wait_for("That is what it looks like.");
    assert_eq!(terminal.end().0, 0);
    assert!(home.work().join("towpath-demo.txt").exists());
}

#[test]
fn sigterm_ends_a_run_whose_terminal_is_gone_or_which_is_reading_a_paste() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("y yes");
    let program = terminal.close();
    program.terminate();
    expect_quiet_end(program);

    let mut terminal = Terminal::start(&home, &["run", "--demo", "--resume", "last"]);
    terminal.wait_for("y yes");
    terminal.press("\x1b[200~half a paste");
    terminal.terminate();
    terminal.end();
}

#[test]
fn sigterm_ends_a_run_whose_terminal_reads_nothing() {
    let home = TestHome::new();
    let (program, terminal) = start_slow_turn(&home).suspend();
    // The terminal's buffers fill up, and then nothing can be drawn any more.
    home.wait_until("the turn is over", |home| status(home) != "running");
    program.terminate();
    expect_quiet_end(program);
    drop(terminal);
    expect_resumable(&home);
}

#[test]
fn sigterm_ends_a_run_whose_pipe_is_full() {
    let home = TestHome::new();
    let huge = "# A huge answer\n\napi repeat \"word \" 100000\n> user \"x\"\n< result/success\n";
    let arguments = run_with_scenario(&home, huge, "x");
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut command = home.command(&arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("it starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    stdout.read_exact(&mut [0; 9]).expect("the first words");
    home.wait_until("the turn is over", |home| status(home) != "running");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it runs");
    child.wait().expect("an exit status");
    drop(stdout);
}

#[test]
fn a_run_whose_reader_has_gone_leaves_the_turn_to_the_agent() {
    for further in [&[][..], &["--json"]] {
        let home = TestHome::new();
        let arguments = run_with_scenario(&home, SLOW, "go slowly");
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = home.command(&[&arguments, further].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let mut stdout = child.stdout.take().expect("a pipe");
        stdout.read_exact(&mut [0; 9]).expect("the first words");
        drop(stdout);
        assert_eq!(child.wait().expect("an exit status").code(), Some(0), "{further:?}");
        home.wait_until("the turn is over", |home| status(home) != "running");
        let shown = home.json(&["sessions", "show", "last", "--json"]);
        assert_eq!(shown["prompts"][0]["state"], "done", "{further:?}");
    }
}

#[test]
fn a_run_whose_stderr_has_no_reader_prints_the_whole_answer() {
    let home = TestHome::new();
    let (reader, stderr) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = home.command(&["run", "--demo", "permission please"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let output = command.spawn().and_then(std::process::Child::wait_with_output);
    let output = output.expect("it runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains("That is what it looks like."), "{stdout}");
}

#[test]
fn closed_standard_streams_are_no_error() {
    let home = TestHome::new();
    let run = format!("exec {} run --demo think <&- >&- 2>&-", env!("CARGO_BIN_EXE_towpath"));
    let mut shell = home.program("sh");
    let output = Output::of(shell.args(["-c", &run]), "");
    assert_eq!(output.code, 0, "{output}");
    let shown = home.json(&["sessions", "show", "last", "--json"]);
    assert_eq!(shown["prompts"][0]["state"], "done");
}
