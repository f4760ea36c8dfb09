//! What the session is doing, concluded from everything else.

use serde::{Deserialize, Serialize};
use wire::note::Cause;

use super::Fold;
use super::speech::Sort;
use crate::call::CallState;
use crate::item::Body;
use crate::status::{Gone, Phase, Status};

/// What was heard of the session that no item tells.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Signs {
    pub(super) process: Process,
    pub(super) compacting: bool,
    pub(super) retrying: Option<Retrying>,
    /// The item that tells of the retries in a row.
    pub(super) retry_item: Option<crate::item::ItemId>,
    pub(super) interrupting: bool,
    pub(super) stalled: Option<u64>,
    pub(super) thinking_tokens: Option<u64>,
    /// A session file does not say when a turn ends; this is what its last line looks like.
    pub(super) resting: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) enum Process {
    /// Nothing was said of it.
    #[default]
    Unknown,
    Starting,
    Ready,
    Gone(Cause),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Retrying {
    pub(super) attempt: Option<u64>,
    pub(super) of: Option<u64>,
    pub(super) delay_ms: Option<u64>,
}

impl Signs {
    /// The agent's process works.
    pub(super) fn ready(&mut self) {
        self.process = Process::Ready;
    }

    /// The model answers.
    pub(super) fn answered(&mut self) {
        self.retrying = None;
        self.retry_item = None;
        self.resting = false;
    }

    pub(super) fn turn_over(&mut self) {
        self.compacting = false;
        self.retrying = None;
        self.retry_item = None;
        self.interrupting = false;
        self.stalled = None;
        self.thinking_tokens = None;
        self.resting = false;
    }
}

impl Fold {
    /// Brings the status up to date after an entry.
    pub(super) fn settle_status(&mut self) {
        let phase = self.phase();
        let turn_since = self.turns.open_turn().and_then(|turn| turn.began);
        let known = &self.status.value;
        if known.phase == phase && known.turn_since == turn_since {
            return;
        }
        let same = std::mem::discriminant(&known.phase) == std::mem::discriminant(&phase);
        let since = match &phase {
            Phase::Running { item, .. } => match self.shelf.get(item).map(|item| &item.body) {
                Some(Body::Call(call)) => call.began,
                _ => self.now.at,
            },
            // Each retry has a delay of its own.
            Phase::Retrying { .. } => self.now.at,
            _ if same => known.since,
            _ => self.now.at,
        };
        let rev = self.rev();
        self.status.change(rev, |status| *status = Status { phase, since, turn_since });
    }

    fn phase(&self) -> Phase {
        let signs = &self.signs;
        match &signs.process {
            Process::Gone(cause) => return Phase::Gone(Gone { why: cause.clone() }),
            Process::Starting => return Phase::Starting,
            Process::Unknown | Process::Ready => {}
        }
        let busy = self.turns.is_open() && !signs.resting;
        if busy && signs.interrupting {
            return Phase::Interrupting;
        }
        if !self.requests.value.is_empty() {
            let requests = u32::try_from(self.requests.value.len()).unwrap_or(u32::MAX);
            return Phase::Waiting { requests };
        }
        if let Some(seconds) = signs.stalled.filter(|_| busy) {
            return Phase::Stalled { seconds };
        }
        if signs.compacting {
            return Phase::Compacting;
        }
        if !busy {
            return Phase::Idle;
        }
        if let Some(Retrying { attempt, of, delay_ms }) = signs.retrying {
            return Phase::Retrying { attempt, of, delay_ms };
        }
        match self.speech.sort() {
            Sort::Thinking => Phase::Thinking { tokens: signs.thinking_tokens },
            Sort::Writing => Phase::Writing,
            Sort::Nothing => self.running().unwrap_or(Phase::Working),
        }
    }

    fn running(&self) -> Option<Phase> {
        let mut calls = self.calls.open().filter_map(|id| self.shelf.get(id)).filter(
            |item| matches!(&item.body, Body::Call(call) if call.state == CallState::Running),
        );
        let item = calls.next()?;
        let Body::Call(call) = &item.body else { return None };
        Some(Phase::Running {
            tool: call.tool.clone(),
            target: call.target.clone(),
            item: item.id.clone(),
            others: u32::try_from(calls.count()).unwrap_or(u32::MAX),
        })
    }
}
