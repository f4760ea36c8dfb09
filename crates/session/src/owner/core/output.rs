//! What the core does with the agent's output and the shim's other reports.

use bytes::Bytes;
use tracing::{debug, info, warn};
use wire::{Piece, PieceEnd};

use super::{CoreStep, OwnerCore, UnfinishedLine};
use crate::agent_event::AgentEvent;
use crate::dialect::AgentDialect;
use crate::machine::Input;
use crate::shim::ShimEvent;

/// How much of the agent's stderr is kept to explain its exit.
const STDERR_LIMIT: usize = 4 << 10;

/// How much of a line that is too long to be held a driver looks at.
const LINE_START: usize = 4 << 10;

impl UnfinishedLine {
    /// A line that begins like this.
    pub(super) fn new(start: &[u8], dialect: &mut AgentDialect) -> Self {
        if dialect.driver().is_some() {
            Self::Start(start[..start.len().min(LINE_START)].to_vec())
        } else {
            Self::Event(AgentEvent::of_start(start))
        }
    }
}

impl OwnerCore {
    pub(super) fn shim_event(&mut self, event: ShimEvent) {
        self.heard_shim(&event);
        match event {
            ShimEvent::Pong(_) => {}
            ShimEvent::Output { offset, bytes } => self.output_at(offset, &bytes),
            ShimEvent::Stderr(bytes) => {
                self.stderr.extend_from_slice(&bytes);
                let surplus = self.stderr.len().saturating_sub(STDERR_LIMIT);
                self.stderr.drain(..surplus);
            }
            ShimEvent::Written(number) => self.line_delivered(number),
            ShimEvent::WriteRefused { number, last } => {
                debug!(session = %self.id, number, "the shim refused a line");
                self.line_refused(last);
            }
            ShimEvent::Exited { status, .. } => self.exited(status),
            ShimEvent::SpoolFailed(failure) => {
                warn!(session = %self.id, spool = failure.spool, "the agent's output cannot be stored");
            }
            ShimEvent::SpoolRecovered => {
                info!(session = %self.id, "the agent's output is stored again");
            }
        }
    }

    pub(super) fn output_at(&mut self, offset: u64, bytes: &[u8]) {
        if offset > self.received {
            // An owner that knows more than this one has acknowledged it.
            warn!(session = %self.id, from = self.received, to = offset, "output of the agent is missing");
            self.finish_output();
            self.offset = offset;
            self.received = offset;
        }
        let known = usize::try_from(self.received - offset).unwrap_or(usize::MAX);
        if let Some(new) = bytes.get(known..) {
            self.output(new);
        }
    }

    /// Takes in a piece of the agent's output: all lines that it completes, in one batch.
    fn output(&mut self, bytes: &[u8]) {
        self.received += bytes.len() as u64;
        let mut splitter = std::mem::take(&mut self.splitter);
        let mut pieces = splitter.feed(bytes);
        while let Some(piece) = pieces.next() {
            let newline = usize::from(piece.end == PieceEnd::Newline);
            self.offset += (piece.bytes.len() + newline) as u64;
            if piece.is_whole() {
                self.line(piece.bytes);
            } else {
                self.part_of_line(piece);
            }
        }
        self.splitter = splitter;
        if self.steps.is_empty() {
            // A part of a long line shows that the agent is not stalled.
            self.steps.push_back(CoreStep::Input(Input::Agent(AgentEvent::Output)));
        }
        self.work();
    }

    fn line(&mut self, bytes: &[u8]) {
        if self.dialect.driver().is_some() {
            let bytes = Bytes::copy_from_slice(bytes);
            let line = bytes.clone();
            self.steps.push_back(CoreStep::Line { bytes, transient: false, unfinished: false });
            // What it means may depend on what the machine sends because of the line before.
            self.steps.push_back(CoreStep::Read(line));
            return;
        }
        let mut transient = true;
        let mut events = Vec::new();
        for line in wire::read(bytes) {
            transient &=
                line.event().is_some_and(|it| matches!(it.body, wire::event::Body::Stream(_)));
            events.push(AgentEvent::of(&line));
        }
        let transient = transient && !events.is_empty();
        let bytes = Bytes::copy_from_slice(bytes);
        self.steps.push_back(CoreStep::Line { bytes, transient, unfinished: false });
        self.steps.extend(events.into_iter().map(|event| CoreStep::Input(Input::Agent(event))));
    }

    /// Takes in a part of a line that is too long to be read. If the agent waits for an answer to
    /// it, its start says so.
    fn part_of_line(&mut self, piece: Piece<'_>) {
        if !piece.continued {
            self.long_line = Some(UnfinishedLine::new(piece.bytes, &mut self.dialect));
        }
        let bytes = Bytes::copy_from_slice(piece.bytes);
        let unfinished = piece.end == PieceEnd::More;
        self.steps.push_back(CoreStep::Line { bytes, transient: false, unfinished });
        let ended = if unfinished { None } else { self.long_line.take() };
        self.steps.push_back(match ended {
            Some(UnfinishedLine::Start(start)) => CoreStep::ReadStart(start),
            Some(UnfinishedLine::Event(event)) => CoreStep::Input(Input::Agent(event)),
            None => CoreStep::Input(Input::Agent(AgentEvent::Output)),
        });
    }

    /// Stores what a dead agent printed behind the last newline.
    pub(super) fn finish_output(&mut self) {
        let rest = self.splitter.finish().map(|piece| Bytes::copy_from_slice(piece.bytes));
        self.long_line = None;
        if let Some(bytes) = rest {
            self.offset += bytes.len() as u64;
            self.steps.push_back(CoreStep::Line { bytes, transient: false, unfinished: false });
        }
    }
}
