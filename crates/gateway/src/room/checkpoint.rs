//! Folds that were saved, so that a long session is on the screen at once.
//!
//! A checkpoint is only ever a shortcut: whatever is wrong with one, the journal is folded anew.

use std::path::PathBuf;

use journal::SessionId;
use tracing::debug;
use view::{Fold, Revision};

/// A session that is shorter than this is folded faster than a checkpoint is read.
const WORTH_IT: u64 = 2_000;

/// Where folds are saved.
#[derive(Debug)]
pub(super) struct Checkpoints(PathBuf);

impl Checkpoints {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    pub(super) async fn load(&self, session: SessionId) -> Option<Fold> {
        let path = self.path(session);
        let read = tokio::task::spawn_blocking(move || {
            let saved = std::fs::read(path).ok()?;
            // Another version's fold is not this one's, however alike they look.
            let saved = saved.strip_prefix(version().as_bytes())?;
            Fold::restore(saved).ok()
        });
        read.await.ok().flatten()
    }

    pub(super) async fn save(&self, session: SessionId, revision: Revision, fold: Vec<u8>) {
        if revision.0 < WORTH_IT {
            return;
        }
        let (directory, path) = (self.0.clone(), self.path(session));
        let written = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(directory)?;
            let new = path.with_extension("new");
            let mut bytes = version().into_bytes();
            bytes.extend(fold);
            std::fs::write(&new, bytes)?;
            std::fs::rename(new, path)
        });
        if let Ok(Err(error)) = written.await {
            debug!(%session, %error, "a view could not be saved");
        }
    }

    pub(super) async fn forget(&self, session: SessionId) {
        // Where there is none there is nothing to forget.
        let _ = tokio::fs::remove_file(self.path(session)).await;
    }

    fn path(&self, session: SessionId) -> PathBuf {
        self.0.join(format!("{session}.view"))
    }
}

fn version() -> String {
    format!("towpath {} view\n", env!("CARGO_PKG_VERSION"))
}
