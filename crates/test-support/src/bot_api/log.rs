//! What the bot asked, and what became of it.

use std::time::Duration;

use serde_json::Value;

use super::refusal::Refusal;

/// A call of the bot.
#[derive(Clone, Debug)]
pub struct Call {
    /// When it came, on the API's clock since it began.
    pub at: Duration,
    /// The method, spelled as the bot did.
    pub method: String,
    /// The parameters; files by name and size.
    pub params: Value,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether the bot was told so: an injected fault may have kept the answer.
    pub answered: bool,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It has not ended: a long poll, or a call that hangs.
    Open,
    /// It was carried out, with this `result`.
    Done(Value),
    /// It was refused.
    Refused(Refusal),
    /// A fault kept it from being carried out.
    Lost,
}

impl Call {
    /// Whether it is this method, however it was spelled.
    pub fn is(&self, method: &str) -> bool {
        self.method.eq_ignore_ascii_case(method)
    }

    /// The error, where it was refused.
    pub fn refusal(&self) -> Option<&Refusal> {
        match &self.outcome {
            Outcome::Refused(refusal) => Some(refusal),
            Outcome::Open | Outcome::Done(_) | Outcome::Lost => None,
        }
    }
}
