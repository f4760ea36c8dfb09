//! The processes of a fleet on this machine, from the first start to the last end.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use anstream::eprintln;
use rustix::process::Signal;
use serde_json::Value;
use session::{AgentProgram, Sessions};
use tokio::process::ChildStdout;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::DevError;
use super::process::{
    DevProcess, OrphanGuard, ProcessExit, ProcessKind, Recipe, describe_exit, ready_line,
};
use crate::serve::{StopSignals, home};
use crate::settings::CliSettings;

/// How many ends of processes may wait to be handled. The tasks of others wait.
const EXIT_QUEUE: usize = 64;

/// How long processes may take to end by themselves. A worker ends its agents meanwhile.
const GATEWAY_TIMEOUT: Duration = Duration::from_secs(10);
const WORKER_TIMEOUT: Duration = Duration::from_secs(40);
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// The pauses until a process that ended is started again: the first, and the longest. One that ran for
/// longer than the last is started after the first again.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Starts, watches and ends processes.
#[derive(Debug)]
pub(super) struct DevSupervisor {
    guard: OrphanGuard,
    is_restarting: bool,
    running: BTreeMap<String, DevProcess>,
    /// How a process is started again, by name.
    recipes: BTreeMap<String, Recipe>,
    exits: mpsc::Receiver<ProcessExit>,
    exit_sender: mpsc::Sender<ProcessExit>,
}

/// A process that is not ready yet.
#[derive(Debug)]
pub(super) struct StartingProcess {
    recipe: Recipe,
    pid: u32,
    output: Option<ChildStdout>,
}

impl ProcessExit {
    /// The error of a process that ended before it was ready.
    pub(super) fn into_error(self) -> DevError {
        let what = self.recipe.kind.describe(&self.recipe.name);
        let what = format!("{what} {}, so it", describe_exit(&self.status));
        DevError::NotStarted { what, log: self.recipe.log_tail() }
    }
}

impl StartingProcess {
    pub(super) fn name(&self) -> &str {
        &self.recipe.name
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits until the process says that it is ready, and returns what it says.
    pub(super) async fn ready(self, limit: Duration) -> Result<Value, DevError> {
        let Some(output) = self.output else { return Ok(Value::Null) };
        if let Ok(Some(ready)) = timeout(limit, ready_line(output)).await {
            return Ok(ready);
        }
        let what = self.recipe.kind.describe(&self.recipe.name);
        Err(DevError::NotStarted { what, log: self.recipe.log_tail() })
    }
}

impl DevSupervisor {
    pub(super) fn new(is_restarting: bool) -> io::Result<Self> {
        let (exit_sender, exits) = mpsc::channel(EXIT_QUEUE);
        let (running, recipes) = (BTreeMap::new(), BTreeMap::new());
        let guard = OrphanGuard::start()?;
        Ok(Self { guard, is_restarting, running, recipes, exits, exit_sender })
    }

    pub(super) fn start(&mut self, recipe: &Recipe) -> Result<StartingProcess, DevError> {
        let started = recipe.start(&self.guard, &self.exit_sender);
        let failed = |source| DevError::Program { program: recipe.program.clone(), source };
        let (process, output) = started.map_err(failed)?;
        let starting = StartingProcess { recipe: recipe.clone(), pid: process.pid, output };
        self.running.insert(recipe.name.clone(), process);
        self.recipes.insert(recipe.name.clone(), recipe.clone());
        Ok(starting)
    }

    /// Changes how a process is started again.
    pub(super) fn replace(&mut self, recipe: Recipe) {
        self.recipes.insert(recipe.name.clone(), recipe);
    }

    /// A process that has ended since this was last asked.
    pub(super) fn ended(&mut self) -> Option<ProcessExit> {
        let exit = self.exits.try_recv().ok()?;
        self.forget(&exit);
        Some(exit)
    }

    /// Reports processes that end, until `stop`.
    pub(super) async fn run<T>(&mut self, stop: impl Future<Output = T>) {
        tokio::pin!(stop);
        // The names of processes to start again, when, and the pause after which.
        let mut waiting: Vec<(Instant, String)> = Vec::new();
        let mut pauses: BTreeMap<String, (Instant, Duration)> = BTreeMap::new();
        loop {
            let next = waiting.iter().map(|(when, _)| *when).min();
            tokio::select! {
                _ = &mut stop => return,
                Some(exit) = self.exits.recv() => {
                    self.forget(&exit);
                    report(&exit);
                    if self.is_restarting {
                        let name = exit.recipe.name;
                        let pause = next_pause(pauses.get(&name).copied());
                        pauses.insert(name.clone(), (Instant::now(), pause));
                        waiting.push((Instant::now() + pause, name));
                    }
                }
                () = async { tokio::time::sleep_until(next.unwrap_or_else(Instant::now)).await },
                    if next.is_some() =>
                {
                    let now = Instant::now();
                    let (due, rest) = waiting.into_iter().partition(|(when, _)| *when <= now);
                    waiting = rest;
                    for (_, name) in due {
                        self.start_again(&name);
                    }
                }
            }
        }
    }

    fn start_again(&mut self, name: &str) {
        let Some(recipe) = self.recipes.get(name).cloned() else { return };
        let what = recipe.kind.describe(&recipe.name);
        match self.start(&recipe) {
            Ok(process) => {
                eprintln!("note: {what} is started again, process {}", process.pid());
                tokio::spawn(process.ready(super::START_TIMEOUT));
            }
            Err(error) => eprintln!("note: {what} could not be started again: {error}"),
        }
    }

    /// Ends everything: the gateway and the workers with their agents, then the servers. Another signal
    /// kills what still runs.
    pub(super) async fn stop(mut self, signals: &mut StopSignals) {
        let patient = async {
            self.signal(ProcessKind::Gateway, Signal::TERM).await;
            // Workers end their agents, too.
            self.signal(ProcessKind::Worker, Signal::USR1).await;
            self.wait(&[ProcessKind::Gateway], GATEWAY_TIMEOUT).await;
            self.wait(&[ProcessKind::Gateway, ProcessKind::Worker], WORKER_TIMEOUT).await;
            self.signal(ProcessKind::Server, Signal::TERM).await;
            self.wait(&[ProcessKind::Server], SERVER_TIMEOUT).await;
        };
        tokio::select! {
            () = patient => {}
            _ = signals.stopped() => eprintln!("note: killing what still runs"),
        }
        self.kill_all().await;
        self.guard.stop();
    }

    /// Kills everything, and waits for it.
    pub(super) async fn kill_all(&mut self) {
        for process in self.running.values() {
            process.signal(Signal::KILL).await;
        }
        while !self.running.is_empty() {
            let Some(exit) = self.exits.recv().await else { return };
            self.forget(&exit);
        }
    }

    async fn signal(&self, kind: ProcessKind, signal: Signal) {
        for process in self.running.values().filter(|it| it.recipe.kind == kind) {
            process.signal(signal).await;
        }
    }

    /// Waits until no process of these kinds runs. Those that do not end in time are killed.
    async fn wait(&mut self, kinds: &[ProcessKind], limit: Duration) {
        let is_meant = |process: &DevProcess| kinds.contains(&process.recipe.kind);
        let deadline = Instant::now() + limit;
        let mut is_killed = false;
        while self.running.values().any(is_meant) {
            tokio::select! {
                Some(exit) = self.exits.recv() => self.forget(&exit),
                () = tokio::time::sleep_until(deadline), if !is_killed => {
                    is_killed = true;
                    for process in self.running.values().filter(|it| is_meant(it)) {
                        let what = process.recipe.kind.describe(&process.recipe.name);
                        eprintln!("note: {what} did not end in time and is killed");
                        process.signal(Signal::KILL).await;
                    }
                }
            }
        }
    }

    fn forget(&mut self, exit: &ProcessExit) {
        let name = &exit.recipe.name;
        if self.running.get(name).is_some_and(|process| process.pid == exit.pid) {
            self.running.remove(name);
        }
    }
}

/// How long to wait before a process is started again, from when that was last done and after which pause.
fn next_pause(last: Option<(Instant, Duration)>) -> Duration {
    match last {
        Some((when, pause)) if when.elapsed() < LAST_PAUSE + pause => (pause * 2).min(LAST_PAUSE),
        _ => FIRST_PAUSE,
    }
}

fn report(exit: &ProcessExit) {
    let what = exit.recipe.kind.describe(&exit.recipe.name);
    eprintln!("note: {what} (process {}) {}", exit.pid, describe_exit(&exit.status));
}

/// Ends agents that a worker left running, because it was killed.
pub(super) async fn stop_agents(settings: &CliSettings, directory: PathBuf) {
    let mut settings = settings.clone();
    settings.data_directory = directory;
    let unused = AgentProgram { program: "claude".into(), arguments: Vec::new() };
    let stop = async {
        let home = home(&settings, unused).map_err(|error| error.to_string())?;
        let journal = settings.open_journal().map_err(|error| error.to_string())?;
        // The process of a worker that was killed may hold the journal for another moment.
        let mut stopped = Sessions::new(home.clone(), journal.clone()).stop().await;
        if stopped.is_err() {
            sleep(FIRST_PAUSE).await;
            stopped = Sessions::new(home, journal).stop().await;
        }
        let stopped = stopped.map_err(|error| error.to_string())?;
        match stopped.iter().find_map(|it| it.failure.as_ref()) {
            Some(failure) => Err(failure.to_string()),
            None => Ok(()),
        }
    };
    if let Err(error) = stop.await {
        let directory = settings.data_directory.display();
        eprintln!("note: agents of the worker in `{directory}` may still run: {error}");
    }
}
