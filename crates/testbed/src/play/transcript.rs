//! Transcripts on disk, one file for each session, and the session that a player starts with.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use serde_json::Value;

use crate::play::args::{PlayerArgs, PlayerStartError};
use crate::play::private_files;
use crate::play::session::{PlayerHistory, PlayerHistoryEntry};
use crate::play::settings::PlayerEnvironment;
use crate::play::stamps::IdGenerator;

/// Appends to the transcripts of a project.
#[derive(Debug)]
pub(crate) struct TranscriptStore {
    folder: PathBuf,
    open: BTreeMap<String, File>,
}

impl TranscriptStore {
    pub(crate) fn new(home: &Path, cwd: &Path) -> Self {
        Self { folder: project_folder(home, cwd), open: BTreeMap::new() }
    }

    pub(crate) fn append(&mut self, session: &str, entry: &Value) -> io::Result<()> {
        if !self.open.contains_key(session) {
            private_files::create_directory(&self.folder)?;
            let path = self.folder.join(format!("{session}.jsonl"));
            let file = private_files::append_to(&path)?;
            self.open.insert(session.to_owned(), file);
        }
        let Some(file) = self.open.get_mut(session) else { return Ok(()) };
        let mut line = entry.to_string();
        line.push('\n');
        file.write_all(line.as_bytes())
    }
}

/// A working directory as the name of a folder: every character other than a letter or a digit
/// becomes a hyphen.
pub(crate) fn project_folder_name(cwd: &Path) -> String {
    let replace = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
    cwd.display().to_string().chars().map(replace).collect()
}

/// The folder with the transcripts of a working directory.
pub(crate) fn project_folder(home: &Path, cwd: &Path) -> PathBuf {
    home.join(".claude/projects").join(project_folder_name(cwd))
}

/// Finds a transcript by the id of its session, in this project first and then in any other.
fn find(home: &Path, cwd: &Path, id: &str) -> Option<PathBuf> {
    let name = format!("{id}.jsonl");
    let path = project_folder(home, cwd).join(&name);
    if path.exists() {
        return Some(path);
    }
    let folders = fs::read_dir(home.join(".claude/projects")).ok()?;
    let paths = folders.flatten().map(|folder| folder.path().join(&name));
    paths.into_iter().find(|path| path.exists())
}

/// The transcript of this project that was written last.
fn latest(home: &Path, cwd: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(project_folder(home, cwd)).ok()?.flatten();
    let transcripts = files.filter(|file| file.path().extension().is_some_and(|it| it == "jsonl"));
    let modified = |file: &fs::DirEntry| {
        file.metadata().and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    transcripts.max_by_key(modified).map(|file| file.path())
}

/// Reads a transcript. A crash may leave half a line, so lines that are not JSON are skipped.
fn read(path: &Path) -> io::Result<Vec<Value>> {
    let text = fs::read_to_string(path)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The conversation that a resumed session continues.
#[derive(Debug, Default)]
pub(crate) struct ResumedConversation {
    pub(crate) history: PlayerHistory,
    /// Ids of the prompts in it.
    pub(crate) prompts: BTreeSet<String>,
    pub(crate) cost: f64,
}

impl ResumedConversation {
    /// Restores a conversation from its transcript, up to the message `until` if that is given.
    fn restore(lines: &[Value], until: Option<&str>) -> Self {
        let mut restored = Self::default();
        for line in lines.iter().filter(|line| line["isSidechain"] != true) {
            restored.add(line);
        }
        if let Some(until) = until {
            restored.history.truncate_after(until);
        }
        restored.history.close_open_calls("restored");
        restored
    }

    fn add(&mut self, line: &Value) {
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        match line["type"].as_str().unwrap_or_default() {
            "user" | "assistant" => {
                let (role, content) = (text("type"), line["message"]["content"].clone());
                let prompt = line["promptSource"].is_string();
                if prompt {
                    self.prompts.insert(text("uuid"));
                }
                self.history.push(PlayerHistoryEntry { uuid: text("uuid"), role, content, prompt });
            }
            "attachment" if line["attachment"]["type"] == "queued_command" => {
                let uuid =
                    line["attachment"]["source_uuid"].as_str().unwrap_or_default().to_owned();
                self.prompts.insert(uuid.clone());
                let (role, content) = ("system".to_owned(), line["rendered"].clone());
                self.history.push(PlayerHistoryEntry { uuid, role, content, prompt: true });
            }
            "system" if line["subtype"] == "compact_boundary" => self.history.clear(),
            "play-rewind" => drop(self.history.rewind(&text("uuid"))),
            "cost-state" => self.cost = line["totalCostUSD"].as_f64().unwrap_or_default(),
            _ => {}
        }
        for uuid in line["mergedUuids"].as_array().into_iter().flatten() {
            self.prompts.insert(uuid.as_str().unwrap_or_default().to_owned());
        }
    }
}

/// The session that a player starts with: a new one, a resumed one or a fork.
#[derive(Debug)]
pub(crate) struct PlayerSessionStart {
    pub(crate) id: String,
    pub(crate) conversation: ResumedConversation,
    /// The error to report if the session to resume does not exist.
    pub(crate) missing: Option<String>,
}

impl PlayerSessionStart {
    pub(crate) fn choose(
        args: &PlayerArgs,
        environment: &PlayerEnvironment,
    ) -> Result<Self, PlayerStartError> {
        let (home, cwd) = (&environment.home, &environment.cwd);
        let new_id = || args.session_id.clone().unwrap_or_else(|| IdGenerator::random().uuid());
        let empty =
            |id, missing| Ok(Self { id, conversation: ResumedConversation::default(), missing });
        let path = match &args.resume {
            Some(id) => {
                let Some(path) = find(home, cwd, id) else {
                    let error = format!("No conversation found with session ID: {id}");
                    return empty(IdGenerator::random().uuid(), Some(error));
                };
                Some(path)
            }
            None if args.continue_latest => latest(home, cwd),
            None => None,
        };
        let Some(path) = path else {
            if let Some(id) = &args.session_id
                && find(home, cwd, id).is_some()
            {
                return Err(PlayerStartError(format!("Error: Session ID {id} is already in use.")));
            }
            return empty(new_id(), None);
        };
        let lines = read(&path).unwrap_or_default();
        let until = args.resume_at.as_deref();
        let conversation = ResumedConversation::restore(&lines, until);
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let id = if args.fork { new_id() } else { id.unwrap_or_else(new_id) };
        if args.fork && !args.no_persistence {
            copy(&lines, until, environment, &id);
        }
        Ok(Self { id, conversation, missing: None })
    }
}

/// Writes the transcript of a fork, which begins with a copy of the original.
fn copy(lines: &[Value], until: Option<&str>, environment: &PlayerEnvironment, id: &str) {
    let mut store = TranscriptStore::new(&environment.home, &environment.cwd);
    for line in lines {
        let mut line = line.clone();
        line["sessionId"] = id.into();
        drop(store.append(id, &line));
        if until.is_some_and(|until| line["uuid"] == until) {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{TranscriptStore, find, latest, project_folder_name, read};

    #[test]
    fn folders_are_named_after_working_directories() {
        let name = project_folder_name(Path::new("/home/dev/my.project_2"));
        assert_eq!(name, "-home-dev-my-project-2");
    }

    #[test]
    fn a_transcript_is_found_from_any_directory() {
        let home = tempfile::tempdir().unwrap();
        let (here, there) = (Path::new("/here"), Path::new("/there"));
        assert!(find(home.path(), here, "s").is_none());
        assert!(latest(home.path(), here).is_none());
        let mut store = TranscriptStore::new(home.path(), here);
        store.append("s", &json!({"a": 1})).unwrap();
        store.append("s", &json!({"a": 2})).unwrap();
        let path = find(home.path(), there, "s").unwrap();
        assert_eq!(latest(home.path(), here).as_ref(), Some(&path));
        assert_eq!(read(&path).unwrap(), [json!({"a": 1}), json!({"a": 2})]);
    }
}
