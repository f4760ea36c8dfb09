//! Changing the options of a session: what the agent is told, and what needs another process.

use wire::note::{Actor, ExitCause, Note, Setting};
use wire::outgoing::{JsonObject, OutgoingRequest, PermissionMode};

use super::controls::ControlPurpose;
use super::{CommandId, Machine};
use crate::agent_message::SettingKey;
use crate::catalog::AgentProtocol;
use crate::command::{CommandError, CommandOutput, SessionCommand};
use crate::options::{OptionSpec, needs_restart, without_secrets};

impl Machine {
    pub(super) fn set(&mut self, id: CommandId, setting: Setting, by: Actor) {
        if let Some(reason) = &self.unreadable_options {
            // Storing the setting would replace the unreadable options by defaults.
            let error = CommandError::UnreadableOptions(reason.clone());
            return self.reply(id, Err(error));
        }
        if self.protocol == AgentProtocol::Acp
            && let Some((key, value)) = agent_setting(&setting)
        {
            return self.set_in_agent(id, key, value, setting, by);
        }
        let request = match &setting {
            Setting::Model(model) => Some(OutgoingRequest::SetModel { model: model.clone() }),
            Setting::PermissionMode(mode) => {
                let Some(mode) = PermissionMode::named(mode) else {
                    let error = CommandError::Invalid("there is no such permission mode".into());
                    return self.reply(id, Err(error));
                };
                Some(OutgoingRequest::SetPermissionMode { mode })
            }
            Setting::Effort(effort) => Some(set_effort(effort)),
            Setting::AgentOption { .. } => {
                let error = CommandError::Invalid("this agent has no options of its own".into());
                return self.reply(id, Err(error));
            }
            Setting::Watch(_) => {
                // Towpath acts on it, not the agent, which only needs to know of a new hook.
                self.setting_changed(setting, by);
                self.hooks_changed();
                return self.reply(id, Ok(CommandOutput::None));
            }
            Setting::Options(_) => {
                if let Err(error) = self.check_options(&setting) {
                    return self.reply(id, Err(error));
                }
                None
            }
        };
        // A process that is being started has got its options already.
        let concerns_process = request.is_some() || matches!(setting, Setting::Options(_));
        if self.agent.is_starting() && concerns_process {
            return self.defer(id, SessionCommand::Set { setting, by });
        }
        match request {
            Some(request) if self.agent.accepts_input() => {
                self.send_control(&request, ControlPurpose::Set { id: Some(id), setting, by });
            }
            // The next process is started with it.
            _ => {
                self.setting_changed(setting, by);
                self.reply(id, Ok(CommandOutput::None));
            }
        }
    }

    /// Changes a setting whose values only the agent knows. Without an agent that is ready it is stored,
    /// and the next one is told.
    fn set_in_agent(
        &mut self,
        id: CommandId,
        key: SettingKey,
        value: Option<String>,
        setting: Setting,
        by: Actor,
    ) {
        if self.agent.is_ready() {
            self.send_setting(key, value, ControlPurpose::Set { id: Some(id), setting, by });
        } else if self.agent.accepts_input() || self.agent.is_starting() {
            self.defer(id, SessionCommand::Set { setting, by });
        } else {
            self.setting_changed(setting, by);
            self.reply(id, Ok(CommandOutput::None));
        }
    }

    /// Refuses options that this version does not know or whose values are not valid.
    fn check_options(&self, setting: &Setting) -> Result<(), CommandError> {
        let Setting::Options(values) = setting else { return Ok(()) };
        let mut options = self.options.clone();
        for (name, value) in values {
            let spec =
                OptionSpec::find(name).ok_or(CommandError::Invalid("no such option".into()))?;
            options.set_value(spec, value).map_err(CommandError::InvalidOption)?;
        }
        Ok(())
    }

    pub(super) fn setting_changed(&mut self, setting: Setting, by: Actor) {
        let restarts = match &setting {
            Setting::Options(values) => needs_restart(values) && !self.agent.is_stopped(),
            _ => false,
        };
        let (protocol, budget) = (self.protocol, self.options.budget_usd);
        // A session that is set to be deleted now is not deleted at once.
        self.ended = false;
        self.change_options(|options| {
            options.apply(&setting, protocol);
            options.restart_pending |= restarts;
        });
        self.note(Note::SettingChanged { setting: without_secrets(setting), by });
        if self.options.budget_usd != budget {
            self.budget_changed();
        }
    }

    /// Stops a process that was started with other options, once it has nothing to do. Prompts wait
    /// for the next one. Returns whether one is to be stopped.
    pub(super) fn restart_for_options(&mut self) -> bool {
        if !self.options.restart_pending
            || self.is_busy()
            || self.waits_for_person()
            || self.controls.has_waiting_client()
        {
            return false;
        }
        self.stop_agent(ExitCause::Restarted);
        true
    }

    /// Gives the agent the settings of the session that it may have been started without.
    pub(super) fn send_settings(&mut self) {
        let model = self.options.model.clone();
        self.send_control(&OutgoingRequest::SetModel { model }, ControlPurpose::None);
        if let Some(mode) = self.options.permission_mode {
            self.send_control(&OutgoingRequest::SetPermissionMode { mode }, ControlPurpose::None);
        }
        if let Some(effort) = &self.options.effort {
            let request = set_effort(effort);
            self.send_control(&request, ControlPurpose::None);
        }
    }
}

/// The setting of an agent that says itself which values it accepts; none if it is Towpath's own.
fn agent_setting(setting: &Setting) -> Option<(SettingKey, Option<String>)> {
    match setting {
        Setting::Model(model) => Some((SettingKey::Model, model.clone())),
        Setting::PermissionMode(mode) => Some((SettingKey::Mode, Some(mode.clone()))),
        Setting::Effort(effort) => Some((SettingKey::Effort, Some(effort.clone()))),
        Setting::AgentOption { id, value } => {
            Some((SettingKey::Option(id.clone()), Some(value.clone())))
        }
        Setting::Watch(_) | Setting::Options(_) => None,
    }
}

fn set_effort(effort: &str) -> OutgoingRequest {
    let settings = serde_json::json!({ "effortLevel": effort }).to_string();
    let settings = JsonObject::parse(&settings).unwrap_or_else(|_| JsonObject::empty());
    OutgoingRequest::ApplyFlagSettings { settings }
}
