//! A relay in Node with `ws`, as bridges between an agent and browsers are written today.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
            setup::install_with_npm(&relay.folder, &format!("ws@{VERSION}"))?;
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
}
