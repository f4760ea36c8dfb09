//! The whole check: what a contributor runs before a push and what CI runs after it.
//!
//! Plain cargo for what is ours. For what proves it against programs nobody here wrote, set-up
//! installs what is missing where it can, and says so.

use std::time::Instant;

use crate::cargo;
use crate::failure::Failure;
use crate::setup;

/// A part of the check.
struct Step {
    name: &'static str,
    cargo: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

/// In this order, so that what fails fastest is known first.
const STEPS: &[Step] = &[
    Step { name: "fmt", cargo: &["fmt", "--all", "--check"], environment: &[] },
    Step {
        name: "clippy",
        cargo: &[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--",
            "-D",
            "warnings",
        ],
        environment: &[],
    },
    Step { name: "test", cargo: &["test", "--workspace"], environment: &[] },
    Step {
        name: "doc",
        cargo: &["doc", "--workspace", "--no-deps"],
        environment: &[("RUSTDOCFLAGS", "-D warnings")],
    },
    Step { name: "book", cargo: BOOK, environment: &[] },
];

/// The scenarios, held with our stand-in for the CLI and with two releases of the real one. The
/// build of the tests serves: what takes the time here is the real one.
#[rustfmt::skip]
const BOOK: &[&str] = &[
    "run", "--quiet", "--package", "towpath", "--",
    "verify", "--again", "--timeout", "60", "--claude", "play",
    "--claude", "npm:2.1.325", "--claude", "npm:2.1.37",
];

/// The same where the real CLI cannot be fetched: less the last line.
const BOOK_WITHOUT_CLI: &[&str] = BOOK.split_at(BOOK.len() - 4).0;

/// Takes every step, up to the first that fails.
pub(crate) fn all() -> Result<(), Failure> {
    let start = Instant::now();
    if let Err(reason) = setup::tests() {
        if setup::in_ci() {
            return Err(Failure::could_not("set up what the tests need", &reason));
        }
        eprintln!("xtask: parts of the tests will be skipped: {reason}");
    }
    STEPS.iter().try_for_each(Step::take)?;
    eprintln!("xtask: all good in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Takes one step.
pub(crate) fn only(name: &str) -> Result<(), Failure> {
    let Some(step) = STEPS.iter().find(|step| step.name == name) else {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        return Err(Failure::usage(format!("`{name}` is none of the steps {}", names.join(", "))));
    };
    step.take()
}

impl Step {
    /// The step, less what this machine cannot do; that is said.
    fn possible(&self) -> Self {
        let mut step = Self { ..*self };
        if self.name == "book"
            && let Err(reason) = setup::npm()
        {
            eprintln!("xtask: book: SKIPPED with the real CLI: {reason}");
            step.cargo = BOOK_WITHOUT_CLI;
        }
        step
    }

    fn take(&self) -> Result<(), Failure> {
        let Self { name, cargo: arguments, environment } = self.possible();
        eprintln!("xtask: {name}: cargo {}", arguments.join(" "));
        let start = Instant::now();
        let status = cargo::run(arguments, environment)?;
        let seconds = start.elapsed().as_secs_f64();
        if status.success() {
            eprintln!("xtask: {name}: passed in {seconds:.1} s");
            return Ok(());
        }
        Err(Failure::no(
            format!("step `{name}` failed after {seconds:.1} s ({status})"),
            format!("`cargo xtask test --only {name}` runs it alone"),
        ))
    }
}
