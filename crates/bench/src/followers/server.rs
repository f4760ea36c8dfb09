//! The servers that are compared: `towpath serve` with data of its own, and a relay in Node with `ws`,
//! as bridges between an agent and browsers are written today.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use uuid::Uuid;

use super::AnyError;
use super::client::{BenchSocket, http_request};
use crate::cache::{BenchCache, install_with_npm};
use crate::measure::BenchServer;

/// The release of `ws` that is measured.
const WS_VERSION: &str = "8.22.2";

const RELAY_SCRIPT: &str = include_str!("../scripts/relay.mjs");

/// The directories and programs that `towpath serve` is started with.
pub(crate) struct ServeSetup {
    directory: PathBuf,
    towpath: PathBuf,
    agent: PathBuf,
}

/// A running `towpath serve`.
pub(crate) struct TowpathServer {
    pub(crate) process: BenchServer,
    token: String,
}

impl ServeSetup {
    pub(crate) fn new(cache: &BenchCache) -> io::Result<Self> {
        let directory = cache.path("followers");
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        for name in ["data", "project", "home"] {
            fs::create_dir_all(directory.join(name))?;
        }
        let (towpath, agent) = (cache.program("towpath"), cache.program("towpath-bench-agent"));
        Ok(Self { directory, towpath, agent })
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.directory.join("project")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.towpath);
        command.arg("serve").env("HOME", self.directory.join("home"));
        command.env("TOWPATH_DATA", self.data()).env("TMPDIR", self.directory.join("home"));
        command.env("XDG_RUNTIME_DIR", self.directory.join("home")).current_dir(self.project());
        command
    }

    pub(crate) fn serve(&self) -> io::Result<TowpathServer> {
        let mut command = self.command();
        command.args(["--listen", "127.0.0.1:0", "--json", "--claude"]).arg(&self.agent);
        let process = BenchServer::start(command.arg("--root").arg(self.project()))?;
        let ready: Value = serde_json::from_str(&process.ready_line)?;
        let token = ready["token"].as_str().unwrap_or_default().to_owned();
        Ok(TowpathServer { process, token })
    }
}

impl Drop for ServeSetup {
    fn drop(&mut self) {
        // Agents outlive their server. The first call may only find the server that was just killed.
        for _ in 0..2 {
            let _ =
                self.command().arg("--stop").stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        // The next run removes what is left.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl TowpathServer {
    /// A gateway that another command has started.
    pub(crate) fn new(process: BenchServer, token: String) -> Self {
        Self { process, token }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.process.address
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Creates a session and starts its agent with a prompt for one word.
    pub(crate) async fn create_session(&self, setup: &ServeSetup) -> Result<Uuid, AnyError> {
        self.create_session_with(json!({"cwd": setup.project()})).await
    }

    /// The same with the body of the request.
    pub(crate) async fn create_session_with(&self, body: Value) -> Result<Uuid, AnyError> {
        let session = self.create_idle_session(body).await?;
        let mut follower = self.follow(session).await?;
        self.prompt(session, 1, 0).await?;
        while !String::from_utf8_lossy(follower.next().await?).contains("q0000001z") {}
        Ok(session)
    }

    /// Creates a session without starting its agent.
    pub(crate) async fn create_idle_session(&self, body: Value) -> Result<Uuid, AnyError> {
        let created = self.request("POST /api/v1/sessions", &body.to_string()).await?;
        let created: Value = serde_json::from_str(&created)?;
        Ok(created["id"].as_str().unwrap_or_default().parse()?)
    }

    /// Asks the agent for `count` words, `rate` of them per second.
    pub(crate) async fn prompt(&self, session: Uuid, count: u32, rate: u32) -> io::Result<()> {
        self.prompt_text(session, &format!("{count} {rate}")).await
    }

    pub(crate) async fn prompt_text(&self, session: Uuid, text: &str) -> io::Result<()> {
        let body = json!({"id": Uuid::new_v4(), "text": text, "delivery": "queue"}).to_string();
        self.request(&format!("POST /api/v1/sessions/{session}/prompts"), &body).await.map(drop)
    }

    /// Whether the agent waits for a prompt.
    pub(crate) async fn is_idle(&self, session: Uuid) -> Result<bool, AnyError> {
        let session = self.request(&format!("GET /api/v1/sessions/{session}"), "").await?;
        let session: Value = serde_json::from_str(&session)?;
        Ok(session["status"] == "idle")
    }

    pub(crate) async fn follow(&self, session: Uuid) -> io::Result<BenchSocket> {
        let path = format!("/api/v1/sessions/{session}/follow");
        BenchSocket::open(self.address(), &path, Some(&self.token)).await
    }

    pub(crate) async fn get(&self, path: &str) -> io::Result<String> {
        self.request(&format!("GET {path}"), "").await
    }

    async fn request(&self, line: &str, body: &str) -> io::Result<String> {
        http_request(self.address(), line, Some(&self.token), body).await
    }
}

/// A relay in Node that is installed.
pub(crate) struct NodeRelay {
    directory: PathBuf,
}

impl NodeRelay {
    /// Installs the relay into this directory unless it is there. The error says why it could not.
    pub(crate) fn installed_in(directory: &Path) -> Result<Self, String> {
        let relay = Self { directory: directory.join(WS_VERSION) };
        if !relay.directory.join("node_modules/ws/package.json").exists() {
            install_with_npm(&relay.directory, &format!("ws@{WS_VERSION}"))?;
        }
        fs::write(relay.script(), RELAY_SCRIPT).map_err(|error| error.to_string())?;
        Ok(relay)
    }

    /// Starts the relay with the agent whose lines it passes on.
    pub(crate) fn start(&self, agent: &Path) -> io::Result<BenchServer> {
        BenchServer::start(Command::new("node").arg(self.script()).arg(agent))
    }

    fn script(&self) -> PathBuf {
        self.directory.join("relay.mjs")
    }
}
