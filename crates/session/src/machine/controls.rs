//! Control requests to the agent that wait for an answer.

use std::collections::BTreeMap;

use uuid::Uuid;
use wire::json::Raw;
use wire::note::{Actor, Note, Rewind, Setting};
use wire::outgoing::OutgoingRequest;

use super::{CommandId, Effect, Machine};
use crate::agent_message::{AgentMessage, SettingKey};
use crate::command::{CommandError, CommandOutput, CommandResult};

/// Control requests to the agent that wait for an answer.
#[derive(Debug)]
pub(super) struct ControlRequests {
    instance: u64,
    last_id: u64,
    open: BTreeMap<String, OpenControl>,
}

#[derive(Debug)]
struct OpenControl {
    purpose: ControlPurpose,
    /// There is none if the request has a deadline elsewhere.
    until: Option<u64>,
}

/// What the answer to a control request is for.
#[derive(Debug)]
pub(super) enum ControlPurpose {
    Initialize,
    /// Tell a running agent of hooks.
    RegisterHooks,
    /// The answer is not used.
    None,
    /// Cancel a prompt in the agent's queue.
    Cancel {
        id: Option<CommandId>,
        prompt: Uuid,
    },
    Set {
        /// There is none after the client was told that no answer came. A late answer still counts,
        /// because the agent has the setting.
        id: Option<CommandId>,
        setting: Setting,
        by: Actor,
    },
    /// Go back to before a prompt: the files first, `then` the conversation.
    Rewind {
        id: CommandId,
        prompt: Uuid,
        what: Rewind,
        then: Option<OutgoingRequest>,
        by: Actor,
    },
    Query {
        id: CommandId,
    },
}

impl ControlRequests {
    /// The ids name the instance: an agent may still answer a request of an earlier Towpath, and
    /// that answer must not match a request of this one.
    pub(super) fn of_instance(instance: u64) -> Self {
        Self { instance, last_id: 0, open: BTreeMap::new() }
    }

    /// Whether a rewind is in progress. No prompt may overtake it.
    pub(super) fn has_rewind(&self) -> bool {
        self.open.values().any(|it| matches!(it.purpose, ControlPurpose::Rewind { .. }))
    }

    /// Whether a client waits for the answer to one of them.
    pub(super) fn has_waiting_client(&self) -> bool {
        self.open.values().any(|open| match &open.purpose {
            ControlPurpose::Initialize | ControlPurpose::RegisterHooks | ControlPurpose::None => {
                false
            }
            ControlPurpose::Cancel { id, .. } | ControlPurpose::Set { id, .. } => id.is_some(),
            ControlPurpose::Rewind { .. } | ControlPurpose::Query { .. } => true,
        })
    }

    pub(super) fn deadline(&self) -> Option<u64> {
        self.open.values().filter_map(|it| it.until).min()
    }
}

impl Machine {
    pub(super) fn send_control(&mut self, request: &OutgoingRequest, purpose: ControlPurpose) {
        let id = self.next_control();
        let message = AgentMessage::Request { id: id.clone(), request: request.clone() };
        self.send_waiting(id, message, purpose);
    }

    /// Changes a setting of an agent that says itself which values it accepts.
    pub(super) fn send_setting(
        &mut self,
        key: SettingKey,
        value: Option<String>,
        purpose: ControlPurpose,
    ) {
        let id = self.next_control();
        let message = AgentMessage::Set { id: id.clone(), key, value };
        self.send_waiting(id, message, purpose);
    }

    fn next_control(&mut self) -> String {
        self.controls.last_id += 1;
        format!("towpath-{:x}-{}", self.controls.instance, self.controls.last_id)
    }

    fn send_waiting(&mut self, id: String, message: AgentMessage, purpose: ControlPurpose) {
        if let Err(error) = self.limits.check_size("the request", &message) {
            return self.give_up_control(&purpose, error);
        }
        self.effects.push(Effect::Send(Box::new(message)));
        // `AgentState` has a deadline for `initialize`.
        let until = match purpose {
            ControlPurpose::Initialize => None,
            _ => Some(self.now + self.limits.control),
        };
        self.controls.open.insert(id, OpenControl { purpose, until });
    }

    /// The agent answered a control request. The CLI also repeats our own answers to its requests;
    /// their ids are not among ours.
    pub(super) fn control_answered(
        &mut self,
        request: &str,
        answer: Result<Option<String>, String>,
    ) {
        let Some(open) = self.controls.open.remove(request) else { return };
        match open.purpose {
            ControlPurpose::Initialize => self.agent_ready(answer),
            ControlPurpose::RegisterHooks => self.hooks_answered(&answer),
            ControlPurpose::None => {}
            ControlPurpose::Cancel { id, prompt } => self.cancel_answered(id, prompt, &answer),
            ControlPurpose::Set { id, setting, by } => {
                let result = match answer {
                    Ok(_) => {
                        self.setting_changed(setting, by);
                        Ok(CommandOutput::None)
                    }
                    Err(error) => Err(CommandError::RefusedByAgent(error)),
                };
                self.reply_if_waiting(id, result);
            }
            ControlPurpose::Rewind { id, prompt, what, then, by } => {
                match (rewind_result(answer), then) {
                    (Err(error), then) => {
                        if what == Rewind::Both && then.is_none() {
                            // The files were restored before the conversation failed.
                            self.note(Note::Rewound { prompt, what: Rewind::Files, by });
                        }
                        self.reply(id, Err(CommandError::RefusedByAgent(error)));
                    }
                    (Ok(_), Some(next)) => {
                        let purpose = ControlPurpose::Rewind { id, prompt, what, then: None, by };
                        self.send_control(&next, purpose);
                    }
                    (Ok(payload), None) => {
                        self.note(Note::Rewound { prompt, what, by });
                        self.reply(id, Ok(CommandOutput::Payload(payload)));
                    }
                }
            }
            ControlPurpose::Query { id } => {
                let result = answer.map(CommandOutput::Payload);
                self.reply(id, result.map_err(CommandError::RefusedByAgent));
            }
        }
    }

    pub(super) fn expire_controls(&mut self) {
        while let Some((request, open)) = self.take_overdue_control() {
            self.give_up_control(&open.purpose, CommandError::NoAnswer);
            if let ControlPurpose::Set { setting, by, .. } = open.purpose {
                let purpose = ControlPurpose::Set { id: None, setting, by };
                self.controls.open.insert(request, OpenControl { purpose, until: None });
            }
        }
    }

    fn take_overdue_control(&mut self) -> Option<(String, OpenControl)> {
        let overdue = |open: &OpenControl| open.until.is_some_and(|until| until <= self.now);
        let id = self.controls.open.iter().find(|(_, open)| overdue(open))?.0.clone();
        self.controls.open.remove_entry(&id)
    }

    /// The agent is gone and will not answer.
    pub(super) fn fail_controls(&mut self) {
        for open in std::mem::take(&mut self.controls.open).into_values() {
            self.give_up_control(&open.purpose, CommandError::AgentGone);
        }
    }

    fn give_up_control(&mut self, purpose: &ControlPurpose, error: CommandError) {
        let id = match purpose {
            ControlPurpose::Initialize | ControlPurpose::RegisterHooks | ControlPurpose::None => {
                None
            }
            ControlPurpose::Cancel { id, .. } | ControlPurpose::Set { id, .. } => *id,
            ControlPurpose::Rewind { id, .. } | ControlPurpose::Query { id } => Some(*id),
        };
        self.reply_if_waiting(id, Err(error));
    }

    fn reply_if_waiting(&mut self, id: Option<CommandId>, result: CommandResult) {
        if let Some(id) = id {
            self.reply(id, result);
        }
    }
}

/// The result of a rewind. The agent reports one that failed as a success that says so.
fn rewind_result(answer: Result<Option<String>, String>) -> Result<Option<String>, String> {
    let payload = answer?;
    if let Some(report) = payload.as_deref().and_then(Raw::parse) {
        let is_false = |key| report.get(key).and_then(Raw::boolean) == Some(false);
        if is_false("canRewind") || is_false("rewound") {
            let reason = report.get("error").and_then(Raw::text).map(String::from);
            return Err(reason.unwrap_or_else(|| "it cannot go back there".to_owned()));
        }
    }
    Ok(payload)
}
