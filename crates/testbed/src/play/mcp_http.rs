//! MCP over HTTP: the transport in which each message is a request, and the older one in which answers
//! are the events of one long response.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, Response, Url};
use serde_json::Value;
use tokio::sync::mpsc;

use crate::play::event::PlayerInput;
use crate::play::mcp_connections::McpAddress;

/// The header with which a server names its session.
const SESSION: &str = "mcp-session-id";

/// How long a server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// A server to which each message is a request.
#[derive(Debug)]
pub(crate) struct McpHttp {
    client: Client,
    address: McpAddress,
    session: Option<String>,
}

impl McpHttp {
    pub(crate) fn new(address: &McpAddress) -> Self {
        Self { client: client(), address: address.clone(), session: None }
    }

    /// Sends messages in order until there are no more. The error says why the connection ended.
    pub(crate) async fn run(
        mut self,
        server: &str,
        mut messages: mpsc::Receiver<Value>,
        inputs: &mpsc::Sender<PlayerInput>,
    ) -> Result<(), String> {
        while let Some(message) = messages.recv().await {
            let mut request = post(&self.client, &self.address, &self.address.url, &message);
            if let Some(session) = &self.session {
                request = request.header(SESSION, session);
            }
            let response = sent(request).await?;
            if let Some(session) = response.headers().get(SESSION) {
                self.session = session.to_str().ok().map(str::to_owned);
            }
            let content = response.headers().get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
            if content.is_some_and(|it| it.starts_with("text/event-stream")) {
                let mut events = McpEvents::new(response);
                while let Some(event) = events.next().await? {
                    forward(server, &event.data, inputs).await;
                }
            } else {
                let body = response.text().await.map_err(|error| describe(&error))?;
                forward(server, &body, inputs).await;
            }
        }
        Ok(())
    }
}

/// Connects to a server whose answers are events, and sends messages to the path that its first event
/// names. The error says why the connection ended.
pub(crate) async fn connect_events(
    address: &McpAddress,
    server: &str,
    mut messages: mpsc::Receiver<Value>,
    inputs: &mpsc::Sender<PlayerInput>,
) -> Result<(), String> {
    let in_words = |error: String| format!("SSE error: {error}");
    let client = client();
    let request = with_headers(client.get(&address.url), address);
    let response = sent(request.header(ACCEPT, "text/event-stream")).await.map_err(in_words)?;
    let base = response.url().clone();
    let mut events = McpEvents::new(response);
    let mut target: Option<Url> = None;
    loop {
        tokio::select! {
            event = events.next() => match event.map_err(in_words)? {
                Some(event) if event.name == "endpoint" => {
                    target = base.join(&event.data).ok();
                    // The messages go where the connection goes, so that its headers reach no one else.
                    if target.as_ref().is_none_or(|it| it.origin() != base.origin()) {
                        return Err(in_words("the endpoint is on another host".to_owned()));
                    }
                }
                Some(event) => forward(server, &event.data, inputs).await,
                None => return Err("CONNECTION_CLOSED: Connection closed".to_owned()),
            },
            message = messages.recv(), if target.is_some() => {
                let (Some(message), Some(target)) = (message, &target) else { return Ok(()) };
                sent(post(&client, address, target.as_str(), &message)).await.map_err(in_words)?;
            }
        }
    }
}

fn client() -> Client {
    // A proxy of the environment is not for servers that the configuration names.
    let builder = Client::builder().connect_timeout(CONNECT_TIMEOUT).no_proxy();
    builder.build().unwrap_or_default()
}

fn with_headers(mut request: RequestBuilder, address: &McpAddress) -> RequestBuilder {
    for (name, value) in &address.headers {
        request = request.header(name, value);
    }
    request
}

fn post(client: &Client, address: &McpAddress, url: &str, message: &Value) -> RequestBuilder {
    let request = with_headers(client.post(url), address);
    request.header(ACCEPT, "application/json, text/event-stream").json(message)
}

async fn sent(request: RequestBuilder) -> Result<Response, String> {
    let response = request.send().await.map_err(|error| describe(&error))?;
    if response.status().is_success() {
        return Ok(response);
    }
    Err(format!("HTTP {}", response.status().as_u16()))
}

/// The words of 2.1.325 for a failed request.
fn describe(error: &reqwest::Error) -> String {
    if error.is_builder() {
        return "'url' is not a valid URL. Update the server's config and reconnect.".to_owned();
    }
    if error.is_connect() {
        return "ECONNREFUSED: Unable to connect. Is the computer able to access the url?"
            .to_owned();
    }
    error.to_string()
}

/// Passes a message on. What is not JSON is no message.
async fn forward(server: &str, text: &str, inputs: &mpsc::Sender<PlayerInput>) {
    if let Ok(message) = serde_json::from_str::<Value>(text) {
        let input = PlayerInput::McpLine { server: server.to_owned(), message };
        drop(inputs.send(input).await);
    }
}

/// The events of a response.
struct McpEvents {
    body: futures_util::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    /// What was received after the last whole line.
    rest: Vec<u8>,
    event: McpEvent,
}

#[derive(Default)]
struct McpEvent {
    name: String,
    data: String,
}

impl McpEvents {
    fn new(response: Response) -> Self {
        let body = response.bytes_stream().boxed();
        Self { body, rest: Vec::new(), event: McpEvent::default() }
    }

    /// The next event with data, or `None` at the end. It can be dropped and called again.
    async fn next(&mut self) -> Result<Option<McpEvent>, String> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                if let Some(event) = self.event.add(line.trim_end_matches(['\r', '\n'])) {
                    return Ok(Some(event));
                }
            }
            match self.body.next().await {
                Some(Ok(bytes)) => self.rest.extend_from_slice(&bytes),
                Some(Err(error)) => return Err(describe(&error)),
                None => return Ok(None),
            }
        }
    }
}

impl McpEvent {
    /// Adds a line, and takes the event if the line ends it.
    fn add(&mut self, line: &str) -> Option<Self> {
        if line.is_empty() {
            let event = std::mem::take(self);
            return (!event.data.is_empty()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" if self.data.is_empty() => value.clone_into(&mut self.data),
            "data" => {
                self.data.push('\n');
                self.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}
