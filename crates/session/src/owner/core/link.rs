//! The core's connection to the process: attaching, starting, losing it, and its exit.

use journal::{OutboundLine, SessionStatus};

use super::batch::Outgoing;
use super::liveness::{Liveness, LivenessStep, PATIENCE};
use super::{AttachOutcome, CoreStep, OwnerCore, OwnerEffect, Stage, StartOutcome, splitter};
use crate::machine::{AgentExit, Input};
use crate::shim::{ExitStatus, ShimCommand, ShimEvent};

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
        /// The last request to stop the process, which is sent once it is attached.
        stop: Option<ShimCommand>,
    },
    /// The shim is gone, and what it left is being read.
    ReadingLeftovers,
    Connected {
        /// When lines that the shim refused are sent again, and from which on.
        resend: Option<Resend>,
        /// How long the next refused line waits.
        pause: u64,
        liveness: Liveness,
        /// The last request to stop the process. It may be lost with the connection.
        stop: Option<ShimCommand>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Resend {
    at: u64,
    /// The last line that the shim accepted.
    behind: u64,
}

impl Link {
    fn connected(pings: bool, now: u64, stop: Option<ShimCommand>) -> Self {
        let liveness = Liveness::new(pings, now);
        Self::Connected { resend: None, pause: RESEND_PAUSE, liveness, stop }
    }

    pub(super) fn deadline(&self, turn_runs: bool) -> Option<u64> {
        match self {
            Self::Attaching { since, reported: false, .. } => Some(since + PATIENCE),
            Self::Connected { resend, liveness, .. } => {
                let resend = resend.map(|resend| resend.at);
                [resend, liveness.deadline(turn_runs)].into_iter().flatten().min()
            }
            _ => None,
        }
    }

    pub(super) fn is_silent(&self) -> bool {
        match self {
            Self::Attaching { reported, .. } => *reported,
            Self::Connected { liveness, .. } => liveness.is_silent(),
            _ => false,
        }
    }
}

impl OwnerCore {
    pub(super) fn is_connected(&self) -> bool {
        matches!(self.link, Link::Connected { .. })
    }

    pub(super) fn take_over(&mut self) {
        match self.link {
            Link::Unknown if self.run > 0 => self.attach(true, None),
            Link::Unknown => self.read_leftovers(),
            _ => self.step(Input::Tick),
        }
    }

    fn attach(&mut self, inherited: bool, stop: Option<ShimCommand>) {
        let since = self.now.monotonic;
        self.link = Link::Attaching { since, reported: false, inherited, stop };
        // The journal ends with a whole line, so a half-read line is read again. Of a line that is
        // too long to be held, the rest is read.
        self.restart_output();
        self.effects.push(OwnerEffect::Attach { run: self.run, from: self.offset });
    }

    fn read_leftovers(&mut self) {
        self.link = Link::ReadingLeftovers;
        self.restart_output();
        self.effects.push(OwnerEffect::ReadLeftovers { run: self.run, from: self.offset });
    }

    pub(super) fn restart_output(&mut self) {
        self.splitter = splitter(self.splitter.cap(), self.long_line.as_ref());
        self.received = self.offset;
    }

    /// The connection ended and the shim reported no exit: either the shim is dead, or only the
    /// connection is.
    pub(super) fn disconnected(&mut self) {
        if let Link::Connected { stop, .. } = &mut self.link {
            let stop = stop.take();
            self.effects.push(OwnerEffect::Disconnect);
            self.attach(false, stop);
        }
    }

    pub(super) fn attached(&mut self, outcome: AttachOutcome) {
        let link = std::mem::replace(&mut self.link, Link::None);
        let Link::Attaching { inherited, stop, .. } = link else {
            self.link = link;
            return;
        };
        match outcome {
            AttachOutcome::Attached { last_write, pings } => {
                self.link = Link::connected(pings, self.now.monotonic, stop.clone());
                self.delivered = last_write;
                let then = inherited.then_some(Input::AgentAttached { used: last_write > 0 });
                if last_write < self.writes {
                    let until = self.now.monotonic;
                    self.steps.push_back(CoreStep::Input(Input::LinesDelayed { until }));
                }
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
        self.steps.extend(then.map(CoreStep::Input));
        if !self.steps.is_empty() {
            self.work();
        }
    }

    /// Sends a command to the shim. Lines that cannot be sent are stored, and the next attach sends
    /// them.
    pub(super) fn send(&mut self, command: ShimCommand) {
        if let Link::Connected { stop, .. } | Link::Attaching { stop, .. } = &mut self.link
            && matches!(command, ShimCommand::Stop { .. } | ShimCommand::Signal(_))
        {
            *stop = Some(command.clone());
        }
        if let Link::Connected { liveness, .. } = &mut self.link {
            self.effects.push(OwnerEffect::Send(command));
            let ping = liveness.ask(self.now.monotonic);
            self.effects.extend(ping.map(OwnerEffect::Send));
        }
    }

    /// Whether the agent works on a turn, and does not wait for a person.
    pub(super) fn turn_runs(&self) -> bool {
        self.machine.status() == SessionStatus::Running
    }

    /// The shim sent something.
    pub(super) fn heard_shim(&mut self, event: &ShimEvent) {
        let now = self.now.monotonic;
        if let Link::Connected { liveness, .. } = &mut self.link {
            liveness.heard(now);
            if let ShimEvent::Pong(number) = event {
                liveness.answered(*number);
            }
        }
    }

    pub(super) fn line_refused(&mut self, last: u64) {
        let now = self.now.monotonic;
        if let Link::Connected { resend: resend @ None, pause, .. } = &mut self.link {
            let at = now + *pause;
            *resend = Some(Resend { at, behind: last });
            *pause = (*pause * 2).min(MAX_RESEND_PAUSE);
            self.step(Input::LinesDelayed { until: at });
        }
    }

    pub(super) fn line_delivered(&mut self, number: u64) {
        self.batch.set_delivered(number);
        self.delivered = self.delivered.max(number);
        if let Link::Connected { pause, .. } = &mut self.link {
            *pause = RESEND_PAUSE;
        }
        if number >= self.writes && self.machine.has_delayed_lines() {
            self.step(Input::LinesDelivered);
        }
    }

    /// Before a deadline passes, tells the machine whether the agent may not have all of its lines:
    /// they can be on their way for as long as the shim, or this process, did not run.
    pub(super) fn report_undelivered_lines(&mut self) {
        if self.delivered < self.writes && !self.machine.has_delayed_lines() {
            let until = self.now.monotonic;
            self.steps.push_back(CoreStep::Input(Input::LinesDelayed { until }));
        }
    }

    pub(super) fn pass_link_deadline(&mut self) {
        let now = self.now.monotonic;
        let turn_runs = self.turn_runs();
        match &mut self.link {
            Link::Attaching { since, reported: reported @ false, .. }
                if *since + PATIENCE <= now =>
            {
                *reported = true;
                self.report_silence();
            }
            Link::Connected { resend, liveness, .. } => {
                let resend = resend.take_if(|resend| resend.at <= now);
                match liveness.next_step(now, turn_runs) {
                    Some(LivenessStep::Ask(ping)) => self.effects.push(OwnerEffect::Send(ping)),
                    Some(LivenessStep::Report) => self.report_silence(),
                    None => {}
                }
                if let Some(due) = resend {
                    self.load_outbound(due.behind, Some(Input::Tick));
                }
            }
            _ => {}
        }
    }

    fn report_silence(&mut self) {
        self.report_problem(
            "the process that runs the agent does not answer; prompts wait until it does",
        );
    }

    pub(super) fn started(&mut self, outcome: StartOutcome) {
        match outcome {
            StartOutcome::Running { pings } => {
                self.link = Link::connected(pings, self.now.monotonic, None);
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
        self.long_line = None;
        self.restart_output();
        if let Some(driver) = self.dialect.driver() {
            driver.agent_gone();
        }
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
