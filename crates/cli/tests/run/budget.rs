//! A spent budget asks before the next prompt, with a terminal and without one.

use crate::home::TestHome;
use crate::screen::Terminal;

const CTRL_D: &str = "\x04";
/// Any turn costs more.
const LITTLE: &str = "0.000001";

#[test]
fn without_a_terminal_a_prompt_that_waits_for_a_budget_is_an_error_and_stays_queued() {
    let home = TestHome::new();
    let output = home.towpath(&["run", "--demo", "--budget", LITTLE, "think about it"]);
    assert_eq!(output.code, 0, "the first turn may begin: {output}");
    for _ in 0..2 {
        // The second time it is held already.
        let output = home.towpath(&["run", "--demo", "--resume", "last", "think again"]);
        assert_eq!(output.code, 2, "{output}");
        assert!(output.stderr.contains(" spent. Go on?"), "{output}");
        assert!(output.stderr.contains("--budget"), "{output}");
    }
    let prompts = home.json(&["sessions", "show", "last", "--json"])["prompts"].clone();
    let states: Vec<_> =
        prompts.as_array().expect("prompts").iter().map(|it| &it["state"]).collect();
    assert_eq!(states, ["done", "queued", "queued"]);
    let output =
        home.towpath(&["run", "--demo", "--resume", "last", "--budget", "10", "and a last time"]);
    assert_eq!(output.code, 0, "{output}");
    let prompts = home.json(&["sessions", "show", "last", "--json"])["prompts"].clone();
    let prompts = prompts.as_array().expect("prompts");
    assert!(prompts.iter().all(|it| it["state"] == "done"), "{prompts:?}");
    assert_eq!(prompts.len(), 4);
}

#[test]
fn on_a_terminal_the_question_is_shown_and_enter_goes_on() {
    let home = TestHome::new();
    let mut terminal =
        Terminal::start(&home, &["run", "--demo", "--budget", LITTLE, "think about it"]);
    terminal.wait_for("I have thought about it.");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press("think again\r");
    terminal.wait_for(" spent. Go on?");
    terminal.wait_for("⏸ held: think again");
    terminal.wait_for("Enter goes on");
    terminal.press("\r");
    terminal.wait_for("❯ think again");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0);
    assert!(seen.contains("so the queue waits"), "{seen}");
}
