//! A session's live directory: what lies in it and how it is made.
//!
//! Everything in it is for its owner alone: the directory is 0700 and so is the socket's, files are
//! 0600. Both are checked and not only made, for they may have been there before.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::exit::Ended;
use super::kin::Born;
use super::plan::{Marker, Run};

/// What `shim.json` holds: who runs, so that the next owner finds the socket, and what a dead shim
/// left can be told from strangers with the same numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Register {
    pub(super) run: Run,
    #[serde(with = "super::plan::path")]
    pub(super) socket: PathBuf,
    pub(super) shim: i32,
    pub(super) agent: i32,
    pub(super) agent_born: Option<Born>,
    pub(super) marker: Marker,
}

/// A session's live directory.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) directory: PathBuf,
}

impl Place {
    pub(super) fn at(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn owner_lock(&self) -> PathBuf {
        self.file("lock")
    }

    pub(super) fn spool(&self, run: Run, base: u64) -> PathBuf {
        self.file(&format!("spool.{run}.{base}"))
    }

    fn exit(&self, run: Run) -> PathBuf {
        self.file(&format!("exit.{run}.json"))
    }

    fn stderr(&self, run: Run) -> PathBuf {
        self.file(&format!("stderr.{run}.tail"))
    }

    /// The spool's files of a run, by where they begin.
    pub(super) fn spools(&self, run: Run) -> io::Result<Vec<u64>> {
        let prefix = format!("spool.{run}.");
        let mut bases = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let base: Option<u64> =
                name.to_str().and_then(|name| name.strip_prefix(&prefix)?.parse().ok());
            bases.extend(base);
        }
        bases.sort_unstable();
        Ok(bases)
    }

    /// Whether anything of this run lies here.
    pub(super) fn had(&self, run: Run) -> bool {
        self.exit(run).exists() || self.spools(run).is_ok_and(|bases| !bases.is_empty())
    }

    /// Takes the lock a shim holds while it lives; nothing if another has it.
    pub(super) fn lock_shim(&self) -> io::Result<Option<File>> {
        let path = self.file("shim.lock");
        let file = private_file().create(true).truncate(false).write(true).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes that lock, and waits so long for another shim that is about to leave.
    pub(super) fn lock_shim_within(&self, patience: Duration) -> io::Result<Option<File>> {
        let deadline = Instant::now() + patience;
        loop {
            let lock = self.lock_shim()?;
            if lock.is_some() || Instant::now() >= deadline {
                return Ok(lock);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Who runs here or ran last; nothing if nobody ever did.
    pub(super) fn register(&self) -> io::Result<Option<Register>> {
        read_json(&self.file("shim.json"))
    }

    pub(super) fn write_register(&self, register: &Register) -> io::Result<()> {
        self.write("shim.json", &to_json(register)?)
    }

    /// How a run ended, if it was written down.
    pub(super) fn ended(&self, run: Run) -> io::Result<Option<Ended>> {
        read_json(&self.exit(run))
    }

    pub(super) fn write_ended(&self, run: Run, ended: &Ended) -> io::Result<()> {
        self.write(&format!("exit.{run}.json"), &to_json(ended)?)
    }

    /// The last the agent complained of, if it was written down.
    pub(super) fn stderr_tail(&self, run: Run) -> io::Result<Vec<u8>> {
        match fs::read(self.stderr(run)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        }
    }

    pub(super) fn write_stderr_tail(&self, run: Run, tail: &[u8]) -> io::Result<()> {
        self.write(&format!("stderr.{run}.tail"), tail)
    }

    /// Removes what a run left.
    pub(super) fn remove(&self, run: Run) -> io::Result<()> {
        for base in self.spools(run)? {
            remove_file(&self.spool(run, base))?;
        }
        remove_file(&self.stderr(run))?;
        remove_file(&self.exit(run))
    }

    /// Writes a file so that it is there whole or not at all, whatever happens.
    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let draft = self.file(&format!("{name}.draft"));
        let mut file = private_file().create(true).truncate(true).write(true).open(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, self.file(name))?;
        File::open(&self.directory)?.sync_all()
    }
}

/// How every file here is opened: nobody else may read it.
pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Makes a directory for this user alone, or checks that it is one.
pub(super) fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let found = fs::metadata(path)?;
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("the directory belongs to somebody else"));
    }
    if found.mode() & 0o077 != 0 {
        return Err(io::Error::other("the directory is open to others; its mode must be 0700"));
    }
    Ok(())
}

/// Removes a file that may be gone already.
pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn to_json(value: &impl Serialize) -> io::Result<Vec<u8>> {
    Ok(serde_json::to_vec(value)?)
}

fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
