//! Transcripts on disk: one file a session, below the folder of its working directory.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

/// A working directory as a folder's name: whatever is no letter or digit becomes a hyphen.
pub(crate) fn folder_name(cwd: &Path) -> String {
    let letter = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    cwd.display().to_string().chars().map(letter).collect()
}

/// The folder of a working directory's sessions.
pub(crate) fn folder(home: &Path, cwd: &Path) -> PathBuf {
    home.join(".claude/projects").join(folder_name(cwd))
}

/// Finds a session: in the folder of this working directory, or in any.
pub(crate) fn find(home: &Path, cwd: &Path, id: &str) -> Option<PathBuf> {
    let name = format!("{id}.jsonl");
    let near = folder(home, cwd).join(&name);
    if near.exists() {
        return Some(near);
    }
    let folders = fs::read_dir(home.join(".claude/projects")).ok()?;
    let far = folders.flatten().map(|folder| folder.path().join(&name));
    far.into_iter().find(|path| path.exists())
}

/// The session of this working directory that was written last.
pub(crate) fn latest(home: &Path, cwd: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(folder(home, cwd)).ok()?.flatten();
    let transcripts = files.filter(|file| file.path().extension().is_some_and(|it| it == "jsonl"));
    let written = |file: &fs::DirEntry| {
        file.metadata().and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
    };
    transcripts.max_by_key(written).map(|file| file.path())
}

/// Reads a transcript; lines that are no JSON are left out, as after a crash.
pub(crate) fn read(path: &Path) -> io::Result<Vec<Value>> {
    let text = fs::read_to_string(path)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Transcripts that are written to.
#[derive(Debug)]
pub(crate) struct Store {
    folder: PathBuf,
    open: BTreeMap<String, File>,
}

impl Store {
    /// Writes below the folder of a working directory.
    pub(crate) fn new(home: &Path, cwd: &Path) -> Self {
        Self { folder: folder(home, cwd), open: BTreeMap::new() }
    }

    /// Adds a line to a session's transcript.
    pub(crate) fn append(&mut self, session: &str, entry: &Value) -> io::Result<()> {
        if !self.open.contains_key(session) {
            fs::create_dir_all(&self.folder)?;
            let path = self.folder.join(format!("{session}.jsonl"));
            let file = OpenOptions::new().create(true).append(true).open(path)?;
            self.open.insert(session.to_owned(), file);
        }
        let Some(file) = self.open.get_mut(session) else { return Ok(()) };
        let mut line = entry.to_string();
        line.push('\n');
        file.write_all(line.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{Store, find, folder_name, latest, read};

    #[test]
    fn folders_are_named_after_working_directories() {
        assert_eq!(folder_name(Path::new("/home/dev/my.project_2")), "-home-dev-my-project-2");
    }

    #[test]
    fn what_is_written_is_found_from_anywhere() {
        let home = tempfile::tempdir().unwrap();
        let (here, there) = (Path::new("/here"), Path::new("/there"));
        assert!(find(home.path(), here, "s").is_none());
        assert!(latest(home.path(), here).is_none());
        let mut store = Store::new(home.path(), here);
        store.append("s", &json!({"a": 1})).unwrap();
        store.append("s", &json!({"a": 2})).unwrap();
        let path = find(home.path(), there, "s").unwrap();
        assert_eq!(latest(home.path(), here).as_ref(), Some(&path));
        assert_eq!(read(&path).unwrap(), [json!({"a": 1}), json!({"a": 2})]);
    }
}
