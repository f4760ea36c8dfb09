//! The tasks that are started once the project is known: one for each target, one for commits and
//! one for hooks.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::delivery::{DeliveryQueue, DeliveryResult, DeliveryWorker};
use crate::files::FileIndex;
use crate::git::{self, CommitJob, Committer};
use crate::hooks::{self, HookCall, HookCounts, HookWorker};
use crate::project::{Project, resolve_links};
use crate::report::LogLine;
use crate::settings::WatchSettings;

/// The tasks' inputs.
pub(crate) struct Workers {
    pub(crate) project: Project,
    pub(crate) index: Option<FileIndex>,
    excluded: Vec<PathBuf>,
    pub(crate) queues: Vec<(String, Arc<DeliveryQueue>)>,
    pub(crate) commits: Option<mpsc::Sender<CommitJob>>,
    pub(crate) hooks: Option<mpsc::Sender<HookCall>>,
}

/// The result of a task.
pub(crate) enum WorkerResult {
    Delivery,
    Hooks(HookCounts),
    Commits(Vec<String>),
}

/// What a task reports while it runs.
pub(crate) enum WorkerEvent {
    /// A delivery succeeded or failed.
    DeliveryFinished(DeliveryResult),
    /// The hooks for a call have run, successfully or not.
    HookFinished,
}

/// The channels that tasks send to.
pub(crate) struct WorkerSenders {
    pub(crate) log: mpsc::Sender<LogLine>,
    pub(crate) done: mpsc::Sender<WorkerEvent>,
}

impl Workers {
    pub(crate) async fn start(
        project: Project,
        settings: &mut WatchSettings,
        senders: &WorkerSenders,
        tasks: &mut JoinSet<WorkerResult>,
    ) -> Self {
        let excluded: Vec<PathBuf> = settings
            .targets
            .iter()
            .filter_map(|target| target.directory())
            .map(resolve_links)
            .collect();
        let index = match (settings.scan, settings.scan_since) {
            (false, _) => None,
            (true, None) => Some(index_files(&project, &excluded).await),
            (true, Some(since)) => {
                let mut index = index_files(&project, &excluded).await;
                index.remove_changed_since(&project, since);
                Some(index)
            }
        };
        let mut queues = Vec::new();
        for target in std::mem::take(&mut settings.targets) {
            let queue = Arc::new(DeliveryQueue::default());
            queues.push((target.name().to_owned(), Arc::clone(&queue)));
            let worker = DeliveryWorker {
                target,
                project: project.clone(),
                queue,
                retry: settings.retry,
                done: senders.done.clone(),
                log: senders.log.clone(),
            };
            tasks.spawn(async {
                worker.run().await;
                WorkerResult::Delivery
            });
        }
        let commits = settings.commit.clone().map(|settings| {
            let (sender, jobs) = mpsc::channel(git::MAX_WAITING);
            let committer = Committer {
                settings,
                project: project.clone(),
                jobs,
                done: senders.done.clone(),
                log: senders.log.clone(),
            };
            tasks.spawn(async { WorkerResult::Commits(committer.run().await) });
            sender
        });
        let hooks = settings.hooks.any().then(|| {
            let (sender, calls) = mpsc::channel(hooks::MAX_WAITING);
            let settings = settings.hooks.clone();
            let (done, log) = (senders.done.clone(), senders.log.clone());
            let worker = HookWorker { settings, calls, done, log };
            tasks.spawn(async { WorkerResult::Hooks(worker.run().await) });
            sender
        });
        Self { project, index, excluded, queues, commits, hooks }
    }

    /// The current files of the project.
    pub(crate) async fn scan(&self) -> FileIndex {
        index_files(&self.project, &self.excluded).await
    }
}

/// Indexes all files, on a blocking thread.
async fn index_files(project: &Project, excluded: &[PathBuf]) -> FileIndex {
    let (project, excluded) = (project.clone(), excluded.to_vec());
    let index = tokio::task::spawn_blocking(move || FileIndex::of(&project, &excluded));
    index.await.unwrap_or_default()
}
