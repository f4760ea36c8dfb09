//! Stopping: a server that releases or stops its agents, and `towpath serve --stop`.

use std::time::Duration;

use anstream::eprintln;
use journal::SessionId;
use session::{AgentProgram, LeaveOutcome, Sessions, StoppedSession};

use super::lock::ServerLock;
use super::server_record::ServerRecord;
use super::{ServeArgs, ServeError, home};
use crate::exit::CommandStatus;
use crate::host::stop_background_host;
use crate::sessions::{report_unstored, short_id};
use crate::settings::CliSettings;

/// How long releasing the sessions may take. The next server takes over the others all the same.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long stopping all agents may take. It is shorter than the time that `--stop` waits for the
/// server.
const STOP_TIMEOUT: Duration = Duration::from_secs(35);

/// What happens to agents when the server stops.
#[derive(Clone, Copy)]
pub(crate) enum StopMode {
    KeepAgents,
    StopAgents,
}

/// Releases the sessions, or stops their agents. The sessions whose agents were stopped are written
/// to the lock's file, for the command that asked for it.
pub(crate) async fn release(
    mode: StopMode,
    temporary: bool,
    sessions: &Sessions,
    lock: &ServerLock,
) {
    match mode {
        StopMode::KeepAgents if temporary => {
            // Everything that they have is removed with the demo.
            drop(tokio::time::timeout(RELEASE_TIMEOUT, sessions.stop()).await);
        }
        StopMode::KeepAgents => {
            match tokio::time::timeout(RELEASE_TIMEOUT, sessions.release()).await {
                Ok(unstored) => report_unstored(&unstored),
                // What agents have printed is in their spools.
                Err(_) => eprintln!("note: some sessions did not store their last changes in time"),
            }
        }
        StopMode::StopAgents => match tokio::time::timeout(STOP_TIMEOUT, sessions.stop()).await {
            Ok(Ok(stopped)) => lock.record_stopped(&report(&stopped)),
            Ok(Err(error)) => eprintln!("note: could not stop all agents: {error}"),
            Err(_) => eprintln!("note: some agents did not stop in time"),
        },
    }
}

/// Stops the server of a data directory and its agents, or agents that a server left behind. Without
/// such a server, it is the one that listens on the given address, or the demo if that is named.
pub(super) async fn stop(
    args: &ServeArgs,
    settings: &CliSettings,
) -> Result<CommandStatus, ServeError> {
    if args.data.is_none() && !ServerLock::is_held(&settings.data_directory) {
        let others = running_servers(settings);
        let is_meant =
            |it: &&ServerRecord| it.address == args.listen || args.agent.demo && it.temporary;
        if let Some(other) = others.iter().find(is_meant) {
            return stop_other(other).await;
        }
        for ServerRecord { address, data, .. } in others {
            let data = data.display();
            eprintln!(
                "note: the server on {address} uses `{data}`; stop it with `towpath serve --stop \
                 --listen {address}`"
            );
        }
    }
    let by_server = ServerLock::stop_server(&settings.data_directory).await?;
    let host_stopped = stop_background_host(settings).await;
    // What the server could not stop, or an earlier one left.
    let unused = AgentProgram { program: "claude".into(), arguments: Vec::new() };
    let sessions = Sessions::new(home(settings, unused)?, settings.open_journal()?);
    let left = report(&sessions.stop().await?);
    match &by_server {
        Some(stopped) => eprintln!("stopped the server{}", describe(stopped, "agent")),
        None if host_stopped => {
            eprintln!("stopped the background host{}", describe(&left, "agent"));
        }
        None if left.is_empty() => eprintln!("no server is running"),
        None => {}
    }
    if !left.is_empty() && (by_server.is_some() || !host_stopped) {
        let server = if by_server.is_none() { "no server is running; stopped" } else { "stopped" };
        eprintln!("{server}{}", describe(&left, "leftover agent").trim_start_matches(" and"));
    }
    let found = by_server.is_some() || host_stopped || !left.is_empty();
    Ok(if found { CommandStatus::Success } else { CommandStatus::Negative })
}

/// The servers of other data directories.
fn running_servers(settings: &CliSettings) -> Vec<ServerRecord> {
    let mut servers = ServerRecord::read_all(&settings.runtime_directory);
    servers.retain(|it| ServerLock::is_held(&it.data));
    servers.sort_by_key(|it| it.address);
    servers
}

/// Stops the server of another data directory, and its agents.
async fn stop_other(server: &ServerRecord) -> Result<CommandStatus, ServeError> {
    let Some(stopped) = ServerLock::stop_server(&server.data).await? else {
        eprintln!("no server is running");
        return Ok(CommandStatus::Negative);
    };
    let name = if server.temporary { "the demo server" } else { "the server" };
    eprintln!("stopped {name} on {}{}", server.address, describe(&stopped, "agent"));
    Ok(CommandStatus::Success)
}

/// The sessions whose agents were stopped. Failures, and changes that were not stored, are reported.
fn report(stopped: &[StoppedSession]) -> Vec<SessionId> {
    for StoppedSession { id, failure, .. } in stopped {
        if let Some(problem) = failure {
            eprintln!("note: the agent of session {} may still run: {problem}", short_id(*id));
        }
    }
    let unstored = stopped.iter().filter(|it| it.left == LeaveOutcome::NotStored);
    report_unstored(&unstored.map(|it| it.id).collect::<Vec<_>>());
    let ended = stopped.iter().filter(|it| it.had_agent && it.failure.is_none());
    ended.map(|it| it.id).collect()
}

/// ` and 2 agents (sessions 1f0c3a52, 7d21e08b)`; nothing if there are none.
fn describe(sessions: &[SessionId], what: &str) -> String {
    let names: Vec<String> = sessions.iter().map(|id| short_id(*id)).collect();
    match &names[..] {
        [] => String::new(),
        [name] => format!(" and 1 {what} (session {name})"),
        names => format!(" and {} {what}s (sessions {})", names.len(), names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use journal::SessionId;
    use uuid::Uuid;

    use super::describe;

    #[test]
    fn what_was_stopped_is_named() {
        let ids = [SessionId(Uuid::from_u128(1 << 96)), SessionId(Uuid::from_u128(2 << 96))];
        assert_eq!(describe(&[], "agent"), "");
        assert_eq!(describe(&ids[..1], "agent"), " and 1 agent (session 00000001)");
        assert_eq!(describe(&ids, "agent"), " and 2 agents (sessions 00000001, 00000002)");
    }
}
