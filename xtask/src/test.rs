//! The whole check: what a contributor runs before a push, and what CI runs after it.
//!
//! All steps run, also after one has failed. The last line of the output counts the tests. Formatting,
//! lints and documentation count as one failed test when they fail, and as nothing when they pass.

use std::fs;
use std::io::{self, BufRead as _, BufReader, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use crate::cargo;
use crate::counts::{TestCounts, TestOutput};
use crate::error::XtaskError;
use crate::setup;
use crate::survivors::SurvivorCheck;

/// The release of Rust that the project is linted with. Its warnings are errors. Another release may
/// have lints that the project does not know yet, so its warnings are only shown.
const LINT_VERSION: &str = "1.95.0";

/// The release of prettier that formats `web/`.
const PRETTIER_VERSION: &str = "3.9.10";

/// The release of the CLI that runs every scenario.
const CLI: &str = "2.1.325";

/// An older release of the CLI, which runs the scenarios that depend on the version.
const OLD_CLI: &str = "2.1.37";

/// Steps in the order in which they run: fast ones first.
const STEPS: [&str; 6] = ["fmt", "web", "clippy", "test", "doc", "scenarios"];

/// Runs every step.
pub(crate) fn run_all() -> Result<ExitCode, XtaskError> {
    let mut check = CheckRun::new()?;
    setup::install_required_programs();
    check.run("fmt", |_| check_format())?;
    check.run("web", |_| check_web())?;
    check.run("clippy", CheckRun::clippy)?;
    check.run("test", CheckRun::test)?;
    // The real CLI mostly waits, which leaves time to build the documentation.
    let doc = check.start_doc()?;
    check.run("scenarios", CheckRun::scenarios)?;
    check.run("doc", |_| doc.join().unwrap_or(Ok(CheckOutcome::Failed)))?;
    Ok(check.finish())
}

/// Runs one step.
pub(crate) fn run_one(step: &str) -> Result<ExitCode, XtaskError> {
    let mut check = CheckRun::new()?;
    match step {
        "fmt" => check.run("fmt", |_| check_format())?,
        "web" => check.run("web", |_| check_web())?,
        "clippy" => check.run("clippy", CheckRun::clippy)?,
        "test" => check.run("test", CheckRun::test)?,
        "doc" => {
            let doc = check.start_doc()?;
            check.run("doc", |_| doc.join().unwrap_or(Ok(CheckOutcome::Failed)))?;
        }
        "scenarios" => check.run("scenarios", CheckRun::scenarios)?,
        _ => {
            let message = format!("there is no step `{step}`; steps are {}", STEPS.join(", "));
            return Err(XtaskError::usage(message));
        }
    }
    Ok(check.finish())
}

/// How a step ended.
enum CheckOutcome {
    Passed,
    /// Counts as one failed test.
    Failed,
    /// Counts as one skipped test.
    Skipped(String),
    /// A step that runs tests.
    Counted(TestCounts),
}

/// A run of the check.
struct CheckRun {
    start: Instant,
    counts: TestCounts,
    failed_steps: Vec<&'static str>,
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
        Ok(Self {
            start: Instant::now(),
            counts: TestCounts::default(),
            failed_steps: Vec::new(),
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
            CheckOutcome::Skipped(reason) => self.skip(name.to_owned(), reason, 1),
            CheckOutcome::Counted(counts) => self.counts.add(counts),
        }
        if self.counts.failed > failed_before {
            self.failed_steps.push(name);
            eprintln!("xtask: {name} FAILED after {seconds:.1} s");
        } else {
            eprintln!("xtask: {name} done in {seconds:.1} s");
        }
        Ok(())
    }

    fn skip(&mut self, name: String, reason: String, tests: usize) {
        self.counts.skipped += tests;
        self.skipped.push((name, reason));
    }

    /// Prints what was skipped, what failed, and the counts.
    fn finish(self) -> ExitCode {
        for (name, reason) in &self.skipped {
            eprintln!("xtask: skipped {name}: {reason}");
        }
        for step in &self.failed_steps {
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

    fn clippy(&mut self) -> CheckResult {
        let clippy = ["clippy", "--workspace", "--all-targets", "--all-features"];
        let mut command = cargo::command(&clippy);
        if self.deny_warnings {
            command.args(["--", "-D", "warnings"]);
        }
        passes(&mut command)
    }

    fn test(&mut self) -> CheckResult {
        let color = if io::stdout().is_terminal() { "always" } else { "never" };
        let arguments = ["test", "--workspace", "--no-fail-fast", "--", "--show-output", "--color"];
        let mut cargo = cargo::command(&arguments);
        let check = SurvivorCheck::new(&cargo::target_directory());
        check.mark(&mut cargo);
        let mut child = cargo
            .arg(color)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| XtaskError::new("start cargo", &error))?;
        let mut output = TestOutput::default();
        let mut line = Vec::new();
        let mut stdout = BufReader::new(child.stdout.take().ok_or_else(no_pipe)?);
        while stdout.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
            let text = String::from_utf8_lossy(&line);
            if output.read(&text) {
                print!("{text}");
            }
            line.clear();
        }
        let status = child.wait().map_err(|error| XtaskError::new("wait for cargo", &error))?;
        let (mut counts, skipped) = output.finish();
        self.skipped.extend(skipped);
        if !status.success() && counts.failed == 0 {
            // The tests did not build, or one of the programs crashed.
            counts.failed = 1;
        }
        counts.failed += count_survivors(&check);
        Ok(CheckOutcome::Counted(counts))
    }

    /// Builds the documentation beside what follows. Its output is shown when it is complete.
    fn start_doc(&self) -> Result<thread::JoinHandle<CheckResult>, XtaskError> {
        let mut command = cargo::command(&["doc", "--workspace", "--no-deps", "--quiet"]);
        if self.deny_warnings {
            command.env("RUSTDOCFLAGS", "-D warnings");
        }
        if io::stderr().is_terminal() {
            command.env("CARGO_TERM_COLOR", "always");
        }
        let doc = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| XtaskError::new("start cargo", &error))?;
        Ok(thread::spawn(move || {
            let output = doc
                .wait_with_output()
                .map_err(|error| XtaskError::new("wait for cargo", &error))?;
            eprint!("{}", String::from_utf8_lossy(&output.stderr));
            Ok(if output.status.success() { CheckOutcome::Passed } else { CheckOutcome::Failed })
        }))
    }

    /// Runs the scenarios against the built-in player and against two releases of the real CLI.
    fn scenarios(&mut self) -> CheckResult {
        let Some(towpath) = built_towpath()? else { return Ok(CheckOutcome::Failed) };
        let files = scenario_files()?;
        let version_dependent: Vec<&PathBuf> =
            files.iter().filter(|file| depends_on_version(file)).collect();
        let mut agents = vec!["play".to_owned()];
        let mut counts = TestCounts::default();
        if self.is_available(&towpath, CLI, &files, files.len())? {
            agents.push(format!("npm:{CLI}"));
        }
        let old = self.is_available(&towpath, OLD_CLI, &files, version_dependent.len())?;
        let check = SurvivorCheck::new(&cargo::target_directory());
        counts.add(verify(&towpath, &agents, &[], &check)?);
        if old {
            let agents = [format!("npm:{OLD_CLI}")];
            counts.add(verify(&towpath, &agents, &version_dependent, &check)?);
        }
        counts.failed += count_survivors(&check);
        Ok(CheckOutcome::Counted(counts))
    }

    /// Whether a release of the CLI is installed. It is fetched on first use, with one scenario.
    fn is_available(
        &mut self,
        towpath: &Path,
        version: &str,
        files: &[PathBuf],
        tests: usize,
    ) -> Result<bool, XtaskError> {
        let name = format!("{tests} scenarios with Claude Code {version}");
        if !setup::has_npm() {
            self.skip(name, "`npm` is not installed".to_owned(), tests);
            return Ok(false);
        }
        let Some(first) = files.first() else { return Ok(false) };
        eprintln!("xtask: trying Claude Code {version}, which is fetched on first use");
        let output = Command::new(towpath)
            .args(["verify", "--again", "--timeout", "60", "--claude"])
            .arg(format!("npm:{version}"))
            .arg(first)
            .current_dir(cargo::root())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| XtaskError::new("start `towpath verify`", &error))?;
        // 2 means that the scenario could not run at all.
        if output.status.code() == Some(2) {
            let text = String::from_utf8_lossy(&output.stderr);
            eprint!("{text}");
            self.skip(name, "Claude Code could not be fetched; see above".to_owned(), tests);
            return Ok(false);
        }
        Ok(true)
    }
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

/// Builds the tests and with them `towpath`. Another build would have other features, and would
/// compile all dependencies again.
fn built_towpath() -> Result<Option<PathBuf>, XtaskError> {
    let status = cargo::command(&["test", "--workspace", "--no-run", "--quiet"])
        .status()
        .map_err(|error| XtaskError::new("start cargo", &error))?;
    let towpath = cargo::target_directory().join("debug/towpath");
    Ok(status.success().then_some(towpath))
}

fn scenario_files() -> Result<Vec<PathBuf>, XtaskError> {
    let directory = cargo::root().join("scenarios");
    let failed = |error: io::Error| XtaskError::new("list the scenarios", &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|it| it == "scenario") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a scenario has a condition on the version, such as `versions >=2.1.37` or a step that
/// starts with `[<2.1.197]`.
fn depends_on_version(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().any(|line| {
        line.starts_with("versions ")
            || line
                .strip_prefix('[')
                .is_some_and(|it| it.starts_with(|c: char| "<>=".contains(c) || c.is_ascii_digit()))
    })
}

/// Runs scenarios, all of them unless some are named.
fn verify(
    towpath: &Path,
    agents: &[String],
    files: &[&PathBuf],
    check: &SurvivorCheck,
) -> Result<TestCounts, XtaskError> {
    let report = cargo::target_directory().join("scenarios.xml");
    // A report of an earlier run must not be counted.
    let _ = fs::remove_file(&report);
    let mut command = Command::new(towpath);
    check.mark(&mut command);
    command.args(["verify", "--again", "--timeout", "60", "--junit"]).arg(&report);
    for agent in agents {
        command.args(["--claude", agent]);
    }
    let status = command
        .args(files)
        .current_dir(cargo::root())
        .status()
        .map_err(|error| XtaskError::new("start `towpath verify`", &error))?;
    let mut counts = TestCounts::from_junit(&fs::read_to_string(&report).unwrap_or_default());
    if !status.success() && counts.failed == 0 {
        // Scenarios or agents that could not be loaded are in no report.
        counts.failed = 1;
    }
    Ok(counts)
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

fn no_pipe() -> XtaskError {
    XtaskError::new("read the output of cargo", &"it has no pipe")
}

#[cfg(test)]
mod tests {
    use super::{depends_on_version, scenario_files};

    #[test]
    fn some_scenarios_depend_on_the_version_and_some_do_not() {
        let files = scenario_files().unwrap();
        let dependent = files.iter().filter(|file| depends_on_version(file)).count();
        assert!(dependent > 0 && dependent < files.len(), "{dependent} of {}", files.len());
    }
}
