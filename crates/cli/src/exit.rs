//! How a command ends: its exit status, and the report of the error that ended it.

use std::error::Error;
use std::fmt;
use std::io::Write as _;
use std::process::{ExitCode, Termination};

use anstyle::{AnsiColor, Style};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// How a command ended. Ordered by severity, so that the worst of several is their maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CommandStatus {
    /// Exit code 0.
    Success,
    /// Exit code 3: nothing is known to be wrong, but the result is not certain, such as a scenario
    /// that differs only sometimes.
    Uncertain,
    /// Exit code 1: the command ran and its result is negative, such as a failed turn or a
    /// scenario that differs.
    Negative,
    /// Exit code 2: the command, or a part of it, could not run.
    Error,
    /// A signal stopped the command. The exit code is 128 plus the signal's number, as in shells.
    Signalled { signal: u8 },
}

impl Termination for CommandStatus {
    fn report(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Success => 0,
            Self::Uncertain => 3,
            Self::Negative => 1,
            Self::Error => 2,
            Self::Signalled { signal } => 128_u8.saturating_add(signal),
        })
    }
}

/// Prints an error with its causes, and a hint if there is one.
pub(crate) fn report_error(error: &dyn Error, hint: Option<&str>) {
    print_note(format_args!("{ERROR}error{ERROR:#}: {error}"));
    let mut cause = error.source();
    while let Some(error) = cause {
        print_note(format_args!("  caused by: {error}"));
        cause = error.source();
    }
    if let Some(hint) = hint {
        print_note(format_args!("\n{HINT}hint{HINT:#}: {hint}\n"));
    }
}

/// Prints a line to stderr if it can be written. A command whose terminal is gone must still end in
/// order, and `eprintln!` would panic.
pub(crate) fn print_note(line: fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr(), "{line}");
}
