//! Random commands of users.

use towpath_session::{
    AgentQuery, GrantScope, NewPrompt, NewSchedule, PromptChange, RequestAnswer, RuleChoice,
    SessionCommand,
};
use uuid::Uuid;
use wire::consent::RuleId;
use wire::note::{Actor, Delivery, QueuePolicy, Rewind, Setting};

use super::world::LONGEST_WRITE;

/// Marks the ids of schedules.
const SCHEDULE: u128 = 0x5eed << 100;

/// The users of a session, and the prompts they sent.
#[derive(Default)]
pub(super) struct Users {
    prompts: Vec<Uuid>,
    /// How many schedules they made.
    schedules: u128,
    /// The last command, which may be sent again.
    last: Option<SessionCommand>,
    /// Commands on their way, which arrive in any order.
    delayed: Vec<SessionCommand>,
}

impl Users {
    /// The next command that arrives, if one does: commands are sent twice and overtake each other.
    pub(super) fn next(
        &mut self,
        random: &mut Random,
        requests: &[String],
    ) -> Option<SessionCommand> {
        if random.one_in(12) && self.last.is_some() {
            return self.last.clone();
        }
        if random.one_in(6) && !self.delayed.is_empty() {
            let at = usize::try_from(random.below(self.delayed.len() as u64)).unwrap_or(0);
            return Some(self.delayed.swap_remove(at));
        }
        let command = self.command(random, requests);
        if random.one_in(12) {
            self.delayed.push(command);
            return None;
        }
        self.last = Some(command.clone());
        Some(command)
    }

    /// A random command. `requests` are recent requests, answered or not.
    fn command(&mut self, random: &mut Random, requests: &[String]) -> SessionCommand {
        let by = if random.one_in(2) { ann() } else { bob() };
        match random.below(24) {
            0..=6 => SessionCommand::Prompt(self.prompt(random, by)),
            7 => {
                let text = (!random.one_in(4)).then(|| text_like("changed", random));
                let delivery = if random.one_in(2) { Delivery::Steer } else { Delivery::Queue };
                let delivery = random.one_in(2).then_some(delivery);
                let change = PromptChange { text, delivery };
                SessionCommand::ChangePrompt { prompt: self.any_prompt(random), change }
            }
            8 | 9 => SessionCommand::RemovePrompt { prompt: self.any_prompt(random) },
            10 | 11 => {
                let before = (!random.one_in(4)).then(|| self.any_prompt(random));
                SessionCommand::MovePrompt { prompt: self.any_prompt(random), before }
            }
            12..=15 => match random.pick(requests) {
                Some(request) => SessionCommand::Answer {
                    request: request.clone(),
                    answer: random_answer(random),
                    by,
                },
                None => SessionCommand::Wake,
            },
            16 | 17 => {
                let policies = [QueuePolicy::Keep, QueuePolicy::Clear, QueuePolicy::Hold];
                let queue = random.pick(&policies).copied().unwrap_or_default();
                SessionCommand::Interrupt { queue, by, turn: None }
            }
            18 => {
                let model = |random: &mut Random| {
                    let number = random.below(9);
                    text_like(&format!("model-{number}"), random)
                };
                let setting = match random.below(7) {
                    6 => {
                        let value = (!random.one_in(4)).then(|| random.below(3) + 1);
                        Setting::Options([("budget_usd".to_owned(), value.into())].into())
                    }
                    0 => Setting::Effort("low".to_owned()),
                    1 => Setting::PermissionMode("plan".to_owned()),
                    // Only a new process can take it.
                    2 | 3 => {
                        let value = (!random.one_in(4)).then(|| random.below(9) + 1);
                        Setting::Options([("max_turns".to_owned(), value.into())].into())
                    }
                    _ => Setting::Model(Some(model(random))),
                };
                SessionCommand::Set { setting, by }
            }
            19 => {
                let what = *random.pick(&[Rewind::Files, Rewind::Both]).unwrap_or(&Rewind::Files);
                SessionCommand::Rewind { prompt: self.any_prompt(random), what, by }
            }
            20 if random.one_in(2) => self.schedule(random, by),
            20 => SessionCommand::Query(AgentQuery::Context),
            21 if random.one_in(2) => {
                let limit = random.pick(&[None, None, Some(0.8), Some(1.5), Some(2.0)]);
                SessionCommand::ResumeQueue { by, limit: limit.copied().flatten() }
            }
            21 => SessionCommand::Query(AgentQuery::Changes),
            22 if random.one_in(3) => SessionCommand::Close,
            _ => SessionCommand::Wake,
        }
    }

    /// A schedule that is new, or was sent before, or is removed.
    fn schedule(&mut self, random: &mut Random, by: Actor) -> SessionCommand {
        if self.schedules > 0 && random.one_in(4) {
            let schedule = Uuid::from_u128(SCHEDULE | self.schedules);
            return SessionCommand::RemoveSchedule { schedule, by };
        }
        if self.schedules == 0 || !random.one_in(8) {
            self.schedules += 1;
        }
        let id = Uuid::from_u128(SCHEDULE | self.schedules);
        let times = ["in 30s", "in 5m", "in 2h", "every 1m", "every 20m", "every day 09:00", "no"];
        let when = (*random.pick(&times).unwrap_or(&"in 5m")).to_owned();
        let (text, zone) = (text_like("do it later", random), "America/New_York".to_owned());
        SessionCommand::Schedule(NewSchedule { id, text, when, zone, by })
    }

    /// A random prompt, sometimes one that was sent before, sometimes an empty one.
    fn prompt(&mut self, random: &mut Random, by: Actor) -> NewPrompt {
        let id = if random.one_in(8) && !self.prompts.is_empty() {
            self.any_prompt(random)
        } else {
            self.new_id()
        };
        let delivery = if random.one_in(2) { Delivery::Steer } else { Delivery::Queue };
        let text = if random.one_in(30) { " ".to_owned() } else { text_like("do it", random) };
        NewPrompt { id, text, images: Vec::new(), delivery, by }
    }

    /// A valid new prompt.
    pub(super) fn plain_prompt(&mut self) -> NewPrompt {
        let text = "do it".to_owned();
        let delivery = Delivery::Queue;
        NewPrompt { id: self.new_id(), text, images: Vec::new(), delivery, by: ann() }
    }

    fn new_id(&mut self) -> Uuid {
        let id = Uuid::from_u128(self.prompts.len() as u128 + 1);
        self.prompts.push(id);
        id
    }

    fn any_prompt(&mut self, random: &mut Random) -> Uuid {
        random.pick(&self.prompts).copied().unwrap_or(Uuid::nil())
    }
}

pub(super) fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "terminal".to_owned() }
}

fn bob() -> Actor {
    Actor { name: "bob".to_owned(), via: "browser".to_owned() }
}

/// A text, or one that is about as long as a line for the agent may be, or longer.
fn text_like(text: &str, random: &mut Random) -> String {
    if !random.one_in(20) {
        return text.to_owned();
    }
    let length = LONGEST_WRITE - 600 + usize::try_from(random.below(800)).unwrap_or(0);
    // Some characters take more room in a line than in a text.
    let character = if random.one_in(4) { "\n" } else { "x" };
    format!("{text} {}", character.repeat(length))
}

fn random_answer(random: &mut Random) -> RequestAnswer {
    match random.below(6) {
        0 => RequestAnswer::Answers(vec![("Which?".to_owned(), text_like("This", random))]),
        1 => RequestAnswer::Deny { message: text_like("no", random), interrupt: true },
        2 => RequestAnswer::Deny { message: String::new(), interrupt: false },
        3 => {
            let until = Some(if random.one_in(2) { u64::MAX } else { 1 });
            let remember = RuleChoice { rule: RuleId::Exact, until, scope: GrantScope::Session };
            RequestAnswer::Allow { input: None, remember: Some(remember), mode: None }
        }
        _ => RequestAnswer::Allow { input: None, remember: None, mode: None },
    }
}

/// A pseudo-random sequence of numbers (splitmix64): every choice of a run follows from its seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number less than `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True once in `times`.
    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A random element.
    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let at = usize::try_from(self.below(from.len() as u64)).ok()?;
        from.get(at)
    }
}
