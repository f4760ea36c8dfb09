//! Why a chore was not done.

use std::fmt;
use std::process::ExitCode;

/// Why a chore was not done, with what may help.
#[derive(Debug)]
pub(crate) struct Failure {
    verdict: Verdict,
    message: String,
    hint: String,
}

#[derive(Clone, Copy, Debug)]
enum Verdict {
    /// It was done, and the answer is no.
    No,
    /// It could not be tried.
    NotTried,
}

impl Failure {
    pub(crate) fn no(message: String, hint: String) -> Self {
        Self { verdict: Verdict::No, message, hint }
    }

    pub(crate) fn usage(message: String) -> Self {
        let hint = "`cargo xtask --help` lists the chores".to_owned();
        Self { verdict: Verdict::NotTried, message, hint }
    }

    /// `what` completes "could not".
    pub(crate) fn could_not(what: &str, cause: &dyn fmt::Display) -> Self {
        let message = format!("could not {what}\n  caused by: {cause}");
        Self { verdict: Verdict::NotTried, message, hint: String::new() }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self.verdict {
            Verdict::No => 1,
            Verdict::NotTried => 2,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if !self.hint.is_empty() {
            write!(f, "\n\nhint: {}", self.hint)?;
        }
        Ok(())
    }
}
