//! Delivery of changed files to one target: the queue, and the task that empties it.
//!
//! A file that changes again while it waits is delivered once, in its latest state. So the queue holds
//! each file of the project at most once, and adding to it never waits. A failed delivery is retried
//! after a growing pause, a limited number of times; a permanent failure is not retried. A target that
//! hangs delays only its own task.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};

use crate::project::{Project, ProjectFile};
use crate::report::{EntryNumber, LogLine, ReportStatus};
use crate::settings::RetryPolicy;
use crate::stream_event::AgentSessionId;
use crate::target::{PushError, PushOutcome, Target};
use crate::workers::WorkerEvent;

/// The result of delivering some changes to one target.
#[derive(Debug)]
pub(crate) struct DeliveryResult {
    pub(crate) entries: Vec<EntryNumber>,
    pub(crate) status: ReportStatus,
    pub(crate) reason: Option<String>,
}

/// The task that delivers files to one target.
pub(crate) struct DeliveryWorker {
    pub(crate) target: Target,
    pub(crate) project: Project,
    pub(crate) queue: Arc<DeliveryQueue>,
    pub(crate) retry: RetryPolicy,
    /// Waits if it is full: the receiver never waits for a worker.
    pub(crate) done: mpsc::Sender<WorkerEvent>,
    pub(crate) log: mpsc::Sender<LogLine>,
}

impl DeliveryWorker {
    pub(crate) async fn run(mut self) {
        while let Some(pending) = self.queue.next().await {
            let delivery = self.deliver(pending).await;
            if self.done.send(WorkerEvent::DeliveryFinished(delivery)).await.is_err() {
                return;
            }
        }
    }

    async fn deliver(&mut self, mut pending: PendingFile) -> DeliveryResult {
        let path = pending.file.relative.clone();
        let name = self.target.name().to_owned();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let progress = UploadProgress::new(path.clone(), name.clone(), self.log.clone());
            let push = self.target.push(&self.project, &pending, progress);
            let outcome = timeout(self.retry.timeout, push).await.unwrap_or_else(|_| {
                let limit = self.retry.timeout.as_secs_f32();
                Err(PushError::Temporary(format!("took longer than {limit} s")))
            });
            let (reason, permanent) = match outcome {
                Ok(outcome) => return self.report_success(pending, &name, outcome).await,
                Err(PushError::Temporary(reason)) => (reason, false),
                Err(PushError::Permanent(reason)) => (reason, true),
            };
            if permanent || attempt >= self.retry.attempts {
                let path = path.to_string_lossy().into_owned();
                let line = LogLine::Failed { path, target: name, reason: reason.clone() };
                self.log(line).await;
                let (entries, status) = (pending.entries, ReportStatus::Failed);
                return DeliveryResult { entries, status, reason: Some(reason) };
            }
            let target = name.clone();
            self.log(LogLine::Retrying { path: path.clone(), target, reason }).await;
            sleep(self.retry.delay_after(attempt)).await;
            if let Some(newer) = self.queue.take(&pending.file) {
                pending.merge(newer);
            }
        }
    }

    async fn report_success(
        &self,
        pending: PendingFile,
        target: &str,
        outcome: PushOutcome,
    ) -> DeliveryResult {
        let path = pending.file.relative;
        let (status, reason) = match outcome {
            PushOutcome::Written => (ReportStatus::Pushed, None),
            PushOutcome::Deleted => (ReportStatus::Pushed, Some("deleted".to_owned())),
            PushOutcome::Skipped(reason) => (ReportStatus::Skipped, Some(reason)),
        };
        let line = match (status, &reason) {
            (ReportStatus::Skipped, Some(reason)) => {
                let path = path.to_string_lossy().into_owned();
                LogLine::Skipped { path, reason: reason.clone() }
            }
            (_, note) => LogLine::Pushed { path, target: target.to_owned(), note: note.clone() },
        };
        self.log(line).await;
        DeliveryResult { entries: pending.entries, status, reason }
    }

    async fn log(&self, line: LogLine) {
        // The receiver is gone once everything has ended.
        let _ = self.log.send(line).await;
    }
}

/// The files that wait for one target.
#[derive(Debug, Default)]
pub(crate) struct DeliveryQueue {
    state: Mutex<QueueState>,
    changed: Notify,
}

/// A file to be delivered, and the changes that caused it.
#[derive(Clone, Debug)]
pub(crate) struct PendingFile {
    pub(crate) file: ProjectFile,
    pub(crate) tool: String,
    pub(crate) session: Option<AgentSessionId>,
    pub(crate) entries: Vec<EntryNumber>,
}

#[derive(Debug, Default)]
struct QueueState {
    pending: HashMap<ProjectFile, PendingFile>,
    order: VecDeque<ProjectFile>,
    closed: bool,
}

impl DeliveryQueue {
    pub(crate) fn add(&self, pending: PendingFile) {
        let mut state = self.lock();
        if let Some(waiting) = state.pending.get_mut(&pending.file) {
            waiting.merge(pending);
        } else {
            state.order.push_back(pending.file.clone());
            state.pending.insert(pending.file.clone(), pending);
        }
        drop(state);
        self.changed.notify_one();
    }

    /// No more files will be added.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// The file that has waited longest; `None` once the queue is closed and empty.
    pub(crate) async fn next(&self) -> Option<PendingFile> {
        loop {
            {
                let mut state = self.lock();
                if let Some(file) = state.order.pop_front() {
                    if let Some(pending) = state.pending.remove(&file) {
                        return Some(pending);
                    }
                    continue;
                }
                if state.closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// The newer entry for the same file, if there is one.
    pub(crate) fn take(&self, file: &ProjectFile) -> Option<PendingFile> {
        self.lock().pending.remove(file)
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingFile {
    /// Takes over the changes of a newer entry for the same file.
    pub(crate) fn merge(&mut self, other: Self) {
        self.entries.extend(other.entries);
        (self.tool, self.session) = (other.tool, other.session);
    }
}

/// The size from which progress is logged.
const LARGE_FILE: u64 = 8 << 20;

/// How often progress is logged.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// The progress of one upload.
#[derive(Clone, Debug)]
pub(crate) struct UploadProgress {
    path: PathBuf,
    target: String,
    total: u64,
    done: u64,
    last: Instant,
    log: mpsc::Sender<LogLine>,
}

impl UploadProgress {
    pub(crate) fn new(path: PathBuf, target: String, log: mpsc::Sender<LogLine>) -> Self {
        Self { path, target, total: 0, done: 0, last: Instant::now(), log }
    }

    pub(crate) fn with_total(self, total: u64) -> Self {
        Self { total, ..self }
    }

    pub(crate) fn advance(&mut self, bytes: usize) {
        self.done += bytes as u64;
        if self.total < LARGE_FILE || self.last.elapsed() < PROGRESS_INTERVAL {
            return;
        }
        self.last = Instant::now();
        // A line that cannot be logged now would be outdated later.
        let _ = self.log.try_send(LogLine::Progress {
            path: self.path.clone(),
            target: self.target.clone(),
            done: self.done,
            total: self.total,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{DeliveryQueue, PendingFile};
    use crate::project::ProjectFile;
    use crate::report::Report;

    #[tokio::test]
    async fn a_file_that_changes_again_while_it_waits_is_delivered_once() {
        let mut report = Report::default();
        let queue = DeliveryQueue::default();
        let change = crate::stream_event::Change {
            call: crate::stream_event::CallId("t".to_owned()),
            tool: "Write".to_owned(),
            path: "a".to_owned(),
            session: None,
        };
        for (path, tool) in [("a", "Write"), ("b", "Write"), ("a", "Edit"), ("a", "MultiEdit")] {
            let file = ProjectFile { relative: path.into() };
            let entry = report.add_pending(&file.relative, &change, "target");
            let tool = tool.to_owned();
            queue.add(PendingFile { file, tool, session: None, entries: vec![entry] });
        }
        queue.close();
        let first = queue.next().await.unwrap();
        assert_eq!((first.tool.as_str(), first.entries.len()), ("MultiEdit", 3));
        let second = queue.next().await.unwrap();
        assert_eq!((second.file.relative.to_str(), second.entries.len()), (Some("b"), 1));
        assert!(queue.next().await.is_none());
    }
}
