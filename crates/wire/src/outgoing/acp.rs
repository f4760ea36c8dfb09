//! Lines for an agent that speaks the Agent Client Protocol.
//!
//! Towpath offers neither files nor terminals: such an agent has its own. It offers to show forms and
//! links, and to show what a command prints from the details that some agents add outside the protocol.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{OutgoingLine, OutgoingPrompt};
use crate::acp::{AcpVersion, McpServerSpec, McpTransport, RpcError, RpcId};

/// A request to an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AcpRequest<'a> {
    /// The first request. The agent answers with the version it speaks.
    Initialize {
        product_version: &'a str,
    },
    NewSession(SessionStart<'a>),
    /// Continue a session, whose history the agent does not repeat.
    ResumeSession {
        session: &'a str,
        start: SessionStart<'a>,
    },
    /// Continue a session, whose history the agent repeats before it answers.
    LoadSession {
        session: &'a str,
        start: SessionStart<'a>,
    },
    /// Continue a copy of a session.
    ForkSession {
        session: &'a str,
        start: SessionStart<'a>,
    },
    Prompt {
        session: &'a str,
        prompt: &'a OutgoingPrompt,
        images: bool,
    },
    /// Add a prompt to the turn that runs. The agent refuses it if there is none.
    Steer {
        session: &'a str,
        prompt: &'a OutgoingPrompt,
        images: bool,
    },
    SetMode {
        session: &'a str,
        mode: &'a str,
    },
    SetOption {
        session: &'a str,
        option: &'a str,
        value: AcpOptionValue<'a>,
    },
    /// Version 1 once had this method, and some agents offer no other way to choose a model.
    SetModel {
        session: &'a str,
        model: &'a str,
    },
}

/// What a session is opened with.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionStart<'a> {
    pub version: AcpVersion,
    /// The working directory, as an absolute path.
    pub directory: &'a str,
    /// Further directories, if the agent accepts any.
    pub extra_directories: Vec<&'a str>,
    pub mcp_servers: Vec<McpServerSpec>,
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcpOptionValue<'a> {
    Selected(&'a str),
    Switched(bool),
}

/// An answer to a request of an agent.
#[derive(Clone, Debug, PartialEq)]
pub enum AcpReply<'a> {
    /// The choice with this id.
    Chosen(&'a str),
    /// No user chose: the turn is being stopped, or no choice fits.
    Cancelled,
    /// The answers to a form, by the keys of its fields; without any for a link that was opened.
    Submitted(Vec<(String, FormAnswer)>),
    /// A person declined to answer a form.
    Declined,
    /// The form is no longer answered because the turn is being stopped.
    Dismissed,
    Error(RpcError),
}

/// The answer in one field of a form.
#[derive(Clone, Debug, PartialEq)]
pub enum FormAnswer {
    Text(String),
    Number(f64),
    Integer(i64),
    Switched(bool),
    Several(Vec<String>),
}

#[derive(Serialize)]
struct AcpCallLine<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    method: &'static str,
    params: Value,
}

#[derive(Serialize)]
struct AcpReplyLine<'a> {
    jsonrpc: &'static str,
    id: &'a RpcId,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

impl OutgoingLine {
    /// A request to an agent over the Agent Client Protocol.
    pub fn acp_request(id: &str, request: &AcpRequest<'_>) -> Self {
        let (method, params) = request.parts();
        Self::of(&AcpCallLine { jsonrpc: "2.0", id: Some(id), method, params })
    }

    /// Asks an agent to stop the turn of a session.
    pub fn acp_cancel(session: &str) -> Self {
        let params = json!({ "sessionId": session });
        Self::of(&AcpCallLine { jsonrpc: "2.0", id: None, method: "session/cancel", params })
    }

    /// The answer to a request of an agent.
    pub fn acp_reply(id: &RpcId, reply: &AcpReply<'_>) -> Self {
        let (result, error) = match reply {
            AcpReply::Chosen(choice) => {
                let outcome = json!({ "outcome": "selected", "optionId": choice });
                (Some(json!({ "outcome": outcome })), None)
            }
            AcpReply::Cancelled => (Some(json!({ "outcome": { "outcome": "cancelled" } })), None),
            AcpReply::Submitted(answers) => {
                let content = answers.iter().map(|(key, answer)| (key.clone(), json!(answer)));
                let content: serde_json::Map<String, Value> = content.collect();
                (Some(json!({ "action": "accept", "content": content })), None)
            }
            AcpReply::Declined => (Some(json!({ "action": "decline" })), None),
            AcpReply::Dismissed => (Some(json!({ "action": "cancel" })), None),
            AcpReply::Error(error) => {
                let mut body = json!({ "code": error.code, "message": error.message });
                if let Some(data) = &error.data {
                    body["data"] = data.clone();
                }
                (None, Some(body))
            }
        };
        Self::of(&AcpReplyLine { jsonrpc: "2.0", id, result, error })
    }
}

impl AcpRequest<'_> {
    fn parts(&self) -> (&'static str, Value) {
        match self {
            Self::Initialize { product_version } => ("initialize", initialize(product_version)),
            Self::NewSession(start) => ("session/new", start.params(None)),
            Self::ResumeSession { session, start } => {
                ("session/resume", start.params(Some(session)))
            }
            Self::LoadSession { session, start } => ("session/load", start.params(Some(session))),
            Self::ForkSession { session, start } => ("session/fork", start.params(Some(session))),
            Self::Prompt { session, prompt, images } => {
                let content = prompt_content(prompt, *images);
                ("session/prompt", json!({ "sessionId": session, "prompt": content }))
            }
            Self::Steer { session, prompt, images } => {
                let content = prompt_content(prompt, *images);
                let meta = json!({ "steering": { "idleBehavior": "promptRequired" } });
                let params = json!({ "sessionId": session, "prompt": content, "_meta": meta });
                ("_session/steering", params)
            }
            Self::SetMode { session, mode } => {
                ("session/set_mode", json!({ "sessionId": session, "modeId": mode }))
            }
            Self::SetOption { session, option, value } => {
                let mut params = json!({ "sessionId": session, "configId": option });
                match value {
                    AcpOptionValue::Selected(value) => params["value"] = json!(value),
                    AcpOptionValue::Switched(on) => {
                        params["type"] = json!("boolean");
                        params["value"] = json!(on);
                    }
                }
                ("session/set_config_option", params)
            }
            Self::SetModel { session, model } => {
                ("session/set_model", json!({ "sessionId": session, "modelId": model }))
            }
        }
    }
}

fn initialize(product_version: &str) -> Value {
    json!({
        "protocolVersion": 1,
        "clientCapabilities": {
            "fs": { "readTextFile": false, "writeTextFile": false },
            "terminal": false,
            "session": { "compaction": {}, "notices": {}, "configOptions": { "boolean": {} } },
            "elicitation": { "form": {}, "url": {} },
            "_meta": { "terminal_output": true },
        },
        "clientInfo": { "name": "towpath", "title": "Towpath", "version": product_version },
    })
}

fn prompt_content(prompt: &OutgoingPrompt, images: bool) -> Vec<Value> {
    let (text, attached) = prompt.parts();
    let text = (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }));
    let attached = attached.iter().filter(|_| images).map(|image| {
        let (media_type, data) = image.parts();
        json!({ "type": "image", "mimeType": media_type, "data": data })
    });
    text.into_iter().chain(attached).collect()
}

impl SessionStart<'_> {
    fn params(&self, session: Option<&str>) -> Value {
        let servers: Vec<Value> = self.mcp_servers.iter().map(|it| self.server(it)).collect();
        let mut params = json!({ "cwd": self.directory, "mcpServers": servers });
        if let Some(session) = session {
            params["sessionId"] = json!(session);
        }
        if !self.extra_directories.is_empty() {
            params["additionalDirectories"] = json!(self.extra_directories);
        }
        params
    }

    fn server(&self, server: &McpServerSpec) -> Value {
        let pairs = |pairs: &[(String, String)]| {
            let pair = |(name, value): &(String, String)| json!({ "name": name, "value": value });
            pairs.iter().map(pair).collect::<Vec<Value>>()
        };
        let mut value = match &server.transport {
            McpTransport::Stdio { command, arguments, environment } => {
                json!({ "command": command, "args": arguments, "env": pairs(environment) })
            }
            McpTransport::Http { url, headers } => {
                json!({ "type": "http", "url": url, "headers": pairs(headers) })
            }
            McpTransport::Sse { url, headers } => {
                json!({ "type": "sse", "url": url, "headers": pairs(headers) })
            }
        };
        value["name"] = json!(server.name);
        // Version 1 recognizes such a server by the lack of a type.
        if self.version == AcpVersion::V2 && matches!(server.transport, McpTransport::Stdio { .. })
        {
            value["type"] = json!("stdio");
        }
        value
    }
}

impl Serialize for FormAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Number(number) => number.serialize(serializer),
            Self::Integer(number) => number.serialize(serializer),
            Self::Switched(on) => on.serialize(serializer),
            Self::Several(texts) => texts.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::{AcpOptionValue, AcpReply, AcpRequest, FormAnswer, SessionStart};
    use crate::acp::{AcpVersion, McpServerSpec, McpTransport, RpcError, RpcId};
    use crate::event::Body;
    use crate::json::Raw;
    use crate::outgoing::{Image, OutgoingLine, OutgoingPrompt};

    /// A PNG of one pixel.
    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    fn id(text: &str) -> RpcId {
        RpcId::of(Raw::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn every_line_is_one_message_that_this_crate_reads() {
        let image: Image =
            serde_json::from_value(json!({"type":"base64","media_type":"image/png","data":PIXEL}))
                .unwrap();
        let prompt =
            OutgoingPrompt::with_images(Uuid::nil(), "line\nbreak \u{2028}", vec![image]).unwrap();
        let server = McpServerSpec {
            name: "s".to_owned(),
            transport: McpTransport::Stdio {
                command: "c".to_owned(),
                arguments: Vec::new(),
                environment: vec![("K".to_owned(), "v".to_owned())],
            },
        };
        let start = SessionStart {
            version: AcpVersion::V1,
            directory: "/p",
            extra_directories: vec!["/q"],
            mcp_servers: vec![server],
        };
        let session = "s";
        for (request, method) in [
            (AcpRequest::Initialize { product_version: "1" }, "initialize"),
            (AcpRequest::NewSession(start.clone()), "session/new"),
            (AcpRequest::ResumeSession { session, start: start.clone() }, "session/resume"),
            (AcpRequest::LoadSession { session, start: start.clone() }, "session/load"),
            (AcpRequest::ForkSession { session, start }, "session/fork"),
            (AcpRequest::Prompt { session, prompt: &prompt, images: true }, "session/prompt"),
            (AcpRequest::Steer { session, prompt: &prompt, images: true }, "_session/steering"),
            (AcpRequest::SetMode { session, mode: "m" }, "session/set_mode"),
            (AcpRequest::SetModel { session, model: "m" }, "session/set_model"),
            (
                AcpRequest::SetOption {
                    session,
                    option: "o",
                    value: AcpOptionValue::Switched(true),
                },
                "session/set_config_option",
            ),
        ] {
            let line = OutgoingLine::acp_request("towpath-1", &request);
            let start = format!(r#"{{"jsonrpc":"2.0","id":"towpath-1","method":"{method}""#);
            assert!(line.as_str().starts_with(&start), "{}", line.as_str());
            let read = crate::read(line.as_str().as_bytes()).next().expect("a line");
            let event = read.event().unwrap_or_else(|| panic!("{}", line.as_str()));
            assert!(matches!(event.body, Body::Acp(_)));
        }
    }

    #[test]
    fn a_prompt_has_its_text_and_its_images_if_the_agent_takes_any() {
        let image: Image =
            serde_json::from_value(json!({"type":"base64","media_type":"image/png","data":PIXEL}))
                .unwrap();
        let prompt = OutgoingPrompt::with_images(Uuid::nil(), "look", vec![image]).unwrap();
        let line = |images| {
            let request = AcpRequest::Prompt { session: "s", prompt: &prompt, images };
            let line = OutgoingLine::acp_request("p", &request);
            let line: Value = serde_json::from_str(line.as_str()).unwrap();
            line["params"]["prompt"].clone()
        };
        let text = json!({"type":"text","text":"look"});
        let image = json!({"type":"image","mimeType":"image/png","data":PIXEL});
        assert_eq!(line(true), json!([text, image]));
        assert_eq!(line(false), json!([text]));
    }

    #[test]
    fn an_answer_repeats_the_id_as_the_agent_wrote_it() {
        let check = |id: &RpcId, reply, result: Value| {
            let line = OutgoingLine::acp_reply(id, &reply);
            let start = format!(r#"{{"jsonrpc":"2.0","id":{},"#, id.as_str());
            assert!(line.as_str().starts_with(&start), "{}", line.as_str());
            let line: Value = serde_json::from_str(line.as_str()).unwrap();
            assert_eq!(line.get("result").or(line.get("error")), Some(&result));
        };
        let chosen = json!({"outcome":{"outcome":"selected","optionId":"a\"b"}});
        check(&id("0"), AcpReply::Chosen("a\"b"), chosen);
        let cancelled = json!({"outcome":{"outcome":"cancelled"}});
        check(&id(r#""a\u0062""#), AcpReply::Cancelled, cancelled);
        let answers = vec![("k".to_owned(), FormAnswer::Several(vec!["x".to_owned()]))];
        let submitted = json!({"action":"accept","content":{"k":["x"]}});
        check(&id("1"), AcpReply::Submitted(answers), submitted);
        let error = RpcError::method_not_found("fs/read");
        let data = json!({"method":"fs/read"});
        let refusal = json!({"code":-32601,"message":error.message,"data":data});
        check(&id("2"), AcpReply::Error(error), refusal);
    }
}
