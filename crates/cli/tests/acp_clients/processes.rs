//! The processes of a fixture: found by their `HOME`, and killed one by one.

use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::Fixture;

/// A process of Towpath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessKind {
    /// `towpath acp`, which a client started.
    Relay,
    /// The background process that drives sessions.
    Host,
    Shim,
    Agent,
}

impl ProcessKind {
    /// The argument that tells it from the others.
    fn argument(self) -> &'static str {
        match self {
            Self::Relay => "acp",
            Self::Host => "host",
            Self::Shim => "__shim",
            Self::Agent => "play",
        }
    }
}

/// The running processes of a kind.
pub(crate) fn find(fixture: &Fixture, kind: ProcessKind) -> Vec<Pid> {
    let home = format!("HOME={}", fixture.path("home").display());
    let processes = std::fs::read_dir("/proc").expect("a process table");
    let pids = processes.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let is_one = |pid: &i32| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        // A process that has ended, and is not waited for yet, has neither.
        let (environment, command) = (read("environ"), read("cmdline"));
        let has =
            |bytes: &[u8], word: &str| bytes.split(|it| *it == 0).any(|it| it == word.as_bytes());
        has(&environment, &home)
            && command.split(|it| *it == 0).nth(1) == Some(kind.argument().as_bytes())
    };
    pids.filter(is_one).filter_map(Pid::from_raw).collect()
}

/// Kills all processes of a kind as `kill -9` does, and returns how many there were.
pub(crate) fn kill(fixture: &Fixture, kind: ProcessKind) -> usize {
    let found = find(fixture, kind);
    found.into_iter().filter(|pid| kill_process(*pid, Signal::KILL).is_ok()).count()
}
