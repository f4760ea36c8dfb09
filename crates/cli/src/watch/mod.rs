//! `towpath watch`: a pipe that acts on every file the agent changes.

mod arguments;
mod change_actions;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use ::watch::{
    CopyMethod, Coverage, LogLine, PipeEnd, Report, ReportStatus, StreamEnds, Verbosity,
    WatchOutcome,
};
use anstream::eprintln;
use anstyle::{AnsiColor, Style};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::{CommandStatus, report_error};

pub(crate) use arguments::{WatchArgs, WatchArgsError, commit_target, store_options, token_in};
pub(crate) use change_actions::ChangeActionArgs;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();

/// The signals that stop the command: Ctrl-C, `kill`, a closed terminal.
const STOP_SIGNALS: [fn() -> SignalKind; 3] =
    [SignalKind::interrupt, SignalKind::terminate, SignalKind::hangup];

#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Arguments(#[from] arguments::WatchArgsError),
    #[error(transparent)]
    Watch(#[from] ::watch::Error),
    #[error("could not use stdin and stdout")]
    Stdio(#[source] io::Error),
    #[error("could not read the stream")]
    Read(#[source] io::Error),
    #[error("could not write the stream")]
    Write(#[source] io::Error),
    #[error("could not write the report `{}`", .0.display())]
    Report(PathBuf, #[source] io::Error),
}

pub(crate) fn run(args: &WatchArgs) -> CommandStatus {
    let verbosity = match (args.quiet, args.verbose) {
        (true, _) => Verbosity::Quiet,
        (_, true) => Verbosity::Verbose,
        _ => Verbosity::Normal,
    };
    match watch(args, verbosity) {
        Ok((report, _)) if !report.is_success() => CommandStatus::Negative,
        Ok((_, Some(signal))) => CommandStatus::Signalled { signal },
        Ok((_, None)) => CommandStatus::Success,
        Err(error) => {
            let hint = match &error {
                WatchError::Arguments(error) => error.hint(),
                _ => None,
            };
            report_error(&error, hint);
            CommandStatus::Error
        }
    }
}

/// Returns the report, and the signal that stopped the command before the stream ended.
fn watch(args: &WatchArgs, verbosity: Verbosity) -> Result<(Report, Option<u8>), WatchError> {
    let settings = args.settings()?;
    // The report is created first, so that a wrong path is found before the stream starts.
    let report_file = args.report.as_ref().map(|path| {
        std::fs::File::create(path).map_err(|error| WatchError::Report(path.clone(), error))
    });
    let report_file = report_file.transpose()?;
    let log = |line: &LogLine| {
        if line.verbosity() <= verbosity {
            print(line);
        }
    };
    let method = if args.copy { CopyMethod::Copy } else { CopyMethod::Best };
    let stream = take_stdio(method).map_err(WatchError::Stdio)?;
    let stop_signal = StopSignal::default();
    let stop = stop_signal.clone();
    let WatchOutcome { end, coverage, report } =
        ::watch::run(stream, settings, log, || stop.received())?;
    if coverage == Coverage::Partial {
        eprintln!(
            "{BAD}watch{BAD:#}: watching ended before the stream because of a bug in towpath"
        );
    }
    if report.unread > 0 {
        let lines = report.unread;
        eprintln!("{BAD}watch{BAD:#}: {lines} lines were too long and not searched for changes");
    }
    if verbosity > Verbosity::Quiet {
        print_summary(&report);
    }
    if let (Some(path), Some(mut file)) = (&args.report, report_file) {
        let written = serde_json::to_writer(&mut file, &report).map_err(io::Error::from);
        let written = written.and_then(|()| file.write_all(b"\n"));
        written.map_err(|error| WatchError::Report(path.clone(), error))?;
    }
    match end {
        None => Ok((report, stop_signal.number())),
        Some(PipeEnd::EndOfInput | PipeEnd::OutputClosed) => Ok((report, None)),
        Some(PipeEnd::ReadFailed(error)) => Err(WatchError::Read(error)),
        Some(PipeEnd::WriteFailed(error)) => Err(WatchError::Write(error)),
    }
}

/// Takes stdin and stdout and replaces them with `/dev/null`, so that they can be closed when the stream
/// ends: the other processes of the pipeline should not wait for the last deliveries.
fn take_stdio(method: CopyMethod) -> io::Result<StreamEnds> {
    let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(StreamEnds { input, output, method })
}

fn print(line: &LogLine) {
    let style = match line {
        LogLine::Failed { .. } | LogLine::Problem(_) => BAD,
        LogLine::Pushed { .. } | LogLine::Committed { .. } => GOOD,
        _ => Style::new(),
    };
    eprintln!("{style}watch{style:#}: {line}");
}

fn print_summary(report: &Report) {
    let counts = [
        (ReportStatus::Pushed, "pushed"),
        (ReportStatus::Skipped, "skipped"),
        (ReportStatus::Failed, "failed"),
        (ReportStatus::Unfinished, "unfinished"),
    ];
    let mut parts: Vec<String> = counts
        .iter()
        .map(|(status, word)| (report.count(*status), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if parts.is_empty() {
        parts.push("no changes".to_owned());
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

/// The signal that stopped the command.
///
/// Whatever stops a pipeline usually stops the agent as well. So after the first signal the stream has
/// a moment to end by itself, and work in progress is finished. A second signal exits at once.
#[derive(Clone, Debug, Default)]
struct StopSignal {
    number: Arc<AtomicI32>,
}

impl StopSignal {
    /// Completes with the first signal.
    async fn received(self) {
        let ignored = ignored_signals();
        let kinds = STOP_SIGNALS.map(|kind| kind()).into_iter();
        let kinds = kinds.filter(|kind| ignored >> (kind.as_raw_value() - 1) & 1 == 0);
        let mut signals: Vec<(i32, Signal)> =
            kinds.filter_map(|kind| Some((kind.as_raw_value(), signal(kind).ok()?))).collect();
        self.number.store(next_signal(&mut signals).await, Ordering::Relaxed);
        tokio::spawn(async move {
            let second = next_signal(&mut signals).await;
            std::process::exit(128 + second);
        });
    }

    /// The number of the signal, if one was received.
    fn number(&self) -> Option<u8> {
        u8::try_from(self.number.load(Ordering::Relaxed)).ok().filter(|it| *it > 0)
    }
}

async fn next_signal(signals: &mut [(i32, Signal)]) -> i32 {
    std::future::poll_fn(|context| {
        for (number, signal) in &mut *signals {
            if signal.poll_recv(context).is_ready() {
                return std::task::Poll::Ready(*number);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// The signals that this process inherited as ignored, as a bit mask. `nohup` sets this, and shells do
/// for background jobs. A handler would undo it.
#[cfg(target_os = "linux")]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Other systems offer this only through unsafe calls.
#[cfg(not(target_os = "linux"))]
fn ignored_signals() -> u64 {
    0
}
