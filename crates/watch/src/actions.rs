//! One task that hears the news, decides, and gives out the work.
//!
//! It owns the report. Targets, commits and hooks are tasks of their own that it never waits for
//! while the stream goes on; at the end it waits for all of them, for so long and no longer.

use std::collections::HashMap;
use std::path::PathBuf;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use crate::courier::Delivery;
use crate::feed::Feed;
use crate::git::{self, Job, Occasion};
use crate::hooks::{Call, Circumstances, Moment, ToolCall};
use crate::milestone::Milestones;
use crate::news::{CallId, Change, News};
use crate::outbox::Parcel;
use crate::place::{Placed, Project};
use crate::remark::Remark;
use crate::report::{EntryNumber, Report, Status};
use crate::scan::Finding;
use crate::settings::{Every, Settings};
use crate::work::{Done, Ended, Mouths, Work};

/// How long the end of the stream is awaited once somebody wants us to stop: whoever ends a
/// pipeline ends the agent as well, and its last lines are on their way.
const LAST_LINES: std::time::Duration = std::time::Duration::from_secs(2);

/// How many remarks and things done may wait; whoever has one more waits.
const WAITING: usize = 64;

/// What shell commands are called in the report.
const SHELL: &str = "Bash";

/// Who decides.
pub struct Actions {
    settings: Settings,
    circumstances: Circumstances,
    occasion: Occasion,
    report: Report,
    work: Option<Work>,
    /// Where there should have been a project and is none, so that it is said once.
    missing: Option<PathBuf>,
    /// Files that calls are about to change. What is found of them by scanning is theirs: a sub-agent
    /// in the background may be at it when a turn ends.
    announced: HashMap<CallId, (Placed, Change)>,
    /// There was a command of the shell, and something it started may still run.
    shell_used: bool,
    /// Files of the turn, for what goes by turns.
    of_turn: Vec<(Placed, Change)>,
    milestones: Milestones,
    /// What is heard was acted on by somebody before.
    recalling: bool,
}

/// The other ends of what tasks tell.
struct Ears {
    remarks: mpsc::Receiver<Remark>,
    done: mpsc::Receiver<Done>,
    tasks: JoinSet<Ended>,
}

impl Actions {
    /// Nothing has happened yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            circumstances: Circumstances::default(),
            occasion: Occasion::default(),
            report: Report::default(),
            work: None,
            missing: None,
            announced: HashMap::new(),
            shell_used: false,
            of_turn: Vec::new(),
            milestones: Milestones::default(),
            recalling: false,
        }
    }

    /// Somebody acted before on what is heard up to [`News::Recalled`].
    pub fn recalling(settings: Settings) -> Self {
        Self { recalling: true, ..Self::new(settings) }
    }

    /// Acts on the news until they are over, or somebody wants to stop.
    pub async fn run(
        mut self,
        feed: &Feed,
        mut tell: impl FnMut(&Remark),
        stop: impl Future<Output = ()>,
    ) -> Report {
        let (remark, remarks) = mpsc::channel(WAITING);
        let (finished, done) = mpsc::channel(WAITING);
        let mouths = Mouths { remarks: remark, done: finished };
        let mut ears = Ears { remarks, done, tasks: JoinSet::new() };
        if self.settings.project.is_some() {
            self.settle_in(&mouths, &mut ears.tasks, &mut tell).await;
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
                Some(remark) = ears.remarks.recv() => tell(&remark),
                Some(done) = ears.done.recv() => self.settle(done, &mut tell),
                news = feed.next() => {
                    let over = matches!(news, News::Over { .. });
                    self.hear(news, &mouths, &mut ears.tasks, &mut tell).await;
                    if over {
                        break;
                    }
                }
                () = &mut stop, if last_lines.is_none() => {
                    tell(&Remark::Stopping);
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
        drop(mouths);
        self.finish(ears, tell).await
    }

    /// Waits for what is under way.
    async fn finish(mut self, mut ears: Ears, mut tell: impl FnMut(&Remark)) -> Report {
        if let Some(work) = self.work.take() {
            for (_, outbox) in &work.outboxes {
                outbox.close();
            }
            // Dropping the rest of it tells commits and hooks that nothing more comes.
        }
        let time_up = sleep(self.settings.patience.at_end);
        tokio::pin!(time_up);
        loop {
            tokio::select! {
                biased;
                Some(remark) = ears.remarks.recv() => tell(&remark),
                Some(done) = ears.done.recv() => self.settle(done, &mut tell),
                ended = ears.tasks.join_next() => match ended {
                    None => break,
                    Some(Ok(ended)) => self.note_end(ended),
                    Some(Err(error)) => {
                        tell(&Remark::Trouble(format!("an action broke off: {error}")));
                    }
                },
                () = &mut time_up => {
                    let left = ears.tasks.len();
                    let what = format!("{left} actions took too long and were given up");
                    tell(&Remark::Trouble(what));
                    break;
                }
            }
        }
        ears.tasks.abort_all();
        while let Ok(done) = ears.done.try_recv() {
            self.settle(done, &mut tell);
        }
        while let Ok(remark) = ears.remarks.try_recv() {
            tell(&remark);
        }
        self.report
    }

    fn note_end(&mut self, ended: Ended) {
        match ended {
            Ended::Courier => {}
            Ended::Hooks { failed } => self.report.failed_hooks += failed,
            Ended::Commits(commits) => self.report.commits = commits,
        }
    }

    fn settle(&mut self, done: Done, tell: &mut impl FnMut(&Remark)) {
        match done {
            Done::HookRun => self.milestones.hook_over(),
            Done::Delivered(Delivery { entries, status, reason }) => {
                for entry in entries {
                    self.report.settle(entry, status, reason.clone());
                    self.milestones.settled(entry);
                }
            }
        }
        self.pass(tell);
    }

    /// Says how far all is done, if that is further than before.
    fn pass(&mut self, tell: &mut impl FnMut(&Remark)) {
        if let Some((place, behind)) = self.milestones.pass() {
            // A record that is followed for weeks would make a report as long.
            self.report.forget(behind);
            tell(&Remark::Passed(place));
        }
    }

    async fn hear(
        &mut self,
        news: News,
        mouths: &Mouths,
        tasks: &mut JoinSet<Ended>,
        tell: &mut impl FnMut(&Remark),
    ) {
        match news {
            News::Place { cwd, permission_mode } => {
                self.circumstances.cwd = cwd.into();
                self.circumstances.permission_mode = permission_mode;
                // The next turns say it again, and the agent may have moved; the project stays.
                self.settle_in(mouths, tasks, tell).await;
            }
            News::Session(session) => {
                self.circumstances.session = Some(session.clone());
                self.occasion.session = Some(session);
            }
            News::Prompt(text) => self.occasion.prompt = Some(text),
            News::Words(text) => self.occasion.words = Some(text),
            News::Announced { change, .. } if self.recalling => {
                if let Ok(file) = self.place(&change) {
                    self.announced.insert(change.call.clone(), (file, change));
                }
            }
            News::Settled { change, failed, .. } if self.recalling => {
                let file = self.announced.remove(&change.call);
                let waits = !failed && self.settings.waits_for_turn();
                self.of_turn.extend(file.filter(|_| waits));
            }
            News::ShellEnded { .. } if self.recalling => self.shell_used = true,
            News::TurnEnded if self.recalling => {}
            News::Announced { change, input } => {
                self.settle_in(mouths, tasks, tell).await;
                let (tool, path) = (change.tool.clone(), change.path.clone());
                tell(&Remark::Announced { tool, path });
                if let Ok(file) = self.place(&change) {
                    self.announced.insert(change.call.clone(), (file, change.clone()));
                    let tool = ToolCall { change, input, response: None };
                    self.call_hook(Moment::Pre, Some(tool), tell);
                }
            }
            News::Settled { change, failed: true, .. } => {
                self.announced.remove(&change.call);
                self.skip(&change, "the call failed", tell);
            }
            News::Settled { change, failed: false, input, response } => {
                self.settle_in(mouths, tasks, tell).await;
                self.announced.remove(&change.call);
                match self.place(&change) {
                    Ok(file) => {
                        self.act(file, &change, tell);
                        let tool = ToolCall { change, input, response };
                        self.call_hook(Moment::Post, Some(tool), tell);
                    }
                    Err(reason) => self.skip(&change, &reason, tell),
                }
            }
            News::ShellEnded { session } => {
                self.shell_used = true;
                let call = CallId(String::new());
                let (tool, path) = (SHELL.to_owned(), String::new());
                self.scan(&Change { call, tool, path, session }, tell).await;
            }
            News::TurnEnded => {
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
                self.call_hook(Moment::Stop, None, tell);
            }
            News::Unfinished(changes) => self.give_up(changes, tell),
            News::Recalled => self.recalling = false,
            News::Milestone(place) => {
                self.milestones.reach(place, self.report.next());
                self.pass(tell);
            }
            News::Over { unfinished } => {
                self.end_turn(tell);
                self.give_up(unfinished, tell);
            }
        }
    }

    fn give_up(&mut self, unfinished: Vec<Change>, tell: &mut impl FnMut(&Remark)) {
        for change in unfinished {
            self.announced.remove(&change.call);
            let (tool, path) = (change.tool.clone(), change.path.clone());
            tell(&Remark::Unfinished { tool, path: path.clone() });
            let reason = Some("its result never came".to_owned());
            self.report.add(path, &change, None, Status::Unfinished, reason);
        }
    }

    /// The file that is meant, if anything is to be done with it.
    fn place(&self, change: &Change) -> Result<Placed, String> {
        let work = self.work.as_ref().ok_or("there is no project")?;
        let placed = work.project.place(&change.path, &self.circumstances.cwd);
        let placed = placed.map_err(|why| why.to_string())?;
        if self.settings.selection.takes(&placed.relative) {
            Ok(placed)
        } else {
            Err("not selected".to_owned())
        }
    }

    fn skip(&mut self, change: &Change, reason: &str, tell: &mut impl FnMut(&Remark)) {
        let path = match &self.work {
            Some(work) => match work.project.place(&change.path, &self.circumstances.cwd) {
                Ok(placed) => placed.relative.to_string_lossy().into_owned(),
                Err(_) => change.path.clone(),
            },
            None => change.path.clone(),
        };
        tell(&Remark::Skipped { path: path.clone(), reason: reason.to_owned() });
        self.report.add(path, change, None, Status::Skipped, Some(reason.to_owned()));
    }

    /// Does with a changed file what is to be done with it, now or when the turn is over.
    fn act(&mut self, file: Placed, change: &Change, tell: &mut impl FnMut(&Remark)) {
        let Some(work) = &mut self.work else { return };
        if let Some(index) = &mut work.index {
            index.note(&work.project, &file);
        }
        if work.outboxes.is_empty() && work.jobs.is_none() {
            let path = file.relative.to_string_lossy().into_owned();
            let reason = Some("there is no target".to_owned());
            self.report.add(path, change, None, Status::Skipped, reason);
            return;
        }
        if self.settings.every == Every::Change {
            self.send(&file, change);
        }
        let commits = self.settings.commit.as_ref().map(|commit| commit.every);
        if commits == Some(Every::Change) {
            self.commit(&[(file.clone(), change.clone())], tell);
        }
        if self.settings.waits_for_turn() {
            self.of_turn.push((file, change.clone()));
        }
    }

    fn end_turn(&mut self, tell: &mut impl FnMut(&Remark)) {
        let files = std::mem::take(&mut self.of_turn);
        if files.is_empty() {
            return;
        }
        if self.settings.every == Every::Turn {
            for (file, change) in &files {
                self.send(file, change);
            }
        }
        if self.settings.commit.as_ref().is_some_and(|commit| commit.every == Every::Turn) {
            self.commit(&files, tell);
        }
    }

    fn send(&mut self, file: &Placed, change: &Change) {
        let Some(work) = &self.work else { return };
        for (name, outbox) in &work.outboxes {
            let entry = self.report.send(&file.relative, change, name);
            self.milestones.sent(entry);
            outbox.post(Parcel {
                file: file.clone(),
                tool: change.tool.clone(),
                session: change.session.clone(),
                entries: vec![entry],
            });
        }
    }

    fn commit(&mut self, files: &[(Placed, Change)], tell: &mut impl FnMut(&Remark)) {
        let Some(jobs) = self.work.as_ref().and_then(|work| work.jobs.clone()) else { return };
        let mut occasion = self.occasion.clone();
        if let [(_, change)] = files {
            occasion.tool = Some(change.tool.clone());
            occasion.session = change.session.clone().or(occasion.session);
        }
        let entry = |(file, change): &(Placed, Change)| -> (Placed, EntryNumber) {
            let entry = self.report.send(&file.relative, change, git::NAME);
            self.milestones.sent(entry);
            (file.clone(), entry)
        };
        let files = files.iter().map(entry).collect();
        if let Err(error) = jobs.try_send(Job { files, occasion }) {
            let reason = "too many commits were waiting".to_owned();
            tell(&Remark::Trouble(reason.clone()));
            for (_, entry) in error.into_inner().files {
                self.report.settle(entry, Status::Failed, Some(reason.clone()));
                self.milestones.settled(entry);
            }
        }
    }

    fn call_hook(
        &mut self,
        moment: Moment,
        tool: Option<ToolCall>,
        tell: &mut impl FnMut(&Remark),
    ) {
        let Some(work) = &self.work else { return };
        let Some(calls) = &work.calls else { return };
        let mut circumstances = self.circumstances.clone();
        if circumstances.cwd.as_os_str().is_empty() {
            work.project.root().clone_into(&mut circumstances.cwd);
        }
        if calls.try_send(Call { moment, circumstances, tool }).is_ok() {
            self.milestones.hook_called();
        } else {
            self.report.failed_hooks += 1;
            tell(&Remark::Trouble("too many hooks were waiting, so one was not run".to_owned()));
        }
    }

    /// Looks for what commands changed, and acts on it.
    async fn scan(&mut self, cause: &Change, tell: &mut impl FnMut(&Remark)) {
        let Some(work) = &mut self.work else { return };
        let Some(before) = work.index.take() else { return };
        let mut after = work.look().await;
        for (file, _) in self.announced.values() {
            after.keep(&before, file);
        }
        let findings = before.until(&after);
        work.index = Some(after);
        for finding in findings {
            let files = match finding {
                Finding::Written(file) | Finding::Deleted(file) => vec![file],
                Finding::Renamed { from, to } => vec![from, to],
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
        mouths: &Mouths,
        tasks: &mut JoinSet<Ended>,
        tell: &mut impl FnMut(&Remark),
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
                return tell(&Remark::Trouble(what));
            }
        };
        tell(&Remark::Watching(project.root().to_owned()));
        self.work = Some(Work::begin(project, &mut self.settings, mouths, tasks).await);
    }
}
