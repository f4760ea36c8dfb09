//! Tests of the parser with correct and incorrect scenario files.

use std::fmt::{Debug, Write as _};

use super::{Scenario, ScenarioError, ScenarioItem};

const TOOL: &str = include_str!("tests/tool.scenario");
const EVERYTHING: &str = include_str!("tests/everything.scenario");

#[test]
fn the_example_of_the_documentation_is_parsed() {
    let scenario = Scenario::parse("tool", TOOL).unwrap();
    assert_eq!(scenario.title, "A tool runs, and the model gets its result");
    assert_eq!(scenario.replies.len(), 2);
    assert_eq!(scenario.runs.len(), 1);
    assert_eq!(scenario.runs[0].value.steps.len(), 7);
}

#[test]
fn every_kind_of_line_is_parsed() {
    let scenario = Scenario::parse("everything", EVERYTHING).unwrap();
    let mut report = format!("{}\n{}\n", scenario.title, scenario.description);
    writeln!(report, "versions {}", scenario.condition).unwrap();
    let setup = &scenario.setup;
    writeln!(report, "session {}, no stdin {}", setup.session, setup.no_stdin).unwrap();
    list(&mut report, "env", &setup.env);
    list(&mut report, "file", &setup.files);
    list(&mut report, "home file", &setup.home_files);
    list(&mut report, "reply", &scenario.replies);
    for run in &scenario.runs {
        let value = &run.value;
        writeln!(
            report,
            "run [{}] only {}, concurrent {}",
            run.condition, value.only_args, value.concurrent
        )
        .unwrap();
        list(&mut report, "arg", &value.args);
        list(&mut report, "step", &value.steps);
    }
    insta::assert_snapshot!(report);
}

#[test]
fn an_error_names_the_line_and_what_was_expected() {
    let lines = [
        "api",
        "api tool Read",
        "api tool Read [1]",
        "api tool Read {\"file_path\":}",
        "api text hello",
        "api text \"hello",
        "api text \"hello\" loud",
        "api text \"hello\" always",
        "api slow 20",
        "api header x \"y\"",
        "api error 500 overloaded_error",
        "api error many overloaded_error \"x\"",
        "api disconnect stall",
        "api hold after 2",
        "api hold Gate text \"x\"",
        "> user",
        "> user hello",
        "> user \"x\" loudly",
        "> shout \"x\"",
        "> allow \"x\"",
        "> deny",
        "> deny \"x\" to",
        "> line []",
        "<",
        "< {\"type\":\"user\"}",
        "< user hello",
        "< user {\"a\":1} {\"b\":2}",
        "<! ",
        "says words",
        "[codec] alive",
        "[codex] acp",
        "count result",
        "count result many",
        "request {}",
        "signal HUP",
        "exit gracefully",
        "is notes.txt",
        "at first",
        "alive and well",
        "dance",
        "[>=2.1] > user \"x\"",
        "[>=2.1.37 > user \"x\"",
        "[] > user \"x\"",
        "[>=2.1.37]",
        "[>=2.1.37] session",
        "versions",
        "versions new",
        "env =x",
        "env A B=x",
        "file notes.txt milk",
        "args 'x",
        "run --resume x",
    ];
    let mut report = String::new();
    for line in lines {
        let error = Scenario::parse("x", &format!("# Title\n\n{line}\n")).unwrap_err();
        explain(&mut report, line, &error);
    }
    for text in ["", "no title\n", "# Title\n\napi text \"x\"\n", "# T\n\neof\nargs x\n"] {
        let error = Scenario::parse("x", text).unwrap_err();
        explain(&mut report, &text.escape_debug().to_string(), &error);
    }
    insta::assert_snapshot!(report);
}

fn list<T: Debug>(report: &mut String, label: &str, items: &[ScenarioItem<T>]) {
    for item in items {
        writeln!(report, "{label} {} [{}] {:?}", item.line, item.condition, item.value).unwrap();
    }
}

fn explain(report: &mut String, line: &str, error: &ScenarioError) {
    let hint = error.hint().unwrap_or_default();
    writeln!(report, "{line}\n    {error}\n    hint: {hint}").unwrap();
}

#[test]
fn a_missing_file_is_named() {
    let error = Scenario::load("nowhere/x.scenario".as_ref()).unwrap_err();
    assert_eq!(error.to_string(), "could not read `nowhere/x.scenario`");
}

#[test]
fn later_runs_share_the_arguments_but_not_the_session() {
    let text =
        "# T\n\nsession\nargs --a\n\neof\nexit\nrun --resume $session\nexit\nrun-only -v\nexit\n";
    let scenario = Scenario::parse("x", text).unwrap();
    let args = |run: usize| -> Vec<&str> {
        scenario.runs[run].value.args.iter().map(|arg| arg.value.as_str()).collect()
    };
    assert_eq!(args(0), ["--a"]);
    assert_eq!(args(1), ["--a", "--resume", "$session"]);
    assert_eq!(args(2), ["-v"]);
    assert!(scenario.setup.session);
}
