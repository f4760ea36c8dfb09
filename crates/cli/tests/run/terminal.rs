//! `towpath run` at a terminal: screen contents and keys.

use crate::home::TestHome;
use crate::screen::Terminal;

const ENTER: &str = "\r";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const SHIFT_TAB: &str = "\x1b[Z";

/// The first request of the last session.
fn first_request(home: &TestHome) -> serde_json::Value {
    home.json(&["sessions", "show", "last", "--json"])["requests"][0].clone()
}

#[test]
fn a_call_is_allowed_with_a_key_and_the_next_prompt_is_written_below() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("Now I will write a file. This needs your permission.");
    terminal.wait_for("? Allow Write towpath-demo.txt?");
    terminal.wait_for("y yes");
    assert!(!home.work().join("towpath-demo.txt").exists());
    terminal.press("y");
    terminal.wait_for("That is what it looks like.");
    terminal.wait_for("? help");
    assert!(home.work().join("towpath-demo.txt").exists());
    terminal.press("please think\\\rabout it");
    terminal.wait_for("about it");
    terminal.press(ENTER);
    terminal.wait_for("I have thought about it.");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    assert!(seen.contains("continue with"), "{seen}");
    let shown = home.json(&["sessions", "show", "last", "--json"]);
    assert_eq!(shown["prompts"][1]["text"], "please think\nabout it");
    assert_eq!(shown["requests"][0]["by"]["name"], "ann");
    assert_eq!(shown["requests"][0]["by"]["via"], "terminal");
    assert_eq!(shown["session"]["status"], "idle");
}

#[test]
fn a_key_pressed_twice_does_not_answer_two_requests() {
    let home = TestHome::new();
    let two = "# Two files\n\napi tool Bash {\"command\":\"touch one\"}\n\
               api tool Bash {\"command\":\"touch two\"}\napi text \"Two files.\"\n\
               > user \"x\"\n< result/success\n";
    let scenario = home.file("two.scenario", two.as_bytes()).display().to_string();
    let set = format!("TOWPATH_PLAY_SCENARIO={scenario}");
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--once", "--env", &set, "x"]);
    terminal.wait_for("? Allow Run touch one?");
    terminal.wait_for("y yes");
    terminal.press("yy");
    terminal.wait_for("? Allow Run touch two?");
    terminal.press("y");
    terminal.wait_for("y yes");
    assert!(home.work().join("one").exists() && !home.work().join("two").exists());
    terminal.press("n");
    terminal.wait_for("Two files.");
    assert_eq!(terminal.end().0, 0);
    assert!(!home.work().join("two").exists());
}

#[test]
fn a_denial_with_a_reason_reaches_the_agent() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--once", "permission please"]);
    terminal.wait_for("no, with a reason…");
    terminal.press("d");
    terminal.wait_for("Enter sends, Esc goes back");
    terminal.press("not on a Sunday");
    terminal.wait_for("not on a Sunday");
    terminal.press(ENTER);
    terminal.wait_for("That is what it looks like.");
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    assert_eq!(first_request(&home)["message"], "not on a Sunday");
    let lines = home.towpath(&["sessions", "export", "last"]).stdout;
    assert!(lines.lines().any(|line| line.contains("tool_result") && line.contains("Sunday")));
}

#[test]
fn always_means_that_the_next_call_is_not_requested() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("a always…");
    terminal.press("a");
    terminal.wait_for("2  always: Edit any file in");
    terminal.press("2");
    terminal.wait_for("That is what it looks like.");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press("permission again\r");
    terminal.wait_for("❯ permission again");
    terminal.wait_for("That is what it looks like.");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, 0);
    let requests = home.json(&["sessions", "show", "last", "--json"])["requests"].clone();
    assert_eq!(requests[0]["outcome"], "allowed_and_remembered");
    assert_eq!(requests[1]["outcome"], "allowed");
    assert_eq!(requests[1]["by"]["via"], "rule");
}

#[test]
fn a_command_that_does_not_fit_the_screen_is_allowed_only_after_it_was_shown() {
    let home = TestHome::new();
    let command = format!("touch marker; true {}", "x".repeat(5000));
    let long = format!(
        "# A long command\n\napi tool Bash {{\"command\":\"{command}\"}}\napi text \"Done.\"\n\
         > user \"x\"\n< result/success\n"
    );
    let scenario = home.file("long.scenario", long.as_bytes()).display().to_string();
    let set = format!("TOWPATH_PLAY_SCENARIO={scenario}");
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--once", "--env", &set, "x"]);
    terminal.wait_for("press v to show everything");
    terminal.wait_for("v show all (required before you can allow)");
    terminal.press("ya");
    terminal.press("v");
    terminal.wait_for("Always would allow: Run exactly this command");
    terminal.wait_for("y yes");
    assert!(!home.work().join("marker").exists());
    terminal.press("y");
    terminal.wait_for("Done.");
    assert_eq!(terminal.end().0, 0);
    assert!(home.work().join("marker").exists());
}

#[test]
fn questions_are_answered_with_digits_and_text() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--once", "a question"]);
    terminal.wait_for("1 of 2  Which database should I use?");
    terminal.wait_for("1–9 choose");
    terminal.press("0");
    terminal.wait_for("Enter sends");
    terminal.press("sideways\r");
    terminal.wait_for("2 of 2  What else should I add?");
    terminal.press("13");
    terminal.wait_for("☑ Logging");
    terminal.press(ENTER);
    terminal.wait_for("That is what it looks like.");
    assert_eq!(terminal.end().0, 0);
    let lines = home.towpath(&["sessions", "export", "last"]).stdout;
    let told = |words| lines.lines().any(|it| it.contains("tool_result") && it.contains(words));
    assert!(told("sideways") && told("Tests, Logging"), "{lines}");
}

#[test]
fn a_plan_is_shown_and_approved() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--once", "make a plan"]);
    terminal.wait_for("2. Write the queries");
    terminal.wait_for("? Approve this plan?");
    terminal.wait_for("a approve, then accept edits");
    terminal.press("a");
    terminal.wait_for("That is what it looks like.");
    assert_eq!(terminal.end().0, 0);
    let request = first_request(&home);
    assert_eq!((&request["kind"], &request["outcome"]), (&"plan".into(), &"allowed".into()));
}

#[test]
fn prompts_are_queued_while_the_agent_works_and_can_be_taken_back() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("? Allow Write");
    terminal.press("\t");
    terminal.wait_for("Tab to answer");
    terminal.press(SHIFT_TAB);
    terminal.wait_for("● Queue");
    terminal.press("first think\r");
    terminal.wait_for("⋯ queued: first think");
    terminal.press("second think\r");
    terminal.wait_for("⋯ queued: second think");
    terminal.press("\x1b[A");
    terminal.wait_for("❯ second think");
    terminal.press("\x15");
    terminal.wait_for("Tab to answer");
    terminal.press("\t");
    terminal.wait_for("y yes");
    terminal.press("y");
    terminal.wait_for("❯ first think");
    terminal.wait_for("I have thought about it.");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, 0);
    let prompts = home.json(&["sessions", "show", "last", "--json"])["prompts"].clone();
    let states: Vec<_> = prompts.as_array().unwrap().iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["done", "done", "cancelled"]);
}

#[test]
fn text_after_an_angle_bracket_joins_the_running_turn() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("? Allow Write");
    terminal.press("\t");
    terminal.wait_for("Tab to answer");
    terminal.press("> and hurry\r");
    terminal.wait_for("Tab to answer");
    terminal.press("\t");
    terminal.wait_for("y yes");
    terminal.press("y");
    terminal.wait_for("❯ and hurry");
    terminal.wait_for("✔");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, 0);
    let shown = home.json(&["sessions", "show", "last", "--json"]);
    assert_eq!(shown["prompts"][1]["delivery"], "steer");
    assert_eq!(shown["prompts"][1]["text"], "and hurry");
    assert_eq!(shown["prompts"][1]["state"], "done");
    assert_eq!(shown["session"]["turns"], 1, "no turn of its own");
}

#[test]
fn a_key_that_was_meant_for_the_editor_answers_nothing() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo"]);
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press("permission please\r");
    terminal.press("yes, and by the way");
    terminal.wait_for("? Allow Write");
    terminal.wait_for("Tab to answer");
    terminal.wait_for("❯ yes, and by the way");
    assert!(!home.work().join("towpath-demo.txt").exists());
    terminal.press("\t");
    terminal.wait_for("n no");
    terminal.press("n");
    terminal.wait_for("That is what it looks like.");
    terminal.wait_for("✔");
    terminal.press(CTRL_C);
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    terminal.end();
    assert_eq!(first_request(&home)["outcome"], "denied");
}

#[test]
fn ctrl_c_stops_the_turn_and_twice_leaves_the_agent_to_finish_it() {
    let home = TestHome::new();
    let scenario = home.file("slow.scenario", SLOW.as_bytes()).display().to_string();
    let set = format!("TOWPATH_PLAY_SCENARIO={scenario}");
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--env", &set, "go slowly"]);
    terminal.wait_for("step step");
    terminal.press(CTRL_C);
    terminal.wait_for("press Ctrl-C again to exit");
    terminal.wait_for("Interrupted");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press("?");
    terminal.wait_for("send now: add the text to the running turn");
    terminal.press("go on slowly\r");
    terminal.wait_for("step step");
    terminal.press(CTRL_C);
    terminal.press(CTRL_C);
    let (code, seen) = terminal.end();
    assert!(seen.contains("finishes its turn alone") || seen.contains("continue with"), "{seen}");
    assert_eq!(code, 1, "the last turn that ended was interrupted");
    home.wait_until("the turn is over", |home| {
        home.json(&["sessions", "--json"])[0]["status"] != "running"
    });
}

const SLOW: &str = "# Slow words\n\napi repeat \"step \" 400 slow 20\napi repeat \"step \" 40 slow 5\n\
                    > user \"go slowly\"\n< result/success\n";

#[test]
fn listing_sessions_starts_no_agent_for_queued_prompts() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("? Allow Write");
    terminal.press("\t");
    terminal.wait_for("Tab to answer");
    terminal.press(SHIFT_TAB);
    terminal.wait_for("● Queue");
    terminal.press("think\r");
    terminal.wait_for("⋯ queued: think");
    terminal.kill();
    let id = home.json(&["sessions", "--json"])[0]["id"].as_str().expect("an id").to_owned();
    // The shim is killed too, so that only files are left.
    let register = home.data().join("live").join(&id).join("shim.json");
    let register = std::fs::read_to_string(register).expect("a shim's register");
    let register: serde_json::Value = serde_json::from_str(&register).expect("JSON");
    let shim = i32::try_from(register["shim"].as_i64().expect("a process")).expect("an id");
    let shim = rustix::process::Pid::from_raw(shim).expect("an id");
    rustix::process::kill_process(shim, rustix::process::Signal::KILL).expect("it runs");

    home.wait_until("the death is recorded", |home| {
        home.json(&["sessions", "--json"])[0]["status"] == "dead"
    });
    let shown = home.json(&["sessions", "show", "last", "--json"]);
    assert_eq!(shown["prompts"][1]["state"], "queued");
    assert_eq!(shown["requests"][0]["outcome"], "withdrawn");
    let turns = shown["session"]["turns"].clone();
    assert_eq!(home.json(&["sessions", "--json"])[0]["turns"], turns);

    // Opening the session continues it.
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--resume", "last"]);
    terminal.wait_for("❯ think");
    terminal.wait_for("✔");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, 0);
    let shown = home.json(&["sessions", "show", "last", "--json"]);
    assert_eq!(shown["prompts"][1]["state"], "done");
}

#[test]
fn a_request_that_a_pipe_run_left_open_is_answered_at_a_terminal() {
    let home = TestHome::new();
    let mut command = home.command(&["run", "--demo", "--ask", "wait", "permission please"]);
    let silent = std::process::Stdio::null;
    let child = command.stdin(silent()).stdout(silent()).stderr(silent()).spawn();
    let mut child = child.expect("it starts");
    home.wait_until("it asks", |home| home.json(&["sessions", "--json"])[0]["status"] == "waiting");
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
    child.wait().expect("an exit status");
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--once", "--resume", "last"]);
    terminal.wait_for("? Allow Write towpath-demo.txt?");
    terminal.wait_for("y yes");
    terminal.press("y");
    terminal.wait_for("That is what it looks like.");
    assert_eq!(terminal.end().0, 0);
    assert!(home.work().join("towpath-demo.txt").exists());
}

#[test]
fn with_ask_deny_the_user_is_not_asked() {
    let home = TestHome::new();
    let arguments = ["run", "--demo", "--once", "--ask", "deny", "permission please"];
    let mut terminal = Terminal::start(&home, &arguments);
    terminal.wait_for("Denied by towpath");
    terminal.wait_for("That is what it looks like.");
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn the_session_of_a_killed_towpath_is_resumed_where_it_stopped() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("? Allow Write");
    terminal.kill();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--resume", "last"]);
    terminal.wait_for("❯ permission please");
    terminal.wait_for("Now I will write a file. This needs your permission.");
    terminal.wait_for("? Allow Write towpath-demo.txt?");
    terminal.wait_for("y yes");
    terminal.press("y");
    terminal.wait_for("That is what it looks like.");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, 0);
    let shown = home.json(&["sessions", "show", "last", "--json"]);
    assert_eq!(shown["requests"].as_array().unwrap().len(), 1);
    assert_eq!(shown["prompts"][0]["state"], "done");
}
