//! Errors as a person reads them: what failed, why, and what to do about it.

use std::error::Error;

use anstream::eprintln;
use anstyle::{AnsiColor, Style};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

/// Prints an error with its causes, and a hint where there is one.
pub(crate) fn complain(error: &dyn Error, hint: Option<&str>) {
    eprintln!("{ERROR}error{ERROR:#}: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
    if let Some(hint) = hint {
        eprintln!("\n{HINT}hint{HINT:#}: {hint}\n");
    }
}
