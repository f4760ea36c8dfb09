//! `towpath inspect`: summarizes a stream or transcript.
//!
//! The input is processed in chunks: memory holds a line, the statistics and the anomalies, never
//! the whole stream.

mod agent_steps;
mod history;
mod input;
mod normalized_event;
mod normalized_step;
mod report;
mod statistics;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use wire::other_agents::AgentStreamReader;

use crate::exit::{CommandStatus, report_error};
use input::{InputError, InputReader, InspectSource, ProgressLine};
use statistics::StreamStatistics;

/// Summarize a stream or transcript
///
/// Reads the output of `claude --output-format stream-json` and `--output-format json`, session
/// files under `~/.claude/projects`, and recordings whose events follow `data: ` or a timestamp.
/// Also the own streams of other agents (`codex exec --json`, `gemini -o stream-json`,
/// `cursor-agent --output-format stream-json`, `opencode run --format json`, `droid exec`,
/// `copilot --output-format json`, `pi --mode json`) and the session files of Codex, Copilot and pi.
/// Reports sessions, versions, models, turns, tokens, cost, tools, files and event kinds, then
/// anomalies: unknown kinds, unexpected shapes, and lines that are not events.
#[expect(clippy::struct_excessive_bools, reason = "each is an independent command-line switch")]
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 done; 1 something is unknown or mismatched (with --strict); 2 some input could not be read.

Examples:
  claude -p 'hi' --output-format stream-json --verbose | towpath inspect
  towpath inspect ~/.claude/projects/*/*.jsonl
  towpath inspect --json run.jsonl | jq .sessions
  towpath inspect --events run.jsonl | jq 'select(.event == \"turn_ended\")'
  towpath inspect --strict captures/*/*.jsonl    # does a new release send anything unknown?
  towpath inspect --history captures             # which kinds and fields came and went?
  towpath inspect --history captures --add /tmp/new    # adds those of a new release")]
pub(crate) struct InspectArgs {
    /// Files to read; `-` or none for stdin
    files: Vec<PathBuf>,
    /// Print one JSON object instead of a report
    #[arg(long, conflicts_with = "events")]
    json: bool,
    /// Print one normalized event per line as JSON, whatever the dialect of the input
    #[arg(long)]
    events: bool,
    /// Print which kinds and fields came and went with which release; the files are directories of
    /// captures, called like the version or with one directory for each version
    #[arg(long, conflicts_with_all = ["json", "events", "strict", "rejoin", "all"], requires = "files")]
    history: bool,
    /// Add the captures of a new release to those in the directory, with the directory that `towpath
    /// verify --record` wrote: only those with a kind or field that no release before it has
    #[arg(long, value_name = "DIR", requires = "history")]
    add: Option<PathBuf>,
    /// Exit with 1 if anything is unknown or mismatched
    #[arg(long)]
    strict: bool,
    /// Rejoin events that a terminal or a pretty-printer split over several lines
    #[arg(long)]
    rejoin: bool,
    /// List all anomalies, not just the first few of each type
    #[arg(long)]
    all: bool,
    /// Longest line to read, in MiB; longer lines are counted but not read
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    max_line: u32,
}

#[derive(Debug, thiserror::Error)]
#[error("could not write the report")]
struct InspectWriteError(#[source] io::Error);

#[derive(Debug, thiserror::Error)]
#[error("captures can be added to one directory only")]
struct InspectAddError;

pub(crate) fn run(options: &InspectArgs) -> CommandStatus {
    if let (Some(new), [captures]) = (&options.add, options.files.as_slice()) {
        return history::add(captures, new);
    }
    if options.add.is_some() {
        report_error(&InspectAddError, None);
        return CommandStatus::Error;
    }
    if options.history {
        return history::run(&options.files);
    }
    let result = if options.json || options.events {
        inspect(options, BufWriter::new(io::stdout().lock()))
    } else {
        inspect(options, BufWriter::new(anstream::stdout().lock()))
    };
    match result {
        Ok(status) => status,
        // The reader of our output closed the pipe, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => CommandStatus::Success,
        Err(error) => {
            report_error(&InspectWriteError(error), None);
            CommandStatus::Error
        }
    }
}

/// Inspects every input. Read errors are reported and the next input is read; a write error is
/// returned.
fn inspect(options: &InspectArgs, mut out: impl Write) -> io::Result<CommandStatus> {
    let mut statistics = StreamStatistics::default();
    let mut status = CommandStatus::Success;
    let mut progress = ProgressLine::new(&options.files);
    for source in InspectSource::all(&options.files) {
        statistics.start_input();
        let mut agent_stream = AgentStreamReader::default();
        let result = InputReader::open(&source, options).and_then(|mut reader| {
            reader.each_line(&mut progress, |line| {
                if options.events {
                    normalized_event::write(&mut out, &line, &mut agent_stream)?;
                }
                statistics.add_line(&line);
                Ok(())
            })
        });
        match result {
            Ok(()) => {}
            Err(InputError::Write(error)) => return Err(error),
            Err(error) => {
                progress.clear();
                report_error(&error, error.hint());
                status = CommandStatus::Error;
            }
        }
    }
    progress.clear();
    if options.json {
        report::write_json(&statistics, &mut out)?;
    } else if !options.events && (status == CommandStatus::Success || statistics.lines > 0) {
        report::write_text(&statistics, options.all, &mut out)?;
    }
    out.flush()?;
    Ok(if status == CommandStatus::Success && options.strict && statistics.has_deviations() {
        CommandStatus::Negative
    } else {
        status
    })
}
