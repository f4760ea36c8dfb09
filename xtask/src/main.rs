//! Towpath's chores, as `cargo xtask`: the check, corpora, benchmarks.
//!
//! Built before anything else and by everybody, so it depends on nothing by default; what the
//! benchmarks need is behind the feature `bench`.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program: results on stdout, talk on stderr"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "it starts cargo and other programs, and cargo tells it in the environment where it is"
)]

mod bench;
mod cargo;
mod corpus;
mod failure;
mod setup;
mod test;

use std::fs::File;
use std::io::BufWriter;
use std::process::ExitCode;

use corpus::Mix;
use failure::Failure;

const HELP: &str = "\
Towpath's chores

Usage:
  cargo xtask test [--only STEP]         the whole check, as CI runs it; steps: fmt,
                                         clippy, test, doc, book
  cargo xtask corpus {A|B|C} BYTES OUT   write an invented session: A token deltas, B tool traffic, C mixed
  cargo xtask bench [--mb N] [--rounds N] [--only JOB]
                                         measure; jobs: kind, read, allocations, fold, inspect,
                                         startup, stub, journal, sessions, watch, followers
                                         (200 MB of each corpus and 5 rounds unless told)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), Failure> {
    match arguments {
        [] | ["--help" | "-h" | "help", ..] | [_, "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        ["test"] => test::all(),
        ["test", "--only", step] => test::only(step),
        ["corpus", mix, bytes, out] => write_corpus(mix, bytes, out),
        ["bench", options @ ..] => bench::run(options),
        _ => Err(Failure::usage(format!("`{}` is no chore", arguments.join(" ")))),
    }
}

fn write_corpus(mix: &str, bytes: &str, out: &str) -> Result<(), Failure> {
    let mix = Mix::from_name(mix)
        .ok_or_else(|| Failure::usage(format!("`{mix}` is none of the corpora A, B and C")))?;
    let bytes = bytes
        .replace('_', "")
        .parse()
        .map_err(|_| Failure::usage(format!("`{bytes}` is no number of bytes")))?;
    let written = File::create(out)
        .and_then(|file| corpus::write(mix, bytes, &mut BufWriter::new(file)))
        .map_err(|error| Failure::could_not(&format!("write `{out}`"), &error))?;
    eprintln!(
        "xtask: {out}: {} bytes in {} lines, {} bytes each",
        written.bytes,
        written.lines,
        written.bytes / written.lines
    );
    Ok(())
}
