//! Budgets: what the session has cost, and asking a person before it costs more.
//!
//! A budget never stops a turn. It is looked at before a prompt starts one; if it is spent, the queue is
//! held. To resume the queue allows the same amount again.

use wire::note::{Actor, HoldReason, Note};

use super::{Effect, Machine};
use crate::options::RaisedDay;

/// The milliseconds of a day.
const DAY: u64 = 24 * 60 * 60 * 1000;

/// Dollars that differ by less are the same amount: it was written as text in between.
const SAME_AMOUNT: f64 = 1e-6;

impl Machine {
    /// The agent reported what the conversation has cost so far.
    pub(super) fn count_cost(&mut self, total: f64) {
        // Storing it would replace the unreadable options by defaults.
        if self.unreadable_options.is_some() {
            return;
        }
        let mut spending = self.options.spending.clone();
        let new = spending.report(total);
        if spending == self.options.spending {
            return;
        }
        self.change_options(|options| options.spending = spending);
        if new > 0.0 {
            self.effects.push(Effect::AddCost(new));
        }
    }

    /// The next process counts its cost from zero.
    pub(super) fn restart_cost(&mut self) {
        if self.options.spending.reported != Some(0.0) {
            self.change_options(|options| options.spending.reported = Some(0.0));
        }
    }

    /// Whether the budgets allow that the next prompt is sent. Holds the queue if they do not. If the cost
    /// of the day must be known first, it is asked for, and this is called again.
    pub(super) fn has_budget(&mut self) -> bool {
        if self.unreadable_options.is_some() {
            // No agent is started, and holding the queue would replace the options by defaults.
            return true;
        }
        if let Some(hold) = self.exceeded_session_budget() {
            self.hold_queue(hold, None);
            return false;
        }
        let Some(budget) = self.limits.budget_per_day else { return true };
        let day = self.wall / DAY;
        let Some(spent) = self.day_cost else {
            if !std::mem::replace(&mut self.awaits_day_cost, true) {
                self.effects.push(Effect::LoadDayCost(day));
            }
            return false;
        };
        let raised = self.options.spending.raised_day.filter(|raised| raised.day == day);
        let limit = match raised {
            None => budget,
            Some(RaisedDay { limit: Some(limit), .. }) => limit,
            Some(RaisedDay { limit: None, .. }) => {
                let raised = RaisedDay { day, limit: Some(spent + budget) };
                self.change_options(|options| options.spending.raised_day = Some(raised));
                spent + budget
            }
        };
        if is_spent(spent, limit) {
            self.hold_queue(HoldReason::Budget { spent, limit, day: Some(day) }, None);
            return false;
        }
        true
    }

    fn exceeded_session_budget(&self) -> Option<HoldReason> {
        let spending = &self.options.spending;
        let (spent, limit) = (spending.total, spending.raised_limit.or(self.options.budget_usd)?);
        is_spent(spent, limit).then_some(HoldReason::Budget { spent, limit, day: None })
    }

    /// Whether a budget holds the queue at this limit.
    pub(super) fn is_held_at(&self, seen: f64) -> bool {
        match self.options.queue_hold {
            Some(HoldReason::Budget { limit, .. }) => (limit - seen).abs() < SAME_AMOUNT,
            _ => false,
        }
    }

    /// A person resumes the queue. If a budget holds it, the same amount is allowed again.
    pub(super) fn raise_budget(&mut self, by: &Actor) {
        let Some(HoldReason::Budget { day, .. }) = self.options.queue_hold else { return };
        let (today, total) = (self.wall / DAY, self.options.spending.total);
        let amount = match day {
            None => self.options.budget_usd,
            // Another day has a budget of its own.
            Some(day) => self.limits.budget_per_day.filter(|_| day == today),
        };
        let Some(amount) = amount else { return };
        self.change_options(|options| match day {
            None => options.spending.raised_limit = Some(total + amount),
            // Other sessions may have gone on, so the limit follows from what is spent by then.
            Some(day) => options.spending.raised_day = Some(RaisedDay { day, limit: None }),
        });
        self.note(Note::BudgetRaised { amount, of_day: day.is_some(), by: by.clone() });
    }

    /// The session has another budget, or none. It counts from the start of the session.
    pub(super) fn budget_changed(&mut self) {
        self.change_options(|options| options.spending.raised_limit = None);
        let held = matches!(self.options.queue_hold, Some(HoldReason::Budget { day: None, .. }));
        if held && self.exceeded_session_budget().is_none() {
            self.resume_queue(None);
        }
    }
}

/// Whether all of a limit is spent. Both are sums, which are not exact: with 1.09 spent and 0.80 more
/// allowed the limit is 1.8900000000000001, and 1.89 is all of it.
fn is_spent(spent: f64, limit: f64) -> bool {
    // Many times the error of such sums, and less than any amount that someone allows.
    limit - spent <= limit * 1e-12
}
