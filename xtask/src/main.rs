//! Development tasks of Towpath, run as `cargo xtask`.
//!
//! This program depends on no other crate, so that it builds in a second.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program: results on stdout, progress on stderr"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "it starts cargo and other programs, and cargo passes its own path in the environment"
)]

mod cargo;
mod counts;
mod error;
mod jobs;
mod releases;
mod scenarios;
mod setup;
mod signals;
mod survivors;
mod test;
mod test_programs;

use std::process::ExitCode;

use error::XtaskError;

const HELP: &str = "\
Development tasks of Towpath

Usage:
  cargo xtask test [--only STEP]         run the whole check, as CI does; steps: fmt, web, clippy,
                                         test, doc, scenarios
  cargo xtask dist                       build the binary that is shipped: all features, fully
                                         optimized (takes much longer than `cargo build --release`)
  cargo xtask bench [OPTIONS]            measure; `cargo xtask bench --help` lists the options
  cargo xtask releases [--most N]        run the scenarios with the newest releases of Claude Code that have
                                         no results yet (3 unless told), add captures that have something
                                         new, and write docs/versions.md
  cargo xtask corpus {A|B|C} BYTES OUT   write an invented session to measure with
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(&arguments).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}

fn run(arguments: &[&str]) -> Result<ExitCode, XtaskError> {
    match arguments {
        [] | ["--help" | "-h" | "help", ..] | ["test", "--help" | "-h"] => {
            print!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        ["test"] => test::run_all(),
        ["test", "--only", step] => test::run_one(step),
        ["dist"] => {
            let build = ["build", "--package", "towpath", "--profile", "dist"];
            cargo::forward(&[&build[..], &["--features", "object-store"]].concat())
        }
        ["bench", options @ ..] => {
            if !options.iter().any(|option| matches!(*option, "--help" | "-h")) {
                // The programs that are measured.
                let code = cargo::forward(&["build", "--release", "--package", "towpath"])?;
                if code != ExitCode::SUCCESS {
                    return Ok(code);
                }
                cargo::forward(&["build", "--release", "--package", "towpath-bench", "--bins"])?;
            }
            run_bench(options)
        }
        ["releases", options @ ..] => releases::run(options),
        ["corpus", ..] => run_bench(arguments),
        _ => Err(XtaskError::usage(format!("there is no task `{}`", arguments.join(" ")))),
    }
}

fn run_bench(arguments: &[&str]) -> Result<ExitCode, XtaskError> {
    let run = ["run", "--quiet", "--release", "--package", "towpath-bench", "--"];
    cargo::forward(&[&run[..], arguments].concat())
}
