//! A relay in Node with `ws`, as bridges between an agent and browsers are written today.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::bench::server::Server;
use crate::setup;

/// The release that is measured: another may be faster or slower.
const VERSION: &str = "8.22.2";

const SCRIPT: &str = include_str!("relay.mjs");

/// An installed relay.
pub(super) struct Relay {
    folder: PathBuf,
}

impl Relay {
    /// The one in this folder, which is installed if it is not there; says why it cannot be.
    pub(super) fn installed_in(folder: &Path) -> Result<Self, String> {
        let relay = Self { folder: folder.join(VERSION) };
        if !relay.folder.join("node_modules/ws/package.json").exists() {
            relay.install()?;
        }
        fs::write(relay.script(), SCRIPT).map_err(|error| error.to_string())?;
        Ok(relay)
    }

    /// Starts it, with the program whose lines it passes on.
    pub(super) fn start(&self, agent: &Path) -> std::io::Result<Server> {
        Server::start(Command::new("node").arg(self.script()).arg(agent))
    }

    fn script(&self) -> PathBuf {
        self.folder.join("relay.mjs")
    }

    fn install(&self) -> Result<(), String> {
        setup::npm()?;
        let package = format!("ws@{VERSION}");
        let failed = |cause: &str| format!("npm could not install `{package}`: {cause}");
        eprintln!("xtask: bench: npm install {package}, into {}", self.folder.display());
        fs::create_dir_all(&self.folder).map_err(|error| failed(&error.to_string()))?;
        let status = Command::new("npm")
            .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
            .args([self.folder.as_os_str(), package.as_ref()])
            .stdout(Stdio::null())
            .status()
            .map_err(|error| failed(&error.to_string()))?;
        if status.success() { Ok(()) } else { Err(failed(&status.to_string())) }
    }
}
