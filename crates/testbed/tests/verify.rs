//! The runner against an agent made of a few lines of shell: every verdict, and every kind of step.

use std::path::{Path, PathBuf};
use std::time::Duration;

use testbed::scenario::{Scenario, Version};
use testbed::verify::{Agent, Outcome, Progress, Report, Settings, report, run_book};
use towpath_testbed as testbed;

fn parrot() -> Agent {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents/parrot.sh");
    let command = vec!["sh".into(), script.into()];
    Agent { label: "parrot".to_owned(), version: Version(2, 1, 37), command }
}

fn settings(record: Option<PathBuf>) -> Settings {
    Settings {
        patience: Duration::from_secs(2),
        jobs: 4,
        search_path: "/usr/local/bin:/usr/bin:/bin".into(),
        record,
        evidence: std::env::temp_dir().join("towpath-tests"),
        again: false,
    }
}

fn scenario(steps: &str) -> Scenario {
    Scenario::parse("x", &format!("# A title\n\n{steps}\n")).expect("a good scenario")
}

#[tokio::main(flavor = "current_thread")]
async fn run(scenarios: Vec<Scenario>, agents: Vec<Agent>, record: Option<PathBuf>) -> Vec<Report> {
    run_book(scenarios, agents, settings(record), |_| {}).await
}

fn outcome(steps: &str) -> Outcome {
    let mut reports = run(vec![scenario(steps)], vec![parrot()], None);
    reports.pop().expect("a report").outcome
}

#[track_caller]
fn holds(steps: &str) {
    match outcome(steps) {
        Outcome::Holds => {}
        Outcome::Differs(difference) => panic!("line {}: {difference}", difference.line),
        other => panic!("{}: {other:?}", other.word()),
    }
}

/// What differs, with the line in front.
#[track_caller]
fn difference(steps: &str) -> String {
    match outcome(steps) {
        Outcome::Differs(difference) => format!("{}: {difference}", difference.line),
        other => panic!("{}: {other:?}", other.word()),
    }
}

#[test]
fn what_comes_in_order_holds() {
    holds(
        r#"args --loud "a b"
session
< system/init {"cwd":"$cwd","arguments":"…--session-id $session --loud a b"}
> user "hi" uuid one
< assistant {"said":{"uuid":"$one","message":{"content":"hi"}}}
< result/success
eof
exit 0
count result 1
count line 3"#,
    );
}

#[test]
fn what_comes_otherwise_differs_with_the_nearest_line() {
    let steps = r#"> user "hi"
< assistant {"said":{"message":{"role":"user","content":"ho"}}}"#;
    insta::assert_snapshot!(difference(steps));
}

#[test]
fn what_comes_too_early_is_not_found_behind() {
    let steps = "> user \"hi\"\n< result\n< assistant\n";
    insta::assert_snapshot!(difference(steps));
}

#[test]
fn lines_in_any_order_each_need_one_of_their_own() {
    holds("> user \"hi\"\n<~ result\n<~ assistant\n<~ system/init\neof\nexit 0");
    let twice = difference("> user \"hi\"\n<~ result\n<~ result");
    assert!(twice.starts_with("5: this did not come within 2 s"), "{twice}");
}

#[test]
fn an_end_before_what_was_expected_is_told_with_stderr() {
    insta::assert_snapshot!(difference("> user \"do-fail\"\n< result"));
}

#[test]
fn exit_codes_signals_and_stderr_are_compared() {
    holds("> user \"do-fail\"\nexit 3\nstderr \"it broke\"");
    holds("< system/init\nsignal KILL\nexit signal KILL");
    holds("< system/init\nsignal INT\n> raw \"\\n\"\n< result/interrupted\nexit 7");
    insta::assert_snapshot!(difference("> user \"do-fail\"\nexit 0"));
    insta::assert_snapshot!(difference("> user \"do-fail\"\nexit\nstderr \"it sank\""));
    insta::assert_snapshot!(difference("< system/init\nexit 0"));
    insta::assert_snapshot!(difference("> user \"do-fail\"\nalive"));
}

#[test]
fn what_must_not_come_is_noticed_only_between_its_neighbours() {
    holds(
        "> user \"hi\"\n< result\n<! assistant\n> user \"do-plain\"\n< result\n> user \"ho\"\n< assistant\neof\nexit",
    );
    insta::assert_snapshot!(difference(
        "<! assistant {\"said\":\"$any\"}\n> user \"hi\"\n< result"
    ));
    insta::assert_snapshot!(difference("> user \"hi\"\n< assistant\n<! result\neof\nexit"));
}

#[test]
fn counts_are_taken_at_the_end() {
    insta::assert_snapshot!(difference(
        "count result 1\n> user \"hi\"\n> user \"ho\"\neof\nexit 0"
    ));
}

#[test]
fn lines_that_are_no_json_can_be_expected_too() {
    holds("> user \"do-plain\"\n< line \"no …\"\n< result\neof\nexit 0");
}

#[test]
fn files_are_laid_out_and_looked_at() {
    holds(
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
fn an_answer_goes_to_the_ask_that_was_expected() {
    holds(
        r#"> user "do-ask"
< control_request/can_use_tool {"request":{"input":{"n":2}}} as second
< control_request/can_use_tool {"request":{"input":{"n":1}}} as first
> allow
< assistant {"said":{"response":{"request_id":"r1","response":{"updatedInput":{"n":1}}}}}
> deny "no" to second
< assistant {"said":{"response":{"request_id":"$second","response":{"message":"no"}}}}
eof
exit 0"#,
    );
}

#[test]
fn processes_of_the_sandbox_are_found_and_ended() {
    holds(
        "> user \"do-child\"\n< result\nleft \"lingering\"\n> user \"do-kill\"\ngone \"lingering\"\neof\nexit 0",
    );
    holds("> user \"do-child\"\n< result\nsignal KILL\nexit signal KILL\nleft \"lingering\"");
    let gone = difference(
        "> user \"do-child\"\n< result\nleft \"lingering\"\ngone \"lingering\"\neof\nexit 0",
    );
    assert!(gone.contains("while :"), "{gone}");
    let left = difference("< system/init\nleft \"lingering\"");
    assert!(left.contains("parrot.sh"), "{left}");
}

#[test]
fn runs_follow_each_other_or_go_side_by_side() {
    holds(
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
< assistant {"said":{"message":{"content":"one"}}}
at 2
> user "two"
< assistant {"said":{"message":{"content":"two"}}}
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
fn what_counts_on_other_versions_only_is_left_out() {
    holds("[>=2.1.197] < never\n[<2.1.197] < system/init\neof\nexit 0");
    assert!(matches!(outcome("versions >=2.1.197\n< never"), Outcome::NotMeant));
}

#[test]
fn what_cannot_be_tried_says_why() {
    let broken = Agent { command: vec!["/nowhere/claude".into()], ..parrot() };
    let reports = run(vec![scenario("eof")], vec![broken], None);
    let Outcome::CouldNotRun(problem) = &reports[0].outcome else { panic!("{reports:?}") };
    assert!(problem.contains("could not start"), "{problem}");
    assert!(matches!(outcome("< system/init\n> allow"), Outcome::CouldNotRun(_)));
    assert!(matches!(outcome("< system/init\nat 2"), Outcome::CouldNotRun(_)));
}

#[test]
fn nothing_of_our_environment_reaches_an_agent() {
    let printer = Agent { command: vec!["env".into()], ..parrot() };
    let steps = "only-args\nenv EXTRA=$cwd\nenv LANG\n< line \"HOME=…\"\nexit 0";
    let reports = run(vec![scenario(steps)], vec![printer], None);
    let names = reports[0].capture.entries.iter().filter_map(|entry| entry.text.split_once('='));
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
fn captures_are_kept_where_they_were_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let steps = "> user \"hi\"\n< result\neof\nexit 0";
    let record = Some(directory.path().to_owned());
    let reports = run(vec![scenario(steps)], vec![parrot()], record);
    let place = directory.path().join("parrot/x");
    assert_eq!(reports[0].kept.as_deref(), Some(place.as_path()));
    let read = |name: &str| std::fs::read_to_string(place.join(name)).expect(name);
    assert_eq!(read("stdin.jsonl").lines().count(), 1);
    assert_eq!(read("stdout.jsonl").lines().count(), 3);
    assert_eq!(read("stderr.txt"), "");
    assert_eq!(read("requests.jsonl"), "");
    assert!(read("run.json").contains("\"outcome\": \"holds\""));
}

#[test]
fn reports_come_in_the_order_of_the_book_and_say_the_same_every_time() {
    let good = scenario("< system/init\n> user \"hi\"\n< result\neof\nexit 0");
    let bad = Scenario { name: "bad".to_owned(), ..scenario("> user \"hi\"\n< never\neof") };
    let other = Scenario { name: "other".to_owned(), ..scenario("versions >=3.0.0\neof") };
    let book = vec![good, bad, other];
    let agents = vec![parrot(), Agent { label: "second".to_owned(), ..parrot() }];
    let mut reports = run(book.clone(), agents.clone(), None);
    for report in &mut reports {
        report.took = Duration::ZERO;
        report.kept = None;
    }
    insta::assert_json_snapshot!("json", report::json(&book, &agents, &reports));
    insta::assert_snapshot!("junit", report::junit(&book, &agents, &reports));
    insta::assert_snapshot!("markdown", report::markdown(&book, &agents, &reports));
}

#[test]
fn what_begins_is_told_before_what_is_over() {
    let mut told = Vec::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let book = run_book(vec![scenario("eof\nexit 0")], vec![parrot()], settings(None), |news| {
        told.push(match news {
            Progress::Begins(..) => "begins",
            Progress::Over(report) => report.outcome.word(),
        });
    });
    runtime.expect("a runtime").block_on(book);
    assert_eq!(told, ["begins", "holds"]);
}
