//! Requests that are answered with one of the agent's own choices.

use wire::acp::{PermissionChoice, PermissionChoiceKind};
use wire::note::{Actor, Outcome};

use super::Machine;
use super::requests::ResolvedRequest;
use crate::agent_message::AgentMessage;
use crate::command::{CommandError, CommandOutput, CommandResult, RequestAnswer};

impl Machine {
    /// A person took one of the choices.
    pub(super) fn choose(&mut self, request: &str, choice: &str, by: Actor) -> CommandResult {
        let choices = self.requests.get(request).map_or(&[][..], |record| &record.choices);
        if choices.is_empty() {
            return Err(CommandError::Invalid("this request offers no choices".into()));
        }
        let Some(choice) = choices.iter().find(|it| it.id == choice).cloned() else {
            return Err(CommandError::Invalid("the agent does not offer this choice".into()));
        };
        self.answer_with(request, Some(choice), by, None);
        Ok(CommandOutput::None)
    }

    /// A client that does not show the choices allowed or denied the request.
    pub(super) fn choose_by_meaning(
        &mut self,
        request: &str,
        answer: RequestAnswer,
        by: Actor,
    ) -> CommandResult {
        let choices = self.requests.get(request).map_or(&[][..], |record| &record.choices);
        match answer {
            RequestAnswer::Deny { message, .. } => {
                let choice = find_refusal(choices).cloned();
                let message = (!message.trim().is_empty()).then_some(message);
                self.answer_with(request, choice, by, message);
                Ok(CommandOutput::None)
            }
            RequestAnswer::Allow { input: None, remember: None, mode: None } => {
                let Some(choice) = find_consent(choices).cloned() else {
                    let reason = "the agent offers no way to allow this";
                    return Err(CommandError::Invalid(reason.into()));
                };
                self.answer_with(request, Some(choice), by, None);
                Ok(CommandOutput::None)
            }
            _ => Err(CommandError::Invalid(
                "this agent only takes one of its own choices as an answer".into(),
            )),
        }
    }

    fn answer_with(
        &mut self,
        request: &str,
        choice: Option<PermissionChoice>,
        by: Actor,
        message: Option<String>,
    ) {
        let id = choice.as_ref().map(|choice| choice.id.clone());
        self.send(AgentMessage::Choice { request: request.to_owned(), choice: id });
        let allows = choice.as_ref().is_some_and(|choice| choice.kind.allows());
        let outcome = match choice.as_ref().map(|choice| choice.kind) {
            Some(PermissionChoiceKind::AllowAlways) => Outcome::AllowedAndRemembered,
            _ if allows => Outcome::Allowed,
            _ => Outcome::Denied,
        };
        self.resolve_with_choice(
            request,
            ResolvedRequest {
                outcome,
                by: Some(by),
                message,
                answers: Vec::new(),
                choice: choice.map(|choice| choice.name),
            },
        );
    }
}

/// The choice that refuses once; else one that refuses at all.
pub(super) fn find_refusal(choices: &[PermissionChoice]) -> Option<&PermissionChoice> {
    let once = choices.iter().find(|it| it.kind == PermissionChoiceKind::RejectOnce);
    once.or_else(|| choices.iter().find(|it| !it.kind.allows()))
}

/// The choice that allows once; else one that allows at all.
fn find_consent(choices: &[PermissionChoice]) -> Option<&PermissionChoice> {
    let once = choices.iter().find(|it| it.kind == PermissionChoiceKind::AllowOnce);
    once.or_else(|| choices.iter().find(|it| it.kind.allows()))
}
