//! The whole check: what a contributor runs before a push, and what CI runs after it.
//!
//! All steps run, also after one has failed. The last line of the output counts the tests. Formatting,
//! lints and documentation count as one failed test when they fail, and as nothing when they pass.

use std::io::{self, IsTerminal as _};
use std::process::{Command, ExitCode};
use std::time::Instant;

use crate::cargo;
use crate::counts::TestCounts;
use crate::error::XtaskError;
use crate::jobs::{CheckJob, JobFailure, JobFindings, JobLog, JobReport, run_jobs};
use crate::scenarios;
use crate::setup;
use crate::signals;
use crate::survivors::SurvivorCheck;
use crate::test_programs::{self, TestProgram};

/// The release of Rust that the project is linted with. Its warnings are errors. Another release may
/// have lints that the project does not know yet, so its warnings are only shown.
const LINT_VERSION: &str = "1.95.0";

/// The release of prettier that formats `web/`.
const PRETTIER_VERSION: &str = "3.9.10";

/// Steps in the order in which they run.
const STEPS: [&str; 6] = ["fmt", "web", "test", "clippy", "doc", "scenarios"];

/// How many tests may be flaky. If more of them fail, the cause is not the load of the machine.
const MOST_FLAKY: usize = 3;

/// Runs every step.
pub(crate) fn run_all() -> Result<ExitCode, XtaskError> {
    let mut check = CheckRun::new()?;
    setup::install_required_programs();
    check.run("fmt", |_| check_format())?;
    check.run("web", |_| check_web())?;
    // Tests wait more than they compute. What compiles fills the gaps, with a lower priority.
    let compiling = vec![test_programs::documentation_tests(), check.clippy(), check.doc()];
    check.run_built(test_jobs, compiling)?;
    // The scenarios run several processes of the real CLI at once, which have time limits of their own.
    check.run_built(|survivors, _| vec![scenarios::job(survivors)], Vec::new())?;
    Ok(check.finish())
}

/// Runs one step.
pub(crate) fn run_one(step: &str) -> Result<ExitCode, XtaskError> {
    let mut check = CheckRun::new()?;
    match step {
        "fmt" => check.run("fmt", |_| check_format())?,
        "web" => check.run("web", |_| check_web())?,
        "clippy" => check.run_jobs(Vec::new(), vec![check.clippy()])?,
        "doc" => check.run_jobs(Vec::new(), vec![check.doc()])?,
        "test" => {
            check.run_built(test_jobs, vec![test_programs::documentation_tests()])?;
        }
        "scenarios" => {
            check.run_built(|survivors, _| vec![scenarios::job(survivors)], Vec::new())?;
        }
        _ => {
            let message = format!("there is no step `{step}`; steps are {}", STEPS.join(", "));
            return Err(XtaskError::usage(message));
        }
    }
    Ok(check.finish())
}

fn test_jobs(survivors: &SurvivorCheck, programs: &[TestProgram]) -> Vec<CheckJob> {
    programs.iter().map(|program| program.job(survivors)).collect()
}

/// How a step ended.
enum CheckOutcome {
    Passed,
    /// Counts as one failed test.
    Failed,
    /// Counts as one skipped test.
    Skipped(String),
}

/// A run of the check.
struct CheckRun {
    start: Instant,
    counts: TestCounts,
    failed_steps: Vec<&'static str>,
    /// What failed, by job.
    failures: Vec<(String, JobFailure)>,
    /// Tests that failed beside others and passed alone, by job.
    flaky: Vec<(String, JobFailure)>,
    /// Skipped tests with their reasons.
    skipped: Vec<(String, String)>,
    /// Whether the warnings of this release of Rust are errors.
    deny_warnings: bool,
}

type CheckResult = Result<CheckOutcome, XtaskError>;

impl CheckRun {
    fn new() -> Result<Self, XtaskError> {
        let version = Command::new("rustc")
            .arg("--version")
            .current_dir(cargo::root())
            .output()
            .map_err(|error| XtaskError::new("start rustc", &error))?;
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let version = version.split_whitespace().nth(1).unwrap_or("of unknown version");
        let deny_warnings = version == LINT_VERSION;
        if !deny_warnings {
            eprintln!(
                "xtask: this is Rust {version}, and the project is linted with {LINT_VERSION}: \
                 warnings are shown and do not fail the check"
            );
        }
        let ignored = signals::ignored();
        if !ignored.is_empty() {
            eprintln!(
                "xtask: this process ignores {}, as programs under `nohup` do: tests that send such \
                 signals will fail",
                ignored.join(", ")
            );
        }
        Ok(Self {
            start: Instant::now(),
            counts: TestCounts::default(),
            failed_steps: Vec::new(),
            failures: Vec::new(),
            flaky: Vec::new(),
            skipped: Vec::new(),
            deny_warnings,
        })
    }

    fn run(
        &mut self,
        name: &'static str,
        step: impl FnOnce(&mut Self) -> CheckResult,
    ) -> Result<(), XtaskError> {
        eprintln!("xtask: {name}");
        let start = Instant::now();
        let failed_before = self.counts.failed;
        let result = step(self)?;
        let seconds = start.elapsed().as_secs_f64();
        match result {
            CheckOutcome::Passed => {}
            CheckOutcome::Failed => self.counts.failed += 1,
            CheckOutcome::Skipped(reason) => {
                self.counts.skipped += 1;
                self.skipped.push((name.to_owned(), reason));
            }
        }
        if self.counts.failed > failed_before {
            self.failed_steps.push(name);
            eprintln!("xtask: {name} FAILED after {seconds:.1} s");
        } else {
            eprintln!("xtask: {name} done in {seconds:.1} s");
        }
        Ok(())
    }

    /// Builds the tests and runs jobs with them. Jobs that do not need them run in any case.
    fn run_built(
        &mut self,
        jobs: impl FnOnce(&SurvivorCheck, &[TestProgram]) -> Vec<CheckJob>,
        background: Vec<CheckJob>,
    ) -> Result<(), XtaskError> {
        let mut programs = None;
        self.run("build", |_| {
            programs = test_programs::build()?;
            Ok(if programs.is_some() { CheckOutcome::Passed } else { CheckOutcome::Failed })
        })?;
        let survivors = SurvivorCheck::new(&cargo::target_directory());
        let programs = programs.unwrap_or_default();
        let jobs = if programs.is_empty() { Vec::new() } else { jobs(&survivors, &programs) };
        self.run_jobs(jobs, background)?;
        self.run_failed_again(&survivors, &programs)?;
        self.counts.failed += count_survivors(&survivors);
        Ok(())
    }

    fn run_jobs(
        &mut self,
        jobs: Vec<CheckJob>,
        background: Vec<CheckJob>,
    ) -> Result<(), XtaskError> {
        for JobReport { name, step, result } in run_jobs(&test_programs::logs(), jobs, background)?
        {
            let JobFindings { counts, failures, skipped, .. } = result;
            self.counts.add(counts);
            self.skipped.extend(skipped);
            self.failures.extend(failures.into_iter().map(|failure| (name.clone(), failure)));
            if counts.failed > 0 && !self.failed_steps.contains(&step) {
                self.failed_steps.push(step);
            }
        }
        Ok(())
    }

    /// Runs tests that failed once more, one at a time and with nothing beside them. Tests start browsers,
    /// servers and agents of others, which can take minutes on a machine that is busy with the rest of the
    /// check. A test that passes alone is reported as flaky, and counts as passed.
    fn run_failed_again(
        &mut self,
        survivors: &SurvivorCheck,
        programs: &[TestProgram],
    ) -> Result<(), XtaskError> {
        if self.failures.len() > MOST_FLAKY {
            return Ok(());
        }
        for program in programs {
            let of_program = |(job, _): &(String, JobFailure)| job == program.name();
            let failed: Vec<_> = self.failures.iter().filter(|it| of_program(it)).collect();
            let tests: Option<Vec<String>> =
                failed.iter().map(|(_, failure)| failure.test.clone()).collect();
            let Some(tests) = tests.filter(|it| !it.is_empty()) else { continue };
            eprintln!("xtask: {} once more: {}", program.name(), tests.join(", "));
            let job = program.job_of_tests(&tests, survivors);
            let reports = run_jobs(&test_programs::logs(), vec![job], Vec::new())?;
            if reports.iter().all(|it| it.result.counts.failed == 0 && it.result.counts.passed > 0)
            {
                self.counts.failed -= tests.len();
                self.counts.passed += tests.len();
                self.flaky.extend(self.failures.extract_if(.., |it| of_program(it)));
            }
        }
        if self.counts.failed == 0 {
            self.failed_steps.clear();
        }
        Ok(())
    }

    /// Prints what was skipped, what failed, and the counts.
    fn finish(self) -> ExitCode {
        for (name, reason) in &self.skipped {
            eprintln!("xtask: skipped {name}: {reason}");
        }
        for (job, JobFailure { description, .. }) in &self.flaky {
            let log = test_programs::log(job);
            eprintln!("xtask: {job} is FLAKY, it passed alone: {description} ({})", log.display());
        }
        for (job, JobFailure { description, .. }) in &self.failures {
            let log = test_programs::log(job);
            eprintln!("xtask: {job} FAILED: {description} ({})", log.display());
        }
        for step in self.failed_steps.iter().filter(|step| STEPS.contains(step)) {
            eprintln!("xtask: {step} FAILED; `cargo xtask test --only {step}` runs it alone");
        }
        let skips_fail = setup::in_ci() && self.counts.skipped > 0;
        if skips_fail {
            eprintln!("xtask: FAILED, because nothing may be skipped when `CI` is `true`");
        }
        eprintln!("xtask: finished in {:.1} s", self.start.elapsed().as_secs_f64());
        println!("{}", self.counts);
        if self.counts.failed > 0 || skips_fail { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }

    fn clippy(&self) -> CheckJob {
        let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--quiet"];
        let mut command = cargo::low_priority_command(&clippy);
        if self.deny_warnings {
            command.args(["--", "-D", "warnings"]);
        }
        lint("clippy", command)
    }

    fn doc(&self) -> CheckJob {
        let doc = ["doc", "--workspace", "--no-deps", "--quiet"];
        let mut command = cargo::low_priority_command(&doc);
        if self.deny_warnings {
            command.env("RUSTDOCFLAGS", "-D warnings");
        }
        lint("doc", command)
    }
}

/// A job that fails as a whole.
fn lint(step: &'static str, mut command: Command) -> CheckJob {
    if io::stderr().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let work = move |log: &mut JobLog| {
        let mut result = JobFindings::default();
        if !log.run(&mut command)?.success() {
            result.counts.failed = 1;
            result.failures.push(JobFailure::other("see its output above".to_owned()));
        }
        Ok(result)
    };
    CheckJob { name: step.to_owned(), step, work: Box::new(work) }
}

fn check_format() -> CheckResult {
    passes(&mut cargo::command(&["fmt", "--all", "--check"]))
}

/// Checks the format of the web UI. Its types and its behavior are checked by tests of `crates/cli`.
fn check_web() -> CheckResult {
    match setup::npm_tool("prettier", PRETTIER_VERSION) {
        Ok(prettier) => {
            let mut command = Command::new(prettier);
            passes(command.args(["--check", "."]).current_dir(cargo::root().join("web")))
        }
        Err(reason) => Ok(CheckOutcome::Skipped(reason)),
    }
}

/// Runs a program with its output on ours.
fn passes(command: &mut Command) -> CheckResult {
    let name = command.get_program().to_string_lossy().into_owned();
    let status =
        command.status().map_err(|error| XtaskError::new(&format!("start `{name}`"), &error))?;
    Ok(if status.success() { CheckOutcome::Passed } else { CheckOutcome::Failed })
}

/// Reports processes that have survived their tests, and counts them all as one failure.
fn count_survivors(check: &SurvivorCheck) -> usize {
    let Some(survivors) = check.survivors() else {
        eprintln!("xtask: skipped: without /proc, processes that tests left behind are not found");
        return 0;
    };
    for survivor in &survivors {
        eprintln!("xtask: a test left this behind: {survivor}");
    }
    usize::from(!survivors.is_empty())
}
