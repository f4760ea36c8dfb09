//! The directory that git uses for a branch of a session that is not checked out.
//!
//! It lies in the repository and contains a `HEAD` that names the branch, and the way to the rest of the
//! repository. So it is like the directory of a linked working tree, but git does not list it, nothing
//! removes it, and what a killed process left of it is simply written again. Earlier versions added a
//! working tree instead, which blocked the branch after a kill.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};

/// The folder of these directories in git's directory.
const FOLDER: &str = "towpath";

/// The file that every watcher of the branch holds a lock of.
const WATCHERS: &str = "watchers";

/// The age from which a lock of git on our own branch was left by a process that was killed. Git holds
/// it for some milliseconds.
const STALE: Duration = Duration::from_secs(5);

/// The directory for one branch.
#[derive(Debug)]
pub(super) struct BranchDirectory {
    /// The directory with the branches of the repository.
    common: PathBuf,
    path: PathBuf,
    reference: String,
    watchers: File,
    is_shared: bool,
}

impl BranchDirectory {
    /// Opens the directory and creates what is missing. The branch must exist.
    pub(super) fn open(common: &Path, branch: &str) -> io::Result<Self> {
        let reference = format!("refs/heads/{branch}");
        remove_worktrees(common, &reference)?;
        // No branch name of ours contains this character, so that no two have the same directory.
        let path = common.join(FOLDER).join(branch.replace('/', "+"));
        if path.join(".git").exists() {
            fs::remove_dir_all(&path)?;
        }
        loop {
            fs::create_dir_all(&path)?;
            let file = path.join(WATCHERS);
            let watchers = File::options().create(true).append(true).open(&file)?;
            let is_shared = flock(&watchers, FlockOperation::NonBlockingLockExclusive).is_err();
            if !is_shared {
                write_files(common, &path, &reference)?;
            }
            // A watcher that ends or starts holds the lock alone, for a moment.
            let locked = flock(&watchers, FlockOperation::LockShared);
            // It may have been removed by a watcher that ended meanwhile.
            let same =
                |it: fs::Metadata| watchers.metadata().is_ok_and(|own| own.ino() == it.ino());
            if locked.is_err() || fs::metadata(&file).is_ok_and(same) {
                let common = common.to_owned();
                return Ok(Self { common, path, reference, watchers, is_shared });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The branch, if another watcher uses it, too.
    pub(super) fn shared_branch(&self) -> Option<&str> {
        self.reference.strip_prefix("refs/heads/").filter(|_| self.is_shared)
    }

    /// Removes locks that a git process left which was killed.
    pub(super) fn remove_stale_locks(&self) {
        let branch = self.common.join(format!("{}.lock", self.reference));
        for lock in [self.path.join("HEAD.lock"), self.path.join("index.lock"), branch] {
            let age = fs::metadata(&lock).and_then(|it| it.modified());
            let age = age.ok().and_then(|it| SystemTime::now().duration_since(it).ok());
            if age.is_some_and(|age| age > STALE) {
                // If this fails, so does the commit, and this is reported.
                let _ = fs::remove_file(lock);
            }
        }
    }

    /// Removes the directory, unless another watcher uses it.
    pub(super) fn close(self) {
        if flock(&self.watchers, FlockOperation::NonBlockingLockExclusive).is_ok() {
            // What is left after an error is used by the next run.
            let _ = fs::remove_dir_all(&self.path);
            if let Some(folder) = self.path.parent() {
                // This fails if other branches use it.
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

fn write_files(common: &Path, path: &Path, reference: &str) -> io::Result<()> {
    write(path, "commondir", "../..\n")?;
    if common.join("reftable").is_dir() {
        // This format of references has the actual `HEAD` in a table.
        fs::create_dir_all(path.join("reftable"))?;
        fs::create_dir_all(path.join("refs"))?;
        return write(path, "HEAD", "ref: refs/heads/.invalid\n");
    }
    write(path, "HEAD", &format!("ref: {reference}\n"))
}

/// Writes a file at once: it is never seen half written.
fn write(folder: &Path, name: &str, content: &str) -> io::Result<()> {
    let temporary = tempfile::NamedTempFile::new_in(folder)?;
    fs::write(temporary.path(), content)?;
    temporary.persist(folder.join(name)).map_err(|it| it.error)?;
    Ok(())
}

/// Removes the working trees that earlier versions added for this branch. Those of the user stay, even if
/// their directory does not exist: it may be on a disk that is not mounted.
fn remove_worktrees(common: &Path, reference: &str) -> io::Result<()> {
    let own = common.join(FOLDER);
    let own_resolved = own.canonicalize().unwrap_or_else(|_| own.clone());
    for entry in worktree_entries(common) {
        let Some(path) = worktree_path(&entry) else { continue };
        let head = fs::read_to_string(entry.join("HEAD")).unwrap_or_default();
        let is_own = path.starts_with(&own) || path.starts_with(&own_resolved);
        if is_own && (head.is_empty() || head.trim() == format!("ref: {reference}")) {
            fs::remove_dir_all(&entry)?;
            match fs::remove_dir_all(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// What git has stored of linked working trees.
pub(super) fn worktree_entries(common: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The directory of a linked working tree.
pub(super) fn worktree_path(entry: &Path) -> Option<PathBuf> {
    let file = fs::read_to_string(entry.join("gitdir")).ok()?;
    // It may be relative to the entry.
    Some(entry.join(file.trim_end_matches('\n')).parent()?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::BranchDirectory;

    #[test]
    fn a_second_watcher_of_the_branch_is_noticed_and_the_last_one_removes_the_directory() {
        let git = tempfile::tempdir().unwrap();
        let first = BranchDirectory::open(git.path(), "a/b").unwrap();
        let other = BranchDirectory::open(git.path(), "a-b").unwrap();
        assert_eq!((first.shared_branch(), other.shared_branch()), (None, None));
        let second = BranchDirectory::open(git.path(), "a/b").unwrap();
        assert_eq!(second.shared_branch(), Some("a/b"));
        let path = first.path().to_owned();
        first.close();
        assert_eq!(fs::read_to_string(path.join("HEAD")).unwrap(), "ref: refs/heads/a/b\n");
        second.close();
        assert!(!path.exists());
        other.close();
        assert!(!git.path().join("towpath").exists());
    }
}
