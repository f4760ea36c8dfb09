//! `towpath view`: displays a stream or transcript.
//!
//! Input is processed line by line: each line is folded, and finished items are written out and
//! dropped. Memory holds what is still open, never the whole conversation.

mod input;
mod page_file;
pub(crate) mod printer;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::Args;
use view::ViewDocument;

pub(crate) use printer::BottomArea;

use crate::exit::CommandStatus;
use crate::exit::report_error;
use crate::settings::remove_secrets;
use input::ViewInput;
use page_file::{begin_page, save_page, write_page};
use printer::{ConversationPrinter, TerminalScreen};

/// Display a stream or transcript as a readable conversation
///
/// Reads the output of `claude --output-format stream-json`, session files under
/// `~/.claude/projects`, and recordings of older versions; also the own streams and session files of
/// other agents (Codex, Gemini, Cursor, Droid, Copilot, pi and more). A stream is shown as it arrives; a file
/// opens in a pager. Lines that are not recognized are shown unchanged.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 success; 2 the input could not be read or the output could not be written.

Examples:
  claude -p 'hi' --output-format stream-json --verbose --include-partial-messages | towpath view
  towpath view ~/.claude/projects/*/6f4c….jsonl
  towpath view --follow run.jsonl              # while another program writes it
  towpath view --html talk.html run.jsonl      # export one HTML file that opens offline
  towpath view --full run.jsonl | less -R      # with thinking, raw events and complete output")]
#[expect(clippy::struct_excessive_bools, reason = "they are independent switches")]
pub(crate) struct ViewArgs {
    /// File to read; `-` or no file for stdin
    pub(crate) file: Option<PathBuf>,
    /// Write one HTML file instead; `-` for stdout
    #[arg(long, value_name = "OUT", conflicts_with = "follow")]
    pub(crate) html: Option<PathBuf>,
    /// Keep reading as the file grows, until interrupted
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Show everything: thinking, raw events, complete output
    #[arg(long)]
    pub(crate) full: bool,
    /// Rejoin events that a terminal or a pretty-printer split over several lines; the usual cases are
    /// found without it
    #[arg(long)]
    pub(crate) rejoin: bool,
    /// Print to the terminal without a pager
    #[arg(long)]
    pub(crate) no_pager: bool,
    /// Pager command
    #[arg(
        long,
        env = "PAGER",
        value_name = "COMMAND",
        default_value = "less",
        hide_env_values = true
    )]
    pub(crate) pager: String,
    /// Width in columns [default: the terminal's width, at most 100]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(20..))]
    pub(crate) width: Option<u16>,
}

/// Runs the command.
pub(crate) fn run(args: &ViewArgs) -> CommandStatus {
    match view(args) {
        Ok(()) => CommandStatus::Success,
        // The program that reads our output has closed it, as `head` does.
        Err(ViewError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            CommandStatus::Success
        }
        Err(error) => {
            report_error(&error, error.hint());
            CommandStatus::Error
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum ViewError {
    #[error("could not read `{name}`")]
    Read { name: String, source: io::Error },
    #[error("could not write the HTML file `{name}`")]
    Export { name: String, source: io::Error },
    #[error("could not write to stdout")]
    Write(#[source] io::Error),
}

impl ViewError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("session files are under `~/.claude/projects`, one folder per project")
            }
            Self::Read { source, .. } if source.kind() == io::ErrorKind::IsADirectory => {
                Some("this is a directory; name one of the files in it")
            }
            _ => None,
        }
    }
}

fn view(args: &ViewArgs) -> Result<(), ViewError> {
    let mut input = ViewInput::open(args)?;
    if let Some(out) = &args.html {
        return export(args, &mut input, out);
    }
    let screen = TerminalScreen::of_stdout(args.width);
    if input.is_live() {
        let mut printer = ConversationPrinter::new(stdout(), screen, args.full);
        if io::stdout().is_terminal() {
            printer.enable_live_area();
        }
        return print(args, &mut input, printer);
    }
    if io::stdout().is_terminal()
        && !args.no_pager
        && let Some(mut pager) = Pager::start(&args.pager)
    {
        let printer = ConversationPrinter::new(pager.input(), screen, args.full);
        let result = print(args, &mut input, printer);
        if pager.wait() == PagerOutcome::Ran {
            return result;
        }
        input = ViewInput::open(args)?;
    }
    print(args, &mut input, ConversationPrinter::new(stdout(), screen, args.full))
}

/// Stdout, with a buffer large enough for a whole redraw: a screen that is drawn line by line
/// flickers.
fn stdout() -> io::BufWriter<io::StdoutLock<'static>> {
    io::BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// Prints the whole input.
fn print<W: io::Write>(
    args: &ViewArgs,
    input: &mut ViewInput,
    mut printer: ConversationPrinter<W>,
) -> Result<(), ViewError> {
    printer.show_agent();
    let mut document = ViewDocument::new(args.full);
    while input.next(|line, at| document.push_line(line, at))?.is_some() {
        printer.update(&mut document).map_err(ViewError::Write)?;
    }
    printer.finish(&mut document).map_err(ViewError::Write)
}

fn export(args: &ViewArgs, input: &mut ViewInput, out: &Path) -> Result<(), ViewError> {
    let failed = |source| ViewError::Export { name: out.display().to_string(), source };
    let mut document = ViewDocument::new(args.full);
    let mut page = begin_page(args.full).map_err(failed)?;
    while input.next(|line, at| document.push_line(line, at))?.is_some() {
        page.update(&mut document).map_err(failed)?;
    }
    page.finish(&mut document).map_err(failed)?;
    if out == Path::new("-") {
        let mut stdout = io::stdout().lock();
        let written = write_page(page, &document, &mut stdout);
        written.and_then(|()| stdout.flush()).map_err(ViewError::Write)
    } else {
        save_page(page, &document, out).map_err(failed)
    }
}

/// A running pager.
struct Pager {
    child: Child,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PagerOutcome {
    Ran,
    /// There is no such program, or it cannot be executed.
    NotFound,
}

impl Pager {
    /// Starts the pager through a shell, since the command may have arguments. `None` if there is none
    /// or it cannot be started; the text then goes to the terminal.
    #[expect(clippy::disallowed_methods, reason = "the pager is the user's own program")]
    fn start(command: &str) -> Option<Self> {
        let command = command.trim();
        if command.is_empty() || command == "cat" {
            return None;
        }
        let mut shell = Command::new("sh");
        remove_secrets(&mut shell);
        shell.arg("-c").arg(command).stdin(Stdio::piped());
        // Pass colours through (R), exit if the text fits the screen (F), and leave it there (X).
        if std::env::vars_os().all(|(name, _)| name != "LESS") {
            shell.env("LESS", "FRX");
        }
        shell.spawn().ok().map(|child| Self { child })
    }

    fn input(&mut self) -> Box<dyn io::Write> {
        match self.child.stdin.take() {
            Some(input) => Box::new(io::BufWriter::new(input)),
            None => Box::new(io::sink()),
        }
    }

    /// Waits until the user leaves the pager. Its input must have been dropped.
    fn wait(mut self) -> PagerOutcome {
        let code = self.child.wait().ok().and_then(|status| status.code());
        // The shell's exit codes for a program that is missing or cannot be executed.
        if matches!(code, Some(126 | 127)) { PagerOutcome::NotFound } else { PagerOutcome::Ran }
    }
}
