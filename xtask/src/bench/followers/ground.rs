//! `towpath serve` on data of its own, with the agent that streams numbered words.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use uuid::Uuid;

use super::Anything;
use super::socket::{Socket, ask};
use crate::bench::cache::Cache;
use crate::bench::server::Server;

/// Where it all lies.
pub(super) struct Ground {
    folder: PathBuf,
    towpath: PathBuf,
    agent: PathBuf,
}

/// A server of ours.
pub(super) struct Serving {
    pub(super) server: Server,
    token: String,
}

impl Ground {
    pub(super) fn new(cache: &Cache) -> io::Result<Self> {
        let folder = cache.place("followers");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        for name in ["data", "project", "home"] {
            fs::create_dir_all(folder.join(name))?;
        }
        let (towpath, agent) = (cache.program("towpath"), cache.program("xtask-agent"));
        Ok(Self { folder, towpath, agent })
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) fn project(&self) -> PathBuf {
        self.folder.join("project")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.towpath);
        command.arg("serve").env("HOME", self.folder.join("home"));
        command.env("TOWPATH_DATA", self.data()).env("TMPDIR", self.folder.join("home"));
        command.env("XDG_RUNTIME_DIR", self.folder.join("home")).current_dir(self.project());
        command
    }

    pub(super) fn serve(&self) -> io::Result<Serving> {
        let mut command = self.command();
        command.args(["--listen", "127.0.0.1:0", "--json", "--claude"]).arg(&self.agent);
        let server = Server::start(command.arg("--root").arg(self.project()))?;
        let said: Value = serde_json::from_str(&server.said)?;
        let token = said["token"].as_str().unwrap_or_default().to_owned();
        Ok(Serving { server, token })
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // Agents outlive their server. The first time may only find the one that was just killed.
        for _ in 0..2 {
            let _ =
                self.command().arg("--stop").stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
        // What cannot be removed is removed before the next run.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Serving {
    pub(super) fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Makes a session, and has its agent started by a word.
    pub(super) async fn session(&self, ground: &Ground) -> Result<Uuid, Anything> {
        let body = json!({"cwd": ground.project()}).to_string();
        let made = self.ask("POST /api/v1/sessions", &body).await?;
        let made: Value = serde_json::from_str(&made)?;
        let session = made["id"].as_str().unwrap_or_default().parse()?;
        let mut follower = self.follow(session).await?;
        self.prompt(session, 1, 0).await?;
        while !String::from_utf8_lossy(follower.next().await?).contains("q0000001z") {}
        Ok(session)
    }

    /// Has the agent say so many words, so many a second.
    pub(super) async fn prompt(&self, session: Uuid, count: u32, rate: u32) -> io::Result<()> {
        let text = format!("{count} {rate}");
        let body = json!({"id": Uuid::new_v4(), "text": text, "delivery": "queue"}).to_string();
        self.ask(&format!("POST /api/v1/sessions/{session}/prompts"), &body).await.map(drop)
    }

    /// Whether the session waits for a prompt.
    pub(super) async fn is_idle(&self, session: Uuid) -> Result<bool, Anything> {
        let shown = self.ask(&format!("GET /api/v1/sessions/{session}"), "").await?;
        let shown: Value = serde_json::from_str(&shown)?;
        Ok(shown["status"] == "idle")
    }

    pub(super) async fn follow(&self, session: Uuid) -> io::Result<Socket> {
        let path = format!("/api/v1/sessions/{session}/follow");
        Socket::open(self.address(), &path, Some(&self.token)).await
    }

    async fn ask(&self, line: &str, body: &str) -> io::Result<String> {
        ask(self.address(), line, Some(&self.token), body).await
    }
}
