//! The source of the model's replies: an API over HTTP, a scenario or the scripted demo.

mod demo;

use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::api::{ApiOptions, ApiScript, ApiServer};
use crate::play::args::{PlayerArgs, PlayerStartError};
use crate::play::event::{ModelFailure, ModelReply, ModelRequestNumber, PlayerInput};
use crate::play::release::PlayerRelease;
use crate::play::settings::PlayerEnvironment;
use crate::scenario::{Scenario, ScenarioVariables};

/// The default time between the deltas of the demo.
const DEMO_PACE: Duration = Duration::from_millis(12);

/// Where replies come from.
#[derive(Debug)]
pub(crate) enum ModelSource {
    Api(MessagesClient),
    /// The replies of a scenario, served by a scripted API in this process.
    Scenario {
        client: MessagesClient,
        /// The API stops when this is dropped.
        _server: ApiServer,
    },
    Demo {
        /// The directory in which the demo writes its file.
        cwd: PathBuf,
        /// The time between deltas.
        pace: Duration,
    },
    /// There is an API but no key for it, so every request fails.
    NoKey,
}

impl ModelSource {
    /// Chooses the source by the args and the environment.
    pub(crate) async fn choose(
        args: &PlayerArgs,
        environment: &PlayerEnvironment,
    ) -> Result<Self, PlayerStartError> {
        if let Some(path) = args.scenario.as_ref().or(environment.scenario.as_ref()) {
            let start_error =
                |error: &dyn std::error::Error| PlayerStartError(format!("Error: {error}"));
            let scenario = Scenario::load(path).map_err(|error| start_error(&error))?;
            let mut names = ScenarioVariables::default();
            names.set("cwd", environment.cwd.display().to_string());
            names.set("home", environment.home.display().to_string());
            let version = args.release.version();
            let replies = scenario.replies.iter();
            let replies = replies.filter(|item| item.condition.applies_to("play", version));
            let script = ApiScript::new(replies.map(|item| item.value.expand(&names)));
            let script = script.map_err(|error| start_error(&error))?;
            let server = ApiServer::start(script, ApiOptions::default()).await;
            let server = server.map_err(|error| start_error(&error))?;
            return Ok(Self::Scenario {
                client: MessagesClient::new(&server.url, environment, args.release),
                _server: server,
            });
        }
        let key = environment.api_key.is_some() || environment.auth_token.is_some();
        Ok(match &environment.base_url {
            Some(url) if key => Self::Api(MessagesClient::new(url, environment, args.release)),
            Some(_) => Self::NoKey,
            None => {
                let (cwd, pace) = (environment.cwd.clone(), environment.pace.unwrap_or(DEMO_PACE));
                Self::Demo { cwd, pace }
            }
        })
    }

    pub(crate) fn is_demo(&self) -> bool {
        matches!(self, Self::Demo { .. })
    }

    /// Sends a request in a task. The parts of the reply go to `inputs`; the task waits while that is
    /// full.
    pub(crate) fn request(
        &self,
        number: ModelRequestNumber,
        body: Value,
        inputs: mpsc::Sender<PlayerInput>,
    ) -> JoinHandle<()> {
        match self {
            Self::Api(client) | Self::Scenario { client, .. } => {
                tokio::spawn(client.clone().request(number, body, inputs))
            }
            Self::Demo { cwd, pace } => {
                let blocks = demo::reply(&body, cwd);
                tokio::spawn(demo::stream(blocks, body["model"].clone(), number, *pace, inputs))
            }
            Self::NoKey => tokio::spawn(async move {
                let kind = Some("no_key".to_owned());
                let failure = ModelFailure { kind, ..ModelFailure::default() };
                drop(inputs.send(PlayerInput::Model(number, ModelReply::Failed(failure))).await);
            }),
        }
    }
}

/// A client of the Messages API.
#[derive(Clone, Debug)]
pub(crate) struct MessagesClient {
    client: reqwest::Client,
    url: String,
    key: Option<String>,
    token: Option<String>,
    release: PlayerRelease,
}

impl MessagesClient {
    pub(crate) fn new(base: &str, environment: &PlayerEnvironment, release: PlayerRelease) -> Self {
        // `reqwest` is built without a provider of cryptography. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap_or_default();
        Self {
            client,
            url: format!("{}/v1/messages?beta=true", base.trim_end_matches('/')),
            key: environment.api_key.clone(),
            token: environment.auth_token.clone(),
            release,
        }
    }

    /// Sends one request and passes on every part of the reply.
    async fn request(
        self,
        number: ModelRequestNumber,
        body: Value,
        inputs: mpsc::Sender<PlayerInput>,
    ) {
        let send = |reply| inputs.send(PlayerInput::Model(number, reply));
        let mut request = self
            .client
            .post(&self.url)
            .header("anthropic-version", "2023-06-01")
            .header("user-agent", format!("claude-cli/{} (external, sdk-cli)", self.release))
            .header("x-app", "cli")
            .json(&body);
        if let Some(key) = &self.key {
            request = request.header("x-api-key", key);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                let refused = error.is_connect();
                let failure = ModelFailure {
                    message: root_cause(&error),
                    refused,
                    ..ModelFailure::default()
                };
                drop(send(ModelReply::Failed(failure)).await);
                return;
            }
        };
        let request_id = header(response.headers(), "request-id");
        if !response.status().is_success() {
            let failure = error_response(response, request_id).await;
            drop(send(ModelReply::Failed(failure)).await);
            return;
        }
        if send(ModelReply::Started(request_id)).await.is_err() {
            return;
        }
        if body["stream"] != true {
            let reply = match response.json::<Value>().await {
                Ok(message) if message["content"].is_array() => ModelReply::Message(message),
                Ok(_) | Err(_) => ModelReply::Failed(malformed_response()),
            };
            drop(send(reply).await);
            return;
        }
        let mut events = SseReader::default();
        let mut bytes = response.bytes_stream();
        while let Some(chunk) = bytes.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => {
                    let failure =
                        ModelFailure { message: root_cause(&error), ..ModelFailure::default() };
                    drop(send(ModelReply::Failed(failure)).await);
                    return;
                }
            };
            for event in events.push(&chunk) {
                let reply = match event {
                    Ok(event) => ModelReply::Event(event),
                    Err(data) => {
                        let kind = Some("garbage".to_owned());
                        let failure =
                            ModelFailure { message: data, kind, ..ModelFailure::default() };
                        drop(send(ModelReply::Failed(failure)).await);
                        return;
                    }
                };
                if send(reply).await.is_err() {
                    return;
                }
            }
        }
        drop(send(ModelReply::Ended).await);
    }
}

/// Parses server-sent events from bytes that arrive in any chunks.
#[derive(Debug, Default)]
struct SseReader {
    buffer: Vec<u8>,
    data: String,
}

impl SseReader {
    /// Adds bytes and returns the events that they complete. Data that is not JSON is an error.
    fn push(&mut self, bytes: &[u8]) -> Vec<Result<Value, String>> {
        self.buffer.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\r', '\n']);
            if let Some(data) = line.strip_prefix("data:") {
                self.data.push_str(data.trim_start());
            } else if line.is_empty() && !self.data.is_empty() {
                let data = std::mem::take(&mut self.data);
                events.push(serde_json::from_str(&data).map_err(|_| data));
            }
        }
        events
    }
}

fn malformed_response() -> ModelFailure {
    let message = "API returned an empty or malformed response (HTTP 200) — check for a proxy or \
                   gateway intercepting the request.";
    // The kind tells it apart from a broken connection, which is retried.
    ModelFailure {
        message: message.to_owned(),
        status: None,
        kind: Some("malformed".to_owned()),
        ..ModelFailure::default()
    }
}

async fn error_response(response: reqwest::Response, request_id: Option<String>) -> ModelFailure {
    let status = response.status().as_u16();
    let retry_after = header(response.headers(), "retry-after")
        .and_then(|seconds| seconds.parse::<f64>().ok())
        .map(|seconds| std::time::Duration::from_secs_f64(seconds.max(0.0)).as_millis());
    let retry_after = retry_after.and_then(|millis| u64::try_from(millis).ok());
    let body: Value = response.json().await.unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    ModelFailure {
        status: Some(status),
        kind: text(&body["error"]["type"]),
        message: text(&body["error"]["message"]).unwrap_or_default(),
        request_id: request_id.or_else(|| text(&body["request_id"])),
        retry_after,
        refused: false,
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::SseReader;

    #[test]
    fn events_are_complete_however_the_bytes_are_split() {
        let text =
            "event: a\ndata: {\"n\":1}\n\n: ping\r\ndata: {\"n\":\r\ndata: 2}\r\n\r\ndata: no\n\n";
        let mut events = SseReader::default();
        let read: Vec<_> = text.bytes().flat_map(|byte| events.push(&[byte])).collect();
        assert_eq!(read, [Ok(json!({"n": 1})), Ok(json!({"n": 2})), Err("no".to_owned())]);
    }
}
