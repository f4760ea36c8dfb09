//! What clients and agents said to each other, and the check of it against the protocol's schema.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::programs;

/// A directory with a record of each connection: `NAME.in` is what the client sent, `NAME.out` what
/// the agent sent.
pub(crate) struct Records {
    directory: PathBuf,
    next: AtomicU32,
}

impl Records {
    pub(crate) fn new(directory: PathBuf) -> Self {
        std::fs::create_dir_all(&directory).expect("a directory");
        Self { directory, next: AtomicU32::new(0) }
    }

    /// Writes a program that runs an agent and records what goes through its pipes.
    pub(crate) fn wrap(&self, program: &Path, agent: &[String]) {
        let quoted: Vec<String> = agent.iter().map(|it| format!("'{it}'")).collect();
        let (directory, agent) = (self.directory.display(), quoted.join(" "));
        // A client may close its end before it has read everything, which must not end the recording.
        let script = format!(
            "#!/bin/sh\nrecord='{directory}'/p$$\ntrap '' PIPE\n\
             {{ tee \"$record.in\" | {agent} \"$@\"; echo $? > \"$record.status\"; }} \
             | tee \"$record.out\" 2> /dev/null\nexit \"$(cat \"$record.status\")\"\n"
        );
        std::fs::write(program, script).expect("a script");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(program, executable).expect("an executable script");
    }

    /// Adds the record of a connection.
    pub(crate) fn add(&self, sent: &[u8], received: &[u8]) {
        let name = format!("c{}", self.next.fetch_add(1, Ordering::Relaxed));
        for (extension, bytes) in [("in", sent), ("out", received)] {
            let path = self.directory.join(&name).with_extension(extension);
            let mut file = std::fs::File::create(path).expect("a record");
            file.write_all(bytes).expect("a record");
        }
    }

    /// Checks every line of every agent, and returns how many there were.
    pub(crate) fn check(&self) -> usize {
        let faults = self.faults();
        assert!(faults.1.is_empty(), "the agent broke the protocol:\n{}", faults.1);
        assert!(faults.0 > 0, "no agent said anything");
        faults.0
    }

    /// How many lines were checked, and what is wrong with them.
    pub(crate) fn faults(&self) -> (usize, String) {
        let Some(node) = programs::node() else { return (1, String::new()) };
        let mut check = node.script("check-records.mjs");
        let output = check.arg(&self.directory).output().expect("node starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        let (lines, faults) = (text(output.stdout), text(output.stderr));
        assert!(output.status.success() || !faults.is_empty(), "the check failed: {lines}");
        (lines.trim().parse().expect("a number of lines"), faults)
    }
}
