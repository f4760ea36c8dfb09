//! What has changed in the working tree and the index.

use super::path::RepoPath;
use super::{GitError, GitRepository};

/// How much of a list of changes is read.
const MAX_STATUS_BYTES: usize = 8 << 20;

/// The state of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitStatus {
    /// The last commit; none in an empty repository.
    pub commit: Option<String>,
    /// None if `HEAD` is detached.
    pub branch: Option<String>,
    pub upstream: Option<String>,
    /// Commits that the upstream branch does not have.
    pub ahead: u64,
    /// Commits that only the upstream branch has.
    pub behind: u64,
    pub files: Vec<FileStatus>,
    /// Whether there are so many changes that not all of them were read.
    pub cut: bool,
}

/// A file that differs from the last commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatus {
    pub path: RepoPath,
    /// Its path before it was renamed or copied.
    pub from: Option<RepoPath>,
    /// How the index differs from the last commit.
    pub staged: Option<FileChangeKind>,
    /// How the working tree differs from the index.
    pub unstaged: Option<FileChangeKind>,
    /// Whether a merge could not decide on its content.
    pub conflicted: bool,
    pub submodule: bool,
}

/// How a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileChangeKind {
    Modified,
    Added,
    Deleted,
    Renamed,
    Copied,
    /// For example a file that became a link.
    TypeChanged,
    Untracked,
    Conflicted,
}

impl GitRepository {
    pub async fn status(&self) -> Result<GitStatus, GitError> {
        let command = self.read("status").await?.args([
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
            "--no-column",
            "--find-renames",
        ]);
        let output = command.max_output(MAX_STATUS_BYTES).run().await?;
        let cut = output.cut;
        Ok(GitStatus { cut, ..GitStatus::parse(&output.checked()?) })
    }

    /// The branch, and whether anything has changed. Untracked files count.
    pub async fn summary(&self) -> Result<GitStatus, GitError> {
        let command = self.read("status").await?.args([
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=dirty",
            "--no-renames",
        ]);
        let output = command.max_output(64 << 10).run().await?;
        let cut = output.cut;
        Ok(GitStatus { cut, ..GitStatus::parse(&output.checked()?) })
    }
}

impl GitStatus {
    /// Reads the format `--porcelain=v2 --branch -z`. What is not understood is left out.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut status = Self::default();
        // What follows the last NUL is incomplete.
        let end = bytes.iter().rposition(|byte| *byte == 0).unwrap_or(0);
        let mut records = bytes[..end].split(|byte| *byte == 0);
        while let Some(record) = records.next() {
            match record {
                [b'#', b' ', header @ ..] => status.read_header(header),
                [b'1', b' ', rest @ ..] => status.files.extend(changed_file(rest, 7)),
                [b'2', b' ', rest @ ..] => {
                    let from = records.next().map(RepoPath::from_git);
                    let file = from.is_some().then(|| changed_file(rest, 8)).flatten();
                    status.files.extend(file.map(|it| FileStatus { from, ..it }));
                }
                [b'u', b' ', rest @ ..] => {
                    let file = changed_file(rest, 9);
                    status.files.extend(file.map(|it| FileStatus {
                        staged: None,
                        unstaged: Some(FileChangeKind::Conflicted),
                        conflicted: true,
                        ..it
                    }));
                }
                [b'?', b' ', path @ ..] => status.files.push(FileStatus {
                    path: RepoPath::from_git(path),
                    from: None,
                    staged: None,
                    unstaged: Some(FileChangeKind::Untracked),
                    conflicted: false,
                    submodule: false,
                }),
                _ => {}
            }
        }
        status
    }

    fn read_header(&mut self, header: &[u8]) {
        let header = String::from_utf8_lossy(header);
        let Some((name, value)) = header.split_once(' ') else { return };
        let text = |unless: &str| (value != unless).then(|| value.to_owned());
        match name {
            "branch.oid" => self.commit = text("(initial)"),
            "branch.head" => self.branch = text("(detached)"),
            "branch.upstream" => self.upstream = text(""),
            "branch.ab" => {
                let mut counts = value.split(' ').map(|it| it[it.len().min(1)..].parse().ok());
                self.ahead = counts.next().flatten().unwrap_or(0);
                self.behind = counts.next().flatten().unwrap_or(0);
            }
            _ => {}
        }
    }
}

/// A record that begins with two letters and the state of a submodule, and has its path after `fields`
/// fields.
fn changed_file(record: &[u8], fields: usize) -> Option<FileStatus> {
    let mut parts = record.splitn(fields + 1, |byte| *byte == b' ');
    let &[staged, unstaged] = parts.next()? else { return None };
    let submodule = parts.next()?.first() == Some(&b'S');
    let path = parts.nth(fields - 2)?;
    Some(FileStatus {
        path: RepoPath::from_git(path),
        from: None,
        staged: FileChangeKind::from_letter(staged),
        unstaged: FileChangeKind::from_letter(unstaged),
        conflicted: false,
        submodule,
    })
}

impl FileChangeKind {
    pub(super) fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'M' => Self::Modified,
            b'A' => Self::Added,
            b'D' => Self::Deleted,
            b'R' => Self::Renamed,
            b'C' => Self::Copied,
            b'T' => Self::TypeChanged,
            b'U' => Self::Conflicted,
            _ => return None,
        })
    }
}
