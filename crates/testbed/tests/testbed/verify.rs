//! The scenario runner with a small shell script as the agent: every outcome and every kind of step.

use std::path::{Path, PathBuf};
use std::time::Duration;

use towpath_testbed::scenario::{AgentVersion, Scenario, ScenarioSetup};
use towpath_testbed::verify::{
    VerifyAgent, VerifyConfig, VerifyOutcome, VerifyProgress, VerifyResult, calibrate, report,
    run_scenarios,
};

fn echo_agent() -> VerifyAgent {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testbed/echo-agent.sh");
    let command = vec!["sh".into(), script.into()];
    VerifyAgent {
        label: "echo".to_owned(),
        name: "claude".to_owned(),
        version: AgentVersion(2, 1, 37),
        command: Some(command),
        acp_command: None,
        setup: ScenarioSetup::default(),
        programs: None,
        is_release: false,
        calibration: None,
    }
}

fn config(capture_dir: Option<PathBuf>) -> VerifyConfig {
    VerifyConfig {
        line_order: None,
        timeout: Duration::from_secs(2),
        jobs: 4,
        search_path: "/usr/local/bin:/usr/bin:/bin".into(),
        capture_dir,
        failure_dir: std::env::temp_dir().join("towpath-tests"),
        confirm: false,
    }
}

fn scenario(steps: &str) -> Scenario {
    Scenario::parse("x", &format!("# A title\n\n{steps}\n")).expect("a valid scenario")
}

#[tokio::main(flavor = "current_thread")]
async fn run(
    scenarios: Vec<Scenario>,
    agents: Vec<VerifyAgent>,
    capture_dir: Option<PathBuf>,
) -> Vec<VerifyResult> {
    run_scenarios(scenarios, agents, config(capture_dir), |_| {}).await
}

fn outcome(steps: &str) -> VerifyOutcome {
    let mut results = run(vec![scenario(steps)], vec![echo_agent()], None);
    results.pop().expect("a result").outcome
}

#[track_caller]
fn passes(steps: &str) {
    match outcome(steps) {
        VerifyOutcome::Passed => {}
        VerifyOutcome::Differs(difference) => panic!("line {}: {difference}", difference.line),
        other => panic!("{}: {other:?}", other.key()),
    }
}

/// The line and the text of the difference.
#[track_caller]
fn difference(steps: &str) -> String {
    match outcome(steps) {
        VerifyOutcome::Differs(difference) => format!("{}: {difference}", difference.line),
        other => panic!("{}: {other:?}", other.key()),
    }
}

#[test]
fn lines_in_the_expected_order_pass() {
    passes(
        r#"args --loud "a b"
session
< system/init {"cwd":"$cwd","arguments":"…--session-id $session --loud a b"}
> user "hi" uuid one
< assistant {"input":{"uuid":"$one","message":{"content":"hi"}}}
< result/success
eof
exit 0
count result 1
count line 3"#,
    );
}

#[test]
fn a_difference_shows_the_closest_line() {
    let steps = r#"> user "hi"
< assistant {"input":{"message":{"role":"user","content":"ho"}}}"#;
    insta::assert_snapshot!(difference(steps));
}

#[test]
fn a_line_before_the_previous_match_does_not_count() {
    let steps = "> user \"hi\"\n< result\n< assistant\n";
    insta::assert_snapshot!(difference(steps));
}

#[test]
fn each_expectation_in_any_order_needs_its_own_line() {
    passes("> user \"hi\"\n<~ result\n<~ assistant\n<~ system/init\neof\nexit 0");
    let twice = difference("> user \"hi\"\n<~ result\n<~ result");
    assert!(twice.starts_with("5: no matching line within 2 s"), "{twice}");
}

#[test]
fn an_early_exit_is_reported_with_stderr() {
    insta::assert_snapshot!(difference("> user \"do-fail\"\n< result"));
}

#[test]
fn exit_codes_signals_and_stderr_are_checked() {
    passes("> user \"do-fail\"\nexit 3\nstderr \"it failed\"");
    passes("< system/init\nsignal KILL\nexit signal KILL");
    passes("> user \"do-wait\"\n< line \"waiting\"\nsignal INT\n< result/interrupted\nexit 7");
    insta::assert_snapshot!(difference("> user \"do-fail\"\nexit 0"));
    insta::assert_snapshot!(difference("> user \"do-fail\"\nexit\nstderr \"another error\""));
    insta::assert_snapshot!(difference("< system/init\nexit 0"));
    insta::assert_snapshot!(difference("> user \"do-fail\"\nalive"));
}

#[test]
fn a_forbidden_line_counts_only_between_its_neighbours() {
    passes(
        "> user \"hi\"\n< result\n<! assistant\n> user \"do-plain\"\n< result\n> user \"ho\"\n< assistant\neof\nexit",
    );
    insta::assert_snapshot!(difference(
        "<! assistant {\"input\":\"$any\"}\n> user \"hi\"\n< result"
    ));
    insta::assert_snapshot!(difference("> user \"hi\"\n< assistant\n<! result\neof\nexit"));
}

#[test]
fn lines_are_counted_at_the_end() {
    insta::assert_snapshot!(difference(
        "count result 1\n> user \"hi\"\n> user \"ho\"\neof\nexit 0"
    ));
}

#[test]
fn lines_that_are_not_json_can_be_expected() {
    passes("> user \"do-plain\"\n< line \"not …\"\n< result\neof\nexit 0");
}

#[test]
fn files_are_created_and_checked() {
    passes(
        r#"file notes/today.txt "in $cwd"
home-file .rc "x"
> user "do-file"
wait-file made.txt
is made.txt "milk\n"
is $home/.rc "x"
is notes/to….txt "…$cwd"
is-not other.txt
is-not …/other.txt
eof
exit 0"#,
    );
    insta::assert_snapshot!(difference("> user \"do-file\"\nis made.txt \"tea…\""));
    insta::assert_snapshot!(
        difference("file a.txt \"\"\neof\nexit\nis-not a.txt")
            .replace(|it: char| it.is_ascii_digit(), "0",)
    );
}

#[test]
fn an_answer_goes_to_the_request_that_was_expected() {
    passes(
        r#"> user "do-ask"
< control_request/can_use_tool {"request":{"input":{"n":2}}} as second
< control_request/can_use_tool {"request":{"input":{"n":1}}} as first
> allow
< assistant {"input":{"response":{"request_id":"r1","response":{"updatedInput":{"n":1}}}}}
> deny "no" to second
< assistant {"input":{"response":{"request_id":"$second","response":{"message":"no"}}}}
eof
exit 0"#,
    );
}

#[test]
fn processes_of_the_sandbox_are_found_and_killed() {
    passes(
        "> user \"do-child\"\n< result\nleft \"lingering\"\n> user \"do-kill\"\ngone \"lingering\"\neof\nexit 0",
    );
    passes("> user \"do-child\"\n< result\nsignal KILL\nexit signal KILL\nleft \"lingering\"");
    let gone = difference(
        "> user \"do-child\"\n< result\nleft \"lingering\"\ngone \"lingering\"\neof\nexit 0",
    );
    assert!(gone.contains("while :"), "{gone}");
    let left = difference("< system/init\nleft \"lingering\"");
    assert!(left.contains("echo-agent.sh"), "{left}");
}

#[test]
fn runs_are_sequential_or_concurrent() {
    passes(
        r#"args --a
< system/init {"arguments":"…stream-json --a"}
eof
exit 0
run --again
< system/init {"arguments":"…--a --again"}
beside --too
< system/init {"arguments":"…--a --too"}
at 1
> user "one"
< assistant {"input":{"message":{"content":"one"}}}
at 2
> user "two"
< assistant {"input":{"message":{"content":"two"}}}
eof
exit 0
at 1
alive
count assistant 1
run-only -x
< system/init {"arguments":"-x"}
[>=2.1.38] run --later
[>=2.1.38] < never"#,
    );
}

#[test]
fn steps_for_other_versions_are_skipped() {
    passes("[>=2.1.197] < never\n[<2.1.197] < system/init\neof\nexit 0");
    assert!(matches!(outcome("versions >=2.1.197\n< never"), VerifyOutcome::NotApplicable));
}

#[test]
fn a_scenario_that_cannot_run_has_a_reason() {
    let broken = VerifyAgent { command: Some(vec!["/nowhere/claude".into()]), ..echo_agent() };
    let results = run(vec![scenario("eof")], vec![broken], None);
    let VerifyOutcome::CouldNotRun(problem) = &results[0].outcome else { panic!("{results:?}") };
    assert!(problem.contains("could not start"), "{problem}");
    assert!(matches!(outcome("< system/init\n> allow"), VerifyOutcome::CouldNotRun(_)));
    assert!(matches!(outcome("< system/init\nat 2"), VerifyOutcome::CouldNotRun(_)));
}

#[test]
fn the_environment_of_the_caller_does_not_reach_the_agent() {
    let printer = VerifyAgent { command: Some(vec!["env".into()]), ..echo_agent() };
    let steps = "only-args\nenv EXTRA=$cwd\nenv LANG\n< line \"HOME=…\"\nexit 0";
    let results = run(vec![scenario(steps)], vec![printer], None);
    let names = results[0].capture.entries.iter().filter_map(|entry| entry.text.split_once('='));
    let mut names: Vec<&str> = names.map(|(name, _)| name).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "CLAUDE_CODE_MAX_RETRIES",
            "CLAUDE_CODE_TMPDIR",
            "DISABLE_AUTOUPDATER",
            "DISABLE_TELEMETRY",
            "EXTRA",
            "HOME",
            "IS_SANDBOX",
            "PATH",
            "TMPDIR",
        ]
    );
}

#[test]
fn captures_are_written_to_the_given_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let steps = "> user \"hi\"\n< result\neof\nexit 0";
    let capture_dir = Some(directory.path().to_owned());
    let results = run(vec![scenario(steps)], vec![echo_agent()], capture_dir);
    let path = directory.path().join("echo/x");
    assert_eq!(results[0].capture_path.as_deref(), Some(path.as_path()));
    let read = |name: &str| std::fs::read_to_string(path.join(name)).expect(name);
    assert_eq!(read("stdin.jsonl").lines().count(), 1);
    assert_eq!(read("stdout.jsonl").lines().count(), 3);
    assert_eq!(read("stderr.txt"), "");
    assert_eq!(read("requests.jsonl"), "");
    assert!(read("run.json").contains("\"outcome\": \"passed\""));
}

#[test]
fn reports_are_ordered_and_the_same_every_time() {
    let good = scenario("< system/init\n> user \"hi\"\n< result\neof\nexit 0");
    let bad = Scenario { name: "bad".to_owned(), ..scenario("> user \"hi\"\n< never\neof") };
    let other = Scenario { name: "other".to_owned(), ..scenario("versions >=3.0.0\neof") };
    let scenarios = vec![good, bad, other];
    let agents = vec![echo_agent(), VerifyAgent { label: "second".to_owned(), ..echo_agent() }];
    let mut results = run(scenarios.clone(), agents.clone(), None);
    for result in &mut results {
        result.duration = Duration::ZERO;
        result.capture_path = None;
    }
    insta::assert_json_snapshot!("json", report::json(&scenarios, &agents, &results));
    insta::assert_snapshot!("junit", report::junit(&scenarios, &agents, &results));
    let explained = |name: &str, group: &str, text: &str| report::MessageExplanation {
        name: name.to_owned(),
        group: group.to_owned(),
        text: text.to_owned(),
    };
    let explanations = [
        explained("system/init", "Output", "Opens a turn."),
        explained("result/success", "Output", "Ends a turn."),
        explained("system/rare", "Output", "Never seen."),
        explained("system/rarer", "Output", "Never seen."),
        explained("user to the agent", "Input", "A prompt."),
        explained("line to the agent", "Input", "Anything else."),
        explained("started", "Actions", "The agent was started."),
    ];
    let page = report::markdown(&scenarios, &agents, &results, &explanations);
    insta::assert_snapshot!("markdown", page);
}

#[test]
fn progress_is_reported_when_a_scenario_starts_and_finishes() {
    let mut progress = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let scenarios = vec![scenario("eof\nexit 0")];
    let results = run_scenarios(scenarios, vec![echo_agent()], config(None), |event| {
        progress.push(match event {
            VerifyProgress::Started { .. } => "started",
            VerifyProgress::Unconfirmed(_) => "unconfirmed",
            VerifyProgress::Finished(result) => result.outcome.key(),
        });
    });
    runtime.expect("a runtime").block_on(results);
    assert_eq!(progress, ["started", "passed"]);
}

/// A scenario that an agent of shell commands passes if it prints a result.
const RESULT: &str = "only-args\n< result\neof\nexit";

/// Runs a scenario until its outcome is certain. The agent is a shell command; `$1` is a file that all
/// runs share.
fn confirmed(shell: &str, shared: &Path) -> VerifyResult {
    let command = ["sh", "-c", shell, "sh"].map(Into::into).into_iter();
    let command = command.chain([shared.as_os_str().to_owned()]).collect();
    let agent = VerifyAgent { command: Some(command), ..echo_agent() };
    let config = VerifyConfig { confirm: true, timeout: Duration::from_secs(1), ..config(None) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let run = run_scenarios(vec![scenario(RESULT)], vec![agent], config, |_| {});
    runtime.expect("a runtime").block_on(run).pop().expect("a result")
}

#[test]
fn a_difference_counts_after_it_was_seen_twice_alone() {
    let directory = tempfile::tempdir().expect("a directory");
    let result = confirmed("echo x >> $1; echo '{}'", &directory.path().join("runs"));
    assert_eq!(result.outcome.key(), "differs", "{:?}", result.outcome);
    assert_eq!((result.attempts, result.passes), (2, 0));
    let runs = std::fs::read_to_string(directory.path().join("runs")).expect("a file");
    assert_eq!(runs, "x\nx\n");
}

#[test]
fn what_comes_and_goes_is_flaky_with_its_rate() {
    let directory = tempfile::tempdir().expect("a directory");
    let shell = "echo x >> $1; case $(wc -l < $1) in *[24]) echo '{\"type\":\"result\"}';; esac";
    let result = confirmed(shell, &directory.path().join("runs"));
    assert_eq!(result.outcome.key(), "flaky", "{:?}", result.outcome);
    assert_eq!((result.attempts, result.passes), (5, 2));
    assert!(result.outcome.difference().is_some_and(|it| it.message.contains("exited")));
}

#[cfg(target_os = "linux")]
#[test]
fn an_agent_that_is_still_working_times_out() {
    let directory = tempfile::tempdir().expect("a directory");
    let result = confirmed("while :; do :; done", &directory.path().join("runs"));
    assert_eq!(result.outcome.key(), "timed_out", "{:?}", result.outcome);
    assert_eq!(result.attempts, 2);
    let message = result.outcome.difference().map(|it| it.message.clone()).unwrap_or_default();
    assert_eq!(message, "no matching line within 1 s; the agent was still working");
    // One that does nothing more differs, although it is the time limit that ended the step.
    let idle = confirmed("read -r line", &directory.path().join("runs"));
    assert_eq!(idle.outcome.key(), "differs", "{:?}", idle.outcome);
}

#[test]
fn what_was_only_too_slow_at_first_has_passed() {
    let directory = tempfile::tempdir().expect("a directory");
    let shell =
        "if [ -e $1 ]; then echo '{\"type\":\"result\"}'; else echo > $1; while :; do :; done; fi";
    let result = confirmed(shell, &directory.path().join("runs"));
    let expected = if cfg!(target_os = "linux") { "passed" } else { "flaky" };
    assert_eq!(result.outcome.key(), expected, "{:?}", result.outcome);
}

#[test]
fn the_speed_of_an_agent_is_measured_with_one_turn() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let measured = runtime.block_on(calibrate(&echo_agent(), &config(None)));
    let measured = measured.expect("the agent answers");
    assert!(measured.turn > Duration::ZERO && measured.timeout >= Duration::from_secs(10));
    let silent = VerifyAgent { command: Some(vec!["true".into()]), ..echo_agent() };
    assert!(runtime.block_on(calibrate(&silent, &config(None))).is_none());
}
