//! Towpath as an agent of the Agent Client Protocol, over a WebSocket: each text frame is a message.
//!
//! What a client says and hears is the same as with `towpath acp`; the sign-in is that of all other
//! requests.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use acp::{AcpConfig, AcpRole, AgentConnection, LocalOpener, SessionDefaults};
use axum::extract::State;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use session::{Roots, SessionOptions};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::timeout;
use uuid::Uuid;

use super::conversation::{Upgrade, while_authorized};
use super::frame_sender::{FrameSender, SEND_TIMEOUT};
use super::options::default_options;
use crate::access::{AuthenticatedClient, Role};
use crate::gateway::Gateway;
use crate::limits::MAX_ACP_MESSAGE_BYTES;
use crate::problem::{ApiResult, Problem};

const CONNECTION_ID: HeaderName = HeaderName::from_static("acp-connection-id");

/// How many messages may wait on their way to or from a client.
const WAITING_MESSAGES: usize = 4;

/// How long nothing may be sent before the client gets a ping.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Connects a client.
pub(super) async fn connect(
    State(gateway): State<Gateway>,
    client: AuthenticatedClient,
    upgrade: Upgrade,
) -> ApiResult<Response> {
    let upgrade = upgrade.map_err(|it| Problem::invalid(it.body_text()))?;
    let permit = Arc::clone(&gateway.acp_clients).try_acquire_owned();
    let permit = permit.map_err(|_| {
        let detail = "close one of the connections to `/acp`, and try again";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many", "too many clients", detail)
    })?;
    let upgrade = upgrade
        .read_buffer_size(8 << 10)
        .write_buffer_size(0)
        .max_message_size(MAX_ACP_MESSAGE_BYTES)
        .max_frame_size(MAX_ACP_MESSAGE_BYTES);
    let authorization = gateway.authorize_stream(&client);
    let mut response = upgrade.on_upgrade(async move |socket| {
        while_authorized(authorization, serve(gateway, client, socket)).await;
        drop(permit);
    });
    let id =
        HeaderValue::try_from(Uuid::new_v4().to_string()).map_err(|it| Problem::failed(&it))?;
    response.headers_mut().insert(CONNECTION_ID, id);
    Ok(response)
}

/// Serves a client until one of both sides ends the connection. Its sessions go on.
async fn serve(gateway: Gateway, client: AuthenticatedClient, socket: WebSocket) {
    let (sink, stream) = socket.split();
    let (to_agent, incoming) = mpsc::channel(WAITING_MESSAGES);
    let (outgoing, from_agent) = mpsc::channel(WAITING_MESSAGES);
    let sender = FrameSender { socket: sink, memory: gateway.memory.clone() };
    let config = AcpConfig {
        sessions: gateway.sessions.clone(),
        opener: Arc::new(LocalOpener(gateway.sessions.clone())),
        roots: if gateway.sessions.is_relayed() {
            Roots::elsewhere()
        } else {
            gateway.config.roots.clone()
        },
        user: client.name.clone(),
        role: match client.role {
            Role::Watch => AcpRole::Watch,
            Role::Drive => AcpRole::Drive,
            Role::Admin => AcpRole::Admin,
        },
        own_turns_only: false,
        version: env!("CARGO_PKG_VERSION"),
        defaults: Arc::new(GatewayDefaults { gateway, client }),
    };
    let connection = AgentConnection::new(config, outgoing);
    tokio::select! {
        // What the client asked for before it left is carried out.
        _ = async { tokio::join!(receive(stream, to_agent), connection.run(incoming)) } => {}
        _ = send(sender, from_agent) => {}
    }
}

/// Passes on what the client sends.
async fn receive(mut stream: SplitStream<WebSocket>, to_agent: Sender<Bytes>) {
    while let Some(Ok(message)) = stream.next().await {
        let text = match message {
            Message::Text(text) => text,
            Message::Close(_) => return,
            Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => continue,
        };
        if to_agent.send(text.into()).await.is_err() {
            return;
        }
    }
}

/// Sends what the agent says; ends when the client is gone.
async fn send(
    mut sender: FrameSender<SplitSink<WebSocket, Message>>,
    mut from_agent: Receiver<Bytes>,
) -> Option<()> {
    loop {
        if let Ok(line) = timeout(PING_INTERVAL, from_agent.recv()).await {
            sender.send(Utf8Bytes::try_from(line?).ok()?).await?;
        } else {
            // A client that went away without a word is found when nothing can be sent to it.
            let ping = sender.socket.send(Message::Ping(Bytes::new()));
            timeout(SEND_TIMEOUT, ping).await.ok()?.ok()?;
        }
    }
}

/// New sessions have the options of the profile for their directory.
struct GatewayDefaults {
    gateway: Gateway,
    client: AuthenticatedClient,
}

impl SessionDefaults for GatewayDefaults {
    fn options(&self, directory: &Path) -> Result<SessionOptions, String> {
        let options = default_options(&self.gateway, &self.client, directory.to_owned());
        options.map_err(|problem| format!("{}: {}", problem.title, problem.detail))
    }
}
