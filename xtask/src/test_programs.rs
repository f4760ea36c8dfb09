//! The test programs of the workspace: building them, and running one.

use std::io::{BufRead as _, BufReader, IsTerminal as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::cargo;
use crate::counts::{TestCounts, TestOutput};
use crate::error::XtaskError;
use crate::jobs::{CheckJob, JobFailure, JobFindings, JobLog};
use crate::survivors::SurvivorCheck;

/// Programs that take minutes, the longest first. They start first, so that the others fill the time
/// until they are over.
const LONGEST: [&str; 13] = [
    "web",
    "driving",
    "serve",
    "acp_clients",
    "telegram",
    "verify",
    "session",
    "watch",
    "run",
    "acp",
    "testbed",
    "view",
    "other_agents",
];

/// A program with tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// The package and, unless it has the tests of a library, the program.
    name: String,
    path: PathBuf,
    /// The directory of the package, in which the program runs.
    directory: PathBuf,
}

/// Builds all test programs, and with them `towpath`. None if they do not build.
pub(crate) fn build() -> Result<Option<Vec<TestProgram>>, XtaskError> {
    let format = "--message-format=json-render-diagnostics";
    let mut child = cargo::command(&["test", "--workspace", "--no-run", format])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| XtaskError::new("start cargo", &error))?;
    let no_pipe = || XtaskError::new("read the output of cargo", &"it has no pipe");
    let stdout = BufReader::new(child.stdout.take().ok_or_else(no_pipe)?);
    let lines = stdout.lines().map_while(Result::ok);
    let mut programs: Vec<TestProgram> =
        lines.filter_map(|line| TestProgram::from_message(&line)).collect();
    let status = child.wait().map_err(|error| XtaskError::new("wait for cargo", &error))?;
    programs.sort_by_key(|program| (program.order(), program.name.clone()));
    Ok(status.success().then_some(programs))
}

/// The tests in comments. Cargo builds and runs them itself.
pub(crate) fn documentation_tests() -> CheckJob {
    let work = |log: &mut JobLog| {
        let arguments = ["test", "--workspace", "--doc", "--quiet", "--", "--show-output"];
        run_tests(log, &mut cargo::low_priority_command(&arguments))
    };
    CheckJob { name: "documentation tests".to_owned(), step: "test", work: Box::new(work) }
}

impl TestProgram {
    /// Reads a line of cargo's messages about what it built.
    fn from_message(line: &str) -> Option<Self> {
        if !line.contains(r#""reason":"compiler-artifact""#)
            || !line.contains(r#""test":true},"features""#)
        {
            return None;
        }
        let path = PathBuf::from(text_field(line, "executable")?);
        let manifest = PathBuf::from(text_field(line, "manifest_path")?);
        let directory = manifest.parent()?.to_owned();
        let package = directory.file_name()?.to_string_lossy().into_owned();
        // The target has a name too, after its kinds.
        let target = text_field(line.split_once(r#""target":{"#)?.1, "name")?;
        let is_library = line.contains(r#""kind":["lib"]"#);
        let name = if is_library { package } else { format!("{package} {target}") };
        Some(Self { name, path, directory })
    }

    fn order(&self) -> usize {
        let target = self.name.split_once(' ').map(|(_, target)| target);
        LONGEST.iter().position(|it| Some(*it) == target).unwrap_or(LONGEST.len())
    }

    /// The name of its job.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The job that runs all its tests.
    pub(crate) fn job(&self, check: &SurvivorCheck) -> CheckJob {
        let mut command = self.command(check);
        let work = move |log: &mut JobLog| run_tests(log, &mut command);
        CheckJob { name: self.name.clone(), step: "test", work: Box::new(work) }
    }

    /// The job that runs some of its tests, one after the other.
    pub(crate) fn job_of_tests(&self, tests: &[String], check: &SurvivorCheck) -> CheckJob {
        let mut command = self.command(check);
        command.args(["--test-threads", "1", "--exact"]).args(tests);
        let work = move |log: &mut JobLog| run_tests(log, &mut command);
        CheckJob { name: format!("{} again", self.name), step: "test", work: Box::new(work) }
    }

    /// Starts the program as `cargo test` would.
    fn command(&self, check: &SurvivorCheck) -> Command {
        let color = if std::io::stdout().is_terminal() { "always" } else { "never" };
        let mut command = Command::new(&self.path);
        command
            .args(["--show-output", "--color", color])
            .env("CARGO", cargo::program())
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .current_dir(&self.directory);
        check.mark(&mut command);
        command
    }
}

/// Runs tests, and counts them by what they print.
fn run_tests(log: &mut JobLog, command: &mut Command) -> Result<JobFindings, XtaskError> {
    let status = log.run(command)?;
    let mut output = TestOutput::default();
    let mut shown = String::new();
    let text = log.text();
    for line in text.split_inclusive('\n') {
        if output.read(line) {
            shown.push_str(line);
        }
    }
    let mut result = output.finish();
    if !status.success() && result.counts.failed == 0 {
        // The tests did not build, or the program crashed.
        result.counts.add(TestCounts { failed: 1, ..TestCounts::default() });
        result.failures.push(JobFailure::other(format!("the program itself ({status})")));
        shown.push_str(last_lines(&text));
    }
    Ok(JobFindings { shown: Some(shown), ..result })
}

/// How many lines are shown of the output of a program that did not report what failed.
const SHOWN_LINES: usize = 100;

fn last_lines(text: &str) -> &str {
    let start = text.rmatch_indices('\n').nth(SHOWN_LINES).map_or(0, |(index, _)| index + 1);
    &text[start..]
}

/// The text of a field in an object of one line. Paths with quotes or backslashes are not supported.
fn text_field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(text, _)| text)
}

/// The `towpath` that was built with the tests. Another build would have other features, and would
/// compile all dependencies again.
pub(crate) fn towpath() -> PathBuf {
    cargo::target_directory().join("debug/towpath")
}

/// The directory with the output of jobs.
pub(crate) fn logs() -> PathBuf {
    cargo::target_directory().join("check")
}

/// Where the output of a job is kept.
pub(crate) fn log(job: &str) -> PathBuf {
    JobLog::path(&logs(), job)
}

#[cfg(test)]
mod tests {
    use super::TestProgram;

    #[test]
    fn programs_with_tests_are_found_in_what_cargo_says_that_it_built() {
        let message = |kind: &str, name: &str, test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///p/crates/cli#towpath@0.1.0","manifest_path":"/p/crates/cli/Cargo.toml","target":{{"kind":["{kind}"],"crate_types":["bin"],"name":"{name}","src_path":"/p/crates/cli/tests/{name}.rs","edition":"2024","doc":false,"doctest":false,"test":true}},"profile":{{"opt_level":"0","debuginfo":"line-tables-only","debug_assertions":true,"overflow_checks":true,"test":{test}}},"features":[],"filenames":["/t/debug/deps/{name}-1"],"executable":{executable},"fresh":true}}"#
            )
        };
        let path = r#""/t/debug/deps/web-1""#;
        let web = TestProgram::from_message(&message("test", "web", true, path)).unwrap();
        assert_eq!((web.name.as_str(), web.order()), ("cli web", 0));
        assert_eq!(web.path.to_str(), Some("/t/debug/deps/web-1"));
        assert_eq!(web.directory.to_str(), Some("/p/crates/cli"));
        let library = message("lib", "towpath_wire", true, path);
        let library = TestProgram::from_message(&library).unwrap();
        assert_eq!(library.name, "cli");
        assert!(library.order() > web.order());
        for other in [
            message("bin", "towpath", false, r#""/t/debug/towpath""#),
            message("lib", "towpath_wire", true, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ] {
            assert_eq!(TestProgram::from_message(&other), None, "{other}");
        }
    }
}
