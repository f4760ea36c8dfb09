//! People, who want all sorts of things at all sorts of times.

use towpath_session::machine::{Answer, Command, GrantScope, NewPrompt, Query, RuleChoice};
use uuid::Uuid;
use wire::consent::RuleId;
use wire::note::{Actor, Delivery, QueueFate, Rewind, Setting};

use crate::dice::Dice;

/// Who they are and what they remember.
#[derive(Default)]
pub(crate) struct People {
    prompts: Vec<Uuid>,
}

impl People {
    /// Something somebody wants; `requests` are those anybody has ever seen.
    pub(crate) fn want(&mut self, dice: &mut Dice, requests: &[String]) -> Command {
        let by = if dice.one_in(2) { ann() } else { bob() };
        match dice.below(24) {
            0..=6 => Command::Prompt(self.prompt(dice, by)),
            7 => Command::EditPrompt { prompt: self.some(dice), text: "changed".to_owned() },
            8 | 9 => Command::RemovePrompt { prompt: self.some(dice) },
            10 | 11 => {
                let before = (!dice.one_in(4)).then(|| self.some(dice));
                Command::MovePrompt { prompt: self.some(dice), before }
            }
            12..=15 => match dice.pick(requests) {
                Some(request) => {
                    Command::Answer { request: request.clone(), answer: some_answer(dice), by }
                }
                None => Command::Wake,
            },
            16 | 17 => {
                let queue = if dice.one_in(2) { QueueFate::Keep } else { QueueFate::Clear };
                Command::Interrupt { queue, by }
            }
            18 => {
                let model = |dice: &mut Dice| format!("model-{}", dice.below(9));
                let setting = match dice.below(4) {
                    0 => Setting::Effort("low".to_owned()),
                    1 => Setting::PermissionMode("plan".to_owned()),
                    _ => Setting::Model(Some(model(dice))),
                };
                Command::Set { setting, by }
            }
            19 => {
                let what = *dice.pick(&[Rewind::Files, Rewind::Both]).unwrap_or(&Rewind::Files);
                Command::Rewind { prompt: self.some(dice), what, by }
            }
            20 => Command::Query(Query::Context),
            21 => Command::Query(Query::Changes),
            22 if dice.one_in(3) => Command::Close,
            _ => Command::Wake,
        }
    }

    /// A prompt; now and then one that was sent before, or nothing at all.
    fn prompt(&mut self, dice: &mut Dice, by: Actor) -> NewPrompt {
        let id = if dice.one_in(8) && !self.prompts.is_empty() {
            self.some(dice)
        } else {
            self.new_id()
        };
        let delivery = if dice.one_in(2) { Delivery::Steer } else { Delivery::Queue };
        let text = if dice.one_in(30) { " " } else { "do it" };
        NewPrompt { id, text: text.to_owned(), images: Vec::new(), delivery, by }
    }

    /// A prompt as one expects it.
    pub(crate) fn plain_prompt(&mut self) -> NewPrompt {
        let text = "do it".to_owned();
        let delivery = Delivery::Queue;
        NewPrompt { id: self.new_id(), text, images: Vec::new(), delivery, by: ann() }
    }

    fn new_id(&mut self) -> Uuid {
        let id = Uuid::from_u128(self.prompts.len() as u128 + 1);
        self.prompts.push(id);
        id
    }

    fn some(&mut self, dice: &mut Dice) -> Uuid {
        dice.pick(&self.prompts).copied().unwrap_or(Uuid::nil())
    }
}

pub(crate) fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "terminal".to_owned() }
}

fn bob() -> Actor {
    Actor { name: "bob".to_owned(), via: "browser".to_owned() }
}

fn some_answer(dice: &mut Dice) -> Answer {
    match dice.below(6) {
        0 => Answer::Answers(vec![("Which?".to_owned(), "This".to_owned())]),
        1 => Answer::Deny { message: "no".to_owned(), interrupt: true },
        2 => Answer::Deny { message: String::new(), interrupt: false },
        3 => {
            let until = Some(if dice.one_in(2) { u64::MAX } else { 1 });
            let remember = RuleChoice { rule: RuleId::Exact, until, scope: GrantScope::Session };
            Answer::Allow { input: None, remember: Some(remember), mode: None }
        }
        _ => Answer::Allow { input: None, remember: None, mode: None },
    }
}
