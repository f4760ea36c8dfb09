//! Tokens and dollars.
//!
//! Tokens are counted once for each `message.id`, the last word on a message wins, and sub-agents
//! count: the rule of `wire::meaning::Tally`, kept here with the turn and the call that each
//! message belongs to. Dollars are only ever what the agent says.

use serde::{Deserialize, Serialize};
use wire::event::{TurnEnded, Usage as Said};
use wire::json::Raw;

use super::Fold;
use crate::item::{Body, ItemId};
use crate::usage::Tokens;

/// Versions up to this one count their cost from nothing after a resume; it was seen in 2.1.197,
/// and to go on in 2.1.325.
const COUNTS_ANEW: [u64; 3] = [2, 1, 324];

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Money {
    /// What the agent's process said last of its cost.
    pub(super) counted: Option<f64>,
    /// Whether the process is another than the one that said so.
    pub(super) resumed: bool,
}

/// What a message was counted with.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counted {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
    turn: Option<u64>,
}

impl Counted {
    fn usage(&self) -> Said {
        Said {
            input_tokens: self.input,
            output_tokens: self.output,
            cache_creation_input_tokens: self.cache_write,
            cache_read_input_tokens: self.cache_read,
        }
    }

    fn set(&mut self, usage: Said) {
        self.input = usage.input_tokens;
        self.output = usage.output_tokens;
        self.cache_write = usage.cache_creation_input_tokens;
        self.cache_read = usage.cache_read_input_tokens;
    }
}

impl Fold {
    /// Counts what is said of a message's tokens. Messages without an id cannot be told apart, so
    /// each counts.
    pub(super) fn count(
        &mut self,
        message: Option<&str>,
        usage: Said,
        parent: Option<&ItemId>,
        of_sub_agent: bool,
    ) {
        let home = self.turn_of_agent(parent);
        let (before, after, turn) = match message {
            Some(message) => {
                let counted = &mut self.speech.spoken(message).usage;
                let before = counted.usage();
                let after = before.overlaid(usage);
                counted.set(after);
                (before, after, *counted.turn.get_or_insert(home))
            }
            None => (Said::default(), usage, home),
        };
        let change = |tokens: &mut Tokens| {
            tokens.subtract(before.into());
            tokens.add(after.into());
        };
        let context = Tokens::from(after).total();
        let is_main = !of_sub_agent && context > 0;
        if before == after && (!is_main || self.usage.value.context == Some(context)) {
            return;
        }
        let rev = self.rev();
        self.usage.change(rev, |usage| {
            change(&mut usage.tokens);
            if is_main {
                usage.context = Some(context);
            }
        });
        self.change_turn(turn, |record| change(&mut record.turn.tokens));
        if let Some(parent) = parent {
            self.change_agent(parent, |agent| change(&mut agent.tokens));
        }
    }

    /// Takes the cost that a `result` tells, which is that of the process so far.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "context windows are small, and a negative one is none"
    )]
    pub(super) fn spend(&mut self, turn: u64, ended: &TurnEnded<'_>) {
        let rev = self.rev();
        let windows = ended.model_usage.into_iter().flat_map(Raw::fields);
        let windows = windows.filter_map(|(_, model)| model.get("contextWindow")?.number());
        let window = windows.map(|it| it as u64).filter(|&it| it > 0).max();
        if window.is_some() && window != self.usage.value.window {
            self.usage.change(rev, |usage| usage.window = window);
        }
        if let Some(total) = ended.total_cost_usd {
            let cost = self.newly_spent(total);
            self.change_turn(turn, |record| {
                record.turn.cost = Some(record.turn.cost.unwrap_or(0.0) + cost);
            });
            self.usage.change(rev, |usage| usage.cost = Some(usage.cost.unwrap_or(0.0) + cost));
        }
    }

    /// The part of a running total that is new.
    pub(super) fn newly_spent(&mut self, total: f64) -> f64 {
        let before = self.money.counted.replace(total).unwrap_or(0.0);
        let anew = std::mem::take(&mut self.money.resumed) && self.counts_anew();
        if anew || total < before { total } else { total - before }
    }

    fn counts_anew(&self) -> bool {
        let version = self.head.value.version.as_deref().unwrap_or_default();
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0_u64));
        let version = [0; 3].map(|_: u64| parts.next().unwrap_or(0));
        version <= COUNTS_ANEW
    }

    /// Takes what a session file says the session has cost.
    pub(super) fn cost_state(&mut self, total: f64) {
        let cost = self.newly_spent(total);
        let rev = self.rev();
        self.usage.change(rev, |usage| usage.cost = Some(usage.cost.unwrap_or(0.0) + cost));
        let turn = self.home();
        self.change_turn(turn, |record| {
            record.turn.cost = Some(record.turn.cost.unwrap_or(0.0) + cost);
        });
    }

    /// Changes what is known of the sub-agent that a call began.
    pub(super) fn change_agent(
        &mut self,
        call: &ItemId,
        change: impl FnOnce(&mut crate::call::SubAgent),
    ) {
        self.change(call, |item| {
            if let Body::Call(call) = &mut item.body {
                change(call.agent.get_or_insert_default());
            }
        });
    }
}
