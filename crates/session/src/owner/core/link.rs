//! The core's connection to the process: attaching, starting, losing it, and its exit.

use journal::OutboundLine;
use wire::Splitter;

use super::batch::Outgoing;
use super::{AttachOutcome, CoreStep, OwnerCore, OwnerEffect, Stage, StartOutcome};
use crate::machine::{AgentExit, Input};
use crate::shim::{ExitStatus, ShimCommand};

/// How long a shim may take to accept its owner again until that is reported.
const ATTACH_PATIENCE: u64 = 3_000;

/// How long to wait before a line that the shim refused is sent again. The pause doubles each time.
const RESEND_PAUSE: u64 = 1_000;
const MAX_RESEND_PAUSE: u64 = 60_000;

/// What connects the owner with the agent.
#[derive(Debug)]
pub(super) enum Link {
    /// There is no process.
    None,
    /// An earlier owner may have left a process.
    Unknown,
    Starting,
    Attaching {
        since: u64,
        /// Whether it was reported that the shim does not answer.
        reported: bool,
        /// Whether an earlier owner started the process.
        inherited: bool,
        /// The request to stop the process that came last, which is sent once it is attached.
        stop: Option<ShimCommand>,
    },
    /// The shim is gone, and what it left is being read.
    ReadingLeftovers,
    Connected {
        /// When lines that the shim refused are sent again, and from which on.
        resend: Option<Resend>,
        /// How long the next refused line waits.
        pause: u64,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Resend {
    at: u64,
    /// The last line that the shim accepted.
    behind: u64,
}

impl Link {
    const CONNECTED: Self = Self::Connected { resend: None, pause: RESEND_PAUSE };

    pub(super) fn deadline(&self) -> Option<u64> {
        match self {
            Self::Attaching { since, reported: false, .. } => Some(since + ATTACH_PATIENCE),
            Self::Connected { resend, .. } => resend.map(|resend| resend.at),
            _ => None,
        }
    }
}

impl OwnerCore {
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.link, Link::Connected { .. })
    }

    pub(super) fn take_over(&mut self) {
        match self.link {
            Link::Unknown if self.run > 0 => self.attach(true),
            Link::Unknown => self.read_leftovers(),
            _ => self.step(Input::Tick),
        }
    }

    fn attach(&mut self, inherited: bool) {
        let since = self.now.monotonic;
        self.link = Link::Attaching { since, reported: false, inherited, stop: None };
        // The journal ends with a whole line, so a half-read line is read again.
        self.restart_output();
        self.effects.push(OwnerEffect::Attach { run: self.run, from: self.offset });
    }

    fn read_leftovers(&mut self) {
        self.link = Link::ReadingLeftovers;
        self.restart_output();
        self.effects.push(OwnerEffect::ReadLeftovers { run: self.run, from: self.offset });
    }

    fn restart_output(&mut self) {
        self.splitter = Splitter::new();
        self.long_line = None;
        self.received = self.offset;
    }

    /// The connection ended and the shim reported no exit: either the shim is dead, or only the
    /// connection is.
    pub(super) fn disconnected(&mut self) {
        if self.is_connected() {
            self.effects.push(OwnerEffect::Disconnect);
            self.attach(false);
        }
    }

    pub(super) fn attached(&mut self, outcome: AttachOutcome) {
        let link = std::mem::replace(&mut self.link, Link::None);
        let Link::Attaching { inherited, stop, .. } = link else {
            self.link = link;
            return;
        };
        match outcome {
            AttachOutcome::Attached { last_write } => {
                self.link = Link::CONNECTED;
                let then = inherited.then_some(Input::AgentAttached { used: last_write > 0 });
                self.effects.extend(stop.map(OwnerEffect::Send));
                self.load_outbound(last_write, then);
            }
            AttachOutcome::Gone => {
                self.read_leftovers();
                self.step(Input::AgentLost);
            }
        }
    }

    fn load_outbound(&mut self, behind: u64, then: Option<Input>) {
        self.stage = Stage::LoadingOutbound { behind, then };
        self.effects.push(OwnerEffect::LoadOutbound);
    }

    /// Sends the stored lines that did not reach the shim.
    pub(super) fn outbound_loaded(&mut self, lines: Vec<OutboundLine>) {
        let stage = std::mem::replace(&mut self.stage, Stage::Ready);
        let Stage::LoadingOutbound { behind, then } = stage else {
            self.stage = stage;
            return;
        };
        for OutboundLine { number, bytes } in lines {
            if number > behind {
                self.send(ShimCommand::Write { number, bytes: bytes.to_vec() });
            }
        }
        if let Some(input) = then {
            self.step(input);
        }
    }

    /// Sends a command to the shim. Lines that cannot be sent are stored, and the next attach sends
    /// them.
    pub(super) fn send(&mut self, command: ShimCommand) {
        match &mut self.link {
            Link::Connected { .. } => self.effects.push(OwnerEffect::Send(command)),
            Link::Attaching { stop, .. } => {
                if matches!(command, ShimCommand::Stop { .. } | ShimCommand::Signal(_)) {
                    *stop = Some(command);
                }
            }
            _ => {}
        }
    }

    pub(super) fn line_refused(&mut self, last: u64) {
        let now = self.now.monotonic;
        if let Link::Connected { resend: resend @ None, pause } = &mut self.link {
            *resend = Some(Resend { at: now + *pause, behind: last });
            *pause = (*pause * 2).min(MAX_RESEND_PAUSE);
        }
    }

    pub(super) fn line_delivered(&mut self, number: u64) {
        self.batch.set_delivered(number);
        if let Link::Connected { pause, .. } = &mut self.link {
            *pause = RESEND_PAUSE;
        }
    }

    pub(super) fn pass_link_deadline(&mut self) {
        let now = self.now.monotonic;
        match &mut self.link {
            Link::Attaching { since, reported: reported @ false, .. }
                if *since + ATTACH_PATIENCE <= now =>
            {
                *reported = true;
                self.report_problem(
                    "the process that runs the agent does not answer; prompts wait until it does",
                );
            }
            Link::Connected { resend, .. } => {
                if let Some(due) = resend.take_if(|resend| resend.at <= now) {
                    self.load_outbound(due.behind, Some(Input::Tick));
                }
            }
            _ => {}
        }
    }

    pub(super) fn started(&mut self, outcome: StartOutcome) {
        match outcome {
            StartOutcome::Running => {
                self.link = Link::CONNECTED;
                self.step(Input::AgentStarted);
            }
            StartOutcome::Exited => {
                self.read_leftovers();
                self.steps.push_back(CoreStep::Input(Input::AgentStarted));
                self.step(Input::AgentLost);
            }
            StartOutcome::Failed(message) => self.agent_gone(AgentExit::NotStarted(message)),
        }
    }

    pub(super) fn exited(&mut self, status: ExitStatus) {
        self.finish_output();
        let exit = AgentExit::of(status, &self.stderr);
        self.agent_gone(exit);
    }

    pub(super) fn agent_gone(&mut self, exit: AgentExit) {
        if self.is_connected() {
            // The shim ends by itself once its owner knows how the agent exited.
            self.effects.push(OwnerEffect::Disconnect);
        }
        self.link = Link::None;
        self.stderr.clear();
        self.restart_output();
        // The machine may start the next run at once.
        self.batch.add_outgoing(Outgoing::RemoveRun(self.run));
        self.steps.push_back(CoreStep::Input(Input::AgentGone(exit)));
        self.work();
    }
}

impl AgentExit {
    /// How a process ended, with the end of what it wrote to stderr.
    pub fn of(status: ExitStatus, stderr: &[u8]) -> Self {
        match status {
            ExitStatus::Code(code) => {
                let stderr = String::from_utf8_lossy(stderr).trim().to_owned();
                Self::Exited { code, stderr }
            }
            ExitStatus::Signal(signal) => Self::Killed(signal),
            ExitStatus::Unknown => Self::Unknown,
        }
    }
}
