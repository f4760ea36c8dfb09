//! Sessions on disk: one file each, with what a client is shown when it loads the session.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::play::private_files;

/// The file that says that someone has signed in.
const SIGNED_IN: &str = "signed-in";

/// The directory with the player's sessions.
#[derive(Clone, Debug)]
pub(crate) struct AcpPlayerStore {
    directory: PathBuf,
}

/// A stored session.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoredAcpSession {
    pub(crate) cwd: String,
    pub(crate) title: Option<String>,
    /// Values of the options that were changed.
    pub(crate) options: Value,
    pub(crate) cost: f64,
    pub(crate) updates: Vec<Value>,
}

impl StoredAcpSession {
    /// The prompts, oldest first.
    pub(crate) fn prompts(&self) -> Vec<&str> {
        let prompts = self.updates.iter().filter(|it| it["sessionUpdate"] == "user_message_chunk");
        prompts.filter_map(|it| it["content"]["text"].as_str()).collect()
    }
}

impl AcpPlayerStore {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(id).with_extension("jsonl")
    }

    pub(crate) fn is_signed_in(&self) -> bool {
        self.directory.join(SIGNED_IN).exists()
    }

    pub(crate) fn sign_in(&self) -> io::Result<()> {
        private_files::create_directory(&self.directory)?;
        private_files::write(&self.directory.join(SIGNED_IN), "")
    }

    /// Appends a line to the file of a session.
    fn append(&self, id: &str, line: &Value) {
        let append = || {
            private_files::create_directory(&self.directory)?;
            let mut file = private_files::append_to(&self.path(id))?;
            file.write_all(format!("{line}\n").as_bytes())
        };
        // Without a disk the sessions last as long as the process, as with other agents.
        drop::<io::Result<()>>(append());
    }

    /// Sets fields of a session.
    pub(crate) fn set(&self, id: &str, fields: &Value) {
        self.append(id, &json!({ "set": fields }));
    }

    pub(crate) fn record(&self, id: &str, update: &Value) {
        self.append(id, &json!({ "update": update }));
    }

    pub(crate) fn read(&self, id: &str) -> Option<StoredAcpSession> {
        // An id from a client must not leave the directory.
        if id.contains(['/', '\\', '.']) {
            return None;
        }
        let text = fs::read_to_string(self.path(id)).ok()?;
        let mut session = StoredAcpSession { options: json!({}), ..StoredAcpSession::default() };
        // A line that was cut off when the player was killed is left out.
        for line in text.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok()) {
            let fields = &line["set"];
            if let Some(cwd) = fields["cwd"].as_str() {
                cwd.clone_into(&mut session.cwd);
            }
            if let Some(title) = fields["title"].as_str() {
                session.title = Some(title.to_owned());
            }
            if let Some(cost) = fields["cost"].as_f64() {
                session.cost = cost;
            }
            if fields["options"].is_object() {
                session.options = fields["options"].clone();
            }
            if line["update"].is_object() {
                session.updates.push(line["update"].clone());
            }
        }
        Some(session)
    }

    /// Copies a session. Without it there is nothing to copy, and no session with the new id.
    pub(crate) fn copy(&self, id: &str, new: &str) {
        if self.read(id).is_some() {
            drop(fs::copy(self.path(id), self.path(new)));
        }
    }

    /// Forgets what was said in a session, but not that it existed.
    pub(crate) fn destroy_history(&self, id: &str) {
        if let Some(session) = self.read(id) {
            let line = json!({ "set": { "cwd": session.cwd } });
            drop(private_files::write(&self.path(id), &format!("{line}\n")));
        }
    }

    pub(crate) fn delete(&self, id: &str) {
        if !id.contains(['/', '\\', '.']) {
            drop(fs::remove_file(self.path(id)));
        }
    }

    /// The sessions, newest first: id, session, and the time of the last change.
    pub(crate) fn list(&self) -> Vec<(String, StoredAcpSession, SystemTime)> {
        let files = fs::read_dir(&self.directory).into_iter().flatten().filter_map(Result::ok);
        let mut sessions: Vec<_> = files
            .filter(|it| it.path().extension().is_some_and(|it| it == "jsonl"))
            .filter_map(|it| {
                let id = it.path().file_stem()?.to_str()?.to_owned();
                let session = self.read(&id)?;
                Some((id, session, modified(&it.path())))
            })
            .collect();
        sessions.sort_by(|a, b| b.2.cmp(&a.2).then_with(|| a.0.cmp(&b.0)));
        sessions
    }
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|it| it.modified()).unwrap_or(UNIX_EPOCH)
}
