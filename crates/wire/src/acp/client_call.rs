//! The requests and notifications of a client, with their parameters.

use uuid::Uuid;

use super::content::PromptBlock;
use super::initialize::InitializeParams;
use super::mcp_server::McpServerSpec;
use super::rpc::RpcError;
use crate::json::{Raw, Shape};

/// What a client asks of the agent.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientCall {
    Initialize(InitializeParams),
    Authenticate,
    Logout,
    NewSession(SessionPlace),
    /// Open a session and send everything that was said in it.
    LoadSession {
        session: String,
        place: SessionPlace,
    },
    /// Open a session.
    ResumeSession {
        session: String,
        place: SessionPlace,
        replay: bool,
    },
    ForkSession {
        session: String,
        place: SessionPlace,
    },
    ListSessions {
        cwd: Option<String>,
        cursor: Option<String>,
    },
    CloseSession {
        session: String,
    },
    DeleteSession {
        session: String,
    },
    Prompt {
        session: String,
        content: Vec<PromptBlock>,
        /// The client's own id of the prompt: the same id again is the same prompt.
        id: Option<Uuid>,
    },
    /// Add to the running turn.
    Steer {
        session: String,
        content: Vec<PromptBlock>,
        when_idle: IdleSteering,
    },
    /// Stop the running turn.
    Cancel {
        session: String,
    },
    /// The client no longer waits for the answer to a request, whose id this is as JSON.
    CancelRequest {
        request: String,
    },
    SetMode {
        session: String,
        mode: String,
    },
    SetConfigOption {
        session: String,
        option: String,
        value: ConfigValue,
    },
    SetTitle {
        session: String,
        title: String,
    },
    SessionStatus {
        session: String,
    },
}

/// Where a session works, and with what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionPlace {
    pub cwd: String,
    pub additional_directories: Vec<String>,
    pub mcp_servers: Vec<McpServerSpec>,
}

/// What happens to a steering prompt if no turn is running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleSteering {
    /// The client has to send a prompt.
    PromptRequired,
}

/// The value of a configuration option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigValue {
    Id(String),
    Boolean(bool),
}

/// Reads the parameters of one method.
type CallReader = fn(&Params<'_>) -> Result<ClientCall, RpcError>;

impl ClientCall {
    /// Reads a request or notification; `None` if the method is not known.
    pub fn read(method: &str, params: Option<Raw<'_>>) -> Option<Result<Self, RpcError>> {
        let read = Self::reader(method)?;
        Some(read(&Params { object: params, path: String::new() }))
    }

    fn reader(method: &str) -> Option<CallReader> {
        Some(match method {
            "initialize" => |it| InitializeParams::read(it).map(Self::Initialize),
            "authenticate" | "auth/login" => |_| Ok(Self::Authenticate),
            "logout" | "auth/logout" => |_| Ok(Self::Logout),
            "session/new" => |it| SessionPlace::read(it).map(Self::NewSession),
            "session/load" => |it| {
                Ok(Self::LoadSession { session: it.session()?, place: SessionPlace::read(it)? })
            },
            "session/resume" => |it| {
                let replay = it.find("replayFrom").map(|it| it.text("type")).transpose()?;
                let replay = replay.is_some_and(|it| it == "start");
                let place = SessionPlace::read(it)?;
                Ok(Self::ResumeSession { session: it.session()?, place, replay })
            },
            "session/fork" => |it| {
                Ok(Self::ForkSession { session: it.session()?, place: SessionPlace::read(it)? })
            },
            "session/list" => |it| {
                let cursor = it.optional_text("cursor")?;
                Ok(Self::ListSessions { cwd: it.optional_text("cwd")?, cursor })
            },
            "session/close" => |it| Ok(Self::CloseSession { session: it.session()? }),
            "session/delete" => |it| Ok(Self::DeleteSession { session: it.session()? }),
            "session/prompt" => |it| {
                let id = it.own_meta("promptId").and_then(|it| it.parse().ok());
                Ok(Self::Prompt { session: it.session()?, content: it.prompt()?, id })
            },
            "_session/steering" => |it| {
                let content = it.prompt()?;
                let when_idle = IdleSteering::PromptRequired;
                Ok(Self::Steer { session: it.session()?, content, when_idle })
            },
            "session/cancel" => |it| Ok(Self::Cancel { session: it.session()? }),
            "$/cancel_request" => |it| {
                let id = it.find_raw("requestId").ok_or_else(|| it.wrong("requestId", "an id"))?;
                Ok(Self::CancelRequest { request: id.as_str().to_owned() })
            },
            "session/set_mode" => {
                |it| Ok(Self::SetMode { session: it.session()?, mode: it.text("modeId")? })
            }
            "session/set_config_option" => |it| {
                let value = it.find_raw("value").ok_or_else(|| it.wrong("value", "a value"))?;
                let value = match (value.boolean(), value.text()) {
                    (Some(value), _) => ConfigValue::Boolean(value),
                    (_, Some(value)) => ConfigValue::Id(value.decode().into_owned()),
                    _ => return Err(it.wrong("value", "a string or a Boolean")),
                };
                let option = it.text("configId")?;
                Ok(Self::SetConfigOption { session: it.session()?, option, value })
            },
            "session/set_title" => {
                |it| Ok(Self::SetTitle { session: it.session()?, title: it.text("title")? })
            }
            "session/status" => |it| Ok(Self::SessionStatus { session: it.session()? }),
            _ => return None,
        })
    }
}

impl SessionPlace {
    fn read(params: &Params<'_>) -> Result<Self, RpcError> {
        let servers = params.objects("mcpServers")?;
        Ok(Self {
            cwd: params.text("cwd")?,
            additional_directories: params.texts("additionalDirectories")?,
            mcp_servers: servers.iter().map(McpServerSpec::read).collect::<Result<_, _>>()?,
        })
    }
}

/// The parameters of a call, or an object in them. Errors name the field.
pub(super) struct Params<'a> {
    object: Option<Raw<'a>>,
    /// The path of the object, for errors.
    path: String,
}

impl<'a> Params<'a> {
    /// A field; `null` is the same as none.
    fn find_raw(&self, key: &str) -> Option<Raw<'a>> {
        self.object?.get(key).filter(|it| it.shape() != Shape::Null)
    }

    fn wrong(&self, key: &str, expected: &str) -> RpcError {
        let path = &self.path;
        let what = if self.find_raw(key).is_some() { "is not" } else { "is missing: expected" };
        RpcError::invalid_params(format!("`{path}{key}` {what} {expected}"))
    }

    fn inner(&self, key: &str, object: Raw<'a>) -> Self {
        Params { object: Some(object), path: format!("{}{key}.", self.path) }
    }

    /// An object, if there is one.
    pub(super) fn find(&self, key: &str) -> Option<Self> {
        let found = self.find_raw(key).filter(|it| it.shape() == Shape::Object)?;
        Some(self.inner(key, found))
    }

    /// Whether there is an object, or `true`, at a path.
    pub(super) fn has(&self, path: &[&'static str]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut at = self.object;
        for key in parents {
            at = at.and_then(|it| it.get(key));
        }
        let found = at.and_then(|it| it.get(last));
        found.is_some_and(|it| it.shape() == Shape::Object || it.boolean() == Some(true))
    }

    pub(super) fn object(&self, key: &'static str) -> Result<Self, RpcError> {
        self.find(key).ok_or_else(|| self.wrong(key, "an object"))
    }

    pub(super) fn text(&self, key: &'static str) -> Result<String, RpcError> {
        let text = self.find_raw(key).and_then(Raw::text);
        Ok(text.ok_or_else(|| self.wrong(key, "a string"))?.decode().into_owned())
    }

    pub(super) fn optional_text(&self, key: &'static str) -> Result<Option<String>, RpcError> {
        self.find_raw(key).map(|_| self.text(key)).transpose()
    }

    pub(super) fn number(&self, key: &'static str) -> Result<f64, RpcError> {
        self.find_raw(key).and_then(Raw::number).ok_or_else(|| self.wrong(key, "a number"))
    }

    /// The items of a list; none if there is no list.
    fn items(&self, key: &'static str) -> Result<Vec<Raw<'a>>, RpcError> {
        match self.find_raw(key) {
            None => Ok(Vec::new()),
            Some(list) if list.shape() == Shape::Array => Ok(list.items().collect()),
            Some(_) => Err(self.wrong(key, "a list")),
        }
    }

    pub(super) fn objects(&self, key: &'static str) -> Result<Vec<Self>, RpcError> {
        let object = |(n, it): (usize, Raw<'a>)| match it.shape() {
            Shape::Object => Ok(self.inner(&format!("{key}[{n}]"), it)),
            _ => Err(self.wrong(key, "a list of objects")),
        };
        self.items(key)?.into_iter().enumerate().map(object).collect()
    }

    pub(super) fn texts(&self, key: &'static str) -> Result<Vec<String>, RpcError> {
        let text = |it: Raw<'a>| it.text().map(|it| it.decode().into_owned());
        let texts = self.items(key)?.into_iter().map(text).collect::<Option<_>>();
        texts.ok_or_else(|| self.wrong(key, "a list of strings"))
    }

    fn session(&self) -> Result<String, RpcError> {
        self.text("sessionId")
    }

    fn prompt(&self) -> Result<Vec<PromptBlock>, RpcError> {
        if self.find_raw("prompt").is_none() {
            return Err(self.wrong("prompt", "a list of content blocks"));
        }
        self.objects("prompt")?.iter().map(PromptBlock::read).collect()
    }

    /// A text in Towpath's part of `_meta`.
    fn own_meta(&self, key: &'static str) -> Option<String> {
        self.find("_meta")?.find("towpath")?.optional_text(key).ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientCall, ConfigValue, SessionPlace};
    use crate::acp::{AcpVersion, McpTransport, PromptBlock};
    use crate::json::Raw;

    fn read(method: &str, params: &str) -> Result<ClientCall, String> {
        let call = ClientCall::read(method, Raw::parse(params)).expect("a known method");
        call.map_err(|it| it.message)
    }

    #[test]
    fn unknown_methods_are_not_known_and_known_ones_with_wrong_parameters_are_errors() {
        assert_eq!(ClientCall::read("session/dance", None), None);
        for (method, params, message) in [
            ("session/new", "{}", "`cwd` is missing: expected a string"),
            ("session/new", r#"{"cwd":7}"#, "`cwd` is not a string"),
            ("session/prompt", r#"{"sessionId":"a"}"#, "`prompt` is missing: expected a list"),
            (
                "session/prompt",
                r#"{"sessionId":"a","prompt":[{"type":"text"}]}"#,
                "`prompt[0].text` is missing",
            ),
            (
                "session/new",
                r#"{"cwd":"/","mcpServers":[{"name":"x","type":"carrier-pigeon"}]}"#,
                "unknown type `carrier-pigeon`",
            ),
            ("session/load", r#"{"cwd":"/","mcpServers":[]}"#, "`sessionId` is missing"),
            ("initialize", "{}", "`protocolVersion` is missing"),
        ] {
            let error = read(method, params).unwrap_err();
            assert!(error.contains(message), "{method} {params}: {error}");
        }
    }

    #[test]
    fn both_versions_of_initialize_are_read() {
        let v1 = r#"{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{}},"session":
            {"notices":{}}},"clientInfo":{"name":"zed","version":"1"}}"#;
        let v2 = r#"{"protocolVersion":2,"info":{"name":"x","version":"0"},"capabilities":
            {"subagents":{},"elicitation":{"url":{}},"session":{"compaction":7}}}"#;
        let Ok(ClientCall::Initialize(v1)) = read("initialize", v1) else { panic!() };
        assert_eq!((v1.version, v1.client_name.as_deref()), (AcpVersion::V1, Some("zed")));
        assert!(v1.capabilities.forms && v1.capabilities.notices && !v1.capabilities.subagents);
        let Ok(ClientCall::Initialize(v2)) = read("initialize", v2) else { panic!() };
        assert_eq!(v2.version, AcpVersion::V2);
        assert!(v2.capabilities.subagents && !v2.capabilities.forms && !v2.capabilities.compaction);
    }

    #[test]
    fn prompts_have_blocks_and_sessions_have_servers() {
        let prompt = r#"{"sessionId":"a","_meta":{"towpath":{"promptId":"00000000-0000-0000-0000-000000000007"}},
            "prompt":[{"type":"text","text":"hi"},
            {"type":"resource_link","uri":"file:///a","name":"a"},{"type":"audio","data":""},
            {"type":"resource","resource":{"uri":"file:///b","text":"B"}}]}"#;
        let Ok(ClientCall::Prompt { content, id, .. }) = read("session/prompt", prompt) else {
            panic!()
        };
        assert_eq!(id.unwrap().as_u128(), 7);
        assert_eq!(content[0], PromptBlock::Text("hi".to_owned()));
        assert_eq!(content[2], PromptBlock::Unsupported("audio".to_owned()));
        assert!(matches!(&content[3], PromptBlock::TextResource { text, .. } if text == "B"));
        let new = r#"{"cwd":"/p","additionalDirectories":["/q"],"mcpServers":[
            {"name":"s","command":"/bin/s","args":["-x"],"env":[{"name":"K","value":"V"}]},
            {"type":"http","name":"h","url":"http://h","headers":[]}]}"#;
        let Ok(ClientCall::NewSession(place)) = read("session/new", new) else { panic!() };
        let SessionPlace { mcp_servers, additional_directories, .. } = place;
        assert_eq!(additional_directories, ["/q"]);
        assert!(matches!(&mcp_servers[0].transport, McpTransport::Stdio { environment, .. }
            if environment == &[("K".to_owned(), "V".to_owned())]));
        assert!(matches!(&mcp_servers[1].transport, McpTransport::Http { .. }));
    }

    #[test]
    fn options_have_texts_or_switches_as_values() {
        let set = |value| {
            let params = format!(r#"{{"sessionId":"a","configId":"m","value":{value}}}"#);
            match read("session/set_config_option", &params) {
                Ok(ClientCall::SetConfigOption { value, .. }) => Some(value),
                _ => None,
            }
        };
        assert_eq!(set("\"x\""), Some(ConfigValue::Id("x".to_owned())));
        assert_eq!(set("true"), Some(ConfigValue::Boolean(true)));
        assert_eq!(set("7"), None);
    }
}
