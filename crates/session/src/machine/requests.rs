//! What the agent asks of a person.

use journal::{Grant, RequestRecord, Resolution};
use wire::consent::{self, Rule};
use wire::note::{Actor, Note, Outcome, Wants};
use wire::say::{
    Answer as Said, Answers, Destination, JsonObject, PermissionUpdate, Refusal as Denial, Saying,
};

use super::{Answer, Done, Effect, GrantScope, Machine, Refusal, Reply, RuleChoice, Ticket};
use crate::grant::covers;
use crate::heard::Asked;

impl Machine {
    pub(super) fn asked(&mut self, asked: Asked) {
        if self.requests.contains_key(&asked.request) {
            return;
        }
        // A sub-agent in the background asks whatever the turn is at.
        if let Some(turn) = self.turn.as_mut().filter(|_| asked.agent.is_none()) {
            turn.is_at_work();
        }
        let record = RequestRecord {
            id: asked.request,
            wants: asked.wants,
            tool_name: asked.tool_name,
            tool_use_id: asked.tool_use_id,
            input: asked.input,
            suggestions: asked.suggestions,
            agent: asked.agent,
            opened: self.now,
            expires: self.limits.request.map(|patience| self.now + patience),
            resolution: None,
        };
        self.note(Note::RequestOpened {
            request: record.id.clone(),
            wants: record.wants,
            expires: record.expires,
            rules: self.rules(&record),
        });
        self.out.push(Effect::Request(record.clone()));
        let request = record.id.clone();
        self.requests.insert(request.clone(), record);
        if self.agent.listens() {
            self.apply_grants();
        } else {
            // The last words of an agent that is ending or gone.
            self.withdrawn(&request);
        }
    }

    pub(super) fn asked_in_vain(&mut self, request: &str, what: &str) {
        if !self.agent.listens() {
            return;
        }
        let answer = Said::Error(format!("this host does not offer `{what}`"));
        self.out.push(Effect::Say(Saying::answer(request, &answer)));
    }

    pub(super) fn withdrawn(&mut self, request: &str) {
        self.resolve(request, Outcome::Withdrawn, None, None, Vec::new());
    }

    /// Nobody can be answered any more.
    pub(super) fn withdraw_all_requests(&mut self) {
        let open: Vec<String> = self.requests.keys().cloned().collect();
        for request in open {
            self.withdrawn(&request);
        }
    }

    /// The turn is over. A sub-agent may go on in the background, as it does by default from
    /// 2.1.325 on, and would wait for ever for an answer that nobody could give any more.
    pub(super) fn withdraw_requests_of_the_turn(&mut self) {
        let own = self.requests.values().filter(|it| it.agent.is_none());
        let own: Vec<String> = own.map(|it| it.id.clone()).collect();
        for request in own {
            self.withdrawn(&request);
        }
    }

    /// Somebody answers a request.
    pub(super) fn answer(&mut self, ticket: Ticket, request: &str, answer: Answer, by: Actor) {
        let reply = self.give_answer(request, answer, by);
        self.reply(ticket, reply);
    }

    fn give_answer(&mut self, request: &str, answer: Answer, by: Actor) -> Reply {
        let Some(record) = self.requests.get(request) else { return Err(Refusal::NoSuchRequest) };
        if !self.agent.listens() {
            // It hears nothing any more. That it is gone will settle the request, and not before:
            // the word to end may be lost with this Towpath, and the agent still wait.
            return Err(Refusal::AgentGone);
        }
        let asked = JsonObject::parse(&record.input).unwrap_or_else(|_| JsonObject::empty());
        match answer {
            Answer::Allow { .. } if record.wants == Wants::Answers => {
                Err(Refusal::UnfitAnswer("a question wants answers, or a refusal"))
            }
            Answer::Answers(_) if record.wants != Wants::Answers => {
                Err(Refusal::UnfitAnswer("only a question takes answers"))
            }
            Answer::Allow { input, remember, mode } => {
                let grant = match remember {
                    Some(choice) => Some(self.grant(record, choice, by.clone())?),
                    None => None,
                };
                let updated_permissions = mode.map(|mode| PermissionUpdate::SetMode {
                    mode,
                    destination: Destination::Session,
                });
                let said = Said::Allow {
                    updated_input: input.unwrap_or(asked),
                    updated_permissions: updated_permissions.into_iter().collect(),
                };
                let outcome = match grant {
                    Some(_) => Outcome::AllowedAndRemembered,
                    None => Outcome::Allowed,
                };
                self.say_answer(request, &said);
                self.resolve(request, outcome, Some(by), None, Vec::new());
                if let Some(grant) = grant {
                    self.grants.push(grant.clone());
                    self.out.push(Effect::Grant(grant));
                    self.apply_grants();
                }
                Ok(Done::Well)
            }
            Answer::Deny { message, interrupt } => {
                let denial = if interrupt { Denial::and_interrupt } else { Denial::because };
                if let Some(turn) = self.turn.as_mut().filter(|_| interrupt) {
                    turn.will_stop();
                }
                self.say_answer(request, &Said::Deny(denial(consent::denial(&message))));
                let message = (!message.trim().is_empty()).then_some(message);
                self.resolve(request, Outcome::Denied, Some(by), message, Vec::new());
                Ok(Done::Well)
            }
            Answer::Answers(given) => {
                let answers =
                    given.iter().fold(Answers::default(), |answers, (question, answer)| {
                        answers.choose(question, [answer.as_str()])
                    });
                self.say_answer(request, &Said::allow(answers.input(&asked)));
                self.resolve(request, Outcome::Allowed, Some(by), None, given);
                Ok(Done::Well)
            }
        }
    }

    fn say_answer(&mut self, request: &str, answer: &Said) {
        self.out.push(Effect::Say(Saying::answer(request, answer)));
    }

    /// The one way a request is resolved.
    fn resolve(
        &mut self,
        request: &str,
        outcome: Outcome,
        by: Option<Actor>,
        message: Option<String>,
        answers: Vec<(String, String)>,
    ) {
        let Some(mut record) = self.requests.remove(request) else { return };
        // As long as a person was asked, it was not the agent who was silent.
        if let Some(turn) = &mut self.turn {
            turn.broke_silence(self.now);
        }
        record.resolution =
            Some(Resolution { outcome, by: by.clone(), message: message.clone(), at: self.now });
        self.out.push(Effect::Request(record));
        self.note(Note::RequestResolved {
            request: request.to_owned(),
            outcome,
            by,
            message,
            answers,
        });
    }

    /// The rules offered with a request.
    fn rules(&self, record: &RequestRecord) -> Vec<Rule> {
        if record.wants != Wants::Permission {
            return Vec::new();
        }
        let directory = self.options.directory.to_str().unwrap_or_default();
        consent::rules(&record.tool_name, &record.input, directory)
    }

    fn grant(
        &self,
        record: &RequestRecord,
        choice: RuleChoice,
        by: Actor,
    ) -> Result<Grant, Refusal> {
        let offered = self.rules(record).into_iter().find(|rule| rule.id == choice.rule);
        let Some(Rule { tool, pattern, .. }) = offered else {
            return Err(Refusal::UnfitAnswer("this rule was not offered with the request"));
        };
        Ok(Grant {
            // The owner assigns the id: the machine has no randomness.
            id: uuid::Uuid::nil(),
            session: (choice.scope == GrantScope::Session).then_some(self.session),
            directory: match choice.scope {
                GrantScope::Session => None,
                GrantScope::Directory => Some(self.options.directory.clone()),
            },
            tool,
            pattern,
            until: choice.until,
            by,
            created: self.now,
        })
    }

    /// Allows what is allowed already.
    fn apply_grants(&mut self) {
        let now = self.now;
        let covered: Vec<(String, Actor)> = self
            .requests
            .values()
            .filter(|record| record.wants == Wants::Permission)
            .filter_map(|record| {
                let grant = self.grants.iter().find(|grant| covers(grant, record, now))?;
                Some((record.id.clone(), grant.by.clone()))
            })
            .collect();
        for (request, by) in covered {
            let by = Actor { name: by.name, via: "rule".to_owned() };
            let Some(record) = self.requests.get(&request) else { continue };
            let input = JsonObject::parse(&record.input).unwrap_or_else(|_| JsonObject::empty());
            self.say_answer(&request, &Said::allow(input));
            self.resolve(&request, Outcome::Allowed, Some(by), None, Vec::new());
        }
    }

    pub(super) fn expire_requests(&mut self) {
        let late = |it: &&RequestRecord| it.expires.is_some_and(|at| at <= self.now);
        let late: Vec<String> =
            self.requests.values().filter(late).map(|it| it.id.clone()).collect();
        for request in late {
            if !self.agent.listens() {
                self.withdrawn(&request);
                continue;
            }
            self.say_answer(&request, &Said::deny(consent::EXPIRED));
            self.resolve(&request, Outcome::Expired, None, None, Vec::new());
        }
    }
}
