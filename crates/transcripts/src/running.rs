//! Whether another program is using a session file.
//!
//! The CLI takes no lock and does not keep the file open, so there is no certain answer. A CLI that was
//! started with the session's id is using it. A CLI that was started without one in the session's
//! directory uses the file that was last written there; so as many of the newest files are taken to be
//! in use as there are such processes, if they were written since the process started. Agents that
//! Towpath started do not count: the journal knows them.
//!
//! Without `/proc`, a file that was written in the last seconds counts as in use.

use std::path::Path;

use crate::directory::TranscriptFile;

/// A program that uses a session file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranscriptWriter {
    /// Its process, if that is known.
    pub process: Option<u32>,
}

/// The CLIs that run on this machine outside Towpath.
#[derive(Debug)]
pub struct RunningClis(platform::ProcessList);

impl RunningClis {
    /// Reads the list of processes.
    pub fn find() -> Self {
        Self(platform::ProcessList::read())
    }

    /// The program that uses a session file of a working directory.
    pub fn writer_of(&self, file: &TranscriptFile, directory: &Path) -> Option<TranscriptWriter> {
        self.0.writer_of(file, directory)
    }
}

#[cfg(target_os = "linux")]
mod platform {
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::{Path, PathBuf};

    use super::{TranscriptFile, TranscriptWriter};

    /// How agents that Towpath started are marked.
    const OUR_MARK: &[u8] = b"CLAUDE_CODE_ENTRYPOINT=towpath";

    /// A running CLI.
    #[derive(Debug)]
    struct CliProcess {
        id: u32,
        directory: PathBuf,
        /// The session it was started with.
        session: Option<String>,
        /// When it was started, in milliseconds since 1970.
        started: u64,
    }

    #[derive(Debug)]
    pub(super) struct ProcessList(Vec<CliProcess>);

    impl ProcessList {
        pub(super) fn read() -> Self {
            let boot = boot_time().unwrap_or(0);
            let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
            let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            Self(ids.filter_map(|id| read_process(id, boot)).collect())
        }

        pub(super) fn writer_of(
            &self,
            file: &TranscriptFile,
            directory: &Path,
        ) -> Option<TranscriptWriter> {
            let id = file.id.to_string();
            let named = self.0.iter().find(|it| it.session.as_deref() == Some(&id));
            if let Some(process) = named {
                return Some(TranscriptWriter { process: Some(process.id) });
            }
            if self.0.is_empty() {
                return None;
            }
            let real = directory.canonicalize();
            let directory = real.as_deref().unwrap_or(directory);
            let unnamed = self.0.iter().filter(|it| it.session.is_none());
            let unnamed = unnamed.filter(|it| it.directory == directory);
            let unnamed: Vec<_> = unnamed.filter(|it| file.modified >= it.started).collect();
            if unnamed.is_empty() {
                return None;
            }
            let newer = newer_files(file)?;
            let process = unnamed.get(newer)?;
            Some(TranscriptWriter { process: Some(process.id) })
        }
    }

    /// A process, if it is a CLI outside Towpath.
    fn read_process(id: u32, boot: u64) -> Option<CliProcess> {
        let process = Path::new("/proc").join(id.to_string());
        let command = fs::read(process.join("cmdline")).ok()?;
        let arguments: Vec<&[u8]> = command.split(|byte| *byte == 0).collect();
        if !is_cli(&arguments) || is_ours(&process) {
            return None;
        }
        let directory = fs::read_link(process.join("cwd")).ok()?;
        let started = boot + start_since_boot(&process)?;
        Some(CliProcess { id, directory, session: session_argument(&arguments), started })
    }

    /// How many files in the same folder were written later.
    fn newer_files(file: &TranscriptFile) -> Option<usize> {
        let folder = fs::read_dir(file.path.parent()?).ok()?;
        let others = folder.flatten().filter_map(|entry| TranscriptFile::at(&entry.path()));
        Some(others.filter(|other| other.modified > file.modified).count())
    }

    /// The CLI is a program or a script named `claude`, or the script of its npm package.
    fn is_cli(arguments: &[&[u8]]) -> bool {
        arguments.iter().take(3).any(|argument| {
            let path = Path::new(OsStr::from_bytes(argument));
            path.file_name().is_some_and(|name| name == "claude")
                || path.ends_with("claude-code/cli.js")
        })
    }

    fn is_ours(process: &Path) -> bool {
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == OUR_MARK)
    }

    /// The session that the arguments name.
    fn session_argument(arguments: &[&[u8]]) -> Option<String> {
        let text = |argument: &&[u8]| String::from_utf8_lossy(argument).into_owned();
        let names = ["--resume", "-r", "--session-id"];
        arguments.windows(2).find_map(|pair| {
            let is_option = names.iter().any(|name| pair[0] == name.as_bytes());
            let value = text(&pair[1]);
            (is_option && value.parse::<uuid::Uuid>().is_ok()).then_some(value)
        })
    }

    /// When the machine started, in milliseconds since 1970.
    fn boot_time() -> Option<u64> {
        let stat = fs::read_to_string("/proc/stat").ok()?;
        let line = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
        Some(line.trim().parse::<u64>().ok()? * 1000)
    }

    /// When a process started, in milliseconds since the machine did.
    fn start_since_boot(process: &Path) -> Option<u64> {
        let stat = fs::read_to_string(process.join("stat")).ok()?;
        // The name may contain spaces and parentheses.
        let (_, rest) = stat.rsplit_once(')')?;
        let ticks: u64 = rest.split_whitespace().nth(19)?.parse().ok()?;
        Some(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
    }

    #[cfg(test)]
    mod tests {
        use super::{is_cli, session_argument};

        #[test]
        fn a_cli_is_recognized_by_its_program_or_script() {
            let is = |words: &str| is_cli(&words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            assert!(is("claude") && is("/usr/bin/claude -p") && is("node /usr/bin/claude"));
            assert!(is("node --max-old-space-size=9 /lib/node_modules/@a/claude-code/cli.js"));
            assert!(!is("vim claude.md") && !is("grep -r x y claude") && !is("towpath play"));
            let id = "0f0c5d2e-58d1-4d1c-9f6c-000000000001";
            let words = format!("claude --resume {id}");
            let words: Vec<_> = words.split(' ').map(str::as_bytes).collect();
            assert_eq!(session_argument(&words).as_deref(), Some(id));
            assert_eq!(session_argument(&[b"claude", b"--resume"]), None);
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::path::Path;
    use std::time::{Duration, SystemTime};

    use super::{TranscriptFile, TranscriptWriter};

    const RECENT: Duration = Duration::from_secs(10);

    #[derive(Debug)]
    pub(super) struct ProcessList;

    impl ProcessList {
        pub(super) fn read() -> Self {
            Self
        }

        #[expect(clippy::unused_self, reason = "other systems have a list")]
        pub(super) fn writer_of(
            &self,
            file: &TranscriptFile,
            _: &Path,
        ) -> Option<TranscriptWriter> {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let age = now.saturating_sub(Duration::from_millis(file.modified));
            (age < RECENT).then_some(TranscriptWriter { process: None })
        }
    }
}
