//! The processes of a sandbox, found by what they inherited from it.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pid: i32,
    /// Its command line, arguments separated by spaces.
    pub(super) command: String,
}

impl Process {
    /// Kills it, if it is still there.
    pub(super) fn kill(&self) {
        if let Some(pid) = Pid::from_raw(self.pid) {
            // It may have ended since; then there is nothing to kill.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The processes with this directory in their environment, or at work below it.
#[cfg(target_os = "linux")]
pub(super) fn of(root: &Path) -> Vec<Process> {
    use std::fs;
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
        // What is dead but not yet waited for has neither environment nor command line.
        let line = fs::read(path.join("cmdline")).ok().filter(|line| !line.is_empty())?;
        if !belongs(&path) {
            return None;
        }
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        Some(Process { pid, command: line.trim_end().to_owned() })
    });
    processes.collect()
}

/// The processes with this directory in their environment, as `ps` shows it.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "there is no /proc to read")]
pub(super) fn of(root: &Path) -> Vec<Process> {
    let marker = format!("HOME={}/", root.display());
    let output = std::process::Command::new("ps").args(["-axEww", "-o", "pid=,command="]).output();
    let text = output.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    let text = text.unwrap_or_default();
    let lines = text.lines().filter(|line| line.contains(&marker));
    let processes = lines.filter_map(|line| {
        let (pid, command) = line.trim_start().split_once(' ')?;
        Some(Process { pid: pid.parse().ok()?, command: command.to_owned() })
    });
    processes.collect()
}
