//! What is set up once it is known where the project is: a task for each target, one for commits,
//! one for hooks, and what they are given to do.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::courier::{Courier, Delivery};
use crate::git::{self, Committer, Job};
use crate::hooks::{self, Call, Hooks};
use crate::outbox::Outbox;
use crate::place::Project;
use crate::remark::Remark;
use crate::scan::Index;
use crate::settings::Settings;

/// What is set up once the project is known.
pub(crate) struct Work {
    pub(crate) project: Project,
    pub(crate) index: Option<Index>,
    unscanned: Vec<PathBuf>,
    pub(crate) outboxes: Vec<(String, Arc<Outbox>)>,
    pub(crate) jobs: Option<mpsc::Sender<Job>>,
    pub(crate) calls: Option<mpsc::Sender<Call>>,
}

/// What tasks come to when they end.
pub(crate) enum Ended {
    Courier,
    Hooks { failed: u64 },
    Commits(Vec<String>),
}

/// What tasks have done.
pub(crate) enum Done {
    /// Some changes came to something.
    Delivered(Delivery),
    /// Hooks were run for a call, whatever came of them.
    HookRun,
}

/// The ends that tasks are given.
pub(crate) struct Mouths {
    pub(crate) remarks: mpsc::Sender<Remark>,
    pub(crate) done: mpsc::Sender<Done>,
}

impl Work {
    /// Starts the tasks.
    pub(crate) async fn begin(
        project: Project,
        settings: &mut Settings,
        mouths: &Mouths,
        tasks: &mut JoinSet<Ended>,
    ) -> Self {
        let unscanned: Vec<PathBuf> = settings
            .targets
            .iter()
            .filter_map(|target| target.directory())
            .map(crate::place::resolved)
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
        let mut outboxes = Vec::new();
        for target in std::mem::take(&mut settings.targets) {
            let outbox = Arc::new(Outbox::default());
            outboxes.push((target.name().to_owned(), Arc::clone(&outbox)));
            let courier = Courier {
                target,
                project: project.clone(),
                outbox,
                patience: settings.patience,
                done: mouths.done.clone(),
                remarks: mouths.remarks.clone(),
            };
            tasks.spawn(async {
                courier.run().await;
                Ended::Courier
            });
        }
        let jobs = settings.commit.clone().map(|settings| {
            let (sender, jobs) = mpsc::channel(git::WAITING);
            let committer = Committer {
                settings,
                project: project.clone(),
                jobs,
                done: mouths.done.clone(),
                remarks: mouths.remarks.clone(),
            };
            tasks.spawn(async { Ended::Commits(committer.run().await) });
            sender
        });
        let calls = settings.hooks.any().then(|| {
            let (sender, calls) = mpsc::channel(hooks::WAITING);
            let settings = settings.hooks.clone();
            let (done, remarks) = (mouths.done.clone(), mouths.remarks.clone());
            let hooks = Hooks { settings, calls, done, remarks };
            tasks.spawn(async { Ended::Hooks { failed: hooks.run().await } });
            sender
        });
        Self { project, index, unscanned, outboxes, jobs, calls }
    }

    /// The files of the project as they are now.
    pub(crate) async fn look(&self) -> Index {
        look(&self.project, &self.unscanned).await
    }
}

/// Looks at every file, where it does not hold up whoever brings files.
async fn look(project: &Project, without: &[PathBuf]) -> Index {
    let (project, without) = (project.clone(), without.to_vec());
    let look = tokio::task::spawn_blocking(move || Index::of(&project, &without));
    look.await.unwrap_or_default()
}
