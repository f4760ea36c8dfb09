//! Session options of `towpath run`: arguments, profiles, and the file of a project.

use test_support::agent_recorder::{AgentRecorder, every_option};

use crate::home::{Output, TestHome};
use crate::screen::Terminal;

const PLAYER: &str = concat!("'", env!("CARGO_BIN_EXE_towpath"), "' play");
const ENTER: &str = "\r";

/// A home whose agents are recorded, and the arguments that choose the agent.
fn recorded() -> (TestHome, AgentRecorder, String) {
    let home = TestHome::new();
    let recorder = AgentRecorder::new(&home.data().with_file_name("starts"), PLAYER);
    let program = recorder.program().display().to_string();
    (home, recorder, program)
}

fn write_config(home: &TestHome, text: &str) {
    let directory = home.data().with_file_name(".config").join("towpath");
    std::fs::create_dir_all(&directory).expect("a directory");
    std::fs::write(directory.join("config.toml"), text).expect("a file");
}

/// Makes the working directory a repository with a `towpath.toml`.
fn write_project(home: &TestHome, text: &str) {
    std::fs::create_dir_all(home.work().join(".git")).expect("a directory");
    home.file("towpath.toml", text.as_bytes());
}

#[test]
fn every_option_of_run_reaches_the_agent_and_nothing_stays() {
    let (home, recorder, program) = recorded();
    std::fs::create_dir(home.work().join("extra")).expect("a directory");
    let extra = home.work().join("extra");
    let output = home.towpath(&[
        "run",
        "--claude",
        &program,
        "--model",
        "claude-opus-4-5",
        "--effort",
        "high",
        "--mode",
        "dontAsk",
        "--fallback-model",
        "claude-sonnet-4-5",
        "--max-turns",
        "7",
        "--max-budget",
        "2.5",
        "--append-system-prompt",
        "- Be brief.\n- Be \"kind\" — 'always'.",
        "--allow",
        "Read",
        "--allow",
        "Bash(git log:*)",
        "--deny",
        "WebSearch",
        "--deny",
        "WebFetch",
        "--add-dir",
        "extra",
        "--mcp-config",
        r#"{"mcpServers":{}}"#,
        "--env",
        "OPTION_OF_A_TEST=two words = 2",
        "--idle-timeout",
        "1h30m",
        "--continue-after-cut",
        "--no-session-persistence",
        "--delete-when-ended",
        "think",
    ]);
    assert_eq!(output.code, 0, "{output}");
    let starts = recorder.starts();
    assert_eq!(starts.len(), 1, "{output}");
    starts[0].assert_every_option(&extra);
    assert_eq!(home.json(&["sessions", "--json"]).as_array().map(Vec::len), Some(0));
    let transcripts = home.data().with_file_name(".claude").join("projects");
    let stored = std::fs::read_dir(&transcripts).map_or(0, Iterator::count);
    assert_eq!(stored, 0, "the agent left a transcript");
}

/// Some releases of the CLI start in `auto`, which does not ask, unless they are told otherwise.
#[test]
fn a_session_without_a_mode_asks_whatever_a_project_says() {
    let (home, recorder, program) = recorded();
    std::fs::create_dir(home.work().join(".claude")).expect("a directory");
    let settings = r#"{"permissions":{"defaultMode":"bypassPermissions"}}"#;
    home.file(".claude/settings.json", settings.as_bytes());
    let run = ["run", "--claude", &program, "think"];
    assert_eq!(home.towpath(&run).code, 0);
    // The user's own settings count.
    let own = home.data().with_file_name(".claude");
    std::fs::create_dir_all(&own).expect("a directory");
    let settings = r#"{"permissions":{"defaultMode":"acceptEdits"}}"#;
    std::fs::write(own.join("settings.json"), settings).expect("a file");
    assert_eq!(home.towpath(&run).code, 0);
    let starts = recorder.starts();
    assert_eq!(starts[0].value("--permission-mode"), Some("default"));
    assert_eq!(starts[1].value("--permission-mode"), Some("acceptEdits"));
}

#[test]
fn help_names_every_option_once() {
    let help = TestHome::new().towpath(&["run", "--help"]).stdout;
    for (name, _) in every_option("/".as_ref()).as_object().expect("an object") {
        let listed = TestHome::new().towpath(&["config", "--options"]).stdout;
        let line = listed.lines().find(|it| it.starts_with(&format!("{name} (")));
        let line = line.unwrap_or_else(|| panic!("{name} is not listed"));
        let flag = line.split(['(', ')']).nth(1).expect("a flag");
        assert!(
            help.contains(&format!(" {flag} ")) || help.contains(&format!(" {flag}\n")),
            "{flag}"
        );
    }
}

#[test]
fn a_resumed_session_gets_the_options_that_are_given() {
    let (home, recorder, program) = recorded();
    let first = home.towpath(&["run", "--claude", &program, "--deny", "WebFetch", "think"]);
    assert_eq!(first.code, 0, "{first}");
    let again = ["run", "--claude", &program, "--resume", "last", "--max-turns", "3", "think more"];
    let second = home.towpath(&again);
    assert_eq!(second.code, 0, "{second}");
    let starts = recorder.starts();
    assert_eq!(starts[0].value("--max-turns"), None);
    assert_eq!(starts[1].value("--max-turns"), Some("3"));
    assert_eq!(starts[1].value("--disallowedTools"), Some("WebFetch"));
    let refused = home.towpath(&[
        "run",
        "--claude",
        &program,
        "--resume",
        "last",
        "--no-session-persistence",
        "x",
    ]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.stderr.contains("only be set when a session is created"), "{refused}");
}

#[test]
fn profiles_come_from_the_configuration_and_a_default_from_the_directory() {
    let (home, recorder, program) = recorded();
    let work = home.work().canonicalize().expect("a path");
    write_config(
        &home,
        &format!(
            "[profiles.careful]\ndescription = \"Plans\"\nmode = \"plan\"\nmax_turns = 5\n\
             [profiles.free]\nmode = \"bypassPermissions\"\n\
             [directories.\"{}\"]\nprofile = \"careful\"\n",
            work.display()
        ),
    );
    let run = |more: &[&str]| {
        let output = home.towpath(&[&["run", "--claude", &program], more, &["think"]].concat());
        (output, recorder.starts())
    };
    let (output, starts) = run(&[]);
    assert_eq!(output.code, 0, "{output}");
    let last = starts.last().expect("a start");
    assert_eq!(
        (last.value("--permission-mode"), last.value("--max-turns")),
        (Some("plan"), Some("5"))
    );
    let (_, starts) = run(&["--profile", "none"]);
    assert_eq!(starts.last().and_then(|it| it.value("--max-turns")), None);
    let (_, starts) = run(&["--max-turns", "2"]);
    assert_eq!(starts.last().and_then(|it| it.value("--max-turns")), Some("2"));

    let (refused, starts) = run(&["--profile", "free"]);
    assert_eq!((refused.code, starts.len()), (2, 3), "{refused}");
    assert!(refused.stderr.contains("--mode bypassPermissions"), "{refused}");
    let (refused, _) = run(&["--profile", "carful"]);
    assert!(refused.code == 2 && refused.stderr.contains("careful"), "{refused}");

    let shown = home.towpath(&["config"]);
    assert!(shown.code == 0 && shown.stdout.contains("profile careful (default here)"), "{shown}");
    write_config(&home, "[profiles.a]\nmax_turn = 3\n");
    let checked = home.towpath(&["config"]);
    assert_eq!(checked.code, 1, "{checked}");
    assert!(checked.stderr.contains("line 2") && checked.stderr.contains("max_turns"), "{checked}");
}

#[test]
fn a_projects_file_is_never_used_without_a_terminal() {
    let (home, recorder, program) = recorded();
    write_project(&home, "profile = \"ci\"\n[profiles.ci]\nenvironment = { EVIL = \"1\" }\n");
    let run = |more: &[&str]| -> Output {
        home.towpath(&[&["run", "--claude", &program], more, &["think"]].concat())
    };
    let output = run(&[]);
    assert_eq!(output.code, 0, "{output}");
    assert!(!recorder.starts()[0].environment.contains_key("EVIL"));
    let named = run(&["--profile", "ci"]);
    assert!(named.code == 2 && named.stderr.contains("is not trusted"), "{named}");
    for hostile in
        ["[profiles.ci]\nmode = \"bypassPermissions\"\n", "\u{1b}[2J", &"#\n".repeat(90_000)]
    {
        write_project(&home, hostile);
        let output = run(&[]);
        assert_eq!(output.code, 0, "a file that is not trusted must not stop a run: {output}");
        assert!(!output.stderr.contains("\u{1b}[2J"), "{output}");
    }
}

#[test]
fn a_projects_file_is_shown_in_full_and_used_after_a_yes_until_it_changes() {
    let (home, recorder, program) = recorded();
    let hidden = format!("# harmless \u{202e}{}EVIL = 1\n", " ".repeat(500));
    write_project(
        &home,
        &format!("profile = \"ci\"\n{hidden}{}[profiles.ci]\nmax_turns = 8\n", "\n".repeat(200)),
    );
    let arguments = ["run", "--claude", &program, "--once", "think"];
    let mut terminal = Terminal::start(&home, &arguments);
    terminal.wait_for("\\u{202e}");
    terminal.wait_for("(500 spaces) EVIL = 1");
    terminal.wait_for("(200 blank lines)");
    terminal.wait_for("not now:");
    terminal.press("y");
    terminal.press(ENTER);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    assert_eq!(recorder.starts()[0].value("--max-turns"), Some("8"));
    let trusted = home.towpath(&["run", "--claude", &program, "think"]);
    assert_eq!(trusted.code, 0, "{trusted}");
    assert_eq!(recorder.starts()[1].value("--max-turns"), Some("8"), "the same content is trusted");

    write_project(&home, "profile = \"ci\"\n[profiles.ci]\nmax_turns = 9\n");
    let changed = home.towpath(&["run", "--claude", &program, "think"]);
    assert_eq!(changed.code, 0, "{changed}");
    assert_eq!(recorder.starts()[2].value("--max-turns"), None, "changed content is not");
    let mut terminal = Terminal::start(&home, &arguments);
    terminal.wait_for("max_turns = 9");
    terminal.wait_for("not now:");
    terminal.press("n");
    terminal.press(ENTER);
    assert_eq!(terminal.end().0, 0);
    assert_eq!(recorder.starts()[3].value("--max-turns"), None);
    let terminal = Terminal::start(&home, &arguments);
    let (code, seen) = terminal.end();
    assert!(code == 0 && !seen.contains("max_turns = 9"), "a no is remembered: {seen}");
}
