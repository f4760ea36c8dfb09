//! The entries that a commit puts into the user's index before it is made.
//!
//! They are staged before the commit, so that the index equals the new commit from the moment at which
//! the branch moves, whenever the process is killed. A record of them lies next to the index until it is
//! certain that they were committed or taken back. The next commit reads it and completes the work of a
//! process that was killed.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use tokio::fs;

/// The directory with the record and temporary indexes, in git's directory.
const FOLDER: &str = "towpath-commit";
const RECORD: &str = "staged";

/// A difference between a commit and an index, as `git diff-index --raw -z` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexChange {
    pub(super) path: PathBuf,
    pub(super) before: FileState,
    pub(super) after: FileState,
}

/// The mode and the object id of a file. Both are zeros for a file that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileState {
    mode: String,
    id: String,
}

/// The entries that were staged and not yet found to be committed.
#[derive(Debug)]
pub(super) struct Staging {
    folder: PathBuf,
    /// A file has several ones if attempts were interrupted before they changed the index.
    staged: HashMap<PathBuf, Vec<IndexChange>>,
}

impl Staging {
    /// Reads the record of a process that was killed, if there is one, and removes its other files.
    pub(super) async fn recover(git_dir: &Path) -> io::Result<Self> {
        let folder = git_dir.join(FOLDER);
        fs::create_dir_all(&folder).await?;
        let mut entries = fs::read_dir(&folder).await?;
        while let Some(entry) = entries.next_entry().await? {
            if entry.file_name() != RECORD {
                // A git process that survived may still write there. Then it stays until the next time.
                let _ = fs::remove_dir_all(entry.path()).await;
            }
        }
        let record = match fs::read(folder.join(RECORD)).await {
            Ok(record) => record,
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut staged: HashMap<PathBuf, Vec<IndexChange>> = HashMap::new();
        for change in parse(&record) {
            staged.entry(change.path.clone()).or_default().push(change);
        }
        Ok(Self { folder, staged })
    }

    /// A directory for a temporary index. It is not shared with an earlier attempt, of which a git
    /// process may still run.
    pub(super) fn temporary(&self) -> io::Result<tempfile::TempDir> {
        tempfile::tempdir_in(&self.folder)
    }

    /// Whether nothing is staged.
    pub(super) fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }

    /// Selects the changes to stage, and records them. `users` are the differences between the last
    /// commit and the index: what the user has staged is left alone.
    pub(super) async fn select(
        &mut self,
        changes: &[IndexChange],
        users: &[IndexChange],
    ) -> io::Result<Vec<IndexChange>> {
        let users: HashMap<&Path, &IndexChange> = users.iter().map(|it| (&*it.path, it)).collect();
        let is_free = |change: &&IndexChange| match users.get(&*change.path) {
            None => true,
            // An earlier attempt staged it.
            Some(in_index) => self.earlier(&change.path).any(|it| it.after == in_index.after),
        };
        let selected: Vec<IndexChange> = changes.iter().filter(is_free).cloned().collect();
        for change in &selected {
            let earlier = self.staged.entry(change.path.clone()).or_default();
            let in_index = users.get(&*change.path);
            earlier.retain(|it| in_index.is_some_and(|in_index| it.after == in_index.after));
            earlier.push(change.clone());
        }
        if !selected.is_empty() {
            let staged = self.staged.values().flatten();
            let record: Vec<u8> = staged.flat_map(IndexChange::to_bytes).collect();
            let temporary = tempfile::NamedTempFile::new_in(&self.folder)?;
            fs::write(temporary.path(), record).await?;
            temporary.persist(self.folder.join(RECORD)).map_err(|it| it.error)?;
        }
        Ok(selected)
    }

    /// The entries to set back to the state in the last commit. `differences` are those between the last
    /// commit and the index.
    pub(super) fn unsettled(&self, differences: &[IndexChange]) -> Vec<IndexChange> {
        let is_ours = |change: &&IndexChange| {
            self.earlier(&change.path).any(|staged| {
                let refused = change.after == staged.after;
                // It was committed by a process that survived, after its entry had been set back.
                let behind = change.before == staged.after && change.after == staged.before;
                refused || behind
            })
        };
        let reversed = |it: &IndexChange| IndexChange {
            path: it.path.clone(),
            before: it.after.clone(),
            after: it.before.clone(),
        };
        differences.iter().filter(is_ours).map(reversed).collect()
    }

    /// What was staged of a file.
    fn earlier(&self, path: &Path) -> impl Iterator<Item = &IndexChange> {
        self.staged.get(path).into_iter().flatten()
    }

    /// Removes the record, because nothing is left to do.
    pub(super) async fn clear(self) {
        // What is left after an error is read and removed by the next commit.
        let _ = fs::remove_dir_all(&self.folder).await;
    }
}

impl IndexChange {
    fn to_bytes(&self) -> Vec<u8> {
        let Self { path, before, after } = self;
        let state = format!(":{} {} {} {} M\0", before.mode, after.mode, before.id, after.id);
        [state.as_bytes(), path.as_os_str().as_bytes(), b"\0"].concat()
    }
}

/// Reads the output of `git diff-index --raw -z`.
pub(super) fn parse(output: &[u8]) -> Vec<IndexChange> {
    let mut parts = output.split(|&byte| byte == 0);
    let mut changes = Vec::new();
    while let (Some(state), Some(path)) = (parts.next(), parts.next()) {
        let state = String::from_utf8_lossy(state);
        let fields: Vec<&str> = state.trim_start_matches(':').split(' ').collect();
        if let [mode_before, mode_after, id_before, id_after, _] = fields[..] {
            let file = |mode: &str, id: &str| FileState { mode: mode.into(), id: id.into() };
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            let (before, after) = (file(mode_before, id_before), file(mode_after, id_after));
            changes.push(IndexChange { path, before, after });
        }
    }
    changes
}

/// The input of `git update-index -z --index-info` that makes these changes.
pub(super) fn index_info(changes: &[IndexChange]) -> Vec<u8> {
    // Deletions come first: a file may take the place of a directory.
    let (deleted, written): (Vec<_>, Vec<_>) = changes.iter().partition(|it| it.after.is_absent());
    let line = |it: &IndexChange| {
        let state = format!("{} {}\t", it.after.mode, it.after.id);
        [state.as_bytes(), it.path.as_os_str().as_bytes(), b"\0"].concat()
    };
    deleted.into_iter().chain(written).flat_map(line).collect()
}

impl FileState {
    fn is_absent(&self) -> bool {
        self.mode.bytes().all(|it| it == b'0')
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{FileState, IndexChange, Staging, index_info, parse};

    fn state(id: &str) -> FileState {
        let mode = if id == "0" { "000000" } else { "100644" };
        FileState { mode: mode.to_owned(), id: id.to_owned() }
    }

    fn change(path: &str, before: &str, after: &str) -> IndexChange {
        IndexChange { path: path.into(), before: state(before), after: state(after) }
    }

    fn names(changes: &[IndexChange]) -> Vec<PathBuf> {
        changes.iter().map(|it| it.path.clone()).collect()
    }

    #[test]
    fn differences_are_read_and_written_as_index_entries() {
        let output =
            b":100644 100755 a1 b2 M\0a \n b\0:100644 000000 a1 0 D\0gone\0:bad\0x\0:100644";
        let changes = parse(output);
        assert_eq!(names(&changes), [PathBuf::from("a \n b"), PathBuf::from("gone")]);
        assert_eq!(index_info(&changes), b"000000 0\tgone\x00100755 b2\ta \n b\0");
        let bytes: Vec<u8> = changes.iter().flat_map(IndexChange::to_bytes).collect();
        assert_eq!(parse(&bytes), changes);
    }

    #[tokio::test]
    async fn what_a_killed_process_staged_is_known_and_what_the_user_staged_is_not_touched() {
        let git = tempfile::tempdir().unwrap();
        let mut first = Staging::recover(git.path()).await.unwrap();
        let changes = [change("a", "1", "2"), change("mine", "1", "2"), change("new", "0", "5")];
        let users = [change("mine", "1", "7")];
        let selected = first.select(&changes, &users).await.unwrap();
        assert_eq!(names(&selected), [PathBuf::from("a"), PathBuf::from("new")]);
        std::fs::create_dir(git.path().join("towpath-commit/left")).unwrap();
        drop(first);
        // The files changed again. The index has what the first process and the user staged.
        let mut second = Staging::recover(git.path()).await.unwrap();
        assert!(!git.path().join("towpath-commit/left").exists());
        let in_index = [change("a", "1", "2"), change("mine", "1", "7"), change("new", "0", "6")];
        let changes = [change("a", "1", "3"), change("mine", "1", "2"), change("new", "0", "8")];
        let selected = second.select(&changes, &in_index).await.unwrap();
        assert_eq!(names(&selected), [PathBuf::from("a")], "the user staged another `new`");
        // It is killed before it changes the index, and the third attempt takes back what is there.
        let third = Staging::recover(git.path()).await.unwrap();
        assert_eq!(third.unsettled(&in_index), [change("a", "2", "1")]);
        // The commit is refused.
        let in_index = [change("a", "1", "3"), change("mine", "1", "7"), change("new", "0", "6")];
        assert_eq!(second.unsettled(&in_index), [change("a", "3", "1")]);
        // It was made, but the index was behind.
        assert_eq!(second.unsettled(&[change("a", "3", "1")]), [change("a", "1", "3")]);
        assert_eq!(second.unsettled(&[change("a", "3", "4")]), []);
        second.clear().await;
        assert!(!git.path().join("towpath-commit").exists());
    }
}
