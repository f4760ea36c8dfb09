//! When a turn begins and when it is over.
//!
//! The CLI's `result` ends a turn, but results and prompts do not match up: a prompt sent during a
//! tool call is folded into the running turn, several that wait with the agent become one turn, a
//! background task begins a turn nobody asked for, and a dead or confused agent gives no result at
//! all. So the turn is ours: it begins when a prompt is written or the agent begins by itself, and
//! it is over once, by a result, an idle agent, or a dead one.

use uuid::Uuid;
use wire::note::{Note, PromptState, TurnEnding};
use wire::say::{Priority, Prompt};

use super::{Effect, Limits, Machine};
use crate::heard::Ended;
use crate::machine::prompts::{Prompts, images_of};

/// A turn that is not over.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) number: u64,
    /// Whether the agent has shown that it began with it. What it says before may still belong to
    /// the turn before.
    seen: bool,
    last_word: u64,
    stalled: bool,
    stopping: Option<Stopping>,
    /// When it is taken to be over: the agent said it had nothing to do, and no result came.
    over_at: Option<u64>,
}

/// Somebody wants the turn to end.
#[derive(Clone, Copy, Debug)]
enum Stopping {
    /// The agent was asked to, at this moment.
    Asked(u64),
    /// It will, because a call was refused so; or its process is being ended.
    Certain,
}

impl Turn {
    fn new(number: u64, now: u64) -> Self {
        Self { number, seen: false, last_word: now, stalled: false, stopping: None, over_at: None }
    }

    /// A turn that was running when the session was last seen; whether the agent has shown that it
    /// began with it is only known from its prompts and from what it asks.
    pub(super) fn restored(number: u64, now: u64, prompts: &Prompts, asks: bool) -> Self {
        let own = || prompts.in_flight().filter(|it| it.turn == Some(number));
        let seen =
            asks || own().next().is_none() || own().any(|it| it.state == PromptState::Accepted);
        Self { seen, ..Self::new(number, now) }
    }

    pub(super) fn broke_silence(&mut self, now: u64) {
        self.last_word = now;
        self.stalled = false;
    }

    /// The agent shows that it is at work on it.
    pub(super) fn is_at_work(&mut self) {
        self.seen = true;
        self.over_at = None;
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_some()
    }

    /// It will end without a further word of ours.
    pub(super) fn will_stop(&mut self) {
        self.stopping = Some(Stopping::Certain);
    }

    pub(super) fn deadline(&self, limits: &Limits, waits_for_a_person: bool) -> Option<u64> {
        let stall = (!self.stalled && !waits_for_a_person).then(|| self.last_word + limits.stall);
        let stop = match self.stopping {
            Some(Stopping::Asked(at)) => Some(at + limits.interrupt),
            Some(Stopping::Certain) | None => None,
        };
        [stall, stop, self.over_at].into_iter().flatten().min()
    }
}

impl Machine {
    /// Writes the first waiting prompt, which begins a turn.
    pub(super) fn open_turn_with(&mut self, prompt: Uuid) {
        self.begin_turn(vec![prompt]);
        self.write_prompt(prompt, None, Some(self.turns));
    }

    /// Writes the prompts that may join the running turn.
    pub(super) fn steer(&mut self) {
        let steering = |it: &&journal::PromptRecord| it.delivery == wire::note::Delivery::Steer;
        let prompts: Vec<Uuid> = self.prompts.queued().filter(steering).map(|it| it.id).collect();
        for prompt in prompts {
            self.write_prompt(prompt, Some(Priority::Next), None);
        }
    }

    fn write_prompt(&mut self, id: Uuid, priority: Option<Priority>, turn: Option<u64>) {
        let Some(record) = self.prompts.get(id) else { return };
        let prompt = Prompt::with_images(id, record.text.clone(), images_of(record));
        // Nothing empty is ever taken; a prompt whose pictures cannot be read any more may be.
        let Ok(prompt) = prompt else {
            self.prompt_becomes(id, PromptState::Cancelled, None);
            return;
        };
        let prompt = match priority {
            Some(priority) => prompt.priority(priority),
            None => prompt,
        };
        self.prompt_becomes(id, PromptState::Written, turn);
        self.out.push(Effect::Say(prompt.to_saying()));
    }

    fn begin_turn(&mut self, prompts: Vec<Uuid>) {
        self.turns += 1;
        self.turn = Some(Turn::new(self.turns, self.now));
        self.carrying = None;
        self.note(Note::TurnBegan { turn: self.turns, prompts });
    }

    /// `init`: the agent begins a turn, or shows that it began with ours. It repeats it after a
    /// compaction, in the middle.
    pub(super) fn turn_began(&mut self) {
        if self.turn.is_none() {
            let carried: Vec<Uuid> = self.prompts.in_flight().map(|it| it.id).collect();
            self.begin_turn(carried.clone());
            for prompt in carried {
                self.assign_prompt(prompt, Some(self.turns));
            }
        }
        self.owes_result = false;
        if let Some(turn) = &mut self.turn {
            turn.is_at_work();
        }
    }

    /// The agent has taken up a prompt. 2.1.325 says so again when its turn is over, which is no
    /// sign of the turn after.
    pub(super) fn accepted(&mut self, prompt: Uuid) {
        if !self.prompts.in_flight().any(|it| it.id == prompt) {
            return;
        }
        let turn = self.turn.as_mut().map(|turn| {
            turn.is_at_work();
            turn.number
        });
        self.prompt_becomes(prompt, PromptState::Accepted, turn);
        self.assign_prompt(prompt, turn);
        self.begins_with_carried();
    }

    /// The agent will not run a prompt that it had taken. One that it has begun with is called so
    /// too when its turn is interrupted; the result settles it.
    pub(super) fn dropped(&mut self, prompt: Uuid) {
        let waits =
            |it: &journal::PromptRecord| it.id == prompt && it.state == PromptState::Written;
        if !self.prompts.in_flight().any(waits) {
            return;
        }
        self.prompt_becomes(prompt, PromptState::Cancelled, None);
        if self.prompts.in_flight().next().is_none() {
            self.carrying = None;
            if self.turn.as_ref().is_some_and(|turn| !turn.seen) {
                // The turn was this prompt's, and nothing will come of it.
                self.end_turn(TurnEnding::Interrupted);
            }
        }
    }

    /// `result`.
    pub(super) fn turn_ended(&mut self, ended: &Ended) {
        let Some(turn) = &self.turn else {
            self.last_words(ended);
            return;
        };
        if std::mem::take(&mut self.owes_result) && !turn.seen {
            // It is late, and about a turn that was given up.
            return;
        }
        let ending = match &ended.failure {
            Some(_) if turn.is_stopping() => TurnEnding::Interrupted,
            Some(message) => TurnEnding::Failed { message: message.clone() },
            None => TurnEnding::Completed,
        };
        self.failures = 0;
        let number = turn.number;
        let repeats = self.repeats(number);
        let answered = |it: &journal::PromptRecord| {
            if ended.prompts.contains(&it.id) {
                return true;
            }
            // A prompt that was written just as the agent began a turn of its own waits for the
            // next; a version that lists what it answered lists all of it.
            let passed_over = ended.unsolicited || !ended.prompts.is_empty() || repeats;
            it.turn == Some(number) && (it.state == PromptState::Accepted || !passed_over)
        };
        let (done, carried): (Vec<_>, Vec<_>) =
            self.prompts.in_flight().map(|it| (it.id, answered(it))).partition(|(_, done)| *done);
        for (prompt, _) in done {
            self.prompt_becomes(prompt, PromptState::Done, Some(number));
        }
        for (prompt, _) in &carried {
            self.assign_prompt(*prompt, None);
        }
        self.end_turn(ending);
        if !carried.is_empty() {
            self.carrying = Some(self.now + self.limits.carry);
        }
    }

    /// Whether the agent has repeated a prompt of a turn. By the end it has then repeated all that
    /// it took up, and what it has not repeated waits for the next turn. Where it has repeated none
    /// there was no time for it.
    fn repeats(&self, turn: u64) -> bool {
        let mut own = self.prompts.in_flight().filter(|it| it.turn == Some(turn));
        own.any(|it| it.state == PromptState::Accepted)
    }

    /// The one way a turn is over.
    pub(super) fn end_turn(&mut self, ending: TurnEnding) {
        let Some(turn) = self.turn.take() else { return };
        self.withdraw_requests_of_the_turn();
        self.note(Note::TurnOver { turn: turn.number, ending });
        self.out.push(Effect::Settle);
    }

    /// The agent says it has nothing to do.
    pub(super) fn went_idle(&mut self) {
        if let Some(turn) = &mut self.turn {
            // Said late, it may be about the turn before, of which a prompt just written knows
            // nothing.
            let patience = if turn.seen { self.limits.idle } else { self.limits.carry };
            turn.over_at = Some(self.now + patience);
        }
        if let Some(until) = &mut self.carrying {
            *until = (*until).min(self.now + self.limits.idle);
        }
    }

    /// The agent says it has something to do. That does not begin a turn: it says so too while
    /// something runs in the background.
    pub(super) fn went_busy(&mut self) {
        if let Some(turn) = &mut self.turn {
            turn.over_at = None;
        }
        self.begins_with_carried();
    }

    /// The agent seems to begin with what it had taken up.
    fn begins_with_carried(&mut self) {
        if let Some(until) = &mut self.carrying {
            *until = self.now + self.limits.carry;
        }
    }

    /// Says which turn a prompt that is with the agent belongs to.
    fn assign_prompt(&mut self, prompt: Uuid, turn: Option<u64>) {
        if let Some(record) = self.prompts.assign(prompt, turn) {
            self.out.push(Effect::Prompt(record));
        }
    }

    /// Notes that the turn is to stop; whether that is news.
    pub(super) fn ask_to_stop(&mut self) -> bool {
        let now = self.now;
        match &mut self.turn {
            Some(turn) if turn.stopping.is_none() => {
                turn.stopping = Some(Stopping::Asked(now));
                true
            }
            _ => false,
        }
    }

    pub(super) fn pass_turn_deadlines(&mut self) {
        let waits_for_a_person = self.asks_a_person();
        if self.carrying.is_some_and(|until| until <= self.now) {
            self.carrying = None;
            let lost: Vec<Uuid> = self.prompts.in_flight().map(|it| it.id).collect();
            for prompt in lost {
                self.prompt_becomes(prompt, PromptState::Indeterminate, None);
            }
        }
        let Some(turn) = &mut self.turn else { return };
        if turn.over_at.is_some_and(|at| at <= self.now) {
            self.end_turn_without_result();
            return;
        }
        if let Some(Stopping::Asked(at)) = turn.stopping
            && at + self.limits.interrupt <= self.now
        {
            turn.stopping = Some(Stopping::Certain);
            self.end_agent(wire::note::Cause::Disobeyed);
            return;
        }
        let silence = self.now - turn.last_word;
        if !turn.stalled && !waits_for_a_person && silence >= self.limits.stall {
            turn.stalled = true;
            self.note(Note::Stalled { seconds: silence / 1000 });
        }
    }

    fn end_turn_without_result(&mut self) {
        let Some(turn) = &self.turn else { return };
        let number = turn.number;
        let ending = if turn.is_stopping() {
            TurnEnding::Interrupted
        } else {
            TurnEnding::Failed { message: "the agent ended the turn without a result".to_owned() }
        };
        let own = self.prompts.in_flight().filter(|it| it.turn == Some(number));
        let own: Vec<_> = own.map(|it| (it.id, it.state)).collect();
        for (prompt, state) in own {
            // Of a prompt that the agent never showed to have begun with, nobody knows.
            let end = match state {
                PromptState::Accepted => PromptState::Done,
                _ => PromptState::Indeterminate,
            };
            self.prompt_becomes(prompt, end, None);
        }
        self.owes_result = true;
        self.end_turn(ending);
        if self.prompts.in_flight().next().is_some() {
            self.carrying = Some(self.now + self.limits.carry);
        }
    }
}
