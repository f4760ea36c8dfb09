//! Tokens and cost.
//!
//! Tokens are counted once for each `message.id`, with the last usage reported for it, sub-agents
//! included; the usage of a `result` counts only if no message of its turn has any. These are the rules
//! of `wire::analysis::UsageTotals`, applied here per turn and call. Costs are only ever what the agent
//! reports. What was imported counts in its turns and not in the session's sums.

use serde::{Deserialize, Serialize};
use wire::analysis::{ResultUsage, TokenTotals, total_cost_restarts};
use wire::event::{TurnEnded, Usage as WireUsage};
use wire::json::Raw;

use super::Fold;
use crate::call::SubAgent;
use crate::item::{ItemBody, ItemId};
use crate::usage::TokenCounts;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct CostTracker {
    /// The total that the agent process reported last.
    pub(super) reported: Option<f64>,
    /// Whether a new process has started since.
    pub(super) resumed: bool,
    /// Tokens that only results report.
    results: ResultUsage,
}

/// The usage that was counted for a message.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct MessageUsage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    turn: Option<u64>,
}

impl MessageUsage {
    fn usage(&self) -> WireUsage {
        WireUsage {
            input_tokens: self.input,
            output_tokens: self.output,
            cache_creation_input_tokens: self.cache_write,
            cache_read_input_tokens: self.cache_read,
        }
    }

    fn set(&mut self, usage: WireUsage) {
        self.input = usage.input_tokens;
        self.output = usage.output_tokens;
        self.cache_write = usage.cache_creation_input_tokens;
        self.cache_read = usage.cache_read_input_tokens;
    }
}

impl Fold {
    /// Counts the usage reported for a message. Messages without an id cannot be told apart, so each
    /// report counts.
    pub(super) fn count_tokens(
        &mut self,
        message: Option<&str>,
        usage: WireUsage,
        parent: Option<&ItemId>,
        of_sub_agent: bool,
    ) {
        if !self.entry.imported {
            self.cost.results.message_counted(usage);
        }
        let current = self.turn_of_agent(parent);
        let (before, after, turn) = match message {
            Some(message) => {
                let counted = &mut self.messages.state(message).usage;
                let before = counted.usage();
                let after = before.overlaid(usage);
                counted.set(after);
                (before, after, *counted.turn.get_or_insert(current))
            }
            None => (WireUsage::default(), usage, current),
        };
        let change = |tokens: &mut TokenCounts| {
            tokens.subtract(before.into());
            tokens.add(after.into());
        };
        let context = TokenCounts::from(after).total();
        let is_main = !of_sub_agent && context > 0;
        if before == after && (!is_main || self.usage.value.context == Some(context)) {
            return;
        }
        let rev = self.rev();
        let counts = !self.entry.imported;
        self.usage.change(rev, |usage| {
            if counts {
                change(&mut usage.tokens);
            }
            if is_main {
                usage.context = Some(context);
            }
        });
        self.change_turn(turn, |record| change(&mut record.turn.tokens));
        if let Some(parent) = parent {
            self.change_agent(parent, |agent| change(&mut agent.tokens));
        }
    }

    /// Adds the cost from a `result`, which is the total of the process so far, and the tokens that no
    /// message had.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "context windows are small, and a negative one is none"
    )]
    pub(super) fn add_result_cost(&mut self, turn: u64, ended: &TurnEnded<'_>) {
        let rev = self.rev();
        let windows = ended.model_usage.into_iter().flat_map(Raw::fields);
        let windows = windows.filter_map(|(_, model)| model.get("contextWindow")?.number());
        let window = windows.map(|it| it as u64).filter(|&it| it > 0).max();
        if window.is_some() && window != self.usage.value.window {
            self.usage.change(rev, |usage| usage.window = window);
        }
        if let Some(tokens) = self.cost.results.turn_ended(ended) {
            let TokenTotals { input, output, cache_read, cache_write } = tokens;
            let tokens = TokenCounts { input, output, cache_read, cache_write };
            self.usage.change(rev, |usage| usage.tokens.add(tokens));
            self.change_turn(turn, |record| record.turn.tokens.add(tokens));
        }
        if let Some(total) = ended.total_cost_usd {
            self.add_cost(turn, total);
        }
    }

    /// Adds the cost from a session file.
    pub(super) fn add_recorded_cost(&mut self, total: f64) {
        let turn = self.current_turn();
        self.add_cost(turn, total);
    }

    fn add_cost(&mut self, turn: u64, total: f64) {
        let cost = self.new_cost(total);
        self.count_cost(turn, cost);
    }

    fn count_cost(&mut self, turn: u64, cost: f64) {
        let rev = self.rev();
        if !self.entry.imported {
            self.usage.change(rev, |usage| usage.cost = Some(usage.cost.unwrap_or(0.0) + cost));
        }
        self.change_turn(turn, |record| {
            record.turn.cost = Some(record.turn.cost.unwrap_or(0.0) + cost);
        });
    }

    /// Adds the cost of a session whose agent reports the total so far. A lower total than before is
    /// that of a new process.
    pub(super) fn add_session_cost(&mut self, turn: u64, total: f64) {
        let before = self.cost.reported.replace(total).unwrap_or(0.0);
        let cost = if total < before { total } else { total - before };
        self.count_cost(turn, cost);
    }

    /// The part of a running total that was not reported before.
    fn new_cost(&mut self, total: f64) -> f64 {
        let before = self.cost.reported.replace(total).unwrap_or(0.0);
        let restarted = std::mem::take(&mut self.cost.resumed) && self.cost_restarts();
        if restarted || total < before { total } else { total - before }
    }

    fn cost_restarts(&self) -> bool {
        total_cost_restarts(self.head.value.version.as_deref())
    }

    /// Changes the sub-agent that a call started.
    pub(super) fn change_agent(&mut self, call: &ItemId, change: impl FnOnce(&mut SubAgent)) {
        self.change(call, |item| {
            if let ItemBody::Call(call) = &mut item.body {
                change(call.agent.get_or_insert_default());
            }
        });
    }
}
