//! The Messages API over HTTP.

use futures_util::StreamExt as _;
use reqwest::header::HeaderMap;
use serde_json::Value;
use tokio::sync::mpsc;

use super::sse::Events;
use crate::play::effect::RequestNumber;
use crate::play::input::{Input, Reply, Trouble};
use crate::play::surroundings::Surroundings;

/// A client of the API.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    client: reqwest::Client,
    url: String,
    key: Option<String>,
    token: Option<String>,
}

impl Api {
    /// A client of the API below a URL.
    pub(crate) fn new(base: &str, around: &Surroundings) -> Self {
        // The process has one provider of cryptography; `reqwest` brings none. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap_or_default();
        Self {
            client,
            url: format!("{}/v1/messages?beta=true", base.trim_end_matches('/')),
            key: around.api_key.clone(),
            token: around.auth_token.clone(),
        }
    }

    /// Asks once; every part of the answer is an input.
    pub(crate) async fn ask(self, number: RequestNumber, body: Value, inputs: mpsc::Sender<Input>) {
        let tell = |reply| inputs.send(Input::Reply(number, reply));
        let mut request = self
            .client
            .post(&self.url)
            .header("anthropic-version", "2023-06-01")
            .header("user-agent", "claude-cli/2.1.325 (external, sdk-cli)")
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
                let trouble = Trouble { message: describe(&error), refused, ..Trouble::default() };
                drop(tell(Reply::Failed(trouble)).await);
                return;
            }
        };
        let request_id = header(response.headers(), "request-id");
        if !response.status().is_success() {
            let trouble = refusal(response, request_id).await;
            drop(tell(Reply::Failed(trouble)).await);
            return;
        }
        if tell(Reply::Opened(request_id)).await.is_err() {
            return;
        }
        if body["stream"] == false {
            let reply = match response.json::<Value>().await {
                Ok(message) if message["content"].is_array() => Reply::Message(message),
                Ok(_) | Err(_) => Reply::Failed(malformed()),
            };
            drop(tell(reply).await);
            return;
        }
        let mut events = Events::default();
        let mut bytes = response.bytes_stream();
        while let Some(chunk) = bytes.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => {
                    let trouble = Trouble { message: describe(&error), ..Trouble::default() };
                    drop(tell(Reply::Failed(trouble)).await);
                    return;
                }
            };
            for event in events.take(&chunk) {
                let reply = match event {
                    Ok(event) => Reply::Event(event),
                    Err(data) => {
                        let kind = Some("garbage".to_owned());
                        let trouble = Trouble { message: data, kind, ..Trouble::default() };
                        drop(tell(Reply::Failed(trouble)).await);
                        return;
                    }
                };
                if tell(reply).await.is_err() {
                    return;
                }
            }
        }
        drop(tell(Reply::Ended).await);
    }
}

fn malformed() -> Trouble {
    let message = "API returned an empty or malformed response (HTTP 200) — check for a proxy or \
                   gateway intercepting the request.";
    // A kind of its own keeps it from being taken for a broken connection, which is retried.
    Trouble {
        message: message.to_owned(),
        status: None,
        kind: Some("malformed".to_owned()),
        ..Trouble::default()
    }
}

async fn refusal(response: reqwest::Response, request_id: Option<String>) -> Trouble {
    let status = response.status().as_u16();
    let retry_after = header(response.headers(), "retry-after")
        .and_then(|seconds| seconds.parse::<f64>().ok())
        .map(|seconds| std::time::Duration::from_secs_f64(seconds.max(0.0)).as_millis());
    let retry_after = retry_after.and_then(|millis| u64::try_from(millis).ok());
    let body: Value = response.json().await.unwrap_or_default();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Trouble {
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

fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}
