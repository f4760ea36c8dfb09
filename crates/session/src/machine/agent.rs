//! The life of the agent process, as far as it is decided on.

use uuid::Uuid;
use wire::note::{Cause, Note, PromptState, TurnEnding};
use wire::say::{Initialize, Request};

use super::control::Purpose;
use super::{Command, Effect, Gone, Machine, Refusal, Start};
use crate::heard::Ended;
use crate::options::Options;

/// The agent process, as the session sees it.
#[derive(Debug)]
pub(super) struct Agent {
    life: Life,
    /// What a process said in place of a turn: why it would not begin, as a rule.
    last_words: Option<String>,
}

#[derive(Debug)]
enum Life {
    /// No process.
    Asleep {
        /// Whether the last one ended unasked.
        died: bool,
    },
    /// It was started by a Towpath that is gone. Whether it lives is about to be known; until then
    /// only what it left is heard, and nothing can be said to it.
    Found,
    /// Asked for; whether it runs is not known yet.
    Starting,
    /// It runs and has not answered `initialize` yet.
    Waking {
        until: u64,
        /// It was started by a Towpath that is gone. It may be busy, so it is not held to a time.
        met: bool,
    },
    Ready,
    /// It was told to end.
    Ending {
        cause: Cause,
        until: u64,
        forced: bool,
    },
}

impl Agent {
    pub(super) fn asleep() -> Self {
        Self { life: Life::Asleep { died: false }, last_words: None }
    }

    /// A process that was started before.
    pub(super) fn found() -> Self {
        Self { life: Life::Found, last_words: None }
    }

    pub(super) fn is_asleep(&self) -> bool {
        matches!(self.life, Life::Asleep { .. })
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.life, Life::Ready)
    }

    /// Whether there is somebody to talk to.
    pub(super) fn listens(&self) -> bool {
        matches!(self.life, Life::Ready | Life::Waking { .. })
    }

    /// Whether it was started with options that are not to be changed any more.
    pub(super) fn is_starting(&self) -> bool {
        matches!(self.life, Life::Starting)
    }

    pub(super) fn died(&self) -> bool {
        matches!(self.life, Life::Asleep { died: true })
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        match self.life {
            Life::Waking { until, .. } | Life::Ending { until, .. } => Some(until),
            Life::Asleep { .. } | Life::Found | Life::Starting | Life::Ready => None,
        }
    }
}

impl Machine {
    pub(super) fn start_agent(&mut self) {
        self.agent = Agent { life: Life::Starting, last_words: None };
        let start = if self.resumable { Start::Resume } else { Start::Fresh };
        self.out.push(Effect::Start(start));
    }

    pub(super) fn agent_started(&mut self) {
        if !matches!(self.agent.life, Life::Starting) {
            // It is not wanted any more.
            self.out.push(Effect::Kill);
            return;
        }
        self.note(Note::AgentStarted { resumed: self.resumable });
        self.wake(false);
    }

    /// A process of an earlier Towpath is attached: whether it still listens is asked the same way.
    pub(super) fn agent_met(&mut self) {
        self.wake(true);
    }

    /// Nothing can be said to it: it finishes what it is at, and the session goes on with another.
    pub(super) fn agent_foreign(&mut self) {
        const LONGEST_TURN: u64 = 60 * 60 * 1000;
        let until = self.now + 2 * LONGEST_TURN;
        self.withdraw_all_requests();
        self.agent.life = Life::Ending { cause: Cause::Parked, until, forced: false };
        self.out.push(Effect::End { patience: LONGEST_TURN });
    }

    fn wake(&mut self, met: bool) {
        let until = self.now + self.limits.initialize;
        self.agent.life = Life::Waking { until, met };
        let initialize = Initialize { forward_subagent_text: true, ..Initialize::default() };
        self.ask_agent(&Request::Initialize(Box::new(initialize)), Purpose::Initialize);
    }

    /// The agent has answered `initialize`; an answer that is an error is a sign of life too.
    pub(super) fn agent_ready(&mut self, answer: Result<Option<String>, String>) {
        if !matches!(self.agent.life, Life::Waking { .. }) {
            return;
        }
        self.agent.life = Life::Ready;
        self.abilities = answer.ok().flatten().or_else(|| self.abilities.take());
        let version = self.abilities.as_deref().and_then(|abilities| {
            let version = wire::json::Raw::parse(abilities)?.get("claude_code_version")?.text()?;
            Some(version.into())
        });
        self.note(Note::AgentReady { version });
    }

    /// A `result` outside any turn: why the process will not go on.
    pub(super) fn last_words(&mut self, ended: &Ended) {
        self.agent.last_words.clone_from(&ended.failure);
    }

    pub(super) fn end_agent(&mut self, cause: Cause) {
        if cause == Cause::Disobeyed && matches!(self.agent.life, Life::Ending { .. }) {
            // It was left to finish, and somebody has had enough of that.
            let until = self.now + self.limits.end;
            self.agent.life = Life::Ending { cause, until, forced: true };
            self.out.push(Effect::Kill);
            return;
        }
        if matches!(self.agent.life, Life::Asleep { .. } | Life::Ending { .. }) {
            return;
        }
        if let Some(turn) = &mut self.turn {
            turn.will_stop();
        }
        let patience = self.limits.end;
        // Three steps of that length: no more input, a word, by force.
        self.agent.life = Life::Ending { cause, until: self.now + 4 * patience, forced: false };
        self.out.push(Effect::End { patience });
    }

    pub(super) fn pass_agent_deadline(&mut self) {
        let now = self.now;
        match &mut self.agent.life {
            Life::Waking { until, met: true } if *until <= now => self.agent_ready(Ok(None)),
            Life::Waking { until, met: false } if *until <= now => {
                let until = now + self.limits.end;
                self.agent.life = Life::Ending { cause: Cause::NotReady, until, forced: true };
                self.out.push(Effect::Kill);
            }
            Life::Ending { until, forced, .. } if *until <= now => {
                // By force, and again if that was lost on the way.
                *forced = true;
                *until = now + self.limits.end;
                self.out.push(Effect::Kill);
            }
            _ => {}
        }
    }

    pub(super) fn agent_gone(&mut self, gone: &Gone) {
        let asked_for = match &self.agent.life {
            Life::Ending { cause, .. } => Some(cause.clone()),
            _ => None,
        };
        let words = self.agent.last_words.take();
        let cause = asked_for.clone().unwrap_or_else(|| cause_of(gone, words.as_deref()));
        let unasked = !matches!(asked_for, Some(Cause::Parked | Cause::Closed));
        if unasked {
            self.count_failure(gone, words.as_deref());
        }
        let lost_its_process = !matches!(gone, Gone::NotStarted(_));
        self.agent = Agent { life: Life::Asleep { died: unasked }, last_words: None };
        self.withdraw_all_requests();
        self.settle_prompts_of_a_dead_agent();
        self.note(Note::AgentGone { cause: cause.clone() });
        let stopped = matches!(asked_for, Some(Cause::Disobeyed))
            || self.turn.as_ref().is_some_and(super::Turn::is_stopping) && asked_for.is_none();
        let cut = self.turn.is_some() && !stopped && lost_its_process;
        self.end_turn(if stopped { TurnEnding::Interrupted } else { TurnEnding::Cut { cause } });
        self.carrying = None;
        self.owes_result = false;
        self.fail_controls();
        self.refuse_held_if_hopeless();
        if cut && unasked && self.options.continue_after_cut {
            self.continue_cut_turn();
        }
    }

    /// What the agent had taken up is over with it; of what was only written nobody knows.
    fn settle_prompts_of_a_dead_agent(&mut self) {
        let in_flight = self.prompts.in_flight().map(|it| (it.id, it.state));
        for (prompt, state) in in_flight.collect::<Vec<(Uuid, PromptState)>>() {
            let end = match state {
                PromptState::Accepted => PromptState::Done,
                _ => PromptState::Indeterminate,
            };
            self.prompt_becomes(prompt, end, None);
        }
    }

    /// Counts a death, and learns from what was said what to do otherwise.
    fn count_failure(&mut self, gone: &Gone, last_words: Option<&str>) {
        self.failures += 1;
        // At once, then after 1 s, 2 s, 4 s.
        let doublings = self.failures.saturating_sub(2).min(10);
        let wait = if self.failures < 2 { 0 } else { 1000u64 << doublings };
        self.start_at = self.now + wait;
        let stderr = match gone {
            Gone::Exited { stderr, .. } => stderr.as_str(),
            _ => "",
        };
        let said = |words: &str| {
            stderr.contains(words) || last_words.is_some_and(|said| said.contains(words))
        };
        if self.resumable && said("No conversation found") {
            // It was killed before it had saved anything.
            self.resumable = false;
            let text = "the agent knows nothing of this conversation any more; it begins anew";
            self.note(Note::Trouble { text: text.to_owned() });
        } else if !self.resumable && said("already in use") {
            self.resumable = true;
        }
    }

    fn refuse_held_if_hopeless(&mut self) {
        if self.has_failed() {
            for (ticket, _) in std::mem::take(&mut self.held) {
                self.reply(ticket, Err(Refusal::AgentGone));
            }
        }
    }

    fn continue_cut_turn(&mut self) {
        let by = wire::note::Actor { name: "towpath".to_owned(), via: "rule".to_owned() };
        let id = continuation_of(self.turns);
        self.take_prompt(super::NewPrompt {
            id,
            text: "You were cut off in the middle. Look at where things stand and go on."
                .to_owned(),
            images: Vec::new(),
            delivery: wire::note::Delivery::Queue,
            by,
        });
        let first = self.prompts.next_queued().filter(|first| *first != id);
        if first.is_some() {
            self.put_prompt_before(id, first);
        }
    }

    /// When the process is ended for want of anything to do.
    pub(super) fn park_at(&self) -> Option<u64> {
        let idle = self.agent.is_ready()
            && !self.is_busy()
            && !self.asks_a_person()
            && !self.wants_an_agent();
        self.limits.park.filter(|_| idle).map(|park| self.active + park)
    }

    pub(super) fn park(&mut self) {
        self.end_agent(Cause::Parked);
    }

    /// Keeps a command until an agent is ready for it; whether it had to be kept.
    pub(super) fn hold_until_ready(&mut self, ticket: super::Ticket, command: Command) {
        self.failures = if self.has_failed() { 0 } else { self.failures };
        self.held.push((ticket, command));
    }

    /// Keeps changed options.
    pub(super) fn keep_options(&mut self, change: impl FnOnce(&mut Options)) {
        change(&mut self.options);
        self.out.push(Effect::Options(Box::new(self.options.clone())));
    }
}

/// The id of the prompt that takes up a turn again. It must not be random, or a simulation could not
/// be repeated; a turn is taken up once, so its number makes the id unique in the session.
fn continuation_of(turn: u64) -> Uuid {
    const CONTINUATION: u128 = 0x746f_7770_6174_4800_8000_0000_0000_0000;
    Uuid::from_u128(CONTINUATION | u128::from(turn))
}

fn cause_of(gone: &Gone, last_words: Option<&str>) -> Cause {
    match gone {
        Gone::NotStarted(message) => Cause::NotStarted { message: message.clone() },
        Gone::Exited { code, stderr } => {
            let stderr = if stderr.is_empty() { last_words.unwrap_or_default() } else { stderr };
            Cause::Exited { code: *code, stderr: stderr.to_owned() }
        }
        Gone::Killed(signal) => Cause::Killed { signal: *signal },
        Gone::Lost => Cause::Lost,
    }
}
