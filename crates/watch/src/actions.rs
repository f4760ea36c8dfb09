//! The task that takes events from the queue, decides what to do, and hands the work to workers.
//!
//! It owns the report. Deliveries, commits and hooks run in tasks of their own, and it does not wait for
//! them while the stream continues. At the end it waits for all of them, with a time limit.

use std::collections::HashMap;
use std::path::PathBuf;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::delivery::{DeliveryResult, PendingFile};
use crate::files::ScanChange;
use crate::git::{self, CommitContext, CommitJob};
use crate::hooks::{HookCall, HookContext, HookEvent, HookToolCall};
use crate::project::{Project, ProjectFile};
use crate::report::{CompletionTracker, EntryNumber, LogLine, Report, ReportStatus};
use crate::settings::{ActionTrigger, WatchSettings};
use crate::stream_event::{CallId, Change, EventQueue, StreamEvent};
use crate::workers::{WorkerEvent, WorkerResult, WorkerSenders, Workers};

/// How long to wait for the end of the stream after a request to stop. Whatever stops a pipeline usually
/// stops the agent as well, and its last lines are still to come.
const STOP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);

/// The capacity of the channels from the workers. A worker waits if they are full.
const CHANNEL_CAPACITY: usize = 64;

/// The name of shell commands in the report.
const SHELL: &str = "Bash";

/// Acts on the events of a stream.
pub struct Actions {
    settings: WatchSettings,
    hook_context: HookContext,
    commit_context: CommitContext,
    report: Report,
    workers: Option<Workers>,
    /// The directory that does not exist, so that this is logged once.
    missing_project: Option<PathBuf>,
    /// Files that open calls are about to change. A scan leaves them to their call: a sub-agent in the
    /// background may write them when a turn ends.
    announced: HashMap<CallId, (ProjectFile, Change)>,
    /// A shell command ran, and background processes of it may still run.
    shell_used: bool,
    /// The changed files of the turn, for actions at its end.
    turn_files: Vec<(ProjectFile, Change)>,
    checkpoints: CompletionTracker,
    /// An earlier process has acted on the current events.
    replaying: bool,
}

/// The channels from the workers, and their tasks.
struct WorkerReceivers {
    log: mpsc::Receiver<LogLine>,
    done: mpsc::Receiver<WorkerEvent>,
    tasks: JoinSet<WorkerResult>,
}

impl Actions {
    pub fn new(settings: WatchSettings) -> Self {
        Self {
            settings,
            hook_context: HookContext::default(),
            commit_context: CommitContext::default(),
            report: Report::default(),
            workers: None,
            missing_project: None,
            announced: HashMap::new(),
            shell_used: false,
            turn_files: Vec::new(),
            checkpoints: CompletionTracker::default(),
            replaying: false,
        }
    }

    /// An earlier process has acted on the events before [`StreamEvent::Replayed`].
    pub fn replaying(settings: WatchSettings) -> Self {
        Self { replaying: true, ..Self::new(settings) }
    }

    /// Acts on events until the stream ends or `stop` completes.
    pub async fn run(
        mut self,
        queue: &EventQueue,
        mut log: impl FnMut(&LogLine),
        stop: impl Future<Output = ()>,
    ) -> Report {
        let (log_sender, log_receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let (done_sender, done_receiver) = mpsc::channel(CHANNEL_CAPACITY);
        let senders = WorkerSenders { log: log_sender, done: done_sender };
        let mut receivers =
            WorkerReceivers { log: log_receiver, done: done_receiver, tasks: JoinSet::new() };
        if self.settings.project.is_some() {
            self.start_workers(&senders, &mut receivers.tasks, &mut log).await;
        }
        tokio::pin!(stop);
        let mut deadline = None;
        loop {
            let timeout = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(line) = receivers.log.recv() => log(&line),
                Some(done) = receivers.done.recv() => self.handle_worker_event(done, &mut log),
                event = queue.next() => {
                    let ended = matches!(event, StreamEvent::EndOfStream { .. });
                    self.handle(event, &senders, &mut receivers.tasks, &mut log).await;
                    if ended {
                        break;
                    }
                }
                () = &mut stop, if deadline.is_none() => {
                    log(&LogLine::Stopping);
                    deadline = Some(Instant::now() + STOP_TIMEOUT);
                }
                () = timeout => {
                    self.end_turn(&mut log);
                    let open = std::mem::take(&mut self.announced).into_values();
                    let mut open: Vec<Change> = open.map(|(_, change)| change).collect();
                    open.sort_by(|one, other| one.path.cmp(&other.path));
                    self.report_unfinished(open, &mut log);
                    break;
                }
            }
        }
        drop(senders);
        self.finish(receivers, log).await
    }

    /// Waits for the work in progress.
    async fn finish(
        mut self,
        mut receivers: WorkerReceivers,
        mut log: impl FnMut(&LogLine),
    ) -> Report {
        if let Some(workers) = self.workers.take() {
            for (_, queue) in &workers.queues {
                queue.close();
            }
            // Dropping the workers closes the channels of commits and hooks.
        }
        let grace = sleep(self.settings.retry.grace);
        tokio::pin!(grace);
        loop {
            tokio::select! {
                biased;
                Some(line) = receivers.log.recv() => log(&line),
                Some(done) = receivers.done.recv() => self.handle_worker_event(done, &mut log),
                ended = receivers.tasks.join_next() => match ended {
                    None => break,
                    Some(Ok(result)) => self.add_result(result),
                    Some(Err(error)) => {
                        log(&LogLine::Problem(format!("an action crashed: {error}")));
                    }
                },
                () = &mut grace => {
                    let left = receivers.tasks.len();
                    let text = format!("{left} actions took too long and were cancelled");
                    log(&LogLine::Problem(text));
                    break;
                }
            }
        }
        receivers.tasks.abort_all();
        while let Ok(done) = receivers.done.try_recv() {
            self.handle_worker_event(done, &mut log);
        }
        while let Ok(line) = receivers.log.try_recv() {
            log(&line);
        }
        self.report
    }

    fn add_result(&mut self, result: WorkerResult) {
        match result {
            WorkerResult::Delivery => {}
            WorkerResult::Hooks(counts) => {
                self.report.failed_hooks += counts.failed;
                self.report.gitbutler_sessions.extend(counts.derived_sessions);
            }
            WorkerResult::Commits(commits) => self.report.commits = commits,
        }
    }

    fn handle_worker_event(&mut self, event: WorkerEvent, log: &mut impl FnMut(&LogLine)) {
        match event {
            WorkerEvent::HookFinished => self.checkpoints.finish_hook(),
            WorkerEvent::DeliveryFinished(DeliveryResult { entries, status, reason }) => {
                for entry in entries {
                    self.report.finish(entry, status, reason.clone());
                    self.checkpoints.finish(entry);
                }
            }
        }
        self.log_checkpoint(log);
    }

    /// Logs the last completed checkpoint if there is a new one.
    fn log_checkpoint(&mut self, log: &mut impl FnMut(&LogLine)) {
        if let Some((position, next)) = self.checkpoints.completed() {
            // A record may be followed for weeks, so the report must not grow for ever.
            self.report.discard(next);
            log(&LogLine::Checkpoint(position));
        }
    }

    async fn handle(
        &mut self,
        event: StreamEvent,
        senders: &WorkerSenders,
        tasks: &mut JoinSet<WorkerResult>,
        log: &mut impl FnMut(&LogLine),
    ) {
        match event {
            StreamEvent::Directory { cwd, permission_mode } => {
                self.hook_context.cwd = cwd.into();
                self.hook_context.permission_mode = permission_mode;
                // The agent may change its directory later; the project stays the same.
                self.start_workers(senders, tasks, log).await;
            }
            StreamEvent::Session(session) => {
                self.hook_context.session = Some(session.clone());
                self.commit_context.session = Some(session);
            }
            StreamEvent::Prompt(text) => self.commit_context.prompt = Some(text),
            StreamEvent::Text(text) => self.commit_context.text = Some(text),
            StreamEvent::Announced { change, .. } if self.replaying => {
                if let Ok(file) = self.resolve(&change) {
                    self.announced.insert(change.call.clone(), (file, change));
                }
            }
            StreamEvent::Finished { change, failed, .. } if self.replaying => {
                let file = self.announced.remove(&change.call);
                let waits = !failed && self.settings.acts_per_turn();
                self.turn_files.extend(file.filter(|_| waits));
            }
            StreamEvent::ShellEnded { .. } if self.replaying => self.shell_used = true,
            StreamEvent::TurnEnded if self.replaying => {}
            StreamEvent::Announced { change, input } => {
                self.start_workers(senders, tasks, log).await;
                let (tool, path) = (change.tool.clone(), change.path.clone());
                log(&LogLine::Announced { tool, path });
                if let Ok(file) = self.resolve(&change) {
                    self.announced.insert(change.call.clone(), (file, change.clone()));
                    let tool = HookToolCall { change, input, response: None };
                    self.run_hook(HookEvent::Pre, Some(tool), log);
                }
            }
            StreamEvent::Finished { change, failed: true, .. } => {
                self.announced.remove(&change.call);
                self.skip(&change, "the call failed", log);
            }
            StreamEvent::Finished { change, failed: false, input, response } => {
                self.start_workers(senders, tasks, log).await;
                self.announced.remove(&change.call);
                match self.resolve(&change) {
                    Ok(file) => {
                        self.act(file, &change, log);
                        let tool = HookToolCall { change, input, response };
                        self.run_hook(HookEvent::Post, Some(tool), log);
                    }
                    Err(reason) => self.skip(&change, &reason, log),
                }
            }
            StreamEvent::ShellEnded { session } => {
                self.shell_used = true;
                let call = CallId(String::new());
                let (tool, path) = (SHELL.to_owned(), String::new());
                self.scan(&Change { call, tool, path, session }, log).await;
            }
            StreamEvent::TurnEnded => {
                // Background processes of the shell may have written files since its command ended.
                // Without a shell command, new changes belong to calls that are still to come.
                if self.shell_used {
                    let session = self.hook_context.session.clone();
                    let call = CallId(String::new());
                    let (tool, path) = (SHELL.to_owned(), String::new());
                    self.scan(&Change { call, tool, path, session }, log).await;
                }
                self.report.turns += 1;
                self.end_turn(log);
                self.run_hook(HookEvent::Stop, None, log);
            }
            StreamEvent::Unfinished(changes) => self.report_unfinished(changes, log),
            StreamEvent::Replayed => self.replaying = false,
            StreamEvent::Checkpoint(position) => {
                self.checkpoints.add(position, self.report.next());
                self.log_checkpoint(log);
            }
            StreamEvent::EndOfStream { unfinished } => {
                self.end_turn(log);
                self.report_unfinished(unfinished, log);
            }
        }
    }

    fn report_unfinished(&mut self, unfinished: Vec<Change>, log: &mut impl FnMut(&LogLine)) {
        for change in unfinished {
            self.announced.remove(&change.call);
            let (tool, path) = (change.tool.clone(), change.path.clone());
            log(&LogLine::Unfinished { tool, path: path.clone() });
            let reason = Some("no result received".to_owned());
            self.report.add(path, &change, None, ReportStatus::Unfinished, reason);
        }
    }

    /// The file that a change refers to, if it is selected.
    fn resolve(&self, change: &Change) -> Result<ProjectFile, String> {
        let workers = self.workers.as_ref().ok_or("the project directory does not exist")?;
        let file = workers.project.resolve(&change.path, &self.hook_context.cwd);
        let file = file.map_err(|rejection| rejection.to_string())?;
        if self.settings.selection.matches(&file.relative) {
            Ok(file)
        } else {
            Err("not selected".to_owned())
        }
    }

    fn skip(&mut self, change: &Change, reason: &str, log: &mut impl FnMut(&LogLine)) {
        let path = match &self.workers {
            Some(workers) => match workers.project.resolve(&change.path, &self.hook_context.cwd) {
                Ok(file) => file.relative.to_string_lossy().into_owned(),
                Err(_) => change.path.clone(),
            },
            None => change.path.clone(),
        };
        log(&LogLine::Skipped { path: path.clone(), reason: reason.to_owned() });
        self.report.add(path, change, None, ReportStatus::Skipped, Some(reason.to_owned()));
    }

    /// Acts on a changed file, now or at the end of the turn.
    fn act(&mut self, file: ProjectFile, change: &Change, log: &mut impl FnMut(&LogLine)) {
        let Some(workers) = &mut self.workers else { return };
        if let Some(index) = &mut workers.index {
            index.update(&workers.project, &file);
        }
        if workers.queues.is_empty() && workers.commits.is_none() {
            let path = file.relative.to_string_lossy().into_owned();
            let reason = Some("no target".to_owned());
            self.report.add(path, change, None, ReportStatus::Skipped, reason);
            return;
        }
        if self.settings.trigger == ActionTrigger::Change {
            self.deliver(&file, change);
        }
        let commit_trigger = self.settings.commit.as_ref().map(|commit| commit.trigger);
        if commit_trigger == Some(ActionTrigger::Change) {
            self.commit(&[(file.clone(), change.clone())], log);
        }
        if self.settings.acts_per_turn() {
            self.turn_files.push((file, change.clone()));
        }
    }

    fn end_turn(&mut self, log: &mut impl FnMut(&LogLine)) {
        let files = std::mem::take(&mut self.turn_files);
        if files.is_empty() {
            return;
        }
        if self.settings.trigger == ActionTrigger::Turn {
            for (file, change) in &files {
                self.deliver(file, change);
            }
        }
        if self.settings.commit.as_ref().is_some_and(|commit| commit.trigger == ActionTrigger::Turn)
        {
            self.commit(&files, log);
        }
    }

    fn deliver(&mut self, file: &ProjectFile, change: &Change) {
        let Some(workers) = &self.workers else { return };
        for (name, queue) in &workers.queues {
            let entry = self.report.add_pending(&file.relative, change, name);
            self.checkpoints.start(entry);
            queue.add(PendingFile {
                file: file.clone(),
                tool: change.tool.clone(),
                session: change.session.clone(),
                entries: vec![entry],
            });
        }
    }

    fn commit(&mut self, files: &[(ProjectFile, Change)], log: &mut impl FnMut(&LogLine)) {
        let Some(commits) = self.workers.as_ref().and_then(|workers| workers.commits.clone())
        else {
            return;
        };
        let mut context = self.commit_context.clone();
        if let [(_, change)] = files {
            context.tool = Some(change.tool.clone());
            context.session = change.session.clone().or(context.session);
        }
        let entry = |(file, change): &(ProjectFile, Change)| -> (ProjectFile, EntryNumber) {
            let entry = self.report.add_pending(&file.relative, change, git::NAME);
            self.checkpoints.start(entry);
            (file.clone(), entry)
        };
        let files = files.iter().map(entry).collect();
        if let Err(error) = commits.try_send(CommitJob { files, context }) {
            let reason = "too many commits are waiting".to_owned();
            log(&LogLine::Problem(reason.clone()));
            for (_, entry) in error.into_inner().files {
                self.report.finish(entry, ReportStatus::Failed, Some(reason.clone()));
                self.checkpoints.finish(entry);
            }
        }
    }

    fn run_hook(
        &mut self,
        event: HookEvent,
        tool: Option<HookToolCall>,
        log: &mut impl FnMut(&LogLine),
    ) {
        if event == HookEvent::Pre && self.settings.hooks.pre_by_agent {
            return;
        }
        let Some(workers) = &self.workers else { return };
        let Some(calls) = &workers.hooks else { return };
        let mut context = self.hook_context.clone();
        if context.cwd.as_os_str().is_empty() {
            workers.project.root().clone_into(&mut context.cwd);
        }
        if calls.try_send(HookCall { event, context, tool }).is_ok() {
            self.checkpoints.start_hook();
        } else {
            self.report.failed_hooks += 1;
            log(&LogLine::Problem("too many hooks are waiting; one was not run".to_owned()));
        }
    }

    /// Finds the files that shell commands changed, and acts on them.
    async fn scan(&mut self, cause: &Change, log: &mut impl FnMut(&LogLine)) {
        let Some(workers) = &mut self.workers else { return };
        let Some(before) = workers.index.take() else { return };
        let mut after = workers.scan().await;
        for (file, _) in self.announced.values() {
            after.restore(&before, file);
        }
        let changes = before.changes_until(&after);
        workers.index = Some(after);
        for change in changes {
            let files = match change {
                ScanChange::Written(file) | ScanChange::Deleted(file) => vec![file],
                ScanChange::Renamed { from, to } => vec![from, to],
            };
            for file in files {
                if self.settings.selection.matches(&file.relative) {
                    let path = file.relative.to_string_lossy().into_owned();
                    self.act(file, &Change { path, ..cause.clone() }, log);
                }
            }
        }
    }

    /// Starts the workers once the project is known.
    async fn start_workers(
        &mut self,
        senders: &WorkerSenders,
        tasks: &mut JoinSet<WorkerResult>,
        log: &mut impl FnMut(&LogLine),
    ) {
        if self.workers.is_some() {
            return;
        }
        let reported = Some(&self.hook_context.cwd).filter(|cwd| !cwd.as_os_str().is_empty());
        let directory = self.settings.project.as_ref().or(reported);
        let directory = directory.unwrap_or(&self.settings.current_directory);
        if self.missing_project.as_ref() == Some(directory) {
            return;
        }
        let project = match Project::at(directory) {
            Ok(project) => project,
            Err(error) => {
                let text = format!("cannot open the project `{}`: {error}", directory.display());
                self.missing_project = Some(directory.clone());
                return log(&LogLine::Problem(text));
            }
        };
        log(&LogLine::Watching(project.root().to_owned()));
        self.workers = Some(Workers::start(project, &mut self.settings, senders, tasks).await);
    }
}
