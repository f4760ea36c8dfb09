//! Why a benchmark could not run.

use std::fmt;

/// Why a benchmark could not run, and what may help.
#[derive(Debug)]
pub(crate) struct BenchError {
    message: String,
    hint: &'static str,
}

impl BenchError {
    /// `action` completes the sentence "could not …".
    pub(crate) fn new(action: &str, cause: &dyn fmt::Display) -> Self {
        Self { message: format!("could not {action}\n  caused by: {cause}"), hint: "" }
    }

    pub(crate) fn usage(message: String) -> Self {
        Self { message, hint: "`cargo xtask bench --help` lists the options" }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if !self.hint.is_empty() {
            write!(f, "\n\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}
