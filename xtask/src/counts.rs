//! How many tests passed, failed and were skipped, from the output of test programs.

use std::fmt;

use crate::jobs::{JobFailure, JobFindings};

/// Numbers of tests. The last line of `cargo xtask test` is one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl TestCounts {
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Counts the `testsuite` elements of a `JUnit` report. Scenarios that are not meant for the
    /// version of an agent do not count.
    pub(crate) fn from_junit(xml: &str) -> Self {
        let mut counts = Self::default();
        for suite in xml.lines().filter(|line| line.trim_start().starts_with("<testsuite ")) {
            let attribute = |name: &str| -> usize {
                let value = suite.split_once(&format!(" {name}=\"")).map(|(_, rest)| rest);
                value.and_then(|rest| rest.split('"').next()?.parse().ok()).unwrap_or(0)
            };
            let failed = attribute("failures") + attribute("errors");
            counts.failed += failed;
            counts.passed += attribute("tests").saturating_sub(failed + attribute("skipped"));
        }
        counts
    }
}

impl fmt::Display for TestCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { passed, failed, skipped } = self;
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// How many lines of a panic's message are repeated at the end of the check.
const PANIC_LINES: usize = 3;

/// How many bytes of each of them.
const LONGEST_PANIC_LINE: usize = 300;

/// Reads the output of `cargo test -- --show-output` line by line.
///
/// A test that cannot run prints `skipped: REASON` and succeeds, so that only its output shows that
/// it was skipped. The user is shown which tests failed and what those printed: what tests that passed
/// print may look like failures.
///
/// A test that is ignored with a reason is no test of its own: another test starts it as a process, or
/// it writes documentation. It is not counted.
#[derive(Debug, Default)]
pub(crate) struct TestOutput {
    counts: TestCounts,
    /// Each skipped test with its reason.
    skipped: Vec<(String, String)>,
    failures: Vec<String>,
    /// What the lines are about.
    section: OutputSection,
    /// The test whose output the lines are; `None` once it is counted as skipped.
    test: Option<String>,
    /// Where each failed test panicked, and the first lines of its message.
    panics: Vec<(String, String)>,
    /// How many of the next lines belong to the newest panic.
    panic_lines: usize,
    /// How many tests of the current program are ignored with a reason.
    ignored_with_reason: usize,
}

/// The parts of what a test program prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OutputSection {
    /// The tests as they end, and what processes of theirs print meanwhile.
    #[default]
    Running,
    /// The output of tests that passed.
    Successes,
    /// The output of tests that failed.
    Failures,
}

impl TestOutput {
    /// Reads a line. Returns whether the user should see it.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        let line = without_colors(line);
        let line = line.trim_end();
        match line {
            "successes:" => self.section = OutputSection::Successes,
            "failures:" => self.section = OutputSection::Failures,
            _ => {}
        }
        let mut shown = self.section == OutputSection::Failures;
        if let Some(result) = line.strip_prefix("test result: ") {
            self.section = OutputSection::Running;
            self.count(result);
        }
        if line.starts_with("test ") && line.contains(" ... ignored, ") {
            self.ignored_with_reason += 1;
        }
        if let Some(test) = line.strip_prefix("test ").and_then(|it| it.strip_suffix(" ... FAILED"))
        {
            self.failures.push(test.to_owned());
            shown = true;
        }
        if let Some(test) =
            line.strip_prefix("---- ").and_then(|it| it.strip_suffix(" stdout ----"))
        {
            self.test = Some(test.to_owned());
        }
        if self.section == OutputSection::Successes
            && let Some(reason) = line.strip_prefix("skipped: ")
            && let Some(test) = self.test.take()
        {
            self.skipped.push((test, reason.to_owned()));
        }
        if self.section == OutputSection::Failures {
            self.read_panic(line);
        }
        shown
    }

    fn read_panic(&mut self, line: &str) {
        if line.starts_with("thread '") && line.contains(" panicked at ") {
            if let Some(test) = &self.test {
                self.panics.push((test.clone(), line.to_owned()));
                self.panic_lines = PANIC_LINES;
            }
        } else if self.panic_lines > 0
            && let Some((_, panic)) = self.panics.last_mut()
        {
            self.panic_lines -= 1;
            panic.extend([" | ", line.get(..LONGEST_PANIC_LINE).unwrap_or(line)]);
        }
    }

    /// The counts of all tests, those that failed, and the skipped ones with their reasons.
    pub(crate) fn finish(self) -> JobFindings {
        let mut counts = self.counts;
        // `cargo test` counts them as passed.
        counts.skipped += self.skipped.len();
        counts.passed = counts.passed.saturating_sub(self.skipped.len());
        let Self { failures, skipped, panics, .. } = self;
        let with_reason = |test: String| {
            let panic = panics.iter().find(|(it, _)| *it == test);
            let description =
                panic.map_or_else(|| test.clone(), |(_, panic)| format!("{test}: {panic}"));
            JobFailure { test: Some(test), description }
        };
        let failures = failures.into_iter().map(with_reason).collect();
        JobFindings { counts, failures, skipped, shown: None }
    }

    /// Adds a result such as `ok. 3 passed; 0 failed; 1 ignored; …`.
    fn count(&mut self, result: &str) {
        for part in result.split(['.', ';']) {
            let mut words = part.split_whitespace();
            let (number, word) =
                (words.next().and_then(|it| it.parse::<usize>().ok()), words.next());
            match (number, word) {
                (Some(number), Some("passed")) => self.counts.passed += number,
                (Some(number), Some("failed")) => self.counts.failed += number,
                (Some(number), Some("ignored")) => {
                    // A program that a test starts reports its own result first, without any.
                    let with_reason = number.min(self.ignored_with_reason);
                    self.ignored_with_reason -= with_reason;
                    self.counts.skipped += number - with_reason;
                }
                _ => {}
            }
        }
    }
}

/// The line without the escape sequences of colors.
fn without_colors(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(character) = rest.next() {
        if character != '\u{1b}' {
            text.push(character);
        } else if rest.next() == Some('[') {
            rest.by_ref().find(char::is_ascii_alphabetic);
        } else {
            // `ESC ( B` selects a character set.
            rest.next();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{TestCounts, TestOutput};
    use crate::jobs::{JobFailure, JobFindings};

    const OUTPUT: &str = "\
running 5 tests
test one ... \u{1b}[32mok\u{1b}(B\u{1b}[m
test two ... ok
test three ... FAILED
test four ... ignored
test five ... ignored, the test above starts it
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 5 filtered out

successes:

---- one stdout ----
installing a package
skipped: `npm` is not installed
skipped: there is no network

---- two stdout ----
nothing was skipped: all is well

successes:
    one
    two

failures:

---- three stdout ----
skipped: but it failed
thread 'three' (7) panicked at tests/three.rs:3:5:
assertion failed
note: run with a backtrace

failures:
    three

test result: \u{1b}[31mFAILED\u{1b}(B\u{1b}[m. 2 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out
";

    #[test]
    fn a_skipped_test_is_counted_once_and_not_as_passed() {
        let mut output = TestOutput::default();
        let shown: Vec<&str> = OUTPUT.lines().filter(|line| output.read(line)).collect();
        let JobFindings { counts, failures, skipped, .. } = output.finish();
        let description = "three: thread 'three' (7) panicked at tests/three.rs:3:5: | assertion failed | \
              note: run with a backtrace | ";
        let failure =
            JobFailure { test: Some("three".to_owned()), description: description.to_owned() };
        assert_eq!(failures, [failure]);
        assert_eq!(counts, TestCounts { passed: 1, failed: 1, skipped: 2 });
        assert_eq!(skipped, [("one".to_owned(), "`npm` is not installed".to_owned())]);
        assert!(shown.contains(&"skipped: but it failed"));
        assert!(!shown.iter().any(|line| line.contains("installing") || line.contains("one")));
        assert_eq!(counts.to_string(), "1 passed, 1 failed, 2 skipped");
    }

    #[test]
    fn scenarios_that_are_not_meant_for_a_version_do_not_count() {
        let xml = "<testsuites>\n  \
             <testsuite name=\"play\" tests=\"10\" failures=\"1\" errors=\"2\" skipped=\"3\" time=\"1.5\">\n\
             <testcase name=\"a\"/>\n  </testsuite>\n  \
             <testsuite name=\"2.1.37\" tests=\"5\" failures=\"0\" errors=\"0\" skipped=\"5\" time=\"0\">\n";
        assert_eq!(TestCounts::from_junit(xml), TestCounts { passed: 4, failed: 3, skipped: 0 });
    }
}
