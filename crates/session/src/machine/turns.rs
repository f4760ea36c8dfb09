//! When a turn starts and when it ends.
//!
//! The CLI's `result` ends a turn, but results and prompts do not match one to one: a prompt sent
//! during a tool call is folded into the running turn, several prompts that wait in the agent's
//! queue become one turn, a background task starts a turn that no client asked for, and a dead or
//! confused agent gives no result at all. So the turn is our own concept: it starts when a prompt
//! is written or the agent starts by itself, and it ends once, by a result, an idle agent, or a
//! dead one.

use uuid::Uuid;
use wire::TurnResult;
use wire::note::{Delivery, ExitCause, Note, PromptState, TurnEnding};
use wire::outgoing::{OutgoingPrompt, Priority};

use super::prompts::images_of;
use super::{Effect, Machine, MachineSnapshot};
use crate::agent_message::AgentMessage;
use crate::config::SessionLimits;

/// Whether a turn runs.
#[derive(Debug)]
pub(super) enum TurnState {
    Idle {
        previous: PreviousResult,
    },
    Running(RunningTurn),
    /// The last turn ended, but the agent still has prompts that it did not answer. It should start
    /// with them before `until`.
    Carrying {
        until: u64,
        previous: PreviousResult,
    },
}

/// Whether the result of the previous turn is still to come, because that turn ended without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PreviousResult {
    Received,
    Outstanding,
}

/// A turn that has not ended.
#[derive(Debug)]
pub(super) struct RunningTurn {
    pub(super) number: u64,
    phase: TurnPhase,
    /// The time of the agent's last output.
    last_output: u64,
    stall_reported: bool,
    stop: StopState,
    /// When the turn counts as ended: the agent reported that it is idle, and no result came.
    ends_at: Option<u64>,
    /// How long the agent may be silent until the turn counts as ended, if nothing asked it to work: no
    /// result can come then.
    unprompted: Option<u64>,
}

/// Whether the agent has shown that it started with the turn.
#[derive(Clone, Copy, Debug)]
enum TurnPhase {
    /// The prompt was written. Output may still belong to the previous turn.
    Unconfirmed {
        previous: PreviousResult,
    },
    Confirmed,
}

/// Whether the turn is being stopped.
#[derive(Clone, Copy, Debug)]
enum StopState {
    NotRequested,
    /// The agent was asked to stop at this time.
    Requested {
        at: u64,
    },
    /// It will end without another request: a denial interrupts it, or its process is stopped.
    Certain,
}

impl TurnState {
    pub(super) fn restore(snapshot: &MachineSnapshot) -> Self {
        let in_flight = || {
            let open = snapshot.prompts.iter().filter(|it| !it.state.is_final());
            open.filter(|it| it.state != PromptState::Queued)
        };
        if snapshot.turn_is_open {
            let number = snapshot.turns;
            let own = || in_flight().filter(|it| it.turn == Some(number));
            // Only its prompts and its requests show whether the agent has started with it.
            let confirmed = snapshot.requests.iter().any(|it| it.agent.is_none())
                || own().next().is_none()
                || own().any(|it| it.state == PromptState::Accepted);
            // Whether the result of the turn before was still to come is not known. A turn shows
            // that it has started before its own result.
            let mut turn =
                RunningTurn::new(number, snapshot.now.monotonic, PreviousResult::Outstanding);
            if confirmed {
                turn.phase = TurnPhase::Confirmed;
            }
            return Self::Running(turn);
        }
        if !snapshot.agent_may_run {
            return Self::Idle { previous: PreviousResult::Received };
        }
        // The journal does not say how the last turn ended.
        let previous = PreviousResult::Outstanding;
        if in_flight().next().is_some() {
            let until = snapshot.now.monotonic + snapshot.limits.carry;
            Self::Carrying { until, previous }
        } else {
            Self::Idle { previous }
        }
    }

    pub(super) fn running(&self) -> Option<&RunningTurn> {
        match self {
            Self::Running(turn) => Some(turn),
            Self::Idle { .. } | Self::Carrying { .. } => None,
        }
    }

    pub(super) fn running_mut(&mut self) -> Option<&mut RunningTurn> {
        match self {
            Self::Running(turn) => Some(turn),
            Self::Idle { .. } | Self::Carrying { .. } => None,
        }
    }

    /// The agent printed something, or a person's answer ended a silence that was not the agent's.
    pub(super) fn note_output(&mut self, now: u64) {
        if let Self::Running(turn) = self {
            turn.last_output = now;
            turn.stall_reported = false;
            if let Some(silence) = turn.unprompted {
                turn.ends_at = Some(now + silence);
            }
        }
    }

    pub(super) fn deadline(&self, limits: &SessionLimits, waits_for_person: bool) -> Option<u64> {
        match self {
            Self::Idle { .. } => None,
            Self::Carrying { until, .. } => Some(*until),
            Self::Running(turn) => turn.deadline(limits, waits_for_person),
        }
    }

    fn previous(&self) -> PreviousResult {
        match self {
            Self::Idle { previous } | Self::Carrying { previous, .. } => *previous,
            Self::Running(turn) => match turn.phase {
                TurnPhase::Unconfirmed { previous } => previous,
                TurnPhase::Confirmed => PreviousResult::Received,
            },
        }
    }
}

impl RunningTurn {
    fn new(number: u64, now: u64, previous: PreviousResult) -> Self {
        Self {
            number,
            phase: TurnPhase::Unconfirmed { previous },
            last_output: now,
            stall_reported: false,
            stop: StopState::NotRequested,
            ends_at: None,
            unprompted: None,
        }
    }

    /// The agent shows that it works on this turn.
    pub(super) fn confirm(&mut self) {
        self.phase = TurnPhase::Confirmed;
        if self.unprompted.is_none() {
            self.ends_at = None;
        }
    }

    /// When the turn counts as ended. A person who is asked may take longer than an agent.
    fn end_without_result(&self, waits_for_person: bool) -> Option<u64> {
        self.ends_at.filter(|_| self.unprompted.is_none() || !waits_for_person)
    }

    fn is_confirmed(&self) -> bool {
        matches!(self.phase, TurnPhase::Confirmed)
    }

    pub(super) fn is_stopping(&self) -> bool {
        !matches!(self.stop, StopState::NotRequested)
    }

    /// The turn will end without another request to stop it.
    pub(super) fn will_stop(&mut self) {
        self.stop = StopState::Certain;
    }

    fn deadline(&self, limits: &SessionLimits, waits_for_person: bool) -> Option<u64> {
        let stalls = !self.stall_reported && !waits_for_person;
        let stall = stalls.then(|| self.last_output + limits.stall);
        let stop = match self.stop {
            StopState::Requested { at } => Some(at + limits.interrupt),
            StopState::Certain | StopState::NotRequested => None,
        };
        let end = self.end_without_result(waits_for_person);
        [stall, stop, end].into_iter().flatten().min()
    }
}

impl Machine {
    /// Writes the first waiting prompt, which starts a turn.
    pub(super) fn start_turn_with(&mut self, prompt: Uuid) {
        self.start_turn(vec![prompt]);
        self.write_prompt(prompt, None, Some(self.turns));
    }

    /// Writes the prompts that may join the running turn.
    pub(super) fn steer(&mut self) {
        let steering = self.prompts.queued().filter(|it| it.delivery == Delivery::Steer);
        for prompt in steering.map(|it| it.id).collect::<Vec<Uuid>>() {
            self.write_prompt(prompt, Some(Priority::Next), None);
        }
    }

    fn write_prompt(&mut self, id: Uuid, priority: Option<Priority>, turn: Option<u64>) {
        let Some(record) = self.prompts.get(id) else { return };
        let prompt = OutgoingPrompt::with_images(id, record.text.clone(), images_of(record));
        // An empty prompt is never queued, but the stored images of one may have become unreadable.
        let Ok(prompt) = prompt else {
            self.set_prompt_state(id, PromptState::Cancelled, None);
            return;
        };
        let prompt = match priority {
            Some(priority) => prompt.priority(priority),
            None => prompt,
        };
        let message = AgentMessage::Prompt(prompt);
        if let Err(error) = self.limits.check_size("the prompt", &message) {
            // An earlier version accepted it.
            self.note(Note::Problem { text: error.to_string() });
            self.set_prompt_state(id, PromptState::Cancelled, None);
            return;
        }
        self.set_prompt_state(id, PromptState::Written, turn);
        self.effects.push(Effect::Send(Box::new(message)));
    }

    fn start_turn(&mut self, prompts: Vec<Uuid>) {
        self.turns += 1;
        let previous = self.turn.previous();
        self.turn = TurnState::Running(RunningTurn::new(self.turns, self.now, previous));
        self.note(Note::TurnStarted { turn: self.turns, prompts });
    }

    /// `init`: the agent starts a turn, or shows that it started with ours. It repeats `init` in
    /// the middle of a turn after a compaction.
    pub(super) fn turn_started(&mut self) {
        if self.turn.running().is_none() {
            let carried: Vec<Uuid> = self.prompts.in_flight().map(|it| it.id).collect();
            self.start_turn(carried.clone());
            for prompt in carried {
                self.assign_prompt(prompt, Some(self.turns));
            }
        }
        if let TurnState::Running(turn) = &mut self.turn {
            turn.confirm();
        }
    }

    /// The agent has taken up a prompt. 2.1.325 reports this again when the prompt's turn has
    /// ended, which says nothing about the next turn.
    pub(super) fn prompt_accepted(&mut self, prompt: Uuid) {
        if !self.prompts.in_flight().any(|it| it.id == prompt) {
            return;
        }
        let turn = self.turn.running_mut().map(|turn| {
            turn.confirm();
            turn.number
        });
        self.set_prompt_state(prompt, PromptState::Accepted, turn);
        self.assign_prompt(prompt, turn);
        self.extend_carrying();
    }

    /// The agent will not run a prompt from its queue. It reports the same about a prompt that it
    /// has started with when the turn is interrupted; the result decides about that one.
    pub(super) fn prompt_dropped(&mut self, prompt: Uuid) {
        let waits =
            |it: &journal::PromptRecord| it.id == prompt && it.state == PromptState::Written;
        if !self.prompts.in_flight().any(waits) {
            return;
        }
        self.set_prompt_state(prompt, PromptState::Cancelled, None);
        if self.prompts.in_flight().next().is_some() {
            return;
        }
        match &self.turn {
            TurnState::Carrying { previous, .. } => {
                self.turn = TurnState::Idle { previous: *previous };
            }
            // The turn was for this prompt only.
            TurnState::Running(turn) if !turn.is_confirmed() => {
                self.end_turn(TurnEnding::Interrupted);
            }
            TurnState::Idle { .. } | TurnState::Running(_) => {}
        }
    }

    /// `result`.
    pub(super) fn turn_ended(&mut self, result: &TurnResult) {
        if let Some(total) = result.total_cost {
            self.count_cost(total);
        }
        let TurnState::Running(turn) = &mut self.turn else {
            self.agent.set_last_failure(result);
            return;
        };
        if let TurnPhase::Unconfirmed { previous } = &mut turn.phase
            && *previous == PreviousResult::Outstanding
            && !self.prompts.in_flight().any(|it| result.prompts.contains(&it.id))
        {
            // The late result of a turn that was given up.
            *previous = PreviousResult::Received;
            self.agent.set_last_failure(result);
            return;
        }
        let ending = match &result.failure {
            Some(_) if turn.is_stopping() => TurnEnding::Interrupted,
            Some(message) => TurnEnding::Failed { message: message.clone() },
            None => TurnEnding::Completed,
        };
        self.failures = 0;
        let number = turn.number;
        let repeats = self.repeats_prompts(number);
        let answered = |it: &journal::PromptRecord| {
            if result.prompts.contains(&it.id) {
                return true;
            }
            // A prompt that was written just as the agent started a turn by itself waits for the
            // next turn. A version that lists the answered prompts lists all of them.
            let passed_over = result.unsolicited || !result.prompts.is_empty() || repeats;
            it.turn == Some(number) && (it.state == PromptState::Accepted || !passed_over)
        };
        let (done, carried): (Vec<_>, Vec<_>) =
            self.prompts.in_flight().map(|it| (it.id, answered(it))).partition(|(_, done)| *done);
        for (prompt, _) in done {
            self.set_prompt_state(prompt, PromptState::Done, Some(number));
        }
        for (prompt, _) in &carried {
            self.assign_prompt(*prompt, None);
        }
        self.end_turn(ending);
        self.carry_open_prompts(PreviousResult::Received);
    }

    /// The agent ended the turn because it was told to stop, or because a person refused something.
    pub(super) fn turn_cancelled(&mut self, prompts: Vec<Uuid>) {
        if let Some(turn) = self.turn.running_mut() {
            turn.will_stop();
        }
        let failure = Some("cancelled".to_owned());
        self.turn_ended(&TurnResult { failure, prompts, ..TurnResult::default() });
    }

    /// The agent works although no prompt is open. The turn ends when it has been silent for a while.
    pub(super) fn unprompted(&mut self) {
        self.turn_started();
        let (now, silence) = (self.now, self.limits.idle);
        if let TurnState::Running(turn) = &mut self.turn {
            turn.unprompted = Some(silence);
        }
        self.turn.note_output(now);
    }

    /// The agent did not accept a prompt into the running turn. It waits for a turn of its own.
    pub(super) fn prompt_returned(&mut self, prompt: Uuid) {
        let steered = self.prompts.get(prompt).is_some_and(|it| it.delivery == Delivery::Steer);
        let Some(record) = self.prompts.return_to_queue(prompt, self.wall) else { return };
        self.effects.push(Effect::Prompt(record));
        self.note(Note::PromptStateChanged { prompt, state: PromptState::Queued });
        if steered {
            self.note(Note::PromptDeliveryChanged { prompt, delivery: Delivery::Queue });
        }
        if let TurnState::Carrying { previous, .. } = &self.turn
            && self.prompts.in_flight().next().is_none()
        {
            self.turn = TurnState::Idle { previous: *previous };
        }
    }

    /// Whether the agent has repeated a prompt of a turn. By the end it has then repeated all the
    /// prompts that it took up, and the others wait for the next turn. If it has repeated none,
    /// there was no time for it.
    fn repeats_prompts(&self, turn: u64) -> bool {
        let mut own = self.prompts.in_flight().filter(|it| it.turn == Some(turn));
        own.any(|it| it.state == PromptState::Accepted)
    }

    /// Ends the running turn, if there is one. Every end of a turn goes through here.
    pub(super) fn end_turn(&mut self, ending: TurnEnding) {
        let previous = self.turn.previous();
        let Some(turn) = self.turn.running().map(|turn| turn.number) else { return };
        self.turn = TurnState::Idle { previous };
        self.withdraw_requests_of_turn();
        self.note(Note::TurnEnded { turn, ending });
        self.effects.push(Effect::Compact);
    }

    /// After the end of a turn: waits for the agent if it still has prompts.
    fn carry_open_prompts(&mut self, previous: PreviousResult) {
        self.turn = if self.prompts.in_flight().next().is_some() {
            TurnState::Carrying { until: self.carry_end(), previous }
        } else {
            TurnState::Idle { previous }
        };
    }

    /// The process is gone, and with it everything it could still report.
    pub(super) fn reset_turn(&mut self) {
        self.lines_delayed = None;
        self.turn = TurnState::Idle { previous: PreviousResult::Received };
    }

    pub(super) fn idle_reported(&mut self) {
        let (soon, carry_end) = (self.now + self.limits.idle, self.carry_end());
        match &mut self.turn {
            TurnState::Idle { .. } => {}
            TurnState::Running(turn) => {
                // A late report may be about the previous turn, while the prompt was just written.
                turn.ends_at = Some(if turn.is_confirmed() { soon } else { carry_end });
            }
            // The agent cannot start with a prompt that it does not have.
            TurnState::Carrying { .. } if self.lines_delayed.is_some() => {}
            TurnState::Carrying { until, .. } => {
                *until = (*until).min(soon);
            }
        }
    }

    /// Lines for the agent, perhaps prompts, are sent again at this time.
    pub(super) fn delay_lines(&mut self, until: u64) {
        self.lines_delayed = Some(until);
        self.wait_for_prompts();
    }

    pub(super) fn lines_delivered(&mut self) {
        if self.lines_delayed.take().is_some() {
            self.wait_for_prompts();
        }
    }

    /// Until when the agent must have started with the prompts it has, or gets later.
    fn carry_end(&self) -> u64 {
        self.lines_delayed.unwrap_or(0).max(self.now) + self.limits.carry
    }

    /// The agent may get its prompts, or got them, later than it seemed.
    fn wait_for_prompts(&mut self) {
        let least = self.carry_end();
        match &mut self.turn {
            TurnState::Carrying { until, .. } => *until = least.max(*until),
            TurnState::Running(turn) if !turn.is_confirmed() => {
                turn.ends_at = turn.ends_at.map(|at| least.max(at));
            }
            TurnState::Idle { .. } | TurnState::Running(_) => {}
        }
    }

    /// The agent reported that it is running. That does not start a turn: it reports the same while
    /// something runs in the background.
    pub(super) fn running_reported(&mut self) {
        if let TurnState::Running(turn) = &mut self.turn {
            turn.ends_at = None;
        }
        self.extend_carrying();
    }

    /// The agent seems to start with the prompts it still has.
    fn extend_carrying(&mut self) {
        let end = self.carry_end();
        if let TurnState::Carrying { until, .. } = &mut self.turn {
            *until = end;
        }
    }

    /// Records the turn that a prompt in flight belongs to.
    fn assign_prompt(&mut self, prompt: Uuid, turn: Option<u64>) {
        if let Some(record) = self.prompts.assign(prompt, turn) {
            self.effects.push(Effect::Prompt(record));
        }
    }

    /// Records that the turn is to stop. Returns false if that was requested before.
    pub(super) fn request_stop(&mut self) -> bool {
        let now = self.now;
        match &mut self.turn {
            TurnState::Running(turn) if !turn.is_stopping() => {
                turn.stop = StopState::Requested { at: now };
                true
            }
            _ => false,
        }
    }

    pub(super) fn pass_turn_deadlines(&mut self) {
        let waits_for_person = self.waits_for_person();
        let turn = match &mut self.turn {
            TurnState::Idle { .. } => return,
            TurnState::Carrying { until, previous } => {
                if *until <= self.now {
                    self.turn = TurnState::Idle { previous: *previous };
                    let lost: Vec<Uuid> = self.prompts.in_flight().map(|it| it.id).collect();
                    for prompt in lost {
                        self.set_prompt_state(prompt, PromptState::Indeterminate, None);
                    }
                }
                return;
            }
            TurnState::Running(turn) => turn,
        };
        if turn.end_without_result(waits_for_person).is_some_and(|at| at <= self.now) {
            self.end_turn_without_result();
            return;
        }
        if let StopState::Requested { at } = turn.stop
            && at + self.limits.interrupt <= self.now
        {
            turn.will_stop();
            self.stop_agent(ExitCause::Unresponsive);
            return;
        }
        let silence = self.now - turn.last_output;
        if !turn.stall_reported && !waits_for_person && silence >= self.limits.stall {
            turn.stall_reported = true;
            self.note(Note::Stalled { seconds: silence / 1000 });
        }
    }

    fn end_turn_without_result(&mut self) {
        let TurnState::Running(turn) = &self.turn else { return };
        let number = turn.number;
        let ending = if turn.is_stopping() {
            TurnEnding::Interrupted
        } else if turn.unprompted.is_some() {
            TurnEnding::Completed
        } else {
            TurnEnding::Failed { message: "the agent ended the turn without a result".to_owned() }
        };
        let own = self.prompts.in_flight().filter(|it| it.turn == Some(number));
        let own: Vec<_> = own.map(|it| (it.id, it.state)).collect();
        for (prompt, state) in own {
            self.set_prompt_state(prompt, final_state_without_result(state), None);
        }
        self.end_turn(ending);
        self.carry_open_prompts(PreviousResult::Outstanding);
    }
}

/// The final state of a prompt whose turn gave no result: whether the agent ran a prompt that it
/// did not accept is unknown.
pub(super) fn final_state_without_result(state: PromptState) -> PromptState {
    match state {
        PromptState::Accepted => PromptState::Done,
        _ => PromptState::Indeterminate,
    }
}
