//! A live directory, a plan, and what tests ask of processes.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use towpath_session::shim::{
    Exit, Greeting, Link, Marker, News, Plan, Run, Started, remains, socket_path, start, sweep,
};

/// Longer than anything here takes, on a machine with other things to do.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// The shim, and owners to be killed.
pub(crate) const SHIM_ALONE: &str = env!("CARGO_BIN_EXE_shim-alone");

/// One session. Dropped, nothing of it is left.
pub(crate) struct Stage {
    pub(crate) plan: Plan,
    home: TempDir,
}

impl Stage {
    /// A session whose agent is this shell script, and which is given up soon without an owner.
    pub(crate) fn new(script: &str) -> Self {
        Self::in_directory(tempfile::tempdir().expect("a directory"), script)
    }

    pub(crate) fn in_directory(home: TempDir, script: &str) -> Self {
        let directory = home.path().join("live");
        let socket = socket_path(&directory, &home.path().join("run"), "s");
        let plan = Plan {
            program: OsString::from("sh"),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), std::env::var_os("PATH").expect("a PATH"))],
            working_directory: home.path().to_owned(),
            directory,
            run: Run(1),
            socket,
            marker: Marker::random(),
            grace: PATIENCE,
            ask_grace: PATIENCE,
            unowned_limit: PATIENCE * 2,
        };
        Self { plan, home }
    }

    pub(crate) fn live(&self) -> &Path {
        &self.plan.directory
    }

    /// A path in the agent's working directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub(crate) async fn start(&self) -> Started {
        start(Path::new(SHIM_ALONE), &self.plan).await.expect("a shim")
    }

    pub(crate) async fn attach(&self, from: u64) -> (Greeting, Link) {
        Link::attach(self.live(), from).await.expect("a link")
    }

    /// What the agent of the first run left on disk.
    pub(crate) fn left(&self, from: u64) -> (Vec<u8>, Option<Exit>) {
        let mut remains = remains(self.live(), Run(1), from).expect("remains");
        let mut bytes = Vec::new();
        remains.read_to_end(&mut bytes).expect("the spool");
        (bytes, remains.exit)
    }

    /// The process ids the agent has written to files named so.
    pub(crate) async fn pids(&self, names: &[&str]) -> Vec<i32> {
        let pid = |name: &str| self.text(name).trim().parse::<i32>().ok();
        until(|| names.iter().all(|name| pid(name).is_some())).await;
        names.iter().filter_map(|name| pid(name)).collect()
    }

    /// Starts an owner of its own process.
    pub(crate) fn owner(&self, arguments: &[&str]) -> std::process::Child {
        Command::new(SHIM_ALONE)
            .arg(arguments[0])
            .arg(self.live())
            .args(&arguments[1..])
            .spawn()
            .expect("an owner")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let register = std::fs::read(self.live().join("shim.json")).unwrap_or_default();
        let register: serde_json::Value = serde_json::from_slice(&register).unwrap_or_default();
        let shim = register["shim"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        if let Some(pid) = shim
            && alive(pid)
        {
            kill(pid, Signal::KILL);
        }
        let _ = sweep(self.live());
    }
}

/// What stands in the environment of everything the agent of this session starts.
pub(crate) fn marker(stage: &Stage) -> String {
    let register = std::fs::read(stage.live().join("shim.json")).expect("a register");
    let register: serde_json::Value = serde_json::from_slice(&register).expect("JSON");
    format!("TOWPATH_AGENT={}", register["marker"].as_str().expect("a marker"))
}

/// How many processes run with this in their environment.
pub(crate) fn carriers(marker: &str) -> usize {
    let letters = if cfg!(target_os = "macos") { "-axEww" } else { "axeww" };
    let output = Command::new("ps").args([letters, "-o", "stat=,command="]).output().expect("ps");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains(marker) && !line.starts_with('Z')).count()
}

/// Everything a link still says.
pub(crate) async fn rest(link: &mut Link) -> (Vec<u8>, Option<Exit>) {
    let mut printed = Vec::new();
    while let Some(news) = next(link).await {
        match news {
            News::Output { bytes, .. } => printed.extend(bytes),
            News::Exited { exit, .. } => return (printed, Some(exit)),
            _ => {}
        }
    }
    (printed, None)
}

/// Listens until the agent has printed this.
pub(crate) async fn printed(link: &mut Link, wanted: &str) -> Vec<u8> {
    let mut printed = Vec::new();
    while !String::from_utf8_lossy(&printed).contains(wanted) {
        match next(link).await {
            Some(News::Output { bytes, .. }) => printed.extend(bytes),
            Some(News::Exited { exit, .. }) => panic!("it ended with {exit} before `{wanted}`"),
            Some(_) => {}
            None => panic!("the shim is gone before `{wanted}`"),
        }
    }
    printed
}

/// The next news, in time.
pub(crate) async fn next(link: &mut Link) -> Option<News> {
    tokio::time::timeout(PATIENCE, link.next()).await.expect("news in time")
}

/// Waits until something is so; what other processes do can only be looked at.
#[track_caller]
pub(crate) fn until(so: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        let deadline = Instant::now() + PATIENCE;
        while !so() {
            assert!(Instant::now() < deadline, "it never came to be so: {caller}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Whether a process runs, and not only waits to be buried.
pub(crate) fn alive(pid: i32) -> bool {
    let output = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output();
    let state = String::from_utf8(output.expect("ps").stdout).expect("text");
    !state.trim().is_empty() && !state.trim_start().starts_with('Z')
}

pub(crate) async fn gone(pids: &[i32]) {
    until(|| pids.iter().all(|pid| !alive(*pid))).await;
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    let _ = kill_process(Pid::from_raw(pid).expect("a process"), signal);
}
