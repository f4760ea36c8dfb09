//! Answers to requests.

use crate::json::{Raw, Text};

/// The answer to a request.
#[derive(Clone, Debug)]
pub struct AcpResponse<'a> {
    /// As the sender of the request wrote it; `null` if it could not be read.
    pub id: Raw<'a>,
    pub result: Result<AcpResult<'a>, AcpFailure<'a>>,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug)]
pub struct AcpFailure<'a> {
    pub code: i64,
    pub message: Option<Text<'a>>,
    pub data: Option<Raw<'a>>,
}

/// The result of a request, told by its fields.
#[derive(Clone, Copy, Debug)]
pub enum AcpResult<'a> {
    /// Of `initialize`.
    Initialized {
        version: Option<Raw<'a>>,
        /// The agent's name, title and version.
        agent: Option<Raw<'a>>,
        capabilities: Option<Raw<'a>>,
        auth_methods: Option<Raw<'a>>,
        meta: Option<Raw<'a>>,
    },
    /// Of `session/new`, `session/load`, `session/resume`, `session/fork` and
    /// `session/set_config_option`: what the session is and offers.
    Session {
        id: Option<Text<'a>>,
        modes: Option<Raw<'a>>,
        models: Option<Raw<'a>>,
        options: Option<Raw<'a>>,
        commands: Option<Raw<'a>>,
    },
    /// Of `session/prompt` in version 1: the turn is over.
    TurnEnded { stop_reason: Text<'a>, usage: Option<Raw<'a>>, meta: Option<Raw<'a>> },
    /// Of `session/prompt` in version 2: the agent has the prompt.
    PromptTaken { message: Text<'a> },
    /// Of `session/list`.
    Sessions(Raw<'a>),
    /// A person's decision about a permission, or what became of a prompt that was to join a turn.
    Outcome(Raw<'a>),
    /// Anything else.
    Other(Raw<'a>),
}

impl<'a> AcpResult<'a> {
    pub(super) fn of(result: Raw<'a>) -> Self {
        let mut found = ResultFields::default();
        for (key, value) in result.fields() {
            let slot = match &*key.decode() {
                "protocolVersion" => &mut found.version,
                "agentInfo" | "info" => &mut found.agent,
                "agentCapabilities" | "capabilities" => &mut found.capabilities,
                "authMethods" => &mut found.auth_methods,
                "sessionId" => &mut found.session,
                "modes" => &mut found.modes,
                "models" => &mut found.models,
                "configOptions" => &mut found.options,
                "availableCommands" => &mut found.commands,
                "stopReason" => &mut found.stop_reason,
                "usage" => &mut found.usage,
                "messageId" => &mut found.message,
                "sessions" => &mut found.sessions,
                "outcome" => &mut found.outcome,
                "_meta" => &mut found.meta,
                _ => continue,
            };
            *slot = Some(value);
        }
        found.result().unwrap_or(Self::Other(result))
    }
}

#[derive(Default)]
struct ResultFields<'a> {
    version: Option<Raw<'a>>,
    agent: Option<Raw<'a>>,
    capabilities: Option<Raw<'a>>,
    auth_methods: Option<Raw<'a>>,
    session: Option<Raw<'a>>,
    modes: Option<Raw<'a>>,
    models: Option<Raw<'a>>,
    options: Option<Raw<'a>>,
    commands: Option<Raw<'a>>,
    stop_reason: Option<Raw<'a>>,
    usage: Option<Raw<'a>>,
    message: Option<Raw<'a>>,
    sessions: Option<Raw<'a>>,
    outcome: Option<Raw<'a>>,
    meta: Option<Raw<'a>>,
}

impl<'a> ResultFields<'a> {
    fn result(self) -> Option<AcpResult<'a>> {
        if self.version.is_some() {
            return Some(AcpResult::Initialized {
                version: self.version,
                agent: self.agent,
                capabilities: self.capabilities,
                auth_methods: self.auth_methods,
                meta: self.meta,
            });
        }
        if let Some(stop_reason) = self.stop_reason.and_then(Raw::text) {
            let (usage, meta) = (self.usage, self.meta);
            return Some(AcpResult::TurnEnded { stop_reason, usage, meta });
        }
        let session = [self.session, self.modes, self.models, self.options, self.commands];
        if session.iter().any(Option::is_some) {
            return Some(AcpResult::Session {
                id: self.session.and_then(Raw::text),
                modes: self.modes,
                models: self.models,
                options: self.options,
                commands: self.commands,
            });
        }
        if let Some(message) = self.message.and_then(Raw::text) {
            return Some(AcpResult::PromptTaken { message });
        }
        self.sessions.map(AcpResult::Sessions).or(self.outcome.map(AcpResult::Outcome))
    }
}
