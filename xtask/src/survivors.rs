//! Finds processes that tests have left behind.
//!
//! Everything that a test starts inherits a variable with a value of this run; tests that make an
//! environment by hand pass it on. Towpath itself starts some processes without it, so a program from
//! the target directory counts too, as does one that works there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The variable that everything in a run of the tests inherits.
const VARIABLE: &str = "TOWPATH_TEST_RUN";

/// How long a process may take to end after the tests: an agent that has just lost its shim.
const PATIENCE: Duration = Duration::from_secs(15);

/// Marks the processes of a run, and finds those that survive it.
#[derive(Debug)]
pub(crate) struct SurvivorCheck {
    /// The variable with its value.
    mark: String,
    target: PathBuf,
    /// Processes from before the run. None if this system has no `/proc`.
    before: Option<BTreeSet<ProcessKey>>,
}

/// The id of a process and when it started, because ids are used again.
type ProcessKey = (u32, String);

impl SurvivorCheck {
    /// Starts a run whose programs are below a directory.
    pub(crate) fn new(target: &Path) -> Self {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mark = format!("{VARIABLE}={}-{}", std::process::id(), time.as_nanos());
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let before = processes().map(|all| all.into_iter().collect());
        Self { mark, target, before }
    }

    /// Marks a command and everything that it will start.
    pub(crate) fn mark(&self, command: &mut Command) {
        if let Some((name, value)) = self.mark.split_once('=') {
            command.env(name, value);
        }
    }

    /// Describes the processes that still run after a while; none if this system does not tell.
    pub(crate) fn survivors(&self) -> Option<Vec<String>> {
        self.survivors_after(PATIENCE)
    }

    fn survivors_after(&self, patience: Duration) -> Option<Vec<String>> {
        let before = self.before.as_ref()?;
        let deadline = Instant::now() + patience;
        loop {
            let running = processes()?.into_iter().filter(|key| !before.contains(key));
            let found: Vec<String> = running.filter_map(|(id, _)| self.describe(id)).collect();
            if found.is_empty() || Instant::now() >= deadline {
                return Some(found);
            }
            sleep(Duration::from_millis(200));
        }
    }

    /// Describes a process if it belongs to the run.
    fn describe(&self, id: u32) -> Option<String> {
        let file = |name: &str| format!("/proc/{id}/{name}");
        let environment = fs::read(file("environ")).unwrap_or_default();
        let is_marked = environment.split(|byte| *byte == 0).any(|it| it == self.mark.as_bytes());
        let is_below =
            |link: &str| fs::read_link(file(link)).is_ok_and(|path| path.starts_with(&self.target));
        if !is_marked && !is_below("exe") && !is_below("cwd") {
            return None;
        }
        let command = fs::read(file("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        // A process that has ended has no command line.
        (!command.trim().is_empty()).then(|| format!("process {id}: {}", command.trim()))
    }
}

/// The processes that run now.
fn processes() -> Option<Vec<ProcessKey>> {
    // Some systems have the directory, but not what is needed here.
    fs::read_to_string("/proc/self/stat").ok()?;
    let entries = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    Some(ids.filter_map(|id| Some((id, started(id)?))).collect())
}

/// When a process started; none if it has ended.
fn started(id: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before may contain blanks. The state is the first field after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    if fields.next() == Some("Z") {
        return None;
    }
    fields.nth(18).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::SurvivorCheck;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    fn survivors(check: &SurvivorCheck) -> Option<Vec<String>> {
        check.survivors_after(Duration::ZERO)
    }

    #[test]
    fn a_process_that_a_test_left_behind_is_found_by_its_environment_or_its_directory() {
        // Programs of other tests are below the usual target directory.
        let directory = std::env::temp_dir().join(format!("survivors-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let check = SurvivorCheck::new(&directory);
        let Some(none) = survivors(&check) else {
            println!("skipped: there is no /proc");
            return;
        };
        assert_eq!(none, Vec::<String>::new());
        let mut by_mark = Command::new("sh");
        // The mark reaches the processes that a process starts.
        check.mark(by_mark.args(["-c", "sleep 60 & echo started; wait"]).stdout(Stdio::piped()));
        let mut by_directory = Command::new("sleep");
        by_directory.arg("60").env_clear().current_dir(&directory);
        let path = std::env::var_os("PATH").unwrap_or_default();
        // An environment that a test made by hand passes the mark on.
        let mut made_by_hand = Command::new("sleep");
        made_by_hand.arg("60").env_clear().current_dir("/");
        check.mark(&mut made_by_hand);
        let mut children = [&mut by_mark, &mut by_directory, &mut made_by_hand]
            .map(|command| command.env("PATH", &path).spawn().unwrap());
        let mut line = String::new();
        let stdout = children[0].stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
        let found = survivors(&check).unwrap();
        // A shell may have been seen before it became `sleep`.
        assert_eq!(found.len(), 4, "{found:?}");
        let nested = found.iter().find(|it| {
            let other =
                children.iter().all(|child| !it.contains(&format!("process {}:", child.id())));
            other && it.contains("sleep 60")
        });
        let nested = nested.unwrap().split([' ', ':']).nth(1).unwrap().to_owned();
        assert!(Command::new("kill").arg(nested).status().unwrap().success());
        for child in &mut children {
            let _ = child.kill();
            child.wait().unwrap();
        }
        let left = check.survivors_after(Duration::from_secs(5)).unwrap();
        assert_eq!(left, Vec::<String>::new());
        // Another run does not count them, nor what was there before it.
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
