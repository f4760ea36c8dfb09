//! `towpath --version`, which is asked for by scripts and prompts.
//!
//! It is answered before the arguments of every command are built, which takes longer than all the rest.

use std::io::Write as _;

use crate::verdict::Verdict;

/// Whether nothing but the version is asked for.
pub(crate) fn is_wanted() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == "--version" || first == "-V")
        && arguments.next().is_none()
}

/// Says it.
pub(crate) fn print() -> Verdict {
    let said = writeln!(std::io::stdout(), "towpath {}", env!("CARGO_PKG_VERSION"));
    // Whoever asked may have gone.
    if said.is_ok() { Verdict::Done } else { Verdict::CouldNotTry }
}
