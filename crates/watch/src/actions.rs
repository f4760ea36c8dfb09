//! One task that hears the news, decides, and gives out the work.
//!
//! It owns the report. Targets, commits and hooks are tasks of their own that it never waits for
//! while the stream goes on; at the end it waits for all of them, for so long and no longer.

use std::collections::HashMap;
use std::path::PathBuf;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::completion::CompletionTracker;
use crate::delivery::DeliveryResult;
use crate::delivery::PendingFile;
use crate::event_queue::EventQueue;
use crate::git::{self, CommitJob, CommitOccasion};
use crate::hooks::{HookCall, HookContext, HookMoment, HookToolCall};
use crate::log_line::LogLine;
use crate::project::{Project, ProjectFile};
use crate::report::{EntryNumber, Report, ReportStatus};
use crate::scan::ScanChange;
use crate::settings::{ActionTrigger, WatchSettings};
use crate::stream_event::{CallId, Change, StreamEvent};
use crate::workers::{WorkerEvent, WorkerResult, WorkerSenders, Workers};

/// How long the end of the stream is awaited once somebody wants us to stop: whoever ends a
/// pipeline ends the agent as well, and its last lines are on their way.
const LAST_LINES: std::time::Duration = std::time::Duration::from_secs(2);

/// How many log and things done may wait; whoever has one more waits.
const WAITING: usize = 64;

/// What shell commands are called in the report.
const SHELL: &str = "Bash";

/// Who decides.
pub struct Actions {
    settings: WatchSettings,
    circumstances: HookContext,
    occasion: CommitOccasion,
    report: Report,
    work: Option<Workers>,
    /// Where there should have been a project and is none, so that it is said once.
    missing: Option<PathBuf>,
    /// Files that calls are about to change. What is found of them by scanning is theirs: a sub-agent
    /// in the background may be at it when a turn ends.
    announced: HashMap<CallId, (ProjectFile, Change)>,
    /// There was a command of the shell, and something it started may still run.
    shell_used: bool,
    /// Files of the turn, for what goes by turns.
    of_turn: Vec<(ProjectFile, Change)>,
    checkpoints: CompletionTracker,
    /// What is heard was acted on by somebody before.
    recalling: bool,
}

/// The other ends of what tasks tell.
struct WorkerReceivers {
    log: mpsc::Receiver<LogLine>,
    done: mpsc::Receiver<WorkerEvent>,
    tasks: JoinSet<WorkerResult>,
}

impl Actions {
    /// Nothing has happened yet.
    pub fn new(settings: WatchSettings) -> Self {
        Self {
            settings,
            circumstances: HookContext::default(),
            occasion: CommitOccasion::default(),
            report: Report::default(),
            work: None,
            missing: None,
            announced: HashMap::new(),
            shell_used: false,
            of_turn: Vec::new(),
            checkpoints: CompletionTracker::default(),
            recalling: false,
        }
    }

    /// Somebody acted before on what is heard up to [`StreamEvent::Replayed`].
    pub fn recalling(settings: WatchSettings) -> Self {
        Self { recalling: true, ..Self::new(settings) }
    }

    /// Acts on the news until they are over, or somebody wants to stop.
    pub async fn run(
        mut self,
        queue: &EventQueue,
        mut tell: impl FnMut(&LogLine),
        stop: impl Future<Output = ()>,
    ) -> Report {
        let (line, log) = mpsc::channel(WAITING);
        let (finished, done) = mpsc::channel(WAITING);
        let senders = WorkerSenders { log: line, done: finished };
        let mut receivers = WorkerReceivers { log, done, tasks: JoinSet::new() };
        if self.settings.project.is_some() {
            self.settle_in(&senders, &mut receivers.tasks, &mut tell).await;
        }
        tokio::pin!(stop);
        let mut last_lines = None;
        loop {
            let no_more_lines = async {
                match last_lines {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(line) = receivers.log.recv() => tell(&line),
                Some(done) = receivers.done.recv() => self.settle(done, &mut tell),
                news = queue.next() => {
                    let over = matches!(news, StreamEvent::EndOfStream { .. });
                    self.hear(news, &senders, &mut receivers.tasks, &mut tell).await;
                    if over {
                        break;
                    }
                }
                () = &mut stop, if last_lines.is_none() => {
                    tell(&LogLine::Stopping);
                    last_lines = Some(Instant::now() + LAST_LINES);
                }
                () = no_more_lines => {
                    self.end_turn(&mut tell);
                    let open = std::mem::take(&mut self.announced).into_values();
                    let mut open: Vec<Change> = open.map(|(_, change)| change).collect();
                    open.sort_by(|one, other| one.path.cmp(&other.path));
                    self.give_up(open, &mut tell);
                    break;
                }
            }
        }
        drop(senders);
        self.finish(receivers, tell).await
    }

    /// Waits for what is under way.
    async fn finish(
        mut self,
        mut receivers: WorkerReceivers,
        mut tell: impl FnMut(&LogLine),
    ) -> Report {
        if let Some(work) = self.work.take() {
            for (_, queue) in &work.queues {
                queue.close();
            }
            // Dropping the rest of it tells commits and hooks that nothing more comes.
        }
        let time_up = sleep(self.settings.retry.at_end);
        tokio::pin!(time_up);
        loop {
            tokio::select! {
                biased;
                Some(line) = receivers.log.recv() => tell(&line),
                Some(done) = receivers.done.recv() => self.settle(done, &mut tell),
                ended = receivers.tasks.join_next() => match ended {
                    None => break,
                    Some(Ok(ended)) => self.note_end(ended),
                    Some(Err(error)) => {
                        tell(&LogLine::Problem(format!("an action broke off: {error}")));
                    }
                },
                () = &mut time_up => {
                    let left = receivers.tasks.len();
                    let what = format!("{left} actions took too long and were given up");
                    tell(&LogLine::Problem(what));
                    break;
                }
            }
        }
        receivers.tasks.abort_all();
        while let Ok(done) = receivers.done.try_recv() {
            self.settle(done, &mut tell);
        }
        while let Ok(line) = receivers.log.try_recv() {
            tell(&line);
        }
        self.report
    }

    fn note_end(&mut self, ended: WorkerResult) {
        match ended {
            WorkerResult::Delivery => {}
            WorkerResult::Hooks { failed } => self.report.failed_hooks += failed,
            WorkerResult::Commits(commits) => self.report.commits = commits,
        }
    }

    fn settle(&mut self, done: WorkerEvent, tell: &mut impl FnMut(&LogLine)) {
        match done {
            WorkerEvent::HookRun => self.checkpoints.hook_finished(),
            WorkerEvent::Delivered(DeliveryResult { entries, status, reason }) => {
                for entry in entries {
                    self.report.settle(entry, status, reason.clone());
                    self.checkpoints.finished(entry);
                }
            }
        }
        self.pass(tell);
    }

    /// Says how far all is done, if that is further than before.
    fn pass(&mut self, tell: &mut impl FnMut(&LogLine)) {
        if let Some((place, behind)) = self.checkpoints.pass() {
            // A record that is followed for weeks would make a report as long.
            self.report.forget(behind);
            tell(&LogLine::Passed(place));
        }
    }

    async fn hear(
        &mut self,
        news: StreamEvent,
        senders: &WorkerSenders,
        tasks: &mut JoinSet<WorkerResult>,
        tell: &mut impl FnMut(&LogLine),
    ) {
        match news {
            StreamEvent::Directory { cwd, permission_mode } => {
                self.circumstances.cwd = cwd.into();
                self.circumstances.permission_mode = permission_mode;
                // The next turns say it again, and the agent may have moved; the project stays.
                self.settle_in(senders, tasks, tell).await;
            }
            StreamEvent::Session(session) => {
                self.circumstances.session = Some(session.clone());
                self.occasion.session = Some(session);
            }
            StreamEvent::Prompt(text) => self.occasion.prompt = Some(text),
            StreamEvent::Text(text) => self.occasion.words = Some(text),
            StreamEvent::Announced { change, .. } if self.recalling => {
                if let Ok(file) = self.place(&change) {
                    self.announced.insert(change.call.clone(), (file, change));
                }
            }
            StreamEvent::Finished { change, failed, .. } if self.recalling => {
                let file = self.announced.remove(&change.call);
                let waits = !failed && self.settings.waits_for_turn();
                self.of_turn.extend(file.filter(|_| waits));
            }
            StreamEvent::ShellEnded { .. } if self.recalling => self.shell_used = true,
            StreamEvent::TurnEnded if self.recalling => {}
            StreamEvent::Announced { change, input } => {
                self.settle_in(senders, tasks, tell).await;
                let (tool, path) = (change.tool.clone(), change.path.clone());
                tell(&LogLine::Announced { tool, path });
                if let Ok(file) = self.place(&change) {
                    self.announced.insert(change.call.clone(), (file, change.clone()));
                    let tool = HookToolCall { change, input, response: None };
                    self.call_hook(HookMoment::Pre, Some(tool), tell);
                }
            }
            StreamEvent::Finished { change, failed: true, .. } => {
                self.announced.remove(&change.call);
                self.skip(&change, "the call failed", tell);
            }
            StreamEvent::Finished { change, failed: false, input, response } => {
                self.settle_in(senders, tasks, tell).await;
                self.announced.remove(&change.call);
                match self.place(&change) {
                    Ok(file) => {
                        self.act(file, &change, tell);
                        let tool = HookToolCall { change, input, response };
                        self.call_hook(HookMoment::Post, Some(tool), tell);
                    }
                    Err(reason) => self.skip(&change, &reason, tell),
                }
            }
            StreamEvent::ShellEnded { session } => {
                self.shell_used = true;
                let call = CallId(String::new());
                let (tool, path) = (SHELL.to_owned(), String::new());
                self.scan(&Change { call, tool, path, session }, tell).await;
            }
            StreamEvent::TurnEnded => {
                // What the shell left running may have written since its command was over. Where it
                // left nothing, whatever is new is of calls that the stream has yet to tell of.
                if self.shell_used {
                    let session = self.circumstances.session.clone();
                    let call = CallId(String::new());
                    let (tool, path) = (SHELL.to_owned(), String::new());
                    self.scan(&Change { call, tool, path, session }, tell).await;
                }
                self.report.turns += 1;
                self.end_turn(tell);
                self.call_hook(HookMoment::Stop, None, tell);
            }
            StreamEvent::Unfinished(changes) => self.give_up(changes, tell),
            StreamEvent::Replayed => self.recalling = false,
            StreamEvent::Checkpoint(place) => {
                self.checkpoints.reach(place, self.report.next());
                self.pass(tell);
            }
            StreamEvent::EndOfStream { unfinished } => {
                self.end_turn(tell);
                self.give_up(unfinished, tell);
            }
        }
    }

    fn give_up(&mut self, unfinished: Vec<Change>, tell: &mut impl FnMut(&LogLine)) {
        for change in unfinished {
            self.announced.remove(&change.call);
            let (tool, path) = (change.tool.clone(), change.path.clone());
            tell(&LogLine::Unfinished { tool, path: path.clone() });
            let reason = Some("its result never came".to_owned());
            self.report.add(path, &change, None, ReportStatus::Unfinished, reason);
        }
    }

    /// The file that is meant, if anything is to be done with it.
    fn place(&self, change: &Change) -> Result<ProjectFile, String> {
        let work = self.work.as_ref().ok_or("there is no project")?;
        let placed = work.project.place(&change.path, &self.circumstances.cwd);
        let placed = placed.map_err(|why| why.to_string())?;
        if self.settings.selection.takes(&placed.relative) {
            Ok(placed)
        } else {
            Err("not selected".to_owned())
        }
    }

    fn skip(&mut self, change: &Change, reason: &str, tell: &mut impl FnMut(&LogLine)) {
        let path = match &self.work {
            Some(work) => match work.project.place(&change.path, &self.circumstances.cwd) {
                Ok(placed) => placed.relative.to_string_lossy().into_owned(),
                Err(_) => change.path.clone(),
            },
            None => change.path.clone(),
        };
        tell(&LogLine::Skipped { path: path.clone(), reason: reason.to_owned() });
        self.report.add(path, change, None, ReportStatus::Skipped, Some(reason.to_owned()));
    }

    /// Does with a changed file what is to be done with it, now or when the turn is over.
    fn act(&mut self, file: ProjectFile, change: &Change, tell: &mut impl FnMut(&LogLine)) {
        let Some(work) = &mut self.work else { return };
        if let Some(index) = &mut work.index {
            index.note(&work.project, &file);
        }
        if work.queues.is_empty() && work.jobs.is_none() {
            let path = file.relative.to_string_lossy().into_owned();
            let reason = Some("there is no target".to_owned());
            self.report.add(path, change, None, ReportStatus::Skipped, reason);
            return;
        }
        if self.settings.every == ActionTrigger::Change {
            self.send(&file, change);
        }
        let commits = self.settings.commit.as_ref().map(|commit| commit.every);
        if commits == Some(ActionTrigger::Change) {
            self.commit(&[(file.clone(), change.clone())], tell);
        }
        if self.settings.waits_for_turn() {
            self.of_turn.push((file, change.clone()));
        }
    }

    fn end_turn(&mut self, tell: &mut impl FnMut(&LogLine)) {
        let files = std::mem::take(&mut self.of_turn);
        if files.is_empty() {
            return;
        }
        if self.settings.every == ActionTrigger::Turn {
            for (file, change) in &files {
                self.send(file, change);
            }
        }
        if self.settings.commit.as_ref().is_some_and(|commit| commit.every == ActionTrigger::Turn) {
            self.commit(&files, tell);
        }
    }

    fn send(&mut self, file: &ProjectFile, change: &Change) {
        let Some(work) = &self.work else { return };
        for (name, queue) in &work.queues {
            let entry = self.report.send(&file.relative, change, name);
            self.checkpoints.started(entry);
            queue.post(PendingFile {
                file: file.clone(),
                tool: change.tool.clone(),
                session: change.session.clone(),
                entries: vec![entry],
            });
        }
    }

    fn commit(&mut self, files: &[(ProjectFile, Change)], tell: &mut impl FnMut(&LogLine)) {
        let Some(jobs) = self.work.as_ref().and_then(|work| work.jobs.clone()) else { return };
        let mut occasion = self.occasion.clone();
        if let [(_, change)] = files {
            occasion.tool = Some(change.tool.clone());
            occasion.session = change.session.clone().or(occasion.session);
        }
        let entry = |(file, change): &(ProjectFile, Change)| -> (ProjectFile, EntryNumber) {
            let entry = self.report.send(&file.relative, change, git::NAME);
            self.checkpoints.started(entry);
            (file.clone(), entry)
        };
        let files = files.iter().map(entry).collect();
        if let Err(error) = jobs.try_send(CommitJob { files, occasion }) {
            let reason = "too many commits were waiting".to_owned();
            tell(&LogLine::Problem(reason.clone()));
            for (_, entry) in error.into_inner().files {
                self.report.settle(entry, ReportStatus::Failed, Some(reason.clone()));
                self.checkpoints.finished(entry);
            }
        }
    }

    fn call_hook(
        &mut self,
        moment: HookMoment,
        tool: Option<HookToolCall>,
        tell: &mut impl FnMut(&LogLine),
    ) {
        let Some(work) = &self.work else { return };
        let Some(calls) = &work.calls else { return };
        let mut circumstances = self.circumstances.clone();
        if circumstances.cwd.as_os_str().is_empty() {
            work.project.root().clone_into(&mut circumstances.cwd);
        }
        if calls.try_send(HookCall { moment, circumstances, tool }).is_ok() {
            self.checkpoints.hook_started();
        } else {
            self.report.failed_hooks += 1;
            tell(&LogLine::Problem("too many hooks were waiting, so one was not run".to_owned()));
        }
    }

    /// Looks for what commands changed, and acts on it.
    async fn scan(&mut self, cause: &Change, tell: &mut impl FnMut(&LogLine)) {
        let Some(work) = &mut self.work else { return };
        let Some(before) = work.index.take() else { return };
        let mut after = work.scan().await;
        for (file, _) in self.announced.values() {
            after.keep(&before, file);
        }
        let findings = before.until(&after);
        work.index = Some(after);
        for finding in findings {
            let files = match finding {
                ScanChange::Written(file) | ScanChange::Deleted(file) => vec![file],
                ScanChange::Renamed { from, to } => vec![from, to],
            };
            for file in files {
                if self.settings.selection.takes(&file.relative) {
                    let path = file.relative.to_string_lossy().into_owned();
                    self.act(file, &Change { path, ..cause.clone() }, tell);
                }
            }
        }
    }

    /// Sets everything up, once it is known where.
    async fn settle_in(
        &mut self,
        senders: &WorkerSenders,
        tasks: &mut JoinSet<WorkerResult>,
        tell: &mut impl FnMut(&LogLine),
    ) {
        if self.work.is_some() {
            return;
        }
        let said = Some(&self.circumstances.cwd).filter(|cwd| !cwd.as_os_str().is_empty());
        let named = self.settings.project.as_ref().or(said);
        let named = named.unwrap_or(&self.settings.current_directory);
        if self.missing.as_ref() == Some(named) {
            return;
        }
        let project = match Project::at(named) {
            Ok(project) => project,
            Err(error) => {
                let what = format!("there is no project at `{}`: {error}", named.display());
                self.missing = Some(named.clone());
                return tell(&LogLine::Problem(what));
            }
        };
        tell(&LogLine::Watching(project.root().to_owned()));
        self.work = Some(Workers::start(project, &mut self.settings, senders, tasks).await);
    }
}
