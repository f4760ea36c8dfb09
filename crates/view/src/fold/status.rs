//! What the session is doing, derived from everything else.

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use wire::note::{ExitCause, HoldReason};

use super::Fold;
use super::messages::DraftKind;
use crate::call::CallState;
use crate::item::{ItemBody, ItemId};
use crate::status::{ConversationStatus, SessionPhase, SignInNeed};

/// What is known about the session's activity beyond its items.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ActivitySignals {
    pub(super) process: ProcessState,
    pub(super) compacting: bool,
    pub(super) retrying: Option<RetryState>,
    /// The item of the current run of retries.
    pub(super) retry_item: Option<ItemId>,
    pub(super) interrupting: bool,
    pub(super) stalled: Option<u64>,
    pub(super) thinking_tokens: Option<u64>,
    /// A session file does not record the ends of turns. Set when its last line looks like one.
    pub(super) resting: bool,
    pub(super) queue_hold: Option<HoldReason>,
    /// Prompts that are sent later, and when.
    pub(super) schedules: Vec<(Uuid, u64)>,
    /// Until the agent is started again or begins a turn.
    #[serde(default)]
    pub(super) sign_in: Option<SignInNeed>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) enum ProcessState {
    /// The record has no notes about the process.
    #[default]
    Unknown,
    Starting,
    Ready,
    Stopped(ExitCause),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct RetryState {
    pub(super) attempt: Option<u64>,
    pub(super) max_attempts: Option<u64>,
    pub(super) delay_ms: Option<u64>,
}

impl ActivitySignals {
    pub(super) fn process_ready(&mut self) {
        self.process = ProcessState::Ready;
    }

    pub(super) fn model_answered(&mut self) {
        self.retrying = None;
        self.retry_item = None;
        self.resting = false;
    }

    pub(super) fn turn_ended(&mut self) {
        let Self { process, queue_hold, schedules, sign_in, .. } = std::mem::take(self);
        *self = Self { process, queue_hold, schedules, sign_in, ..Self::default() };
    }
}

/// How many open calls the status counts. It is computed after every entry, so the cost must not grow
/// with the number of calls.
const COUNTED_CALLS: usize = 100;

impl Fold {
    /// Updates the status after an entry.
    pub(super) fn update_status(&mut self) {
        let phase = self.phase();
        let turn_since = self.turns.open_turn().and_then(|turn| turn.started);
        let queue_hold = &self.signals.queue_hold;
        let schedules = u32::try_from(self.signals.schedules.len()).unwrap_or(u32::MAX);
        let next_schedule = self.signals.schedules.iter().map(|(_, next)| *next).min();
        let known = &self.status.value;
        if known.phase == phase
            && known.turn_since == turn_since
            && known.queue_hold == *queue_hold
            && (known.schedules, known.next_schedule) == (schedules, next_schedule)
            && known.sign_in == self.signals.sign_in
        {
            return;
        }
        let same = std::mem::discriminant(&known.phase) == std::mem::discriminant(&phase);
        let since = match &phase {
            SessionPhase::Running { item, .. } => {
                match self.items.get(item).map(|item| &item.body) {
                    Some(ItemBody::Call(call)) => call.started,
                    _ => self.entry.at,
                }
            }
            // Each retry has a delay of its own.
            SessionPhase::Retrying { .. } => self.entry.at,
            _ if same => known.since,
            _ => self.entry.at,
        };
        let queue_hold = queue_hold.clone();
        let sign_in = self.signals.sign_in.clone();
        let status = ConversationStatus {
            phase,
            since,
            turn_since,
            queue_hold,
            schedules,
            next_schedule,
            sign_in,
        };
        let rev = self.rev();
        self.status.change(rev, |known| *known = status);
    }

    fn phase(&self) -> SessionPhase {
        let signals = &self.signals;
        match &signals.process {
            ProcessState::Stopped(cause) => return SessionPhase::Stopped { cause: cause.clone() },
            ProcessState::Starting => return SessionPhase::Starting,
            ProcessState::Unknown | ProcessState::Ready => {}
        }
        let busy = self.turns.is_open() && !signals.resting;
        if busy && signals.interrupting {
            return SessionPhase::Interrupting;
        }
        if !self.requests.value.is_empty() {
            let requests = u32::try_from(self.requests.value.len()).unwrap_or(u32::MAX);
            return SessionPhase::Waiting { requests };
        }
        if let Some(seconds) = signals.stalled.filter(|_| busy) {
            return SessionPhase::Stalled { seconds };
        }
        if signals.compacting {
            return SessionPhase::Compacting;
        }
        if !busy {
            return SessionPhase::Idle;
        }
        if let Some(RetryState { attempt, max_attempts, delay_ms }) = signals.retrying {
            return SessionPhase::Retrying { attempt, max_attempts, delay_ms };
        }
        let draft = match self.messages.draft_kind() {
            DraftKind::None => self.acp.draft_kind(),
            draft => draft,
        };
        match draft {
            DraftKind::Thinking => SessionPhase::Thinking { tokens: signals.thinking_tokens },
            DraftKind::Writing => SessionPhase::Writing,
            DraftKind::None => self.running_call().unwrap_or(SessionPhase::Working),
        }
    }

    fn running_call(&self) -> Option<SessionPhase> {
        let newest = self.calls.open().take(COUNTED_CALLS);
        let mut calls = newest.filter_map(|id| self.items.get(id)).filter(
            |item| matches!(&item.body, ItemBody::Call(call) if call.state == CallState::Running),
        );
        let item = calls.next()?;
        let ItemBody::Call(call) = &item.body else { return None };
        Some(SessionPhase::Running {
            tool: call.tool.clone(),
            target: call.target.clone(),
            item: item.id.clone(),
            others: u32::try_from(calls.count()).unwrap_or(u32::MAX),
        })
    }
}
