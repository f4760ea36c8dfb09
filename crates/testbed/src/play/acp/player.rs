//! The connection to a client: its requests, and the sessions that they are about.

use std::collections::HashMap;
use std::io::BufRead as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::sync::{Mutex as TurnLock, Notify, mpsc, watch};

use crate::play::acp::misbehavior::AcpMisbehavior;
use crate::play::acp::options::PlayedOptions;
use crate::play::acp::output::{AcpPlayerError, AcpPlayerOutput};
use crate::play::acp::script::PlayedPrompt;
use crate::play::acp::store::{AcpPlayerStore, StoredAcpSession};
use crate::play::acp::turn;
use crate::play::stamps::timestamp;

/// The default time between chunks.
const PACE: Duration = Duration::from_millis(12);

/// How long the player takes to exit if it is told to be slow.
const SLOW_EXIT: Duration = Duration::from_secs(7);

/// How many sessions `session/list` returns at once.
const PAGE: usize = 50;

/// The agent.
#[derive(Debug)]
pub(crate) struct AcpPlayer {
    pub(crate) output: AcpPlayerOutput,
    pub(crate) store: AcpPlayerStore,
    pub(crate) pace: Duration,
    misbehaviors: Vec<AcpMisbehavior>,
    /// What the client said that it can do.
    capabilities: Mutex<Value>,
    sessions: Mutex<HashMap<String, Arc<PlayedSession>>>,
    /// Tells the player to exit at once.
    pub(crate) death: Notify,
}

/// A session that a client has opened.
#[derive(Debug)]
pub(crate) struct PlayedSession {
    pub(crate) id: String,
    pub(crate) cwd: String,
    state: Mutex<PlayedState>,
    /// Held by the turn that runs; prompts wait for it in their order.
    pub(crate) turn: TurnLock<()>,
    /// How often a client has cancelled.
    pub(crate) cancels: watch::Sender<u64>,
    /// Wakes a turn that waits when something is added to it.
    pub(crate) steering: Notify,
}

/// What changes in a session.
#[derive(Debug)]
pub(crate) struct PlayedState {
    pub(crate) options: PlayedOptions,
    /// Kinds of calls that need no permission any more.
    pub(crate) always: Vec<&'static str>,
    pub(crate) cost: f64,
    pub(crate) has_title: bool,
    /// Whether a turn runs that something can be added to.
    pub(crate) can_steer: bool,
    /// What was added to the running turn and is not mentioned yet.
    pub(crate) steered: Vec<String>,
    /// Prompts that are not answered.
    pub(crate) open: usize,
    /// Answers that wait until the other prompts are answered too.
    pub(crate) held: Vec<(Value, Result<Value, AcpPlayerError>)>,
}

impl PlayedSession {
    pub(crate) fn state(&self) -> MutexGuard<'_, PlayedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn cancel(&self) {
        self.cancels.send_modify(|count| *count += 1);
    }

    /// Adds a text to the running turn, and returns what became of it.
    fn steer(&self, text: String) -> Value {
        let mut state = self.state();
        if !state.can_steer {
            return json!({ "outcome": "promptRequired", "reason": "noRunningTurn" });
        }
        state.steered.push(text);
        self.steering.notify_one();
        json!({ "outcome": "injected" })
    }
}

/// Plays an agent until stdin is closed.
pub(crate) async fn run(
    misbehaviors: Vec<AcpMisbehavior>,
    store: AcpPlayerStore,
    pace: Option<Duration>,
) -> u8 {
    let player = Arc::new(AcpPlayer {
        output: AcpPlayerOutput::start(),
        store,
        pace: pace.unwrap_or(PACE),
        misbehaviors,
        capabilities: Mutex::new(Value::Null),
        sessions: Mutex::default(),
        death: Notify::new(),
    });
    if player.does(AcpMisbehavior::StdoutNoise) {
        let noise =
            b"Warning: this agent prints on stdout.\n\x1b[33mUpdate available\x1b[0m\n{not json}\n";
        player.output.write(noise.to_vec()).await;
    }
    let mut lines = read_stdin();
    loop {
        tokio::select! {
            biased;
            () = player.death.notified() => {
                player.output.flush().await;
                return 1;
            }
            line = lines.recv() => match line {
                Some(line) => Arc::clone(&player).receive(&line).await,
                None => break,
            },
        }
    }
    if player.does(AcpMisbehavior::SlowExit) {
        tokio::time::sleep(SLOW_EXIT).await;
    }
    // A turn that still runs ends with the process, as it does with most agents.
    player.output.flush().await;
    0
}

/// Reads stdin in a thread.
fn read_stdin() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(64);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n') {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl AcpPlayer {
    pub(crate) fn does(&self, misbehavior: AcpMisbehavior) -> bool {
        self.misbehaviors.contains(&misbehavior)
    }

    /// Whether the client said that it can do something.
    pub(crate) fn client_has(&self, pointer: &str) -> bool {
        let capabilities = self.capabilities.lock().unwrap_or_else(PoisonError::into_inner);
        capabilities.pointer(pointer).is_some_and(|it| !it.is_null() && *it != false)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<String, Arc<PlayedSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn receive(self: Arc<Self>, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                let error = AcpPlayerError::new(-32700, format!("Parse error: {error}"));
                return self.output.respond(&Value::Null, Err(error)).await;
            }
        };
        let Some(method) = message["method"].as_str() else {
            if message["id"].is_null() {
                let error = AcpPlayerError::new(-32600, "Invalid request");
                return self.output.respond(&Value::Null, Err(error)).await;
            }
            return self.output.answered(message);
        };
        let (id, params) = (&message["id"], &message["params"]);
        if id.is_null() {
            if method == "session/cancel" && !self.does(AcpMisbehavior::IgnoresCancel) {
                let session = self.session(params);
                drop(session.map(|session| session.cancel()));
            }
            return;
        }
        if method == "session/prompt" {
            match self.session(params) {
                Ok(session) => {
                    turn::start(&self, &session, id.clone(), &params["prompt"]);
                }
                Err(error) => self.output.respond(id, Err(error)).await,
            }
            return;
        }
        if method == "session/new" && self.does(AcpMisbehavior::HangsAtNew) {
            return;
        }
        let result = self.answer(method, params).await;
        let opened =
            matches!(method, "session/new" | "session/load" | "session/resume" | "session/fork");
        let session = match &result {
            Ok(result) if opened => result["sessionId"].as_str().or(params["sessionId"].as_str()),
            _ => None,
        };
        let session = session.map(str::to_owned);
        self.output.respond(id, result).await;
        if let Some(session) = session {
            let commands = json!([{ "name": "tour", "description": "Show everything" }]);
            let update = json!({
                "sessionUpdate": "available_commands_update", "availableCommands": commands,
            });
            self.output.update(&session, &update).await;
        }
    }

    async fn answer(&self, method: &str, params: &Value) -> Result<Value, AcpPlayerError> {
        match method {
            "initialize" => Ok(self.initialize(params)),
            "authenticate" => {
                let failed = |error| AcpPlayerError::new(-32603, format!("could not: {error}"));
                self.store.sign_in().map_err(failed)?;
                Ok(json!({}))
            }
            "session/new" => self.create(params),
            "session/load" if !self.does(AcpMisbehavior::NoLoad) => {
                let session = self.open(params)?;
                let stored = self.store.read(&session.id).unwrap_or_default();
                for update in &stored.updates {
                    self.output.update(&session.id, update).await;
                }
                Ok(session.state().options.setup())
            }
            "session/resume" if self.can_resume() => {
                let session = self.open(params)?;
                Ok(session.state().options.setup())
            }
            "session/fork" if self.can_resume() => {
                let id = uuid::Uuid::new_v4().to_string();
                self.store.copy(params["sessionId"].as_str().unwrap_or_default(), &id);
                let mut params = params.clone();
                params["sessionId"] = json!(id);
                let mut result = self.open(&params)?.state().options.setup();
                result["sessionId"] = json!(id);
                Ok(result)
            }
            "_session/steering" if !self.does(AcpMisbehavior::NoSteering) => {
                let session = self.session(params)?;
                let blocks = params["prompt"].as_array().map(Vec::as_slice).unwrap_or_default();
                Ok(session.steer(PlayedPrompt::new(blocks).text))
            }
            "session/list" => Ok(self.list(params)),
            "session/close" => {
                self.close(&self.session(params)?.id);
                Ok(json!({}))
            }
            "session/delete" => {
                let id = params["sessionId"].as_str().unwrap_or_default();
                self.close(id);
                self.store.delete(id);
                Ok(json!({}))
            }
            "session/set_mode" => {
                let session = self.session(params)?;
                self.set_option(&session, "mode", &params["modeId"]).await?;
                Ok(json!({}))
            }
            "session/set_config_option" => {
                let session = self.session(params)?;
                let id = params["configId"].as_str().unwrap_or_default();
                self.set_option(&session, id, &params["value"]).await?;
                Ok(json!({ "configOptions": session.state().options.to_json() }))
            }
            _ => {
                let data = Some(json!({ "method": method }));
                let message = format!("Method not found: {method}");
                Err(AcpPlayerError { data, ..AcpPlayerError::new(-32601, message) })
            }
        }
    }

    fn can_resume(&self) -> bool {
        !self.does(AcpMisbehavior::NoLoad) && !self.does(AcpMisbehavior::NoResume)
    }

    fn initialize(&self, params: &Value) -> Value {
        *self.capabilities.lock().unwrap_or_else(PoisonError::into_inner) =
            params["clientCapabilities"].clone();
        let mut session = json!({ "list": {}, "close": {}, "delete": {} });
        if self.can_resume() {
            session["resume"] = json!({});
            session["fork"] = json!({});
        }
        let mut methods = Vec::new();
        if self.does(AcpMisbehavior::SignIn) {
            methods.push(json!({
                "id": "player-login", "name": "Sign in", "description": "Sign in to the player",
            }));
            methods.push(json!({
                "id": "player-terminal", "name": "Sign in in a terminal", "type": "terminal",
                "description": "Run `towpath play --acp --sign-in`", "args": ["--sign-in"],
            }));
        }
        let mut initialized = json!({
            "protocolVersion": 1,
            "agentInfo": {
                "name": "towpath-player", "title": "Towpath player",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "agentCapabilities": {
                "loadSession": !self.does(AcpMisbehavior::NoLoad),
                "promptCapabilities": { "image": true, "embeddedContext": true },
                "mcpCapabilities": { "http": true, "sse": true },
                "sessionCapabilities": session,
            },
            "authMethods": methods,
        });
        if !self.does(AcpMisbehavior::NoSteering) {
            initialized["_meta"] = json!({ "steering": { "supported": true } });
        }
        initialized
    }

    fn session(&self, params: &Value) -> Result<Arc<PlayedSession>, AcpPlayerError> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let found = self.sessions().get(id).cloned();
        found.ok_or_else(|| AcpPlayerError::unknown_session(id))
    }

    fn create(&self, params: &Value) -> Result<Value, AcpPlayerError> {
        if self.does(AcpMisbehavior::SignIn) && !self.store.is_signed_in() {
            let message = "Authentication required: run `towpath play --acp --sign-in`";
            return Err(AcpPlayerError::new(-32000, message));
        }
        let cwd = directory(params)?;
        let id = uuid::Uuid::new_v4().to_string();
        self.store.set(&id, &json!({ "cwd": cwd }));
        let session = self.insert(id, cwd.to_owned());
        let mut result = session.state().options.setup();
        result["sessionId"] = json!(session.id);
        Ok(result)
    }

    /// Opens a stored session.
    fn open(&self, params: &Value) -> Result<Arc<PlayedSession>, AcpPlayerError> {
        let cwd = directory(params)?;
        let id = params["sessionId"].as_str().unwrap_or_default();
        if self.does(AcpMisbehavior::InUse) {
            let message = format!("session {id} is in use by another client");
            return Err(AcpPlayerError::new(-32600, message));
        }
        if self.does(AcpMisbehavior::LoadFails) {
            return Err(AcpPlayerError::new(-32603, "Internal error"));
        }
        let stored = self.store.read(id);
        if stored.is_none() {
            return Err(AcpPlayerError::unknown_session(id));
        }
        if self.does(AcpMisbehavior::DestroysHistory) {
            self.store.destroy_history(id);
            let message = "No previous sessions found for this project.";
            return Err(AcpPlayerError::new(-32603, message));
        }
        Ok(self.insert(id.to_owned(), cwd.to_owned()))
    }

    fn insert(&self, id: String, cwd: String) -> Arc<PlayedSession> {
        let stored = self.store.read(&id).unwrap_or_default();
        let state = PlayedState {
            options: PlayedOptions::new(stored.options),
            always: Vec::new(),
            cost: stored.cost,
            has_title: stored.title.is_some(),
            can_steer: false,
            steered: Vec::new(),
            open: 0,
            held: Vec::new(),
        };
        let session = Arc::new(PlayedSession {
            id: id.clone(),
            cwd,
            state: Mutex::new(state),
            turn: TurnLock::new(()),
            cancels: watch::Sender::new(0),
            steering: Notify::new(),
        });
        self.close(&id);
        self.sessions().insert(id, Arc::clone(&session));
        session
    }

    /// Forgets a session in memory. Its turn is cancelled.
    fn close(&self, id: &str) {
        if let Some(session) = self.sessions().remove(id) {
            session.cancel();
        }
    }

    fn list(&self, params: &Value) -> Value {
        let cwd = params["cwd"].as_str();
        let start = params["cursor"].as_str().and_then(|it| it.parse().ok()).unwrap_or(0_usize);
        let all = self.store.list().into_iter();
        let all: Vec<Value> = all
            .filter(|(_, session, _)| cwd.is_none_or(|cwd| cwd == session.cwd))
            .map(|(id, session, changed)| session_info(&id, &session, changed))
            .collect();
        let page: Vec<&Value> = all.iter().skip(start).take(PAGE).collect();
        let next = start + page.len();
        let mut result = json!({ "sessions": page });
        if next < all.len() {
            result["nextCursor"] = json!(next.to_string());
        }
        result
    }

    /// Sets an option, and tells the client.
    pub(crate) async fn set_option(
        &self,
        session: &PlayedSession,
        id: &str,
        value: &Value,
    ) -> Result<(), AcpPlayerError> {
        let options = {
            let mut state = session.state();
            let set = state.options.set(id, value);
            set.map_err(|why| AcpPlayerError::invalid_params(&why))?;
            state.options.clone()
        };
        self.store.set(&session.id, &json!({ "options": options.changed() }));
        if id == "mode" {
            let update =
                json!({ "sessionUpdate": "current_mode_update", "currentModeId": options.mode() });
            self.output.update(&session.id, &update).await;
        }
        let update =
            json!({ "sessionUpdate": "config_option_update", "configOptions": options.to_json() });
        self.output.update(&session.id, &update).await;
        Ok(())
    }
}

fn session_info(id: &str, session: &StoredAcpSession, changed: SystemTime) -> Value {
    json!({
        "sessionId": id, "cwd": session.cwd, "title": session.title,
        "updatedAt": timestamp(changed),
    })
}

fn directory(params: &Value) -> Result<&str, AcpPlayerError> {
    match params["cwd"].as_str() {
        Some(cwd) if cwd.starts_with('/') => Ok(cwd),
        _ => Err(AcpPlayerError::invalid_params("cwd must be an absolute path")),
    }
}
