//! A program that shows a long text page by page.

use std::io;
use std::process::{Child, Command, Stdio};

/// A pager that was started; what is written to it is shown.
pub(super) struct Pager {
    child: Child,
}

/// Whether anybody saw the text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Yes,
    No,
}

impl Pager {
    /// Starts the pager, as a shell would: it may have arguments. Nothing where there is none, or it
    /// cannot be started; then the text goes to the terminal.
    #[expect(clippy::disallowed_methods, reason = "the pager is the user's own program")]
    pub(super) fn start(command: &str) -> Option<Self> {
        let command = command.trim();
        if command.is_empty() || command == "cat" {
            return None;
        }
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).stdin(Stdio::piped());
        // Colours are shown, a text that fits in the window needs no key to be left, and it stays.
        if std::env::vars_os().all(|(name, _)| name != "LESS") {
            shell.env("LESS", "FRX");
        }
        shell.spawn().ok().map(|child| Self { child })
    }

    /// Where the text goes.
    pub(super) fn input(&mut self) -> Box<dyn io::Write> {
        match self.child.stdin.take() {
            Some(input) => Box::new(io::BufWriter::new(input)),
            None => Box::new(io::sink()),
        }
    }

    /// Waits until the user has left it. Its input must have been dropped. Says whether there was
    /// such a program at all; how it ended is the user's affair.
    pub(super) fn wait(mut self) -> Shown {
        let code = self.child.wait().ok().and_then(|status| status.code());
        // What a shell says of a program that is not there, or cannot be run.
        if matches!(code, Some(126 | 127)) { Shown::No } else { Shown::Yes }
    }
}
