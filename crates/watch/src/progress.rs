//! How far a large file has come.

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::remark::Remark;

/// Files from here on take long enough to speak of.
const LARGE: u64 = 8 << 20;

/// How often it is spoken of.
const PAUSE: Duration = Duration::from_secs(1);

/// A file on its way to a target.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    path: PathBuf,
    target: String,
    total: u64,
    done: u64,
    last: Instant,
    remarks: mpsc::Sender<Remark>,
}

impl Progress {
    pub(crate) fn new(path: PathBuf, target: String, remarks: mpsc::Sender<Remark>) -> Self {
        Self { path, target, total: 0, done: 0, last: Instant::now(), remarks }
    }

    pub(crate) fn over(self, total: u64) -> Self {
        Self { total, ..self }
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        self.done += bytes as u64;
        if self.total < LARGE || self.last.elapsed() < PAUSE {
            return;
        }
        self.last = Instant::now();
        // One that nobody has time to hear is out of date anyway.
        let _ = self.remarks.try_send(Remark::Progress {
            path: self.path.clone(),
            target: self.target.clone(),
            done: self.done,
            total: self.total,
        });
    }
}
