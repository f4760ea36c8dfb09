//! Requests of the agent to a person.

use std::collections::BTreeMap;

use journal::{Grant, RequestRecord, Resolution};
use wire::consent::{self, Rule};
use wire::note::{Actor, Note, Outcome, QueuePolicy, RequestKind};
use wire::outgoing::{
    ControlReply, DenyReply as Denial, Destination, JsonObject, PermissionUpdate, QuestionAnswers,
};

use super::choices::find_refusal;
use super::{Effect, Machine, MachineSnapshot};
use crate::agent_event::PermissionRequest;
use crate::agent_message::AgentMessage;
use crate::catalog::AgentProtocol;
use crate::command::{
    CommandError, CommandOutput, CommandResult, GrantScope, RequestAnswer, RuleChoice,
};

impl Machine {
    pub(super) fn request_opened(&mut self, request: PermissionRequest) {
        if self.requests.contains_key(&request.id) {
            return;
        }
        // A sub-agent in the background may ask at any time, so it does not confirm the turn.
        if request.agent.is_none()
            && let Some(turn) = self.turn.running_mut()
        {
            turn.confirm();
        }
        let record = RequestRecord {
            id: request.id,
            kind: request.kind,
            tool_name: request.tool_name,
            tool_use_id: request.tool_use_id,
            input: request.input,
            suggestions: request.suggestions,
            choices: request.choices,
            agent: request.agent,
            opened: self.wall,
            expires: self.limits.request.map(|timeout| self.wall.saturating_add(timeout)),
            resolution: None,
        };
        self.note(Note::RequestOpened {
            request: record.id.clone(),
            kind: record.kind,
            expires: record.expires,
            rules: self.rules(&record),
            choices: record.choices.clone(),
        });
        self.effects.push(Effect::Request(record.clone()));
        let id = record.id.clone();
        if let Some(timeout) = self.limits.request {
            self.request_deadlines.insert(id.clone(), self.now + timeout);
        }
        self.requests.insert(id.clone(), record);
        if self.agent.accepts_input() {
            self.apply_grants();
        } else if self.agent.is_stopped() {
            self.withdraw_request(&id);
        }
        // A process that is stopping cannot be answered, and its exit withdraws the request. Until then
        // it stays open: the command to stop may be lost with this Towpath, and then the agent waits.
    }

    /// Answers a request that Towpath does not support, so that the agent does not wait for ever. One
    /// that is stopping is answered too: the command to stop may be lost with this Towpath.
    pub(super) fn refuse_request(&mut self, request: &str, subtype: &str) {
        if self.agent.accepts_input() || self.agent.is_stopping() {
            let subtype: String = subtype.chars().take(100).collect();
            let answer = ControlReply::Error(format!("this host does not offer `{subtype}`"));
            // So short a line always fits.
            let _ = self.write_answer(request, &answer);
        }
    }

    pub(super) fn withdraw_request(&mut self, request: &str) {
        self.resolve(request, Outcome::Withdrawn, None, None, Vec::new());
    }

    /// The agent is gone: no request can be answered.
    pub(super) fn withdraw_all_requests(&mut self) {
        let open: Vec<String> = self.requests.keys().cloned().collect();
        for request in open {
            self.withdraw_request(&request);
        }
    }

    /// The turn ended. Requests of sub-agents stay: from 2.1.325 on a sub-agent continues in the
    /// background by default, and it would wait for ever if its request were withdrawn.
    pub(super) fn withdraw_requests_of_turn(&mut self) {
        let own = self.requests.values().filter(|it| it.agent.is_none());
        let own: Vec<String> = own.map(|it| it.id.clone()).collect();
        for request in own {
            self.withdraw_request(&request);
        }
    }

    pub(super) fn answer_request(
        &mut self,
        request: &str,
        answer: RequestAnswer,
        by: Actor,
    ) -> CommandResult {
        let record = self.requests.get(request).ok_or(CommandError::NoSuchRequest)?;
        if !self.agent.accepts_input() {
            // The exit of the process resolves the request, and not this answer: the request to
            // stop may be lost with this Towpath, and then the agent still waits.
            return Err(CommandError::AgentGone);
        }
        if !wire::is_answerable(request) {
            return self.answer_without_id(request, answer, by);
        }
        let input_asked = JsonObject::parse(&record.input).unwrap_or_else(|_| JsonObject::empty());
        match answer {
            RequestAnswer::Choose { choice } => self.choose(request, &choice, by),
            answer @ (RequestAnswer::Allow { .. } | RequestAnswer::Deny { .. })
                if !record.choices.is_empty() =>
            {
                self.choose_by_meaning(request, answer, by)
            }
            RequestAnswer::Allow { .. } | RequestAnswer::Answers(_)
                if record.kind == RequestKind::Unknown =>
            {
                Err(CommandError::Invalid("an unknown request can only be denied".into()))
            }
            RequestAnswer::Allow { .. } if record.kind == RequestKind::Question => {
                Err(CommandError::Invalid("a question needs answers, or a denial".into()))
            }
            RequestAnswer::Answers(_) if record.kind != RequestKind::Question => {
                Err(CommandError::Invalid("only a question takes answers".into()))
            }
            RequestAnswer::Allow { input, remember, mode } => {
                let grant = match remember {
                    Some(choice) => Some(self.grant(record, choice, by.clone())?),
                    None => None,
                };
                let update = mode.map(|mode| PermissionUpdate::SetMode {
                    mode,
                    destination: Destination::Session,
                });
                let answer = ControlReply::Allow {
                    updated_input: input.unwrap_or(input_asked),
                    updated_permissions: update.into_iter().collect(),
                };
                let outcome = match grant {
                    Some(_) => Outcome::AllowedAndRemembered,
                    None => Outcome::Allowed,
                };
                self.write_answer(request, &answer)?;
                self.resolve(request, outcome, Some(by), None, Vec::new());
                if let Some(grant) = grant {
                    self.grants.push(grant.clone());
                    self.effects.push(Effect::Grant(grant));
                    self.apply_grants();
                }
                Ok(CommandOutput::None)
            }
            RequestAnswer::Deny { message, interrupt } => {
                let denial = if interrupt { Denial::and_interrupt } else { Denial::because };
                let reason = consent::denial(&message);
                let reply = match record.kind {
                    RequestKind::Unknown => ControlReply::Error(reason.to_owned()),
                    _ => ControlReply::Deny(denial(reason)),
                };
                self.write_answer(request, &reply)?;
                if interrupt && let Some(turn) = self.turn.running_mut() {
                    turn.will_stop();
                }
                let message = (!message.trim().is_empty()).then_some(message);
                self.resolve(request, Outcome::Denied, Some(by), message, Vec::new());
                Ok(CommandOutput::None)
            }
            RequestAnswer::Answers(given) => {
                let answers =
                    given.iter().fold(QuestionAnswers::default(), |answers, (question, answer)| {
                        answers.choose(question, [answer.as_str()])
                    });
                match self.protocol {
                    AgentProtocol::StreamJson => {
                        let reply = ControlReply::allow(answers.input(&input_asked));
                        self.write_answer(request, &reply)?;
                    }
                    AgentProtocol::Acp => {
                        let (request, answers) = (request.to_owned(), given.clone());
                        self.send(AgentMessage::Answers { request, answers });
                    }
                }
                self.resolve(request, Outcome::Allowed, Some(by), None, given);
                Ok(CommandOutput::None)
            }
        }
    }

    /// Answers a request that has no id, so that the agent cannot be told. A denial stops what waits for it.
    fn answer_without_id(
        &mut self,
        request: &str,
        answer: RequestAnswer,
        by: Actor,
    ) -> CommandResult {
        let RequestAnswer::Deny { message, .. } = answer else {
            return Err(CommandError::Invalid(
                "the agent gave this request no id, so it cannot be answered; deny it to stop the turn"
                    .into(),
            ));
        };
        let message = (!message.trim().is_empty()).then_some(message);
        self.resolve(request, Outcome::Denied, Some(by.clone()), message, Vec::new());
        self.interrupt(QueuePolicy::Hold, by);
        Ok(CommandOutput::None)
    }

    pub(super) fn write_answer(
        &mut self,
        request: &str,
        answer: &ControlReply,
    ) -> Result<(), CommandError> {
        let message = AgentMessage::Reply { request: request.to_owned(), reply: answer.clone() };
        self.limits.check_size("the answer", &message)?;
        self.send(message);
        Ok(())
    }

    pub(super) fn send(&mut self, message: AgentMessage) {
        self.effects.push(Effect::Send(Box::new(message)));
    }

    /// Resolves a request. Every resolution goes through here.
    fn resolve(
        &mut self,
        request: &str,
        outcome: Outcome,
        by: Option<Actor>,
        message: Option<String>,
        answers: Vec<(String, String)>,
    ) {
        self.resolve_with_choice(
            request,
            ResolvedRequest { outcome, by, message, answers, choice: None },
        );
    }

    pub(super) fn resolve_with_choice(&mut self, request: &str, resolved: ResolvedRequest) {
        let ResolvedRequest { outcome, by, message, answers, choice } = resolved;
        self.request_deadlines.remove(request);
        self.linked_edits.remove(request);
        self.unchecked_edits.remove(request);
        let Some(mut record) = self.requests.remove(request) else { return };
        // The time a person took to answer is not silence of the agent.
        self.turn.note_output(self.now);
        record.resolution =
            Some(Resolution { outcome, by: by.clone(), message: message.clone(), at: self.wall });
        self.effects.push(Effect::Request(record));
        self.note(Note::RequestResolved {
            request: request.to_owned(),
            outcome,
            by,
            message,
            answers,
            choice,
        });
    }

    /// The rules offered with a request.
    fn rules(&self, record: &RequestRecord) -> Vec<Rule> {
        // An agent with choices of its own remembers for itself.
        if record.kind != RequestKind::Permission
            || !record.choices.is_empty()
            || self.linked_edits.contains(&record.id)
        {
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
    ) -> Result<Grant, CommandError> {
        let offered = self.rules(record).into_iter().find(|rule| rule.id == choice.rule);
        let Some(Rule { tool, kind, pattern, .. }) = offered else {
            return Err(CommandError::Invalid("this rule was not offered with the request".into()));
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
            kind,
            pattern,
            until: choice.until,
            by,
            created: self.wall,
        })
    }

    /// Allows the open requests that a grant covers.
    fn apply_grants(&mut self) {
        let now = self.wall;
        let covered: Vec<(String, Actor)> = self
            .requests
            .values()
            .filter(|record| record.kind == RequestKind::Permission && record.choices.is_empty())
            .filter(|record| !self.may_be_linked(record))
            .filter_map(|record| {
                let grant = self.grants.iter().find(|grant| covers(grant, record, now))?;
                Some((record.id.clone(), grant.by.clone()))
            })
            .collect();
        for (request, by) in covered {
            let by = Actor { name: by.name, via: "rule".to_owned() };
            let Some(record) = self.requests.get(&request) else { continue };
            let input = JsonObject::parse(&record.input).unwrap_or_else(|_| JsonObject::empty());
            if self.write_answer(&request, &ControlReply::allow(input)).is_err() {
                // The input is too long to be repeated. A person can only deny it.
                continue;
            }
            self.resolve(&request, Outcome::Allowed, Some(by), None, Vec::new());
        }
    }

    fn may_be_linked(&self, record: &RequestRecord) -> bool {
        let unknown = self.unchecked_edits.contains(&record.id)
            && consent::edited_file(&record.tool_name, &record.input).is_some();
        unknown || self.linked_edits.contains(&record.id)
    }

    /// When the next request expires. Nothing expires while the agent cannot be told: if it is not
    /// gone, it would wait for an answer for ever.
    pub(super) fn request_deadline(&self) -> Option<u64> {
        let deadlines = self.request_deadlines.values().copied();
        deadlines.min().filter(|_| self.agent.accepts_input())
    }

    pub(super) fn expire_requests(&mut self) {
        if !self.agent.accepts_input() {
            return;
        }
        let expired = self.request_deadlines.iter().filter(|(_, at)| **at <= self.now);
        let expired: Vec<String> = expired.map(|(id, _)| id.clone()).collect();
        for request in expired {
            let kind = self.requests.get(&request).map(|it| it.kind);
            let record = self.requests.get(&request);
            if let Some(choices) = record.map(|it| &it.choices).filter(|it| !it.is_empty()) {
                let choice = find_refusal(choices).map(|choice| choice.id.clone());
                self.send(AgentMessage::Choice { request: request.clone(), choice });
                self.resolve(&request, Outcome::Expired, None, None, Vec::new());
                continue;
            }
            if !wire::is_answerable(&request) {
                self.resolve(&request, Outcome::Expired, None, None, Vec::new());
                let by = Actor { name: "towpath".to_owned(), via: "rule".to_owned() };
                self.interrupt(QueuePolicy::Keep, by);
                continue;
            }
            let answer = match kind {
                Some(RequestKind::Unknown) => ControlReply::Error(consent::EXPIRED.to_owned()),
                _ => ControlReply::deny(consent::EXPIRED),
            };
            // So short a line always fits.
            let _ = self.write_answer(&request, &answer);
            self.resolve(&request, Outcome::Expired, None, None, Vec::new());
        }
    }
}

/// When open requests of a stored session expire. A clock that was set back or forth since then
/// gives no request more time than a new one gets.
pub(super) fn restore_deadlines(snapshot: &MachineSnapshot) -> BTreeMap<String, u64> {
    let now = snapshot.now;
    let most = snapshot.limits.request.unwrap_or(u64::MAX);
    let deadline = |record: &RequestRecord| {
        let rest = record.expires?.saturating_sub(now.wall).min(most);
        Some((record.id.clone(), now.monotonic.saturating_add(rest)))
    };
    snapshot.requests.iter().filter_map(deadline).collect()
}

/// Whether a grant that has not expired allows the request. The owner has already selected the
/// grants of this session and its directory.
fn covers(grant: &Grant, request: &RequestRecord, now: u64) -> bool {
    grant.until.is_none_or(|until| now < until)
        && consent::covers(
            &grant.tool,
            grant.kind,
            grant.pattern.as_deref(),
            &request.tool_name,
            &request.input,
        )
}

/// How a request was resolved.
pub(super) struct ResolvedRequest {
    pub(super) outcome: Outcome,
    pub(super) by: Option<Actor>,
    pub(super) message: Option<String>,
    pub(super) answers: Vec<(String, String)>,
    /// The name of the agent's choice that was taken.
    pub(super) choice: Option<String>,
}
