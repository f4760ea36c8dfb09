//! What is wrong with a configuration file, with the line.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What is wrong with a configuration file.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("`{}` cannot be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The file is not used whatever it says.
    #[error("`{}` is not used: {reason}", path.display())]
    Unusable { path: PathBuf, reason: &'static str },
    #[error("`{}`, line {line}: {message}", path.display())]
    Invalid { path: PathBuf, line: usize, message: String },
}

impl ConfigError {
    pub(super) fn at(
        path: &Path,
        text: &str,
        place: Option<Range<usize>>,
        message: impl Into<String>,
    ) -> Self {
        let start = place.map_or(0, |it| it.start.min(text.len()));
        let line = 1 + text.bytes().take(start).filter(|it| *it == b'\n').count();
        let message = message.into().replace(|it: char| it.is_control() && it != '\n', "\u{fffd}");
        Self::Invalid { path: path.to_owned(), line, message }
    }
}
