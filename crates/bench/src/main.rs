//! Measures how fast Towpath is, compared with the tools people use today.
//!
//! Results are CPU time, not wall time: the programs run in turn, and the minimum of several rounds
//! counts. Requests per second are the exception: they depend on how idle the machine is. A missed
//! target is marked in the table and does not change the exit code.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program: results on stdout, progress on stderr"
)]
#![expect(clippy::disallowed_methods, reason = "it starts the programs that it measures")]

mod cache;
mod commands;
mod corpus;
mod error;
mod fleet;
mod fold;
mod followers;
mod journal;
mod measure;
mod memory;
mod page;
mod readers;
mod reading;
mod scenarios;
mod sessions;
mod simulation;
mod stub;
mod table;
mod transcript_home;
mod transcripts;
mod watch;

use std::fs::File;
use std::io::BufWriter;
use std::num::NonZero;
use std::process::ExitCode;

use crate::fleet::FleetLoad;
use cache::BenchCache;
use corpus::Corpus;
use error::BenchError;
use table::BenchTable;

const HELP: &str = "\
Benchmarks of Towpath

Usage:
  cargo xtask bench [--mb N] [--rounds N] [--only JOB] [--workers N] [--sessions N]
      Measure. Jobs: kind, read, allocations, fold, inspect, startup, stub, journal, sessions,
      watch, followers, page, memory, transcripts, simulation, fleet, scenarios. Default: all of
      them, 200 MB of each corpus, 5 rounds, a fleet of 200 workers with 10 sessions each.
  cargo xtask corpus {A|B|C} BYTES OUT
      Write an invented session: A token deltas, B tool calls, C a mix of both.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), BenchError> {
    match arguments {
        ["--help" | "-h" | "help", ..] | [_, "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        ["corpus", corpus, bytes, out] => write_corpus(corpus, bytes, out),
        // Started by the job `fold`, so that the memory of folding is that of one process.
        ["fold-file", path] => fold::fold_file(path.as_ref())
            .map_err(|error| BenchError::new(&format!("fold `{path}`"), &error)),
        options => measure_jobs(&BenchOptions::parse(options)?),
    }
}

fn write_corpus(corpus: &str, bytes: &str, out: &str) -> Result<(), BenchError> {
    let corpus = Corpus::from_name(corpus).ok_or_else(|| {
        BenchError::usage(format!("there is no corpus `{corpus}`: use A, B or C"))
    })?;
    let bytes = bytes
        .replace('_', "")
        .parse()
        .map_err(|_| BenchError::usage(format!("`{bytes}` is not a number of bytes")))?;
    let size = File::create(out)
        .and_then(|file| corpus.write(bytes, &mut BufWriter::new(file)))
        .map_err(|error| BenchError::new(&format!("write `{out}`"), &error))?;
    let average = size.bytes / size.lines;
    eprintln!("bench: {out}: {} bytes, {} lines, {average} bytes per line", size.bytes, size.lines);
    Ok(())
}

/// Runs the jobs and prints the table.
fn measure_jobs(options: &BenchOptions) -> Result<(), BenchError> {
    let (cache, rounds) = (BenchCache::beside_executable(options.megabytes)?, options.rounds);
    let mut table = BenchTable::default();
    for job in options.jobs() {
        eprintln!("bench: {}", job.name());
        table.extend(match job {
            BenchJob::Kind => reading::kinds(&cache, rounds)?,
            BenchJob::Read => reading::typed(&cache, rounds)?,
            BenchJob::Allocations => reading::allocations(&cache)?,
            BenchJob::Fold => fold::rows(&cache, rounds)?,
            BenchJob::Inspect => commands::inspect(&cache, rounds)?,
            BenchJob::Startup => commands::startup(&cache)?,
            BenchJob::Stub => stub::rows(&cache, rounds)?,
            BenchJob::Journal => journal::rows(&cache, rounds)?,
            BenchJob::Sessions => sessions::rows(&cache)?,
            BenchJob::Watch => watch::rows(&cache, rounds)?,
            BenchJob::Followers => followers::rows(&cache)?,
            BenchJob::Page => page::rows(&cache)?,
            BenchJob::Memory => memory::rows(&cache)?,
            BenchJob::Transcripts => transcripts::rows(&cache)?,
            BenchJob::Simulation => simulation::rows()?,
            BenchJob::Fleet => crate::fleet::rows(&cache, options.fleet)?,
            BenchJob::Scenarios => scenarios::rows(&cache)?,
        });
    }
    print!("{table}");
    Ok(())
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BenchJob {
    /// Finding the kind of each line.
    Kind,
    /// Reading each line into its type.
    Read,
    /// Allocations for reading a text delta.
    Allocations,
    /// Folding sessions into conversations.
    Fold,
    /// `towpath inspect` of a file.
    Inspect,
    /// `towpath --version`.
    Startup,
    /// Requests to `towpath stub`.
    Stub,
    /// Appending to, replaying and compacting the journal.
    Journal,
    /// Driving agents.
    Sessions,
    /// `towpath watch` between two pipes.
    Watch,
    /// Following sessions over a WebSocket.
    Followers,
    /// Opening a session in a browser.
    Page,
    /// Peak memory with large sessions.
    Memory,
    /// Listing, opening and searching the CLI's session files.
    Transcripts,
    /// The simulation of a session's owner.
    Simulation,
    /// Workers, NATS servers and a gateway.
    Fleet,
    /// All scenarios with a release of Claude Code.
    Scenarios,
}

impl BenchJob {
    const ALL: [Self; 17] = [
        Self::Kind,
        Self::Read,
        Self::Allocations,
        Self::Fold,
        Self::Inspect,
        Self::Startup,
        Self::Stub,
        Self::Journal,
        Self::Sessions,
        Self::Watch,
        Self::Followers,
        Self::Page,
        Self::Memory,
        Self::Transcripts,
        Self::Simulation,
        Self::Fleet,
        Self::Scenarios,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Read => "read",
            Self::Allocations => "allocations",
            Self::Fold => "fold",
            Self::Inspect => "inspect",
            Self::Startup => "startup",
            Self::Stub => "stub",
            Self::Journal => "journal",
            Self::Sessions => "sessions",
            Self::Watch => "watch",
            Self::Followers => "followers",
            Self::Page => "page",
            Self::Memory => "memory",
            Self::Transcripts => "transcripts",
            Self::Simulation => "simulation",
            Self::Fleet => "fleet",
            Self::Scenarios => "scenarios",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct BenchOptions {
    /// The size of each corpus.
    megabytes: NonZero<u64>,
    /// How often each program runs.
    rounds: NonZero<u32>,
    only: Option<BenchJob>,
    fleet: FleetLoad,
}

const MEGABYTES: NonZero<u64> = NonZero::new(200).expect("not zero");
const ROUNDS: NonZero<u32> = NonZero::new(5).expect("not zero");

impl BenchOptions {
    fn parse(arguments: &[&str]) -> Result<Self, BenchError> {
        let (megabytes, rounds, fleet) = (MEGABYTES, ROUNDS, FleetLoad::default());
        let mut options = Self { megabytes, rounds, only: None, fleet };
        let (pairs, rest) = arguments.as_chunks();
        for [option, value] in pairs {
            let invalid = || BenchError::usage(format!("invalid option `{option} {value}`"));
            match *option {
                "--mb" => options.megabytes = value.parse().map_err(|_| invalid())?,
                "--rounds" => options.rounds = value.parse().map_err(|_| invalid())?,
                "--workers" => options.fleet.workers = value.parse().map_err(|_| invalid())?,
                "--sessions" => options.fleet.sessions = value.parse().map_err(|_| invalid())?,
                "--only" => {
                    let job = BenchJob::ALL.into_iter().find(|job| job.name() == *value);
                    options.only = Some(job.ok_or_else(invalid)?);
                }
                _ => return Err(invalid()),
            }
        }
        match rest {
            [] => Ok(options),
            [option, ..] => Err(BenchError::usage(format!("`{option}` needs a value"))),
        }
    }

    fn jobs(&self) -> impl Iterator<Item = BenchJob> {
        BenchJob::ALL.into_iter().filter(|job| self.only.is_none_or(|only| only == *job))
    }
}

#[cfg(test)]
mod tests {
    use super::{BenchJob, BenchOptions};

    #[test]
    fn options_have_a_value_and_unknown_ones_are_refused() {
        let options = BenchOptions::parse(&["--mb", "20", "--only", "read"]).unwrap();
        assert_eq!((options.megabytes.get(), options.only), (20, Some(BenchJob::Read)));
        let options = BenchOptions::parse(&["--workers", "3", "--sessions", "2"]).unwrap();
        assert_eq!((options.fleet.workers.get(), options.fleet.sessions.get()), (3, 2));
        for wrong in [
            &["--mb"][..],
            &["--mb", "0"],
            &["--workers", "0"],
            &["--only", "all"],
            &["--fast", "1"],
        ] {
            BenchOptions::parse(wrong).unwrap_err();
        }
    }
}
