//! What the player writes, and the answers that it waits for.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

/// Capacity of the channel to the writer, in lines.
const CAPACITY: usize = 1024;

/// The player's side of the connection.
#[derive(Debug)]
pub(crate) struct AcpPlayerOutput {
    lines: mpsc::Sender<OutputBytes>,
    next_id: AtomicU64,
    /// Requests to the client that it has not answered.
    open: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
}

/// A request to the client.
#[derive(Debug)]
pub(crate) struct OpenClientRequest {
    pub(crate) id: u64,
    pub(crate) response: oneshot::Receiver<Value>,
}

/// Bytes for stdout, and who is told when they are written.
#[derive(Debug)]
struct OutputBytes {
    bytes: Vec<u8>,
    written: Option<oneshot::Sender<()>>,
}

impl AcpPlayerOutput {
    /// Starts the thread that writes to stdout. It ends when the output is dropped.
    pub(crate) fn start() -> Self {
        let (lines, mut queue) = mpsc::channel::<OutputBytes>(CAPACITY);
        std::thread::spawn(move || {
            let mut stdout = std::io::stdout().lock();
            while let Some(line) = queue.blocking_recv() {
                if stdout.write_all(&line.bytes).and_then(|()| stdout.flush()).is_err() {
                    return;
                }
                let _ = line.written.map(|it| it.send(()));
            }
        });
        Self { lines, next_id: AtomicU64::new(0), open: Mutex::default() }
    }

    /// Waits until everything is written, or the client no longer reads it.
    pub(crate) async fn flush(&self) {
        let (sender, written) = oneshot::channel();
        let flush = OutputBytes { bytes: Vec::new(), written: Some(sender) };
        drop(self.lines.send(flush).await);
        drop(written.await);
    }

    /// Writes bytes as they are.
    pub(crate) async fn write(&self, bytes: Vec<u8>) {
        // If the client does not read, stdin is closed soon, which ends the player.
        drop(self.lines.send(OutputBytes { bytes, written: None }).await);
    }

    async fn send(&self, message: Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.write(line.into_bytes()).await;
    }

    pub(crate) async fn notify(&self, method: &str, params: Value) {
        self.send(json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    pub(crate) async fn update(&self, session: &str, update: &Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.notify("session/update", params).await;
    }

    pub(crate) async fn respond(&self, id: &Value, result: Result<Value, AcpPlayerError>) {
        self.send(match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error.to_json() }),
        })
        .await;
    }

    /// Sends a request to the client.
    pub(crate) async fn request(&self, method: &str, params: Value) -> OpenClientRequest {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, response) = oneshot::channel();
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        OpenClientRequest { id, response }
    }

    /// Passes on the client's answer to a request.
    pub(crate) fn answered(&self, message: Value) {
        let Some(id) = message["id"].as_u64() else { return };
        let sender = self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
        // The turn that asked may be over.
        drop(sender.map(|it| it.send(message)));
    }
}

/// An error of JSON-RPC.
#[derive(Clone, Debug)]
pub(crate) struct AcpPlayerError {
    pub(crate) code: i32,
    pub(crate) message: String,
    pub(crate) data: Option<Value>,
}

impl AcpPlayerError {
    pub(crate) fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn invalid_params(why: &str) -> Self {
        Self::new(-32602, format!("Invalid params: {why}"))
    }

    pub(crate) fn unknown_session(id: &str) -> Self {
        let data = Some(json!({ "sessionId": id }));
        Self { data, ..Self::new(-32002, format!("Session {id} not found")) }
    }

    fn to_json(&self) -> Value {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        error
    }
}
