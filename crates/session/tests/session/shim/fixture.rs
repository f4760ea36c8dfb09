//! A shim with a shell script as its agent, and helpers to look at processes.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use towpath_session::UnattendedLimits;
use towpath_session::shim::{
    ExitStatus, ProcessMarker, RunId, ShimConfig, ShimConnection, ShimEvent, ShimHello, ShimPids,
    read_leftovers, reap, socket_path, start_shim,
};

/// Longer than anything here takes, even on a loaded machine.
pub(super) const TIMEOUT: Duration = Duration::from_mins(1);

/// The program with the shim and with owners that can be killed.
pub(super) const SHIM_ALONE: &str = env!("CARGO_BIN_EXE_shim-alone");

/// The live directory and configuration of one shim. Everything that runs is killed on drop.
pub(super) struct ShimFixture {
    pub(super) config: ShimConfig,
    directory: TempDir,
}

/// What agents inherit: how to find programs, and the variable by which a run of the tests finds what
/// they leave behind.
fn environment() -> Vec<(OsString, OsString)> {
    let inherited = |name: &str| Some((name.into(), std::env::var_os(name)?));
    ["PATH", "TOWPATH_TEST_RUN"].into_iter().filter_map(inherited).collect()
}

impl ShimFixture {
    /// A shim whose agent is this shell script.
    pub(super) fn new(script: &str) -> Self {
        Self::in_directory(tempfile::tempdir().expect("a directory"), script)
    }

    pub(super) fn in_directory(directory: TempDir, script: &str) -> Self {
        let live = directory.path().join("live");
        let config = ShimConfig {
            program: OsString::from("sh"),
            arguments: vec!["-c".into(), script.into()],
            environment: environment(),
            working_directory: directory.path().to_owned(),
            socket: socket_path(&live, &directory.path().join("run"), "s"),
            directory: live,
            run: RunId(1),
            marker: ProcessMarker::random(),
            unattended: UnattendedLimits { idle: TIMEOUT, waiting: TIMEOUT, total: TIMEOUT * 2 },
        };
        Self { config, directory }
    }

    pub(super) fn live(&self) -> &Path {
        &self.config.directory
    }

    /// A path in the agent's working directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(super) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(super) async fn start(&self) -> ShimPids {
        start_shim(Path::new(SHIM_ALONE), &self.config).await.expect("a shim")
    }

    pub(super) async fn attach(&self, from: u64) -> (ShimHello, ShimConnection) {
        ShimConnection::attach(self.live(), from).await.expect("a connection")
    }

    /// The output and exit of the first run on disk.
    pub(super) fn leftovers(&self, from: u64) -> (Vec<u8>, Option<ExitStatus>) {
        let mut leftovers = read_leftovers(self.live(), RunId(1), from).expect("leftovers");
        let mut bytes = Vec::new();
        leftovers.read_to_end(&mut bytes).expect("the spool");
        (bytes, leftovers.exit)
    }

    /// The process ids that the agent has written to these files.
    pub(super) async fn pids(&self, names: &[&str]) -> Vec<i32> {
        let pid = |name: &str| self.text(name).trim().parse::<i32>().ok();
        wait_until(|| names.iter().all(|name| pid(name).is_some())).await;
        names.iter().filter_map(|name| pid(name)).collect()
    }

    /// Starts an owner as a process of its own.
    pub(super) fn spawn_owner(&self, arguments: &[&str]) -> std::process::Child {
        Command::new(SHIM_ALONE)
            .arg(arguments[0])
            .arg(self.live())
            .args(&arguments[1..])
            .spawn()
            .expect("an owner")
    }

    /// The assignment in the environment of everything the agent starts.
    pub(super) fn marker(&self) -> String {
        let marker = &self.shim_record()["marker"];
        format!("TOWPATH_AGENT={}", marker.as_str().expect("a marker"))
    }

    fn shim_record(&self) -> serde_json::Value {
        let record = std::fs::read(self.live().join("shim.json")).unwrap_or_default();
        serde_json::from_slice(&record).unwrap_or_default()
    }
}

impl Drop for ShimFixture {
    fn drop(&mut self) {
        let shim = self.shim_record()["shim"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = shim
            && is_alive(pid)
        {
            kill(pid, Signal::KILL);
        }
        let _ = reap(self.live());
    }
}

/// How many processes run with this in their environment.
pub(super) fn marked_processes(marker: &str) -> usize {
    let letters = if cfg!(target_os = "macos") { "-axEww" } else { "axeww" };
    let output = Command::new("ps").args([letters, "-o", "stat=,command="]).output().expect("ps");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains(marker) && !line.starts_with('Z')).count()
}

/// Reads the output of the agent until it exits.
pub(super) async fn read_rest(connection: &mut ShimConnection) -> (Vec<u8>, Option<ExitStatus>) {
    let mut output = Vec::new();
    while let Some(event) = next_event(connection).await {
        match event {
            ShimEvent::Output { bytes, .. } => output.extend(bytes),
            ShimEvent::Exited { status, .. } => return (output, Some(status)),
            _ => {}
        }
    }
    (output, None)
}

/// Reads the output of the agent until it contains a text.
pub(super) async fn read_until(connection: &mut ShimConnection, text: &str) -> Vec<u8> {
    let mut output = Vec::new();
    while !String::from_utf8_lossy(&output).contains(text) {
        match next_event(connection).await {
            Some(ShimEvent::Output { bytes, .. }) => output.extend(bytes),
            Some(ShimEvent::Exited { status, .. }) => panic!("{status} before `{text}`"),
            Some(_) => {}
            None => panic!("the shim is gone before `{text}`"),
        }
    }
    output
}

pub(super) async fn next_event(connection: &mut ShimConnection) -> Option<ShimEvent> {
    tokio::time::timeout(TIMEOUT, connection.next()).await.expect("an event in time")
}

/// Waits until a condition holds that can only be polled, because it is about other processes.
#[track_caller]
pub(super) fn wait_until(condition: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + TIMEOUT;
        while !condition() {
            assert!(Instant::now() < deadline, "the condition never became true: {caller}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Whether a process runs and is not a zombie.
pub(super) fn is_alive(pid: i32) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output();
    let state = String::from_utf8(output.expect("ps").stdout).expect("text");
    !state.trim().is_empty() && !state.trim_start().starts_with('Z')
}

pub(super) async fn wait_gone(pids: &[i32]) {
    wait_until(|| pids.iter().all(|pid| !is_alive(*pid))).await;
}

pub(super) fn kill(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).expect("a process"), signal);
}
