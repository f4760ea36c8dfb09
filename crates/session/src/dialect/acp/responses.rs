//! Answers of the agent to the driver's requests, told apart by their ids.

use uuid::Uuid;
use wire::acp::RpcId;
use wire::acp::event::{AcpFailure, AcpResponse, AcpResult};
use wire::json::{Raw, Shape};

use super::AcpDriver;
use super::handshake::{FIRST_SETTING, INITIALIZE, OPENING, SIGN_IN_NEEDED, failure_text};
use crate::agent_event::AgentEvent;
use crate::options::SessionOptions;

/// The beginnings of the ids of prompts, and of prompts that are to join a turn.
pub(super) const PROMPT: &str = "prompt-";
pub(super) const STEER: &str = "steer-";

impl AcpDriver {
    pub(super) fn response(&mut self, response: &AcpResponse<'_>, options: &SessionOptions) {
        let id = response.id.text().map(String::from);
        // Other ids were not chosen by Towpath: the agent could not read a line.
        let Some(id) = id else { return };
        let result = response.result.as_ref();
        self.answered(&id, result, options);
    }

    /// Takes in an answer whose content cannot be read. That it came is what matters.
    pub(super) fn response_of_unknown_content(&mut self, id: &RpcId, options: &SessionOptions) {
        let Some(id) = Raw::parse(id.as_str()).and_then(Raw::text).map(String::from) else {
            return;
        };
        let Some(empty) = Raw::parse("{}") else { return };
        self.answered(&id, Ok(&AcpResult::Other(empty)), options);
    }

    fn answered(
        &mut self,
        id: &str,
        result: Result<&AcpResult<'_>, &AcpFailure<'_>>,
        options: &SessionOptions,
    ) {
        if id == INITIALIZE {
            return self.initialized(result, options);
        }
        if let Some((_, way)) = OPENING.iter().find(|(it, _)| *it == id) {
            return self.opened(*way, result, options);
        }
        if let Some(prompt) = id.strip_prefix(PROMPT).and_then(|id| id.parse().ok()) {
            return self.prompt_answered(prompt, result);
        }
        if let Some(prompt) = id.strip_prefix(STEER).and_then(|id| id.parse().ok()) {
            return self.steering_answered(prompt, result);
        }
        if let Ok(result) = result {
            self.learn_settings(result);
        }
        if id.starts_with(FIRST_SETTING) {
            return self.configured(id, result.err());
        }
        let answer = result.map(|_| None).map_err(failure_text);
        self.event(AgentEvent::RequestAnswered { id: id.to_owned(), answer });
    }

    fn prompt_answered(&mut self, id: Uuid, result: Result<&AcpResult<'_>, &AcpFailure<'_>>) {
        let Some(prompt) = self.state.prompt.as_mut().filter(|prompt| prompt.id == id) else {
            return;
        };
        let version = self.state.version;
        match result {
            Ok(AcpResult::TurnEnded { stop_reason, usage, .. }) => {
                let has_usage = usage.is_some_and(|it| it.shape() == Shape::Object);
                self.turn_stopped(&stop_reason.decode(), None, has_usage);
            }
            Ok(_) if version == 2 => {
                // The agent has the prompt. A state tells when the turn is over.
                if !prompt.started {
                    prompt.started = true;
                    self.event(AgentEvent::TurnStarted { conversation: None });
                    self.event(AgentEvent::PromptAccepted(id));
                }
            }
            Ok(_) => self.turn_stopped("end_turn", None, true),
            Err(_) if prompt.stopped => {
                self.state.prompt = None;
                self.turn_cancelled(id);
            }
            Err(failure) => {
                self.state.prompt = None;
                let text = failure_text(failure);
                if failure.code == SIGN_IN_NEEDED {
                    self.ask_to_sign_in(&text);
                }
                self.turn_ended(id, Some(text));
            }
        }
    }

    /// The agent answered whether a prompt joins the running turn.
    fn steering_answered(&mut self, id: Uuid, result: Result<&AcpResult<'_>, &AcpFailure<'_>>) {
        if self.state.steered.remove(&id).is_none() {
            return;
        }
        let injected = match result {
            Ok(AcpResult::Outcome(outcome)) => outcome.text().is_some_and(|it| it == "injected"),
            _ => false,
        };
        if !injected {
            return self.event(AgentEvent::PromptReturned(id));
        }
        if self.state.prompt.is_some() {
            self.state.steered.insert(id, true);
        }
        self.event(AgentEvent::PromptAccepted(id));
    }
}
