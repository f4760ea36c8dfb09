//! The whole check: what a contributor runs before a push and what CI runs after it.
//!
//! Plain cargo throughout, so that a fresh machine needs a toolchain and nothing else.

use std::time::Instant;

use crate::cargo;
use crate::failure::Failure;

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
];

/// Takes every step, up to the first that fails.
pub(crate) fn all() -> Result<(), Failure> {
    let start = Instant::now();
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
    fn take(&self) -> Result<(), Failure> {
        let Self { name, cargo: arguments, environment } = self;
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
