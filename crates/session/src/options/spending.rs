//! What a session has cost, and what it may. Stored with its options, in the same batch as the agent's
//! report.

use serde::{Deserialize, Serialize};

/// More than any session costs. Sums of such amounts stay finite, as JSON needs it.
const MAX_TOTAL: f64 = 1e12;

/// What a session has cost through Towpath, in dollars, and what a person allowed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionSpending {
    pub total: f64,
    /// The total that the agent reported last. If there is none, it is unknown how much of the next one
    /// was spent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reported: Option<f64>,
    /// The limit up to which a person allowed the session to go on; its budget if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raised_limit: Option<f64>,
    /// The same for the budget of a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raised_day: Option<RaisedDay>,
}

/// A day on which a session may go on although the budget of the day is spent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RaisedDay {
    /// In days since 1970.
    pub(crate) day: u64,
    /// The limit for what all sessions cost; not known yet if there is none.
    pub(crate) limit: Option<f64>,
}

impl SessionSpending {
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// What a session starts with that branches off the conversation. Its agent goes on counting from
    /// what the original has cost.
    pub(super) fn for_fork(&self) -> Self {
        Self { reported: self.reported, ..Self::default() }
    }

    /// Takes in the total that an agent reports. Returns what is new of it. A lower total than before is
    /// that of a new conversation.
    pub(crate) fn report(&mut self, total: f64) -> f64 {
        // NaN is no number of dollars, and a negative one would give budget back.
        if !(0.0..=MAX_TOTAL).contains(&total) {
            return 0.0;
        }
        let new = match self.reported.replace(total) {
            Some(before) if total >= before => total - before,
            Some(_) => total,
            None => 0.0,
        };
        self.total = (self.total + new).min(MAX_TOTAL);
        new
    }
}

#[cfg(test)]
mod tests {
    use super::SessionSpending;

    #[test]
    fn running_totals_are_counted_once() {
        let mut spending = SessionSpending { reported: Some(0.0), ..SessionSpending::default() };
        for total in [0.5, 0.5, 0.75, f64::NAN, -3.0, f64::INFINITY, 1e300, 0.25] {
            spending.report(total);
        }
        assert!((spending.total - 1.0).abs() < 1e-9, "{spending:?}");
        for _ in 0..100 {
            spending.report(1e12);
            spending.report(0.0);
        }
        let json = serde_json::to_string(&spending).unwrap();
        assert_eq!(serde_json::from_str::<SessionSpending>(&json).unwrap(), spending);
    }

    #[test]
    fn what_was_spent_before_is_not_counted() {
        let mut resumed = SessionSpending::default();
        resumed.report(40.0);
        resumed.report(40.5);
        assert!((resumed.total - 0.5).abs() < 1e-9, "{resumed:?}");
        let mut fork = resumed.for_fork();
        fork.report(41.0);
        assert!((fork.total - 0.5).abs() < 1e-9, "{fork:?}");
    }
}
