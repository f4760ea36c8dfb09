//! How far a long reading has come, on a terminal.

use std::fs::Metadata;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Nobody needs to be told about work that is over at once.
const PATIENCE: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(100);

/// A line on the terminal that says how much was read; nothing where stderr is no terminal.
pub(super) struct Progress {
    /// Bytes there are, where all inputs are files.
    total: Option<u64>,
    read: u64,
    next_shown: Instant,
    shown: bool,
    on_terminal: bool,
}

impl Progress {
    pub(super) fn over(files: &[PathBuf]) -> Self {
        let size =
            |file: &PathBuf| file.metadata().ok().filter(Metadata::is_file).map(|it| it.len());
        let sizes: Option<Vec<u64>> = files.iter().map(size).collect();
        Self {
            total: sizes.map(|sizes| sizes.iter().sum()).filter(|&total| total > 0),
            read: 0,
            next_shown: Instant::now() + PATIENCE,
            shown: false,
            on_terminal: std::io::stderr().is_terminal(),
        }
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.read += bytes as u64;
        if !self.on_terminal || Instant::now() < self.next_shown {
            return;
        }
        self.next_shown = Instant::now() + INTERVAL;
        self.shown = true;
        let read = self.read >> 20;
        let text = match self.total {
            Some(total) => {
                format!("{read} of {} MiB ({} %)", total >> 20, self.read * 100 / total)
            }
            None => format!("{read} MiB"),
        };
        // A terminal that cannot be written to is no reason to stop reading.
        let _ = write!(std::io::stderr(), "\r\u{1b}[Kinspecting: {text}");
    }

    /// Takes the line away again.
    pub(super) fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}
