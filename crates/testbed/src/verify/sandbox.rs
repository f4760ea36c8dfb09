//! The sandbox of one scenario: a home and working directory, temporary files and an environment.
//!
//! The environment is built from scratch, so that no credentials of the caller reach the agent. Every
//! process of the sandbox inherits its `HOME`, which is how the sandbox finds its processes.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::agent::VerifyAgent;
use crate::scenario::{ScenarioSetup, ScenarioVariables, matches_text};

#[derive(Debug)]
pub(super) struct VerifySandbox {
    root: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    /// Removes the directory when the scenario is over.
    _directory: TempDir,
}

impl VerifySandbox {
    pub(super) fn new(search_path: &OsStr) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("towpath-").tempdir()?;
        // On macOS the path is a symbolic link, but agents report its target.
        let root = directory.path().canonicalize()?;
        for name in ["home", "project", "tmp"] {
            fs::create_dir(root.join(name))?;
        }
        let environment = [
            ("PATH", search_path.to_owned()),
            ("HOME", root.join("home").into()),
            ("TMPDIR", root.join("tmp").into()),
            ("CLAUDE_CODE_TMPDIR", root.join("tmp").into()),
            ("LANG", "C.UTF-8".into()),
            ("IS_SANDBOX", "1".into()),
            ("ANTHROPIC_API_KEY", "sk-dummy".into()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".into()),
            ("CLAUDE_CODE_MAX_RETRIES", "1".into()),
            ("DISABLE_AUTOUPDATER", "1".into()),
            ("DISABLE_TELEMETRY", "1".into()),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value)).into();
        Ok(Self { root, environment, _directory: directory })
    }

    /// The variables for the sandbox's directories.
    pub(super) fn variables(&self) -> ScenarioVariables {
        let mut variables = ScenarioVariables::default();
        let cwd = self.project().display().to_string();
        // The CLI keeps the transcripts of a working directory in a folder named after it.
        variables.set("folder", cwd.replace(|it: char| !it.is_ascii_alphanumeric(), "-"));
        variables.set("cwd", cwd);
        variables.set("home", self.home().display().to_string());
        variables.set("tmp", self.root.join("tmp").display().to_string());
        variables
    }

    fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The working directory.
    pub(super) fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    pub(super) fn environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.environment
    }

    pub(super) fn set_variable(&mut self, name: &str, value: &str) {
        self.environment.insert(name.into(), value.into());
    }

    /// Creates the files and sets the environment variables of a scenario.
    pub(super) fn prepare(
        &mut self,
        setup: &ScenarioSetup,
        agent: &VerifyAgent,
        variables: &ScenarioVariables,
    ) -> io::Result<()> {
        for item in setup.env.iter().filter(|item| agent.meets(&item.condition)) {
            match &item.value {
                (name, Some(value)) => self.set_variable(name, &variables.expand(value)),
                (name, None) => {
                    self.environment.remove(OsStr::new(name));
                }
            }
        }
        let files = setup.files.iter().map(|item| (self.project(), item));
        let home_files = setup.home_files.iter().map(|item| (self.home(), item));
        for (base, item) in files.chain(home_files) {
            if agent.meets(&item.condition) {
                let (path, content) = &item.value;
                write_file(&base.join(variables.expand(path)), &variables.expand(content))?;
            }
        }
        Ok(())
    }

    /// The files that a path names. A path with `…` can match several.
    pub(super) fn files(&self, path: &str, variables: &ScenarioVariables) -> Vec<PathBuf> {
        let whole = self.project().join(variables.expand(path));
        if !path.contains('…') {
            return if whole.exists() { vec![whole] } else { Vec::new() };
        }
        let pattern = if Path::new(&variables.expand(path)).is_absolute() {
            path.to_owned()
        } else {
            format!("{}/{path}", self.project().display())
        };
        let mut found = Vec::new();
        collect_files(&self.root, &mut found);
        found.retain(|file| matches_text(&pattern, &file.to_string_lossy(), variables));
        found.sort();
        found
    }

    /// The processes of the sandbox that are still running.
    pub(super) fn processes(&self) -> Vec<VerifySandboxProcess> {
        find_processes(&self.root)
    }

    /// Whether the processes of the sandbox are at work: they compute, wait for a processor or a disk,
    /// or start others. Processes that only wait for input or for each other are not.
    pub(super) async fn is_working(&self) -> bool {
        let first = SandboxActivity::read(&self.processes());
        let mut last = first.clone();
        let mut runnable = 0;
        for _ in 0..ACTIVITY_SAMPLES {
            tokio::time::sleep(ACTIVITY_INTERVAL).await;
            last = SandboxActivity::read(&self.processes());
            runnable += usize::from(last.is_runnable);
        }
        last.processes.iter().any(|it| !first.processes.contains(it))
            || runnable > 1
            || last.ticks.saturating_sub(first.ticks) >= WORKING_TICKS
    }

    /// Kills every process of the sandbox.
    pub(super) async fn kill_processes(&self) {
        for _ in 0..KILL_ATTEMPTS {
            if self.try_kill() {
                return;
            }
            tokio::time::sleep(KILL_INTERVAL).await;
        }
    }

    /// Kills the running processes and returns whether there were none.
    fn try_kill(&self) -> bool {
        let running = self.processes();
        running.iter().for_each(VerifySandboxProcess::kill);
        running.is_empty()
    }
}

/// A process may fork just before it is killed, so that one attempt is not always enough.
const KILL_ATTEMPTS: usize = 50;
const KILL_INTERVAL: Duration = Duration::from_millis(10);

impl Drop for VerifySandbox {
    fn drop(&mut self) {
        // A scenario that was aborted must not leave processes behind. They could also write to the
        // directory while it is being removed.
        for _ in 0..KILL_ATTEMPTS {
            if self.try_kill() {
                return;
            }
            std::thread::sleep(KILL_INTERVAL);
        }
    }
}

fn write_file(path: &Path, content: &str) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, content)?;
    if content.starts_with("#!") {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// All files below a directory. Directories that cannot be read are skipped.
fn collect_files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect_files(&entry.path(), found),
            Ok(_) => found.push(entry.path()),
            Err(_) => {}
        }
    }
}

/// A running process of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerifySandboxProcess {
    pid: i32,
    /// The command line, separated by spaces.
    pub(super) command: String,
}

impl VerifySandboxProcess {
    fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // The process may have exited meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// How often, and how far apart, processes are looked at to see whether they are at work.
const ACTIVITY_SAMPLES: usize = 5;
const ACTIVITY_INTERVAL: Duration = Duration::from_millis(200);

/// The time of a processor, in hundredths of a second, from which on processes are at work: a tenth
/// of the time that they are looked at. Agents that wait use about a hundredth.
const WORKING_TICKS: u64 = 10;

/// What the processes of a sandbox do at one moment.
#[derive(Clone, Debug, Default)]
struct SandboxActivity {
    processes: Vec<i32>,
    /// The time that they have had a processor, in hundredths of a second.
    ticks: u64,
    /// Whether a thread of them computes, or waits for a processor or a disk.
    is_runnable: bool,
}

impl SandboxActivity {
    /// Reads `/proc`. On systems without it, processes never seem to be at work.
    fn read(processes: &[VerifySandboxProcess]) -> Self {
        let mut activity = Self::default();
        for process in processes {
            activity.processes.push(process.pid);
            let directory = PathBuf::from(format!("/proc/{}", process.pid));
            if let Some((_, ticks)) = read_stat(&directory) {
                activity.ticks += ticks;
            }
            let threads = fs::read_dir(directory.join("task")).into_iter().flatten().flatten();
            let mut states = threads.filter_map(|thread| Some(read_stat(&thread.path())?.0));
            activity.is_runnable |= states.any(|state| matches!(state, 'R' | 'D'));
        }
        activity
    }
}

/// The state of a process or thread and the time that it has had a processor.
fn read_stat(directory: &Path) -> Option<(char, u64)> {
    let text = fs::read_to_string(directory.join("stat")).ok()?;
    // The second field is the name in parentheses, which can contain anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some((fields.first()?.chars().next()?, ticks(11)? + ticks(12)?))
}

/// The processes that have this directory in their environment or work in it.
#[cfg(target_os = "linux")]
fn find_processes(root: &Path) -> Vec<VerifySandboxProcess> {
    use std::os::unix::ffi::OsStrExt as _;

    let marker = [b"HOME=", root.as_os_str().as_bytes(), b"/"].concat();
    let belongs = |process: &Path| {
        let inherited = fs::read(process.join("environ")).is_ok_and(|environment| {
            environment.split(|byte| *byte == 0).any(|variable| variable.starts_with(&marker))
        });
        inherited || fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(root))
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let path = entry.path();
        // A zombie process has neither an environment nor a command line.
        let line = fs::read(path.join("cmdline")).ok().filter(|line| !line.is_empty())?;
        if !belongs(&path) {
            return None;
        }
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some(VerifySandboxProcess { pid, command: line.trim_end().to_owned() })
    });
    processes.collect()
}

/// The processes that have this directory in their environment, according to `ps`.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "this system has no /proc")]
fn find_processes(root: &Path) -> Vec<VerifySandboxProcess> {
    let marker = format!("HOME={}/", root.display());
    let output = std::process::Command::new("ps").args(["-axEww", "-o", "pid=,command="]).output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let text = text.unwrap_or_default();
    let lines = text.lines().filter(|line| line.contains(&marker));
    let processes = lines.filter_map(|line| {
        let (pid, command) = line.trim_start().split_once(' ')?;
        Some(VerifySandboxProcess { pid: pid.parse().ok()?, command: command.to_owned() })
    });
    processes.collect()
}
