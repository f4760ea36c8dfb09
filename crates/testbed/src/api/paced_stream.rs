//! Events with the waits and faults of a reply between them, in any format.

use std::time::Duration;

use crate::scenario::{ScenarioFault, ScenarioReply, ScenarioStreamFault};

use super::stream::{ApiAction, MAX_CHUNK, flush};

/// Builds a stream. "After N deltas" counts calls of [`delta`](Self::delta).
pub(super) struct ApiPacedStream {
    actions: Vec<ApiAction>,
    buffer: Vec<u8>,
    deltas: usize,
    pace: Duration,
    hold: Option<(usize, String)>,
    fault: Option<(usize, ScenarioStreamFault)>,
    /// What is sent for a fault that consists of bytes.
    fault_bytes: Vec<u8>,
    ended: bool,
}

/// A built stream.
pub(super) struct ApiPacedActions {
    pub(super) actions: Vec<ApiAction>,
    pub(super) deltas: usize,
    /// Whether the stream continues to its regular end.
    pub(super) completes: bool,
}

impl ApiPacedStream {
    /// A stream for a reply. `render` writes the faults that consist of bytes: an error and garbage.
    pub(super) fn new(
        reply: &ScenarioReply,
        render: impl FnOnce(&ScenarioStreamFault) -> Vec<u8>,
    ) -> Self {
        let hold = reply.hold.as_ref().and_then(|it| Some((it.after?, it.name.clone())));
        let fault = match &reply.fault {
            Some(ScenarioFault::Stream { after, fault }) => Some((*after, fault.clone())),
            _ => None,
        };
        Self {
            actions: Vec::new(),
            buffer: Vec::new(),
            deltas: 0,
            pace: reply.pace,
            hold,
            fault_bytes: fault.as_ref().map(|it| render(&it.1)).unwrap_or_default(),
            fault,
            ended: false,
        }
    }

    /// Adds what is due before the first delta. What comes before this call cannot be held up.
    pub(super) fn begin(&mut self) {
        self.add_due(0);
    }

    /// Adds an event that `write` appends.
    pub(super) fn event(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.ended {
            return;
        }
        write(&mut self.buffer);
        if self.buffer.len() >= MAX_CHUNK {
            flush(&mut self.buffer, &mut self.actions);
        }
    }

    /// Adds an event that counts as a delta.
    pub(super) fn delta(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.ended {
            return;
        }
        if self.deltas > 0 && !self.pace.is_zero() {
            self.action(ApiAction::Pause(self.pace));
        }
        self.event(write);
        self.deltas += 1;
        self.add_due(self.deltas);
    }

    pub(super) fn deltas(&self) -> usize {
        self.deltas
    }

    /// Adds the wait and the fault that are due after this many deltas.
    fn add_due(&mut self, deltas: usize) {
        if let Some((_, name)) = self.hold.take_if(|(after, _)| *after <= deltas) {
            self.action(ApiAction::Hold(name));
        }
        if let Some((_, fault)) = self.fault.take_if(|(after, _)| *after <= deltas) {
            match fault {
                ScenarioStreamFault::SseError { .. } => {
                    self.buffer.append(&mut self.fault_bytes);
                    self.ended = true;
                }
                ScenarioStreamFault::Truncate => self.ended = true,
                ScenarioStreamFault::Disconnect => self.end_with(ApiAction::Disconnect),
                ScenarioStreamFault::Stall => self.end_with(ApiAction::Stall),
                ScenarioStreamFault::Garbage => self.buffer.append(&mut self.fault_bytes),
            }
        }
    }

    fn end_with(&mut self, action: ApiAction) {
        self.action(action);
        self.ended = true;
    }

    fn action(&mut self, action: ApiAction) {
        flush(&mut self.buffer, &mut self.actions);
        self.actions.push(action);
    }

    /// Adds what is due after the last delta.
    pub(super) fn end(&mut self) {
        if !self.ended {
            self.add_due(usize::MAX);
        }
    }

    pub(super) fn finish(mut self) -> ApiPacedActions {
        self.end();
        flush(&mut self.buffer, &mut self.actions);
        ApiPacedActions { actions: self.actions, deltas: self.deltas, completes: !self.ended }
    }
}
