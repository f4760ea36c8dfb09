//! The working tree of a session for another machine, and a place for it there.
//!
//! A git bundle has the tree with the whole history. With `--tree-remote`, the tree is pushed to a remote of the
//! repository instead, which has most of it already, and fetched from there; each worker has a reference of its own,
//! so that one that was replaced overwrites nothing. If the remote cannot be reached, there is a bundle.
//!
//! Uncommitted work is never overwritten: a checkout that is not exactly where the session was gets another
//! working tree beside it.

use std::io;
use std::path::{Path, PathBuf};

use journal::SessionRecord;
use project::git::{GitError, GitRepository};
use serde::{Deserialize, Serialize};
use session::Roots;
use tracing::warn;

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
    /// Where the commit is; in the bundle behind this line if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    remote: Option<RemoteReference>,
}

/// A reference of a remote.
#[derive(Debug, Serialize, Deserialize)]
struct RemoteReference {
    url: String,
    reference: String,
}

/// The remote to which working trees are pushed.
#[derive(Clone, Debug)]
pub(super) struct TreeRemote {
    /// The name of the remote in each repository.
    pub(super) name: String,
    /// The name of this worker.
    pub(super) worker: String,
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
    #[error("it is in the repository `{0}`, and this worker was started without `--tree-remote`")]
    NoRemote(String),
}

impl TreeRemote {
    /// The reference of this worker for a session. A name of a worker may have characters that git does not allow.
    fn reference(&self, session: &SessionRecord) -> String {
        let allowed = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
        let worker: String = self.worker.chars().map(allowed).collect();
        format!("{}/{worker}", reference(session))
    }

    /// Pushes a commit; none if the repository does not have the remote, or it cannot be reached.
    async fn push(
        &self,
        repository: &GitRepository,
        session: &SessionRecord,
        commit: &str,
    ) -> Result<Option<RemoteReference>, TreeError> {
        let Some(url) = repository.remote_url(&self.name).await? else { return Ok(None) };
        let reference = self.reference(session);
        match repository.push_commit(&self.name, commit, &reference).await {
            Ok(()) => Ok(Some(RemoteReference { url, reference })),
            Err(error) => {
                let (session, remote) = (session.id, &self.name);
                warn!(%session, remote, %error, "a working tree could not be pushed; sending all of it");
                Ok(None)
            }
        }
    }
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
    remote: Option<&TreeRemote>,
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
    let remote = match remote {
        Some(remote) => remote.push(&repository, session, &snapshot.commit).await?,
        None => None,
    };
    let mut bundle = Vec::new();
    if remote.is_none() {
        let file = scratch.path().join("bundle");
        repository.write_bundle(&reference, &file).await?;
        let size = tokio::fs::metadata(&file).await?.len();
        if size > MAX_BYTES {
            return Err(TreeError::TooLarge(size >> 20));
        }
        bundle = tokio::fs::read(&file).await?;
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
        remote,
    };
    let mut part = serde_json::to_vec(&head).map_err(|_| TreeError::Invalid)?;
    part.push(b'\n');
    part.append(&mut bundle);
    Ok(Some(SavedTree { version: snapshot.commit, part: Some(part) }))
}

/// Restores a working tree. Returns the directory in which the session goes on, and what people must know.
pub(super) async fn restore(
    session: &SessionRecord,
    part: Option<&[u8]>,
    roots: &Roots,
    remote: Option<&TreeRemote>,
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
        receive(&repository, &head, &file, &reference, remote).await?;
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
    if let (Some(from), Some(remote)) = (&head.remote, remote) {
        repository.add_remote(&remote.name, &from.url).await?;
    }
    receive(&repository, &head, &file, &reference, remote).await?;
    if let Some(base) = &head.head {
        repository.check_out_first(head.branch.as_deref(), base).await?;
    }
    repository.restore_snapshot(&reference).await?;
    let words =
        format!("The session goes on in a clone of its working tree, `{}`", place.display());
    Ok((existing(&place, &head.inside)?, vec![words]))
}

/// Puts the saved commit under the session's reference.
async fn receive(
    repository: &GitRepository,
    head: &TreeHead,
    bundle: &Path,
    reference: &str,
    remote: Option<&TreeRemote>,
) -> Result<(), TreeError> {
    let Some(from) = &head.remote else {
        return Ok(repository.read_bundle(bundle, reference, &head.commit).await?);
    };
    let remote = remote.ok_or_else(|| TreeError::NoRemote(from.url.clone()))?;
    // Its own address of the remote is the one with which this machine may sign in.
    if repository.remote_url(&remote.name).await?.is_some()
        && repository
            .fetch_commit(&remote.name, &from.reference, reference, &head.commit)
            .await
            .is_ok()
    {
        return Ok(());
    }
    Ok(repository.fetch_commit(&from.url, &from.reference, reference, &head.commit).await?)
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

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use journal::{Journal, NewSession, SessionId, SessionRecord};
    use session::Roots;
    use uuid::Uuid;

    use super::{TreeRemote, restore, save};

    #[expect(clippy::disallowed_methods, reason = "the test prepares a repository")]
    fn git(directory: &Path, arguments: &[&str]) {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments);
        assert!(git.current_dir(directory).status().unwrap().success(), "{arguments:?}");
    }

    /// A session in a repository with a commit and a change.
    async fn session(directory: &Path) -> SessionRecord {
        let top = directory.join("project");
        std::fs::create_dir(&top).unwrap();
        git(&top, &["init", "-q", "-b", "work"]);
        std::fs::write(top.join("file"), "committed").unwrap();
        git(&top, &["add", "."]);
        git(&top, &["commit", "-qm", "first"]);
        std::fs::write(top.join("file"), "changed").unwrap();
        let journal = Journal::open(&directory.join("journal.db")).unwrap().journal;
        let id = SessionId(Uuid::from_u128(7));
        let options = "{}".to_owned();
        let new = NewSession { id, directory: top, title: None, options, at: 1 };
        journal.create(new).await.unwrap();
        journal.session(id).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn a_tree_is_saved_again_until_the_servers_have_it() {
        let directory = tempfile::tempdir().unwrap();
        let session = session(&directory.path().canonicalize().unwrap()).await;
        let first = save(&session, None, None).await.unwrap().unwrap();
        let again = save(&session, None, None).await.unwrap().unwrap();
        assert!(first.part.is_some() && again.part.is_some());
        assert_eq!(first.version, again.version);
        let stored = save(&session, Some(&first.version), None).await.unwrap().unwrap();
        assert_eq!((stored.part, &stored.version), (None, &first.version));
        std::fs::write(session.directory.join("file"), "changed again").unwrap();
        let changed = save(&session, Some(&first.version), None).await.unwrap().unwrap();
        assert!(changed.part.is_some());
    }

    #[tokio::test]
    async fn a_tree_goes_over_the_remote_if_that_is_wanted_and_as_a_bundle_if_it_fails() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let session = session(&top).await;
        let remote = |worker: &str| TreeRemote { name: "team".into(), worker: worker.to_owned() };
        // There is no such remote.
        let bundle = save(&session, None, Some(&remote("w.1"))).await.unwrap().unwrap();
        let bundle = bundle.part.unwrap();
        let shared = top.join("team.git").display().to_string();
        git(&session.directory, &["init", "-q", "--bare", &shared]);
        git(&session.directory, &["remote", "add", "team", &shared]);
        let pushed = save(&session, None, Some(&remote("w.1"))).await.unwrap().unwrap();
        let pushed = pushed.part.unwrap();
        assert!(pushed.ends_with(b"}\n"), "there is no bundle");

        let elsewhere = top.join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let roots = Roots::new(&[elsewhere]).unwrap();
        let refused = restore(&session, Some(&pushed), &roots, None).await.unwrap_err();
        assert!(refused.to_string().contains("--tree-remote"), "{refused}");
        for part in [&pushed, &bundle] {
            let restored = restore(&session, Some(part), &roots, Some(&remote("w2"))).await;
            let (place, _) = restored.unwrap();
            assert_eq!(std::fs::read_to_string(place.join("file")).unwrap(), "changed");
        }
    }
}
