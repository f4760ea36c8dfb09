//! What a client says about itself.

use super::client_call::Params;
use super::rpc::RpcError;
use super::version::AcpVersion;

/// The parameters of `initialize`, of both versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitializeParams {
    /// The version to speak.
    pub version: AcpVersion,
    pub capabilities: ClientCapabilities,
    /// The name of the client, if it says it.
    pub client_name: Option<String>,
    pub client_title: Option<String>,
}

/// What a client can show and answer.
#[expect(clippy::struct_excessive_bools, reason = "they are independent capabilities")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Forms with questions.
    pub forms: bool,
    /// Messages that are not part of the conversation.
    pub notices: bool,
    pub compaction: bool,
    /// The work of sub-agents as sessions of their own.
    pub subagents: bool,
}

impl InitializeParams {
    pub(super) fn read(params: &Params<'_>) -> Result<Self, RpcError> {
        let requested = params.number("protocolVersion")?;
        let info = ["info", "clientInfo"].into_iter().find_map(|key| params.find(key));
        let text = |key: &'static str| info.as_ref().and_then(|it| it.optional_text(key).ok()?);
        let capabilities =
            ["capabilities", "clientCapabilities"].into_iter().find_map(|key| params.find(key));
        Ok(Self {
            version: AcpVersion::negotiate(requested),
            capabilities: capabilities.map(|it| ClientCapabilities::read(&it)).unwrap_or_default(),
            client_name: text("name"),
            client_title: text("title"),
        })
    }
}

impl ClientCapabilities {
    /// A capability in an unexpected shape is one that the client does not have.
    fn read(capabilities: &Params<'_>) -> Self {
        let has = |path: &[&'static str]| capabilities.has(path);
        Self {
            forms: has(&["elicitation", "form"]),
            notices: has(&["session", "notices"]),
            compaction: has(&["session", "compaction"]),
            subagents: has(&["subagents"]),
        }
    }
}
