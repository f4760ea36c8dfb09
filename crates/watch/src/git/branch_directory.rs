//! The directory that git uses for a branch of a session that is not checked out.
//!
//! It lies in the repository and contains a `HEAD` that names the branch, and the way to the rest of the
//! repository. So it is like the directory of a linked working tree, but git does not list it, nothing
//! removes it, and what a killed process left of it is simply written again. Earlier versions added a
//! working tree instead, which blocked the branch after a kill.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::CommitError;

/// The folder of these directories in git's directory.
const FOLDER: &str = "towpath";

/// The file that the process which commits to the branch holds a lock of. It has its process id.
const WATCHERS: &str = "watchers";

/// The branches that this process commits to. Several sessions of a server may share one.
static HELD: Mutex<BTreeMap<PathBuf, Weak<BranchLock>>> = Mutex::new(BTreeMap::new());

/// The right of this process to commit to a branch. It ends with the process, however that ends.
#[derive(Debug)]
struct BranchLock {
    /// Locked as long as it is open.
    _file: File,
}

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
    lock: Arc<BranchLock>,
}

impl BranchDirectory {
    /// Opens the directory and creates what is missing. The branch must exist. Fails if another
    /// process commits to it.
    pub(super) fn open(common: &Path, branch: &str) -> Result<Self, CommitError> {
        let reference = format!("refs/heads/{branch}");
        remove_worktrees(common, &reference)?;
        // No branch name of ours contains this character, so that no two have the same directory.
        let path = common.join(FOLDER).join(branch.replace('/', "+"));
        if path.join(".git").exists() {
            fs::remove_dir_all(&path)?;
        }
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let lock = if let Some(lock) = held.get(&path).and_then(Weak::upgrade) {
            lock
        } else {
            let lock = Arc::new(BranchLock::acquire(&path, branch)?);
            write_files(common, &path, &reference)?;
            held.insert(path.clone(), Arc::downgrade(&lock));
            lock
        };
        Ok(Self { common: common.to_owned(), path, reference, lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
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

    /// Removes the directory, unless another session of this process uses it.
    pub(super) fn close(self) {
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::strong_count(&self.lock) == 1 {
            // What is left after an error is used by the next run.
            let _ = fs::remove_dir_all(&self.path);
            if let Some(folder) = self.path.parent() {
                // This fails if other branches use it.
                let _ = fs::remove_dir(folder);
            }
            held.remove(&self.path);
        }
    }
}

impl BranchLock {
    fn acquire(path: &Path, branch: &str) -> Result<Self, CommitError> {
        loop {
            fs::create_dir_all(path)?;
            let name = path.join(WATCHERS);
            let mut file =
                File::options().create(true).truncate(false).read(true).write(true).open(&name)?;
            if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                let mut holder = String::new();
                file.read_to_string(&mut holder)?;
                let (branch, process) = (branch.to_owned(), holder.trim().to_owned());
                return Err(CommitError::BranchInUse { branch, process });
            }
            // It may have been removed by a watcher that ended meanwhile. Some network file systems
            // have no locks; there nothing is known of other watchers.
            let same = |it: fs::Metadata| file.metadata().is_ok_and(|own| own.ino() == it.ino());
            if fs::metadata(&name).is_ok_and(same) {
                file.set_len(0)?;
                file.write_all(std::process::id().to_string().as_bytes())?;
                return Ok(Self { _file: file });
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
    fn sessions_of_a_process_share_a_branch_and_the_last_one_removes_the_directory() {
        let git = tempfile::tempdir().unwrap();
        let first = BranchDirectory::open(git.path(), "a/b").unwrap();
        let other = BranchDirectory::open(git.path(), "a-b").unwrap();
        let second = BranchDirectory::open(git.path(), "a/b").unwrap();
        let path = first.path().to_owned();
        first.close();
        assert_eq!(fs::read_to_string(path.join("HEAD")).unwrap(), "ref: refs/heads/a/b\n");
        second.close();
        assert!(!path.exists());
        other.close();
        assert!(!git.path().join("towpath").exists());
    }

    #[test]
    fn a_branch_that_another_process_holds_is_refused_with_its_id() {
        let git = tempfile::tempdir().unwrap();
        let folder = git.path().join("towpath/b");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("watchers"), "4711").unwrap();
        // Another open file counts as another holder.
        let held = fs::File::open(folder.join("watchers")).unwrap();
        held.lock().unwrap();
        let refused = BranchDirectory::open(git.path(), "b").unwrap_err().to_string();
        assert!(refused.contains("process 4711"), "{refused}");
        drop(held);
        BranchDirectory::open(git.path(), "b").unwrap().close();
    }
}
