//! Modes, models and options that only the agent knows.

use crate::home::TestHome;
use crate::screen::Terminal;

const CTRL_D: &str = "\x04";

/// A home in which the player of the Agent Client Protocol is the agent `player`.
fn with_agent() -> TestHome {
    let home = TestHome::new();
    let directory = home.data().with_file_name(".config").join("towpath");
    std::fs::create_dir_all(&directory).expect("a directory");
    let program = env!("CARGO_BIN_EXE_towpath");
    let table = format!("[agents.player]\ncommand = [\"{program}\", \"play\", \"--acp\"]\n");
    std::fs::write(directory.join("config.toml"), table).expect("a file");
    home
}

#[test]
fn what_an_agent_offers_is_listed_and_chosen_with_its_own_ids() {
    let home = with_agent();
    let mut terminal = Terminal::start(&home, &["run", "--agent", "player"]);
    terminal.wait_for("? help · Ctrl-D exits");
    // The agent is started for it.
    terminal.press("/mode\r");
    terminal.wait_for("● ask");
    terminal.wait_for("/mode NAME chooses one");
    terminal.press("/mode auto\r");
    terminal.wait_for("auto");
    terminal.press("/mode\r");
    terminal.wait_for("● auto");
    terminal.press("/mode acceptEdits\r");
    terminal.wait_for("`acceptEdits` is none of these");
    terminal.press("/model large\r");
    terminal.press("/model\r");
    terminal.wait_for("● scripted-large");
    terminal.press("/options fast on\r");
    terminal.press("/options effort high\r");
    terminal.press("/options\r");
    terminal.wait_for("● high");
    terminal.wait_for("● true");
    terminal.press("/options nonsense\r");
    terminal.wait_for("there is no such option");
    // In the mode that was chosen the agent asks nothing.
    terminal.press("run something\r");
    terminal.wait_for("That is what it looks like.");
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, 0);
    let shown = home.json(&["sessions", "show", "last", "--json"]);
    assert_eq!(shown["prompts"].as_array().map(Vec::len), Some(1), "commands are no prompts");
}

#[test]
fn the_modes_of_claude_code_are_listed_and_chosen_too() {
    let home = TestHome::new();
    let mut terminal = Terminal::start(&home, &["run", "--demo"]);
    terminal.wait_for("? help · Ctrl-D exits");
    terminal.press("/mode\r");
    terminal.wait_for("● default");
    terminal.wait_for("acceptEdits");
    terminal.press("/mode accept\r");
    terminal.press("/mode\r");
    terminal.wait_for("● acceptEdits");
    terminal.press("/mode bypassPermissions\r");
    terminal.wait_for("`bypassPermissions` is none of these");
    terminal.press(CTRL_D);
    assert_eq!(terminal.end().0, 0);
}

#[test]
fn an_id_that_the_agent_does_not_have_is_reported_and_the_run_goes_on() {
    let home = with_agent();
    let arguments =
        ["run", "--agent", "player", "--mode", "no-such-mode", "--effort", "no-such-effort"];
    let output = home.towpath(&[&arguments[..], &["well then"]].concat());
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.contains("You said: well then"), "{output}");
    for unknown in ["no mode `no-such-mode`", "`auto`", "no effort `no-such-effort`"] {
        assert!(output.stderr.contains(unknown), "{output}");
    }
    let output = home.towpath(&["run", "--agent", "player", "--mode", "auto", "run something"]);
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.contains("That is what it looks like."), "{output}");
    let output = home.towpath(&["run", "--demo", "--continue", "--mode", "plan-x", "go on"]);
    assert!(output.stderr.contains("plan-x"), "{output}");
    assert!(!output.stderr.contains("--agent NAME"), "{output}");
    let output = home.towpath(&["run", "--demo", "--mode", "auto-x", "well then"]);
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("--agent NAME"), "{output}");
}
