//! What Enter does while a turn runs, and the queue that a stopped turn leaves.

use crate::home::TestHome;
use crate::screen::Terminal;

const CTRL_D: &str = "\x04";
const SHIFT_TAB: &str = "\x1b[Z";
const ESC: &str = "\x1b";

#[test]
fn enter_does_what_the_visible_choice_says_and_the_choice_is_remembered() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("● Send now");
    terminal.wait_for("? Allow Write");
    terminal.press("\t");
    terminal.wait_for("Tab to answer");
    terminal.press(SHIFT_TAB);
    terminal.wait_for("● Queue");
    terminal.press("first think\r");
    terminal.wait_for("⋯ queued: first think");
    terminal.press(SHIFT_TAB);
    terminal.wait_for("● Send now");
    terminal.press("and hurry\r");
    terminal.press(SHIFT_TAB);
    terminal.wait_for("● Queue");
    terminal.press("\t");
    terminal.wait_for("y yes");
    terminal.press("y");
    terminal.wait_for("❯ and hurry");
    terminal.wait_for("❯ first think");
    terminal.wait_for("I have thought about it.");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press("?");
    terminal.wait_for("Shift-Tab");
    terminal.wait_for("send now: add the text to the running turn");
    terminal.press(CTRL_D);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0);
    assert!(!seen.to_lowercase().contains("steer"), "{seen}");
    let prompts = home.json(&["sessions", "show", "last", "--json"])["prompts"].clone();
    let prompts = prompts.as_array().expect("prompts");
    let deliveries: Vec<_> = prompts.iter().map(|it| (&it["text"], &it["delivery"])).collect();
    assert_eq!(deliveries[1], (&"first think".into(), &"queue".into()));
    assert_eq!(deliveries[2], (&"and hurry".into(), &"steer".into()));

    let mut terminal = Terminal::start(&home, &["run", "--demo", "permission please"]);
    terminal.wait_for("● Queue");
    terminal.wait_for("? Allow Write");
    terminal.press("\x03\x03");
    terminal.end();
}

#[test]
fn esc_stops_the_turn_and_holds_the_queue_and_enter_sends_it() {
    let home = TestHome::new();
    let slow = "# Slow words\n\napi repeat \"step \" 400 slow 20\napi text \"Now to the second.\"\n\
                > user \"go slowly\"\n< result/success\n";
    let scenario = home.file("slow.scenario", slow.as_bytes()).display().to_string();
    let set = format!("TOWPATH_PLAY_SCENARIO={scenario}");
    let mut terminal = Terminal::start(&home, &["run", "--demo", "--env", &set, "go slowly"]);
    terminal.wait_for("step step");
    terminal.press(SHIFT_TAB);
    terminal.wait_for("● Queue");
    terminal.press("the second\r");
    terminal.wait_for("⋯ queued: the second");
    terminal.press(ESC);
    terminal.wait_for("1 queued prompt is held: Enter sends it");
    terminal.wait_for("Interrupted");
    terminal.wait_for("⏸ held: the second");
    terminal.press("\r");
    terminal.wait_for("❯ the second");
    terminal.wait_for("Now to the second.");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, 0);
}
