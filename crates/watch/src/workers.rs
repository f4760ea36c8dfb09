//! What is set up once it is known where the project is: a task for each target, one for commits,
//! one for hooks, and what they are given to do.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::delivery::{DeliveryWorker, DeliveryResult};
use crate::git::{self, Committer, CommitJob};
use crate::hooks::{self, HookCall, Hooks};
use crate::delivery::DeliveryQueue;
use crate::project::Project;
use crate::log_line::LogLine;
use crate::scan::Index;
use crate::settings::Settings;

/// What is set up once the project is known.
pub(crate) struct Workers {
    pub(crate) project: Project,
    pub(crate) index: Option<FileIndex>,
    unscanned: Vec<PathBuf>,
    pub(crate) queues: Vec<(String, Arc<DeliveryQueue>)>,
    pub(crate) jobs: Option<mpsc::Sender<CommitJob>>,
    pub(crate) calls: Option<mpsc::Sender<HookCall>>,
}

/// What tasks come to when they end.
pub(crate) enum WorkerResult {
    DeliveryWorker,
    Hooks { failed: u64 },
    Commits(Vec<String>),
}

/// What tasks have done.
pub(crate) enum WorkerEvent {
    /// Some changes came to something.
    Delivered(DeliveryResult),
    /// Hooks were run for a call, whatever came of them.
    HookRun,
}

/// The ends that tasks are given.
pub(crate) struct WorkerSenders {
    pub(crate) log: mpsc::Sender<LogLine>,
    pub(crate) done: mpsc::Sender<WorkerEvent>,
}

impl Workers {
    /// Starts the tasks.
    pub(crate) async fn begin(
        project: Project,
        settings: &mut WatchSettings,
        senders: &WorkerSenders,
        tasks: &mut JoinSet<WorkerResult>,
    ) -> Self {
        let unscanned: Vec<PathBuf> = settings
            .targets
            .iter()
            .filter_map(|target| target.directory())
            .map(crate::project::resolved)
            .collect();
        let index = match (settings.scan, settings.since) {
            (false, _) => None,
            (true, None) => Some(look(&project, &unscanned).await),
            (true, Some(since)) => {
                let mut index = look(&project, &unscanned).await;
                index.leave_out_since(&project, since);
                Some(index)
            }
        };
        let mut queues = Vec::new();
        for target in std::mem::take(&mut settings.targets) {
            let queue = Arc::new(DeliveryQueue::default());
            queues.push((target.name().to_owned(), Arc::clone(&queue)));
            let delivery_worker = DeliveryWorker {
                target,
                project: project.clone(),
                queue,
                retry: settings.retry,
                done: senders.done.clone(),
                log: senders.log.clone(),
            };
            tasks.spawn(async {
                delivery_worker.run().await;
                WorkerResult::DeliveryWorker
            });
        }
        let jobs = settings.commit.clone().map(|settings| {
            let (sender, jobs) = mpsc::channel(git::WAITING);
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
        let calls = settings.hooks.any().then(|| {
            let (sender, calls) = mpsc::channel(hooks::WAITING);
            let settings = settings.hooks.clone();
            let (done, log) = (senders.done.clone(), senders.log.clone());
            let hooks = Hooks { settings, calls, done, log };
            tasks.spawn(async { WorkerResult::Hooks { failed: hooks.run().await } });
            sender
        });
        Self { project, index, unscanned, queues, jobs, calls }
    }

    /// The files of the project as they are now.
    pub(crate) async fn look(&self) -> FileIndex {
        look(&self.project, &self.unscanned).await
    }
}

/// Looks at every file, where it does not hold up whoever brings files.
async fn look(project: &Project, without: &[PathBuf]) -> FileIndex {
    let (project, without) = (project.clone(), without.to_vec());
    let look = tokio::task::spawn_blocking(move || FileIndex::of(&project, &without));
    look.await.unwrap_or_default()
}
