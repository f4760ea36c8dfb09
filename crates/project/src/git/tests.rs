//! The real git in temporary repositories.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use super::patch::FilePatch;
use super::{
    DiffSide, FileChangeKind, FileStatus, GitError, GitRepository, GitStatus, HunkId, RepoPath,
};

mod changes;
mod hostile;
mod reading;
mod snapshot;

/// A repository with a first commit.
pub(super) struct TestRepository {
    _directory: TempDir,
    pub(super) top: PathBuf,
    pub(super) git: GitRepository,
}

impl TestRepository {
    pub(super) async fn new() -> Self {
        let it = Self::empty().await;
        it.write("first.txt", "one\ntwo\nthree\n");
        it.run(&["add", "."]);
        it.run(&["commit", "-qm", "First"]);
        it
    }

    pub(super) async fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap().join("repo");
        fs::create_dir(&top).unwrap();
        run_in(&top, &["init", "-q", "-b", "main"]);
        for (key, value) in [("user.name", "Ada"), ("user.email", "ada@example.org")] {
            run_in(&top, &["config", key, value]);
        }
        let git = GitRepository::open(&top).await.unwrap();
        assert_eq!(git.top(), top);
        Self { _directory: directory, top, git }
    }

    pub(super) fn run(&self, arguments: &[&str]) -> String {
        run_in(&self.top, arguments)
    }

    pub(super) fn write(&self, path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
        let path = self.top.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.top.join(path)).unwrap()
    }

    /// A file as it is in the index.
    pub(super) fn staged(&self, path: &str) -> String {
        self.run(&["show", &format!(":{path}")])
    }

    pub(super) async fn status(&self) -> GitStatus {
        self.git.status().await.unwrap()
    }

    /// Paths, with a letter for the index and one for the working tree.
    pub(super) async fn changes(&self) -> Vec<String> {
        let letter = |state: Option<FileChangeKind>| match state {
            None => '.',
            Some(FileChangeKind::Modified) => 'M',
            Some(FileChangeKind::Added) => 'A',
            Some(FileChangeKind::Deleted) => 'D',
            Some(FileChangeKind::Renamed) => 'R',
            Some(FileChangeKind::Copied) => 'C',
            Some(FileChangeKind::TypeChanged) => 'T',
            Some(FileChangeKind::Untracked) => '?',
            Some(FileChangeKind::Conflicted) => 'U',
        };
        let line = |it: FileStatus| {
            format!("{}{} {}", letter(it.staged), letter(it.unstaged), it.path.key())
        };
        self.status().await.files.into_iter().map(line).collect()
    }

    pub(super) async fn diff(&self, path: &str, side: DiffSide) -> FilePatch {
        let mut patches = self.git.diff(&key(path), None, side).await.unwrap();
        assert_eq!(patches.len(), 1, "{patches:?}");
        patches.remove(0)
    }
}

pub(super) fn key(path: &str) -> RepoPath {
    RepoPath::from_key(path).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "tests prepare repositories")]
fn output_in(directory: &Path, arguments: &[&str]) -> Output {
    Command::new("git").args(arguments).current_dir(directory).output().unwrap()
}

pub(super) fn succeeds_in(directory: &Path, arguments: &[&str]) -> bool {
    output_in(directory, arguments).status.success()
}

pub(super) fn run_in(directory: &Path, arguments: &[&str]) -> String {
    let output = output_in(directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(super) fn lines(range: std::ops::Range<usize>) -> String {
    range.map(|it| format!("line {it}")).collect::<Vec<_>>().join("\n") + "\n"
}

pub(super) fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// File names that shells, git and JSON have trouble with.
pub(super) fn odd_names() -> Vec<&'static OsStr> {
    let names: [&[u8]; 11] = [
        b"with blank",
        b"-rf",
        b"--output=x",
        b":(glob)**",
        b"*",
        b"new\nline",
        b"tab\t\"quoted\"",
        b"back\\slash",
        b"\xff\xfe.bin",
        b"100%25",
        "ü → 🦀".as_bytes(),
    ];
    names.map(OsStr::from_bytes).to_vec()
}

#[test]
fn keys_name_exactly_one_path_and_none_that_leads_out() {
    for name in odd_names() {
        let path = RepoPath::from_git(name.as_bytes());
        assert_eq!(RepoPath::from_key(&path.key()).unwrap(), path);
    }
    for bad in [
        "",
        "/",
        "/etc/passwd",
        "../x",
        "a/../../x",
        "a//b",
        "./a",
        ".git/config",
        "a/.GIT/hooks/x",
        "%2e%2e/x",
        "a%00b",
        "%zz",
        "%f",
        "%",
    ] {
        assert!(matches!(RepoPath::from_key(bad), Err(GitError::InvalidPath(_))), "{bad}");
    }
}
