//! Branches: listing them, creating one, switching to one.

use super::repository::said;
use super::{GitError, GitRepository};

const FORMAT: &str = "--format=%(refname)%00%(committerdate:unix)%00%(upstream:short)%00%(HEAD)%00%(worktreepath)%00%(contents:subject)%00";
const FIELDS: usize = 6;

/// How many branches are listed: those with the newest commits.
const MAX_BRANCHES: &str = "--count=1000";

/// A branch, here or at a remote repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// Its name without `refs/heads/` or `refs/remotes/`.
    pub name: String,
    pub remote: bool,
    pub current: bool,
    pub upstream: Option<String>,
    /// When its last commit was made, in seconds since 1970.
    pub at: i64,
    /// The first line of the message of its last commit.
    pub subject: String,
    /// Whether a working tree has it checked out.
    pub checked_out: bool,
}

impl GitRepository {
    /// All branches, those with the newest commits first.
    pub async fn branches(&self) -> Result<Vec<Branch>, GitError> {
        let command = self.query("for-each-ref").args([
            "--sort=-committerdate",
            MAX_BRANCHES,
            FORMAT,
            "refs/heads",
            "refs/remotes",
        ]);
        Ok(parse_branches(&command.output().await?))
    }

    /// Switches to a branch, which is created at the current commit if `create` is set. Returns what git
    /// said.
    pub async fn switch(&self, name: &str, create: bool) -> Result<String, GitError> {
        check_branch_name(name)?;
        // Git knows more rules for names than are checked here.
        let valid = self.query("check-ref-format").args(["--branch", name]).run().await?;
        if !valid.status.success() {
            return Err(GitError::InvalidBranch(name.to_owned()));
        }
        let command = self.write("switch").args(create.then_some("--create")).args([name]);
        let output = command.run().await?;
        let words = said(&output);
        output.checked()?;
        Ok(words)
    }
}

/// Refuses what git would read as an option or an expression.
pub fn check_branch_name(name: &str) -> Result<(), GitError> {
    let odd = |it: char| it.is_control() || it.is_whitespace() || "~^:?*[\\@{".contains(it);
    let fits = (1..=200).contains(&name.len()) && !name.starts_with(['-', '/', '.']);
    if fits && !name.contains(odd) && !name.contains("..") {
        return Ok(());
    }
    Err(GitError::InvalidBranch(name.chars().take(80).collect()))
}

fn parse_branches(bytes: &[u8]) -> Vec<Branch> {
    let fields: Vec<&[u8]> = bytes.split(|byte| *byte == 0).collect();
    let text = |it: &[u8]| String::from_utf8_lossy(it).trim().to_owned();
    let branch = |fields: &[&[u8]]| {
        // Each line starts with the newline that ends the one before.
        let full = text(fields[0]);
        let (name, remote) = match full.strip_prefix("refs/heads/") {
            Some(name) => (name, false),
            None => (full.strip_prefix("refs/remotes/")?, true),
        };
        // The default branch of the remote repository is another name of one that is listed.
        if remote && name.ends_with("/HEAD") {
            return None;
        }
        Some(Branch {
            name: name.to_owned(),
            remote,
            current: fields[3] == b"*",
            upstream: Some(text(fields[2])).filter(|it| !it.is_empty()),
            at: text(fields[1]).parse().unwrap_or(0),
            subject: text(fields[5]),
            checked_out: !fields[4].is_empty(),
        })
    };
    fields.chunks_exact(FIELDS).filter_map(branch).collect()
}
