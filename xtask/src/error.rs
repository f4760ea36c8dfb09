//! Why a task could not run.

use std::fmt;

/// Why a task could not run, and what may help.
#[derive(Debug)]
pub(crate) struct XtaskError {
    message: String,
    hint: &'static str,
}

impl XtaskError {
    pub(crate) fn usage(message: String) -> Self {
        Self { message, hint: "`cargo xtask --help` lists the tasks" }
    }

    /// `action` completes the sentence "could not …".
    pub(crate) fn new(action: &str, cause: &dyn fmt::Display) -> Self {
        Self { message: format!("could not {action}\n  caused by: {cause}"), hint: "" }
    }
}

impl fmt::Display for XtaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if !self.hint.is_empty() {
            write!(f, "\n\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}
