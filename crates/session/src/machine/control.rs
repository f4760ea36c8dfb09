//! Requests to the agent that wait for its answer.

use std::collections::BTreeMap;

use uuid::Uuid;
use wire::json::Raw;
use wire::note::{Actor, Note, Rewind, Setting};
use wire::say::{Request, Saying};

use super::{Done, Effect, Machine, Refusal, Reply, Ticket};

/// Requests to the agent that wait for its answer.
#[derive(Debug)]
pub(super) struct Controls {
    made: u64,
    open: BTreeMap<String, Open>,
}

#[derive(Debug)]
struct Open {
    purpose: Purpose,
    /// Nothing where something else watches over it.
    until: Option<u64>,
}

/// What an answer is for.
#[derive(Debug)]
pub(super) enum Purpose {
    Initialize,
    /// Nobody waits for it.
    Nothing,
    /// Take back a prompt.
    Cancel {
        ticket: Option<Ticket>,
        prompt: Uuid,
    },
    /// Change a setting.
    Set {
        /// Nobody where whoever asked was told that no answer came. One that comes late still
        /// counts: the agent has the setting.
        ticket: Option<Ticket>,
        setting: Setting,
        by: Actor,
    },
    /// Go back to before a prompt, files first.
    Rewind {
        ticket: Ticket,
        prompt: Uuid,
        what: Rewind,
        then: Option<Request>,
        by: Actor,
    },
    /// Tell whoever asked.
    Query {
        ticket: Ticket,
    },
}

impl Controls {
    /// Counting goes on from the time: an agent may still answer what was asked by a Towpath that
    /// is gone, and must not be taken to answer something else.
    pub(super) fn since(now: u64) -> Self {
        Self { made: now, open: BTreeMap::new() }
    }

    /// Whether a rewind is under way, which a prompt must not overtake.
    pub(super) fn rewinding(&self) -> bool {
        self.open.values().any(|it| matches!(it.purpose, Purpose::Rewind { .. }))
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        self.open.values().filter_map(|it| it.until).min()
    }
}

impl Machine {
    /// Asks the agent something.
    pub(super) fn ask_agent(&mut self, request: &Request, purpose: Purpose) {
        self.controls.made += 1;
        let id = format!("towpath-{}", self.controls.made);
        self.out.push(Effect::Say(Saying::request(&id, request)));
        // Whether the agent is ready has a deadline of its own.
        let until = match purpose {
            Purpose::Initialize => None,
            _ => Some(self.now + self.limits.control),
        };
        self.controls.open.insert(id, Open { purpose, until });
    }

    /// The agent answered a request. The CLI also echoes our own answers to its requests: their ids
    /// are not among ours.
    pub(super) fn answered(&mut self, request: &str, answer: Result<Option<String>, String>) {
        let Some(open) = self.controls.open.remove(request) else { return };
        match open.purpose {
            Purpose::Initialize => self.agent_ready(answer),
            Purpose::Nothing => {}
            Purpose::Cancel { ticket, prompt } => self.cancel_answered(ticket, prompt, &answer),
            Purpose::Set { ticket, setting, by } => match answer {
                Ok(_) => {
                    self.setting_changed(setting, by);
                    self.reply_if_asked(ticket, Ok(Done::Well));
                }
                Err(error) => self.reply_if_asked(ticket, Err(Refusal::ByAgent(error))),
            },
            Purpose::Rewind { ticket, prompt, what, then, by } => match (went_back(answer), then) {
                (Err(error), then) => {
                    if what == Rewind::Both && then.is_none() {
                        // The files came first, and are put back.
                        self.note(Note::Rewound { prompt, what: Rewind::Files, by });
                    }
                    self.reply(ticket, Err(Refusal::ByAgent(error)));
                }
                (Ok(_), Some(next)) => {
                    self.ask_agent(&next, Purpose::Rewind { ticket, prompt, what, then: None, by });
                }
                (Ok(payload), None) => {
                    self.note(Note::Rewound { prompt, what, by });
                    self.reply(ticket, Ok(Done::Payload(payload)));
                }
            },
            Purpose::Query { ticket } => {
                self.reply(ticket, answer.map(Done::Payload).map_err(Refusal::ByAgent));
            }
        }
    }

    pub(super) fn setting_changed(&mut self, setting: Setting, by: Actor) {
        self.keep_options(|options| options.apply(&setting));
        self.note(Note::SettingChanged { setting, by });
    }

    pub(super) fn expire_controls(&mut self) {
        while let Some((id, open)) = self.take_overdue() {
            let late = match &open.purpose {
                Purpose::Set { setting, by, .. } => {
                    Some(Purpose::Set { ticket: None, setting: setting.clone(), by: by.clone() })
                }
                _ => None,
            };
            self.give_up(&open.purpose, Refusal::NoAnswer);
            if let Some(purpose) = late {
                self.controls.open.insert(id, Open { purpose, until: None });
            }
        }
    }

    fn take_overdue(&mut self) -> Option<(String, Open)> {
        let overdue = |open: &Open| open.until.is_some_and(|until| until <= self.now);
        let id = self.controls.open.iter().find(|(_, open)| overdue(open))?.0.clone();
        self.controls.open.remove_entry(&id)
    }

    /// The agent is gone, and with it every answer.
    pub(super) fn fail_controls(&mut self) {
        for open in std::mem::take(&mut self.controls.open).into_values() {
            self.give_up(&open.purpose, Refusal::AgentGone);
        }
    }

    fn give_up(&mut self, purpose: &Purpose, refusal: Refusal) {
        let ticket = match purpose {
            Purpose::Initialize | Purpose::Nothing => None,
            Purpose::Cancel { ticket, .. } | Purpose::Set { ticket, .. } => *ticket,
            Purpose::Rewind { ticket, .. } | Purpose::Query { ticket } => Some(*ticket),
        };
        self.reply_if_asked(ticket, Err(refusal));
    }

    fn reply_if_asked(&mut self, ticket: Option<Ticket>, reply: Reply) {
        if let Some(ticket) = ticket {
            self.reply(ticket, reply);
        }
    }
}

/// A rewind that the agent could not make comes as a success that says so.
fn went_back(answer: Result<Option<String>, String>) -> Result<Option<String>, String> {
    let payload = answer?;
    if let Some(said) = payload.as_deref().and_then(Raw::parse) {
        let says_no = |key| said.get(key).and_then(Raw::boolean) == Some(false);
        if says_no("canRewind") || says_no("rewound") {
            let why = said.get("error").and_then(Raw::text).map(String::from);
            return Err(why.unwrap_or_else(|| "it cannot go back there".to_owned()));
        }
    }
    Ok(payload)
}
