//! The working tree of a session as a git bundle, and a place for it on another machine.
//!
//! Uncommitted work is never overwritten: a checkout that is not exactly where the session was gets another
//! working tree beside it.

use std::io;
use std::path::{Path, PathBuf};

use journal::SessionRecord;
use project::git::{GitError, GitRepository};
use serde::{Deserialize, Serialize};
use session::Roots;

use super::session_files::directory_name;

/// The largest bundle.
const MAX_BYTES: u64 = 200 << 20;

/// What is in front of the bundle, as a JSON line.
#[derive(Debug, Serialize, Deserialize)]
struct TreeHead {
    /// The top directory of the working tree, and the session's directory in it.
    top: PathBuf,
    inside: PathBuf,
    commit: String,
    tree: String,
    head: Option<String>,
    branch: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum TreeError {
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("it is too large ({0} MB)")]
    TooLarge(u64),
    #[error("what was saved cannot be read")]
    Invalid,
    #[error("this worker has no root directory")]
    NoRoot,
}

fn reference(session: &SessionRecord) -> String {
    format!("refs/towpath/{}", session.id)
}

/// A working tree as it is now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SavedTree {
    /// The commit that was made of it.
    pub(super) version: String,
    /// None if the servers have this version.
    pub(super) part: Option<Vec<u8>>,
}

/// Saves the working tree; none if there is no repository. `stored` is the version that the servers have, which the
/// reference does not say: it is there before they have it.
pub(super) async fn save(
    session: &SessionRecord,
    stored: Option<&str>,
) -> Result<Option<SavedTree>, TreeError> {
    let repository = match GitRepository::open(&session.directory).await {
        Ok(repository) => repository,
        Err(GitError::NoRepository) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let reference = reference(session);
    let scratch = tempfile::tempdir()?;
    let snapshot = repository.snapshot(&reference, scratch.path()).await?;
    if stored == Some(snapshot.commit.as_str()) {
        return Ok(Some(SavedTree { version: snapshot.commit, part: None }));
    }
    let file = scratch.path().join("bundle");
    repository.write_bundle(&reference, &file).await?;
    let size = tokio::fs::metadata(&file).await?.len();
    if size > MAX_BYTES {
        return Err(TreeError::TooLarge(size >> 20));
    }
    let top = repository.top().canonicalize()?;
    let directory = session.directory.canonicalize()?;
    let inside = directory.strip_prefix(&top).unwrap_or(Path::new("")).to_owned();
    let head = TreeHead {
        top,
        inside,
        commit: snapshot.commit.clone(),
        tree: snapshot.tree,
        head: snapshot.head,
        branch: snapshot.branch,
    };
    let mut part = serde_json::to_vec(&head).map_err(|_| TreeError::Invalid)?;
    part.push(b'\n');
    part.extend(tokio::fs::read(&file).await?);
    Ok(Some(SavedTree { version: snapshot.commit, part: Some(part) }))
}

/// Restores a working tree. Returns the directory in which the session goes on, and what people must know.
pub(super) async fn restore(
    session: &SessionRecord,
    part: Option<&[u8]>,
    roots: &Roots,
) -> Result<(PathBuf, Vec<String>), TreeError> {
    let Some(part) = part else {
        if roots.resolve(&session.directory).is_some() {
            return Ok((session.directory.clone(), Vec::new()));
        }
        let directory = empty_directory(session, roots).await?;
        let words = format!(
            "No working tree was saved for this session, so it goes on in the empty directory `{}`",
            directory.display()
        );
        return Ok((directory, vec![words]));
    };
    let end = part.iter().position(|byte| *byte == b'\n').ok_or(TreeError::Invalid)?;
    let head: TreeHead = serde_json::from_slice(&part[..end]).map_err(|_| TreeError::Invalid)?;
    let is_plain = |it| matches!(it, std::path::Component::Normal(_));
    if !head.inside.components().all(is_plain) {
        return Err(TreeError::Invalid);
    }
    let scratch = tempfile::tempdir()?;
    let file = scratch.path().join("bundle");
    tokio::fs::write(&file, &part[end + 1..]).await?;
    let reference = reference(session);

    // The same repository may be at the same place here.
    if roots.resolve(&head.top).is_some()
        && let Ok(repository) = GitRepository::open(&head.top).await
        && repository.top().canonicalize()? == head.top
    {
        repository.read_bundle(&file, &reference, &head.commit).await?;
        if repository.write_tree(scratch.path()).await? == head.tree {
            return Ok((existing(&head.top, &head.inside)?, Vec::new()));
        }
        let is_clean = repository.status().await?.files.is_empty();
        if is_clean && repository.commit_of("HEAD").await? == head.head {
            repository.restore_snapshot(&reference).await?;
            return Ok((existing(&head.top, &head.inside)?, Vec::new()));
        }
        let Some(base) = &head.head else { return Err(TreeError::Invalid) };
        let place = new_place(session, roots, &head.top)?;
        repository.add_detached_worktree(&place, base).await?;
        let worktree = GitRepository::open(&place).await?;
        worktree.restore_snapshot(&reference).await?;
        let words = format!(
            "The checkout `{}` of this worker has other changes, so the session goes on in the working tree `{}`",
            head.top.display(),
            place.display()
        );
        return Ok((existing(&place, &head.inside)?, vec![words]));
    }

    let place = new_place(session, roots, &head.top)?;
    tokio::fs::create_dir(&place).await?;
    let repository = GitRepository::init(&place).await?;
    repository.read_bundle(&file, &reference, &head.commit).await?;
    if let Some(base) = &head.head {
        repository.check_out_first(head.branch.as_deref(), base).await?;
    }
    repository.restore_snapshot(&reference).await?;
    let words =
        format!("The session goes on in a clone of its working tree, `{}`", place.display());
    Ok((existing(&place, &head.inside)?, vec![words]))
}

/// An empty directory for a session whose working tree is not here.
pub(super) async fn empty_directory(
    session: &SessionRecord,
    roots: &Roots,
) -> Result<PathBuf, TreeError> {
    if roots.resolve(&session.directory).is_some() {
        return Ok(session.directory.clone());
    }
    let place = new_place(session, roots, &session.directory)?;
    tokio::fs::create_dir(&place).await?;
    Ok(place)
}

/// The session's directory in a working tree. Git does not record empty directories.
fn existing(top: &Path, inside: &Path) -> Result<PathBuf, TreeError> {
    let directory = top.join(inside);
    std::fs::create_dir_all(&directory)?;
    Ok(directory)
}

/// A path below the first root that does not exist yet.
fn new_place(session: &SessionRecord, roots: &Roots, of: &Path) -> Result<PathBuf, TreeError> {
    let root = roots.directories().first().ok_or(TreeError::NoRoot)?;
    let first = root.join(directory_name(session, of));
    let others = (2..).map(|count| PathBuf::from(format!("{}-{count}", first.display())));
    let mut all = std::iter::once(first.clone()).chain(others);
    all.find(|place| !place.exists()).ok_or(TreeError::NoRoot)
}
