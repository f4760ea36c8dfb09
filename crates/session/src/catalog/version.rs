//! The version of an installed agent.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;
use tokio::io::AsyncReadExt as _;
use tokio::process::Child;
use tokio::time::timeout;

use super::LocatedAgent;

/// The most that is read of a program's output.
const MAX_OUTPUT: u64 = 4096;

/// Why the version of an agent is not known.
#[derive(Debug, Error)]
pub enum VersionError {
    #[error("it could not be started")]
    Start(#[source] io::Error),
    #[error("it printed no version within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("it printed no version")]
    NoVersion,
}

impl LocatedAgent {
    /// What the program prints for `--version`, reduced to the version number.
    pub async fn version(
        &self,
        environment: &[(OsString, OsString)],
        limit: Duration,
    ) -> Result<String, VersionError> {
        let output = timeout(limit, self.version_output(environment)).await;
        let output = output.map_err(|_| VersionError::Timeout(limit))?;
        let output = output.map_err(VersionError::Start)?;
        version_in(&output).ok_or(VersionError::NoVersion)
    }

    #[expect(clippy::disallowed_methods, reason = "reading the version needs no session")]
    async fn version_output(&self, environment: &[(OsString, OsString)]) -> io::Result<String> {
        let mut command = std::process::Command::new(&self.program);
        // The built-in agent is a subcommand of this program.
        let subcommand = self.arguments.first().filter(|it| *it == "play");
        command.args(subcommand).arg("--version").process_group(0);
        command
            .env_clear()
            .envs(environment.iter().cloned())
            .envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
        let group = KilledGroup::of(&child);
        let mut output = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            stdout.take(MAX_OUTPUT).read_to_end(&mut output).await?;
        }
        drop(group);
        let _ = child.wait().await;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }
}

/// Kills a group of processes when it is dropped. A program may be a script that has started another
/// one, which would outlive it.
#[derive(Debug)]
pub struct KilledGroup(Option<Pid>);

impl KilledGroup {
    /// The group of a process that was started as the leader of one.
    pub fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(id.cast_signed())))
    }
}

impl Drop for KilledGroup {
    fn drop(&mut self) {
        // Fails if it has ended meanwhile.
        let _ = self.0.map(|group| kill_process_group(group, Signal::KILL));
    }
}

/// The first word that looks like a version number: `codex-cli 0.166.0`, `v1.2`, `2.1.325 (Claude Code)`.
fn version_in(output: &str) -> Option<String> {
    let is_version = |word: &&str| {
        let digits = word.strip_prefix('v').unwrap_or(word);
        digits.starts_with(|it: char| it.is_ascii_digit())
            && digits.contains('.')
            && digits.len() <= 40
            && digits.chars().all(|it| it.is_ascii_alphanumeric() || "-.+_".contains(it))
    };
    let word =
        output.split(|it: char| it.is_whitespace() || ",;()".contains(it)).find(is_version)?;
    Some(word.strip_prefix('v').unwrap_or(word).trim_end_matches('.').to_owned())
}

#[cfg(test)]
mod tests {
    use super::version_in;

    #[test]
    fn the_version_is_found_whatever_is_printed_around_it() {
        for (output, version) in [
            ("2.1.325 (Claude Code)\n", Some("2.1.325")),
            ("codex-acp v2.6.0", Some("2.6.0")),
            ("GitHub Copilot CLI 1.0.102.\nCommit: abc", Some("1.0.102")),
            ("warning: no config\nqwen, 0.24.4-rc.1", Some("0.24.4-rc.1")),
            ("Usage: x [options]", None),
            ("", None),
        ] {
            assert_eq!(version_in(output).as_deref(), version, "{output}");
        }
        assert_eq!(version_in(&"1.".repeat(1_000_000)), None);
    }
}
