//! `@copilotkit/aimock`, the mock of the Messages API that people use today.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::load::PROMPT;
use super::reply::Reply;
use super::server::Server;
use crate::setup;

/// The release that is measured: another may be faster or slower.
const VERSION: &str = "1.43.0";

/// An installed aimock.
pub(super) struct Aimock {
    folder: PathBuf,
}

impl Aimock {
    /// The one in this folder, which is installed if it is not there; says why it cannot be.
    pub(super) fn installed_in(folder: &Path) -> Result<Self, String> {
        let aimock = Self { folder: folder.join(VERSION) };
        // npm links the program when all else is done.
        if !aimock.program().exists() {
            setup::install_with_npm(&aimock.folder, &format!("@copilotkit/aimock@{VERSION}"))?;
        }
        Ok(aimock)
    }

    /// Serves this reply, in as many pieces or one less.
    pub(super) fn serve(&self, reply: &Reply) -> io::Result<Server> {
        let fixtures = self.folder.join("fixtures");
        let fixture =
            json!({"match": {"userMessage": PROMPT}, "response": {"content": reply.text}});
        fs::create_dir_all(&fixtures)?;
        fs::write(fixtures.join("reply.json"), json!({"fixtures": [fixture]}).to_string())?;
        let size = reply.text.encode_utf16().count().div_ceil(reply.pieces.max(1));
        let mut llmock = Command::new(self.program());
        llmock.args(["-p", "0", "-c", &size.to_string(), "-f"]).arg(fixtures);
        Server::start(&mut llmock)
    }

    fn program(&self) -> PathBuf {
        self.folder.join("node_modules/.bin/llmock")
    }
}
