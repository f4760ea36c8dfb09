//! A client's connection: its requests, and the sessions that it has opened.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;
use uuid::Uuid;
use wire::acp::{
    AcpVersion, AgentLine, ClientCall, ClientCapabilities, InitializeParams, RpcError,
    RpcErrorCode, RpcId, RpcMessage, read_message,
};
use wire::json::Raw;
use wire::note::Actor;

use crate::attached::SessionInput;
use crate::config::{AcpConfig, AcpRole};
use crate::prompt_content::PromptParts;
use crate::session_requests;

/// How long a connection that has ended waits for what its client had asked for.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// One client's connection.
pub struct AgentConnection {
    shared: Arc<ConnectionShared>,
    /// Requests that take long.
    requests: JoinSet<()>,
}

/// What the tasks of a connection share.
pub(crate) struct ConnectionShared {
    config: AcpConfig,
    /// The client and its name.
    client: OnceLock<(ClientProfile, String)>,
    outgoing: mpsc::Sender<Bytes>,
    attached: Mutex<HashMap<String, AttachedHandle>>,
    next_ask: AtomicU64,
    /// The sessions that wait for answers of the client.
    asks: Mutex<HashMap<u64, String>>,
}

/// What the client said about itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientProfile {
    pub(crate) version: AcpVersion,
    pub(crate) capabilities: ClientCapabilities,
}

/// The connection's end of a session's task.
pub(crate) struct AttachedHandle {
    pub(crate) inputs: mpsc::Sender<SessionInput>,
    pub(crate) task: tokio::task::JoinHandle<()>,
}

/// The client is gone.
#[derive(Debug)]
pub(crate) struct ClientGone;

impl AgentConnection {
    /// A connection that sends its lines to `outgoing`, each one JSON object without a newline.
    pub fn new(config: AcpConfig, outgoing: mpsc::Sender<Bytes>) -> Self {
        let shared = ConnectionShared {
            config,
            client: OnceLock::new(),
            outgoing,
            attached: Mutex::default(),
            next_ask: AtomicU64::new(0),
            asks: Mutex::default(),
        };
        Self { shared: Arc::new(shared), requests: JoinSet::new() }
    }

    /// Reads the client's lines until there are no more. The sessions go on without the client.
    pub async fn run(mut self, mut incoming: mpsc::Receiver<Bytes>) {
        loop {
            tokio::select! {
                line = incoming.recv() => {
                    let Some(line) = line else { break };
                    if line.trim_ascii().is_empty() {
                        continue;
                    }
                    if self.line(&line).await.is_err() {
                        break;
                    }
                }
                Some(_) = self.requests.join_next() => {}
                () = self.shared.outgoing.closed() => break,
            }
        }
        // What the client asked for before it left is carried out.
        let drained = async {
            while self.requests.join_next().await.is_some() {}
            let attached: Vec<AttachedHandle> =
                self.shared.attached().drain().map(|(_, handle)| handle).collect();
            for AttachedHandle { inputs, task } in attached {
                drop(inputs);
                let _ = task.await;
            }
        };
        if timeout(DRAIN_TIMEOUT, drained).await.is_err() {
            debug!("a client left before its requests were carried out");
        }
    }

    async fn line(&mut self, line: &[u8]) -> Result<(), ClientGone> {
        match read_message(line) {
            Err(unreadable) => {
                self.shared.send(AgentLine::error(&unreadable.id, &unreadable.error)).await
            }
            Ok(RpcMessage::Response { id, result }) => {
                self.response(&id, result).await;
                Ok(())
            }
            Ok(RpcMessage::Notification { method, params }) => {
                // A notification that is not known, or wrong, has no answer.
                if let Some(Ok(call)) = ClientCall::read(&method, params) {
                    self.notification(call).await;
                }
                Ok(())
            }
            Ok(RpcMessage::Request { id, method, params }) => {
                let result = match ClientCall::read(&method, params) {
                    None => Err(RpcError::method_not_found(&method)),
                    Some(Err(error)) => Err(error),
                    Some(Ok(call)) => self.request(id.clone(), call).await,
                };
                match result {
                    Ok(()) => Ok(()),
                    Err(error) => self.shared.send(AgentLine::error(&id, &error)).await,
                }
            }
        }
    }

    async fn response(&self, id: &RpcId, result: Result<Raw<'_>, RpcError>) {
        let Some(ask) = id.as_number() else { return };
        // The answer to a question that was taken back comes too late.
        let Some(session) = self.shared.asks().remove(&ask) else { return };
        let result = result.map(|it| it.as_str().to_owned());
        let _ = self.shared.input(&session, SessionInput::Answered { ask, result }).await;
    }

    async fn notification(&self, call: ClientCall) {
        match call {
            ClientCall::Cancel { session } if self.shared.config.role >= AcpRole::Drive => {
                let _ = self.shared.input(&session, SessionInput::Cancel).await;
            }
            ClientCall::CancelRequest { request } => {
                let sessions: Vec<String> = self.shared.attached().keys().cloned().collect();
                for session in sessions {
                    let input = SessionInput::CancelRequest(request.clone());
                    let _ = self.shared.input(&session, input).await;
                }
            }
            _ => {}
        }
    }

    /// Starts to carry out a request. An error is its answer.
    async fn request(&mut self, rpc: RpcId, call: ClientCall) -> Result<(), RpcError> {
        let shared = &self.shared;
        if let ClientCall::Initialize(params) = call {
            return shared.initialize(&rpc, &params).await;
        }
        if shared.client.get().is_none() {
            let message = "the first request must be `initialize`";
            return Err(RpcError::new(RpcErrorCode::InvalidRequest, message));
        }
        let drives = !matches!(
            call,
            ClientCall::Authenticate
                | ClientCall::Logout
                | ClientCall::ListSessions { .. }
                | ClientCall::LoadSession { .. }
                | ClientCall::ResumeSession { .. }
                | ClientCall::SessionStatus { .. }
        );
        if drives && shared.config.role < AcpRole::Drive {
            return Err(RpcError::internal("this client may only look at sessions"));
        }
        let input = match call {
            ClientCall::Prompt { session, content, id } => {
                let content = PromptParts::read(content)?;
                let id = id.unwrap_or_else(Uuid::new_v4);
                (session, SessionInput::Prompt { rpc, id, content })
            }
            ClientCall::Steer { session, content, .. } => {
                let content = PromptParts::read(content)?;
                (session, SessionInput::Steer { rpc, content })
            }
            ClientCall::SetMode { session, mode } => (session, SessionInput::SetMode { rpc, mode }),
            ClientCall::SetConfigOption { session, option, value } => {
                (session, SessionInput::SetOption { rpc, option, value })
            }
            ClientCall::Authenticate | ClientCall::Logout => {
                let _ = shared.send(AgentLine::done(&rpc)).await;
                return Ok(());
            }
            call => {
                let shared = Arc::clone(shared);
                self.requests.spawn(async move {
                    if let Err(error) = session_requests::perform(&shared, &rpc, call).await {
                        let _ = shared.send(AgentLine::error(&rpc, &error)).await;
                    }
                });
                return Ok(());
            }
        };
        let (session, input) = input;
        shared.input(&session, input).await
    }
}

impl ConnectionShared {
    pub(crate) fn config(&self) -> &AcpConfig {
        &self.config
    }

    pub(crate) fn client(&self) -> ClientProfile {
        let unknown =
            ClientProfile { version: AcpVersion::V1, capabilities: ClientCapabilities::default() };
        self.client.get().map_or(unknown, |(profile, _)| *profile)
    }

    /// Who does what this client asks for.
    pub(crate) fn actor(&self) -> Actor {
        let via = self.client.get().map_or("editor", |(_, name)| name.as_str()).to_owned();
        Actor { name: self.config.user.clone(), via }
    }

    async fn initialize(&self, rpc: &RpcId, params: &InitializeParams) -> Result<(), RpcError> {
        let InitializeParams { version, capabilities, client_name, .. } = params;
        let profile = ClientProfile { version: *version, capabilities: *capabilities };
        let name = client_name.as_deref().map(clean_name).filter(|it| !it.is_empty());
        let name = name.unwrap_or_else(|| "editor".to_owned());
        if self.client.set((profile, name)).is_err() {
            let message = "the connection is initialized already";
            return Err(RpcError::new(RpcErrorCode::InvalidRequest, message));
        }
        let _ = self.send(AgentLine::initialized(rpc, *version, self.config.version)).await;
        Ok(())
    }

    pub(crate) async fn send(&self, line: AgentLine) -> Result<(), ClientGone> {
        self.outgoing.send(Bytes::from(line.into_bytes())).await.map_err(|_| ClientGone)
    }

    /// Passes an input on to the task of a session that the client has opened.
    pub(crate) async fn input(&self, session: &str, input: SessionInput) -> Result<(), RpcError> {
        let inputs = self.attached().get(session).map(|it| it.inputs.clone());
        let inputs = inputs.ok_or_else(|| RpcError::session_not_found(session))?;
        inputs.send(input).await.map_err(|_| RpcError::session_not_found(session))
    }

    pub(crate) fn is_attached(&self, session: &str) -> bool {
        self.attached().get(session).is_some_and(|it| !it.inputs.is_closed())
    }

    pub(crate) fn attach(&self, session: String, handle: AttachedHandle) {
        self.attached().insert(session, handle);
    }

    /// The session is no longer open.
    pub(crate) fn forget(&self, session: &str) {
        self.attached().remove(session);
    }

    /// The id of a new question to the client.
    pub(crate) fn register_ask(&self, session: &str) -> u64 {
        let id = self.next_ask.fetch_add(1, Ordering::Relaxed);
        self.asks().insert(id, session.to_owned());
        id
    }

    pub(crate) fn forget_ask(&self, id: u64) {
        self.asks().remove(&id);
    }

    fn attached(&self) -> MutexGuard<'_, HashMap<String, AttachedHandle>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asks(&self) -> MutexGuard<'_, HashMap<u64, String>> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The name of a client as it is written into the record of prompts.
fn clean_name(name: &str) -> String {
    let visible: String = name.chars().filter(|it| !it.is_control()).collect();
    visible[..visible.floor_char_boundary(60)].trim().to_owned()
}

#[cfg(test)]
mod tests;
