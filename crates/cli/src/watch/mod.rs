//! `towpath watch`: the pipe that acts on every file the agent changes.

mod arguments;
mod setup;
mod stopping;

use std::io::{self, Write as _};
use std::path::PathBuf;

use ::watch::{Ended, Verbosity, Outcome, LogLine, Report, Status, Stream, Coverage, CopyMethod};
use anstream::eprintln;
use anstyle::{AnsiColor, Style};

use crate::complaint::complain;
use crate::verdict::Verdict;

pub(crate) use arguments::WatchOptions;
pub(crate) use setup::{commit_place, store_options, token_in};
use stopping::Stopping;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Setup(#[from] setup::Unusable),
    #[error(transparent)]
    Watch(#[from] ::watch::Error),
    #[error("stdin and stdout cannot be used")]
    Ends(#[source] io::Error),
    #[error("could not read the stream")]
    Read(#[source] io::Error),
    #[error("could not pass the stream on")]
    Write(#[source] io::Error),
    #[error("could not write the report `{}`", .0.display())]
    Report(PathBuf, #[source] io::Error),
}

/// Runs the command.
pub(crate) fn run(options: &WatchOptions) -> Verdict {
    let verbosity = match (options.quiet, options.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    match watch(options, verbosity) {
        Ok((report, _)) if !report.is_good() => Verdict::No,
        Ok((_, Some(signal))) => Verdict::Stopped { signal },
        Ok((_, None)) => Verdict::Done,
        Err(failure) => {
            let hint = match &failure {
                Failure::Setup(unusable) => unusable.hint(),
                _ => None,
            };
            complain(&failure, hint);
            Verdict::CouldNotTry
        }
    }
}

/// What came of it, and the signal that ended it before the stream did.
fn watch(options: &WatchOptions, verbosity: Verbosity) -> Result<(Report, Option<u8>), Failure> {
    let settings = setup::settings(options)?;
    // Whether the report can be written is found out before there is something to report.
    let report_file = options.report.as_ref().map(|path| {
        std::fs::File::create(path).map_err(|error| Failure::Report(path.clone(), error))
    });
    let report_file = report_file.transpose()?;
    let tell = |line: &LogLine| {
        if line.verbosity() <= verbosity {
            say(line);
        }
    };
    let way = if options.copy { CopyMethod::Copy } else { CopyMethod::Best };
    let stream = own_ends(way).map_err(Failure::Ends)?;
    let stopping = Stopping::default();
    let asked = stopping.clone();
    let Outcome { ended, watched, report } =
        ::watch::run(stream, settings, tell, || asked.asked())?;
    if watched == Coverage::Partly {
        eprintln!(
            "{BAD}watch{BAD:#}: a mistake in towpath ended the watching before the stream did"
        );
    }
    if report.unread > 0 {
        let lines = report.unread;
        eprintln!("{BAD}watch{BAD:#}: {lines} lines were too long to look for changes in");
    }
    if verbosity > Verbosity::Quiet {
        summarise(&report);
    }
    if let (Some(path), Some(mut file)) = (&options.report, report_file) {
        let written = serde_json::to_writer(&mut file, &report).map_err(io::Error::from);
        let written = written.and_then(|()| file.write_all(b"\n"));
        written.map_err(|error| Failure::Report(path.clone(), error))?;
    }
    match ended {
        None => Ok((report, stopping.by())),
        Some(Ended::Input | Ended::Reader) => Ok((report, None)),
        Some(Ended::Reading(error)) => Err(Failure::Read(error)),
        Some(Ended::Writing(error)) => Err(Failure::Write(error)),
    }
}

/// Makes stdin and stdout ours to close: nobody should wait at them while the last files are on
/// their way.
fn own_ends(way: CopyMethod) -> io::Result<Stream> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let nothing = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(Stream { input, output, way })
}

fn say(line: &LogLine) {
    let style = match line {
        LogLine::Failed { .. } | LogLine::Trouble(_) => BAD,
        LogLine::Pushed { .. } | LogLine::Committed { .. } => GOOD,
        _ => Style::new(),
    };
    eprintln!("{style}watch{style:#}: {line}");
}

fn summarise(report: &Report) {
    let counts = [
        (Status::Pushed, "pushed"),
        (Status::Skipped, "skipped"),
        (Status::Failed, "failed"),
        (Status::Unfinished, "unfinished"),
    ];
    let mut parts: Vec<String> = counts
        .iter()
        .map(|(status, word)| (report.count(*status), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if parts.is_empty() {
        parts.push("nothing changed".to_owned());
    }
    if !report.commits.is_empty() {
        parts.push(counted(report.commits.len() as u64, "commit"));
    }
    parts.push(counted(report.turns, "turn"));
    eprintln!("watch: {}", parts.join(", "));
}

fn counted(count: u64, word: &str) -> String {
    format!("{count} {word}{}", if count == 1 { "" } else { "s" })
}
