//! How many tests passed, failed and were skipped, from the output of test programs.

use std::fmt;

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

/// Reads the output of `cargo test -- --show-output` line by line.
///
/// A test that cannot run prints `skipped: REASON` and succeeds, so that only its output shows that
/// it was skipped. The output of tests that passed is not shown to the user.
///
/// A test that is ignored with a reason is no test of its own: another test starts it as a process, or
/// it writes documentation. It is not counted.
#[derive(Debug, Default)]
pub(crate) struct TestOutput {
    counts: TestCounts,
    /// Each skipped test with its reason.
    skipped: Vec<(String, String)>,
    /// Whether the lines are output of tests that passed.
    in_successes: bool,
    /// The test whose output the lines are; `None` once it is counted as skipped.
    test: Option<String>,
    /// How many tests of the current program are ignored with a reason.
    ignored_with_reason: usize,
}

impl TestOutput {
    /// Reads a line. Returns whether the user should see it.
    pub(crate) fn read(&mut self, line: &str) -> bool {
        let line = without_colors(line);
        let line = line.trim_end();
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        if let Some(result) = line.strip_prefix("test result: ") {
            self.in_successes = false;
            self.count(result);
        }
        if line.starts_with("test ") && line.contains(" ... ignored, ") {
            self.ignored_with_reason += 1;
        }
        if let Some(test) =
            line.strip_prefix("---- ").and_then(|it| it.strip_suffix(" stdout ----"))
        {
            self.test = Some(test.to_owned());
        }
        if self.in_successes
            && let Some(reason) = line.strip_prefix("skipped: ")
            && let Some(test) = self.test.take()
        {
            self.skipped.push((test, reason.to_owned()));
        }
        !self.in_successes
    }

    /// The counts of all test programs, and the skipped tests with their reasons.
    pub(crate) fn finish(self) -> (TestCounts, Vec<(String, String)>) {
        let mut counts = self.counts;
        // `cargo test` counts them as passed.
        counts.skipped += self.skipped.len();
        counts.passed = counts.passed.saturating_sub(self.skipped.len());
        (counts, self.skipped)
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

failures:
    three

test result: \u{1b}[31mFAILED\u{1b}(B\u{1b}[m. 2 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out
";

    #[test]
    fn a_skipped_test_is_counted_once_and_not_as_passed() {
        let mut output = TestOutput::default();
        let shown: Vec<&str> = OUTPUT.lines().filter(|line| output.read(line)).collect();
        let (counts, skipped) = output.finish();
        assert_eq!(counts, TestCounts { passed: 1, failed: 1, skipped: 2 });
        assert_eq!(skipped, [("one".to_owned(), "`npm` is not installed".to_owned())]);
        assert!(shown.contains(&"skipped: but it failed"));
        assert!(!shown.iter().any(|line| line.contains("installing")));
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
