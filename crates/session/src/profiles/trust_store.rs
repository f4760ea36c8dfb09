//! What a person has decided about the files of projects: by path and content.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What was decided about the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrustDecision {
    Trusted,
    /// It is not used, and the user is not asked again until it changes.
    Declined,
}

/// The decisions could not be read or stored.
#[derive(Debug, Error)]
#[error("the trusted projects in `{}` cannot be used", path.display())]
pub struct TrustError {
    path: PathBuf,
    source: io::Error,
}

/// The file with the decisions.
pub(super) struct TrustStore {
    path: PathBuf,
}

#[derive(Default, Serialize, Deserialize)]
struct TrustFile {
    #[serde(default)]
    projects: BTreeMap<PathBuf, TrustEntry>,
}

/// Only the last content of a file is remembered: an older one has to be judged again.
#[derive(Serialize, Deserialize)]
struct TrustEntry {
    digest: String,
    decision: TrustDecision,
}

impl TrustStore {
    pub(super) fn new(data: &Path) -> Self {
        Self { path: data.join("trusted-projects.json") }
    }

    pub(super) fn decision(
        &self,
        path: &Path,
        digest: &str,
    ) -> Result<Option<TrustDecision>, TrustError> {
        let file = self.read()?;
        let entry = file.projects.get(path).filter(|it| it.digest == digest);
        Ok(entry.map(|it| it.decision))
    }

    pub(super) fn decide(
        &self,
        path: &Path,
        digest: &str,
        decision: TrustDecision,
    ) -> Result<(), TrustError> {
        let mut file = self.read()?;
        let entry = TrustEntry { digest: digest.to_owned(), decision };
        file.projects.insert(path.to_owned(), entry);
        self.write(&file)
    }

    pub(super) fn forget(&self, path: &Path) -> Result<bool, TrustError> {
        let mut file = self.read()?;
        let was_known = file.projects.remove(path).is_some();
        if was_known {
            self.write(&file)?;
        }
        Ok(was_known)
    }

    /// A damaged file is an error: decisions that are lost silently would be a surprise.
    fn read(&self) -> Result<TrustFile, TrustError> {
        match std::fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(|it| self.error(it.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(TrustFile::default()),
            Err(error) => Err(self.error(error)),
        }
    }

    fn write(&self, file: &TrustFile) -> Result<(), TrustError> {
        let temporary = self.path.with_extension("new");
        let write = || {
            let _ = std::fs::remove_file(&temporary);
            let mut options = std::fs::OpenOptions::new();
            let mut new = options.write(true).create_new(true).mode(0o600).open(&temporary)?;
            new.write_all(&serde_json::to_vec_pretty(file)?)?;
            new.sync_all()?;
            std::fs::rename(&temporary, &self.path)
        };
        write().map_err(|it| self.error(it))
    }

    fn error(&self, source: io::Error) -> TrustError {
        TrustError { path: self.path.clone(), source }
    }
}
