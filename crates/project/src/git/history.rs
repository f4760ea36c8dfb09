//! Commits: listing them, and what they changed.

use super::diff::PATCH_FORMAT;
use super::patch::FilePatch;
use super::path::RepoPath;
use super::status::FileChangeKind;
use super::{GitError, GitRepository};

/// How many commits are listed at once.
const MAX_COMMITS: usize = 200;

/// How much of a message is read.
const MAX_MESSAGE_BYTES: usize = 64 << 10;

const MAX_LIST_BYTES: usize = 8 << 20;

/// The fields of a commit, each followed by a NUL.
const FORMAT: &str = "--format=tformat:%H%x00%P%x00%an%x00%at%x00%D%x00%s%x00%b";
const FIELDS: usize = 7;

/// A commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    pub parents: Vec<String>,
    pub author: String,
    /// When it was written, in seconds since 1970.
    pub at: i64,
    /// The branches and tags that point to it.
    pub names: Vec<String>,
    /// The first line of its message.
    pub subject: String,
    /// The rest of its message.
    pub body: String,
}

/// A file that a commit changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitFile {
    pub path: RepoPath,
    pub from: Option<RepoPath>,
    pub state: FileChangeKind,
}

impl GitRepository {
    /// Commits up to the current one, the newest first.
    pub async fn log(&self, skip: usize, count: usize) -> Result<Vec<Commit>, GitError> {
        if !self.has_commit().await? {
            return Ok(Vec::new());
        }
        let count = count.min(MAX_COMMITS);
        let (skip, count) = (format!("--skip={skip}"), format!("--max-count={count}"));
        let command = self.read("log").await?.args([
            "-z",
            "--no-color",
            "--no-show-signature",
            "--encoding=UTF-8",
            "--decorate=short",
            FORMAT,
            &skip,
            &count,
            "HEAD",
            "--",
        ]);
        let output = command.max_output(MAX_LIST_BYTES).run().await?.checked()?;
        Ok(parse_commits(&output))
    }

    /// A commit, and the files that it changed compared with its first parent.
    pub async fn show(&self, id: &str) -> Result<(Commit, Vec<CommitFile>), GitError> {
        let id = checked_commit(id)?;
        let command = self.read("show").await?.args([
            "-z",
            "--no-color",
            "--no-show-signature",
            "--encoding=UTF-8",
            "--no-patch",
            FORMAT,
            id,
            "--",
        ]);
        let output = command.max_output(MAX_LIST_BYTES).run().await?.checked()?;
        let commit = parse_commits(&output).into_iter().next();
        let commit = commit.ok_or_else(|| GitError::InvalidCommit(id.to_owned()))?;
        let command = self.read("show").await?.args([
            "-z",
            "--raw",
            "--no-abbrev",
            "--no-show-signature",
            "--format=tformat:",
            "-m",
            "--first-parent",
            "--find-renames",
            id,
            "--",
        ]);
        let output = command.max_output(MAX_LIST_BYTES).run().await?.checked()?;
        Ok((commit, parse_raw(&output)))
    }

    /// What a commit changed in a file.
    pub async fn commit_diff(
        &self,
        id: &str,
        path: &RepoPath,
        from: Option<&RepoPath>,
    ) -> Result<Vec<FilePatch>, GitError> {
        let id = checked_commit(id)?;
        let command = self.read("show").await?.args(PATCH_FORMAT);
        let command = command.args([
            "--no-show-signature",
            "--format=tformat:",
            "-m",
            "--first-parent",
            "--find-renames",
            id,
            "--",
        ]);
        let command = command.args(from.map(RepoPath::as_path)).args([path.as_path()]);
        let output = command.run().await?;
        let cut = output.cut;
        let mut patches = FilePatch::parse(&output.checked()?);
        if let Some(last) = patches.last_mut() {
            last.cut |= cut;
        }
        Ok(patches)
    }
}

/// Only ids: names and expressions could be options.
fn checked_commit(id: &str) -> Result<&str, GitError> {
    let hex = |it: u8| it.is_ascii_hexdigit();
    if (4..=64).contains(&id.len()) && id.bytes().all(hex) {
        return Ok(id);
    }
    Err(GitError::InvalidCommit(id.chars().take(80).collect()))
}

fn parse_commits(bytes: &[u8]) -> Vec<Commit> {
    let fields: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let text = |it: &[u8]| {
        String::from_utf8_lossy(&it[..it.len().min(MAX_MESSAGE_BYTES)]).trim().to_owned()
    };
    let words = |it: &[u8], separator: &str| -> Vec<String> {
        let text = text(it);
        text.split(separator).filter(|it| !it.is_empty()).map(str::to_owned).collect()
    };
    let commit = |fields: &[&[u8]]| Commit {
        id: text(fields[0]),
        parents: words(fields[1], " "),
        author: text(fields[2]),
        at: text(fields[3]).parse().unwrap_or(0),
        names: words(fields[4], ", "),
        subject: text(fields[5]),
        body: text(fields[6]),
    };
    fields.chunks_exact(FIELDS).map(commit).collect()
}

/// Reads `:100644 100644 … … M`, and the paths that follow.
fn parse_raw(bytes: &[u8]) -> Vec<CommitFile> {
    let end = bytes.iter().rposition(|byte| *byte == 0).unwrap_or(0);
    let mut words = bytes[..end].split(|byte| *byte == 0);
    let mut files = Vec::new();
    while let Some(word) = words.next() {
        let letter = word.rsplit(|byte| *byte == b' ').next().and_then(|it| it.first());
        let Some(state) = letter.and_then(|it| FileChangeKind::from_letter(*it)) else { continue };
        if !word.trim_ascii_start().starts_with(b":") {
            continue;
        }
        let moved = matches!(state, FileChangeKind::Renamed | FileChangeKind::Copied);
        let from = if moved { words.next().map(RepoPath::from_git) } else { None };
        let Some(path) = words.next() else { break };
        files.push(CommitFile { path: RepoPath::from_git(path), from, state });
    }
    files
}
