//! The checks: the data directory, the journal in it, sockets, and the agent.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use journal::Journal;
use session::host::HostKind;
use session::{
    AgentProgram, AgentProtocol, KilledGroup, SessionLimits, SessionOptions, SessionSpec, Sessions,
    SessionsConfig, shim,
};
use tokio::time::timeout;
use view::wording;
use wire::json::Raw;

use super::{Diagnosis, DoctorArgs, Finding};
use crate::agents;
use crate::host::{HostState, find_host};
use crate::proven::newer_than_proven;
use crate::schedule::schedules_of;
use crate::settings::{CliSettings, describe_repair, remove_secrets};

/// The oldest version of the CLI that was tested.
const OLDEST_VERSION: &str = "1.0.24";

/// How many columns of an agent's error output are shown.
const ERROR_WIDTH: usize = 300;

/// Checks the data directory, the journal and sockets. Creates what does not exist yet.
pub(super) async fn check_data(settings: &CliSettings, diagnosis: &mut Diagnosis) {
    // Creating the directory also closes one that is open to other users, so this is looked at first.
    let open = is_open_to_others(&settings.data_directory);
    if let Err(error) = settings.create_data_directory() {
        let hint = error.hint().unwrap_or_default();
        diagnosis.add("data", Finding::bad(with_causes(&error), hint));
        return;
    }
    let finding = if open {
        let path = settings.data_directory.display();
        let hint = "it is private again; check which program or backup opened it";
        Finding::bad(format!("`{path}` was accessible to other users"), hint)
    } else {
        check_directory(&settings.data_directory)
    };
    diagnosis.add("data", finding);
    diagnosis.add("journal", check_journal(&settings.data_directory).await);
    diagnosis.add("sockets", check_sockets(settings));
    diagnosis.add("host", check_host(settings).await);
    if let Some(finding) = check_schedules(settings).await {
        diagnosis.add("schedules", finding);
    }
}

/// Checks whether the agent exists, which version it is, and whether it responds.
pub(super) async fn check_agent(
    options: &DoctorArgs,
    settings: &CliSettings,
    diagnosis: &mut Diagnosis,
) {
    let agent = match settings.find_agent(&options.agent) {
        Ok(agent) => agent,
        Err(error) => {
            let hint = error.hint().unwrap_or_default();
            diagnosis.add("agent", Finding::bad(with_causes(&error), hint));
            return;
        }
    };
    let path = agent.program.to_string_lossy().into_owned();
    let limit = Duration::from_secs(options.timeout);
    let built_in = if options.agent.demo { " (built in)" } else { "" };
    diagnosis.add("agent", Finding::good(format!("{path}{built_in}")));
    let version = check_version(&agent, limit).await;
    let can_run = version.is_good();
    diagnosis.add("version", version);
    if can_run {
        diagnosis.add("response", check_response(agent, settings, limit).await);
    }
}

/// Says which other agents are installed. None of them is needed.
pub(super) async fn check_other_agents(settings: &CliSettings, diagnosis: &mut Diagnosis) {
    let catalog = match agents::catalog(settings) {
        Ok(catalog) => catalog,
        Err(error) => {
            diagnosis.add("agents", Finding::bad(with_causes(&error), "run `towpath agents`"));
            return;
        }
    };
    let others = catalog.iter().filter(|it| it.protocol == AgentProtocol::Acp).cloned().collect();
    let limit = Duration::from_secs(20);
    let reports = agents::report(others, settings.environment(), limit, false).await;
    let installed: Vec<String> =
        reports.iter().filter(|it| it.is_installed()).map(agents::AgentReport::title).collect();
    let text = match installed.as_slice() {
        [] => "no others are installed; `towpath agents` lists what can be".to_owned(),
        installed => format!("{}; see `towpath agents --check`", installed.join(", ")),
    };
    diagnosis.add("agents", Finding::good(text));
}

fn is_open_to_others(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.mode() & 0o077 != 0)
}

fn check_directory(path: &Path) -> Finding {
    let shown = path.display();
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) => {
            let hint = "set `TOWPATH_DATA` to a directory that you can read";
            return Finding::bad(format!("`{shown}` cannot be read: {error}"), hint);
        }
    };
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        let hint = "set `TOWPATH_DATA` to a directory that you own";
        return Finding::bad(format!("`{shown}` belongs to another user"), hint);
    }
    if is_open_to_others(path) {
        let hint = format!("run `chmod 700 {shown}`: it holds everything your agents say and do");
        return Finding::bad(format!("`{shown}` is accessible to other users"), hint);
    }
    if let Err(error) = tempfile::tempfile_in(path) {
        let hint = "check whether the disk is full or mounted read-only";
        return Finding::bad(format!("`{shown}` is not writable: {error}"), hint);
    }
    Finding::good(format!("{shown}, accessible only to you"))
}

async fn check_journal(data: &Path) -> Finding {
    let opened = match Journal::open(&SessionsConfig::journal_path(data)) {
        Ok(opened) => opened,
        Err(error) => {
            let hint = match error {
                journal::Error::Newer { .. } => "a newer towpath wrote it: use that version",
                journal::Error::DamagedInUse { .. } => {
                    "stop every other towpath, then run `towpath doctor` again"
                }
                _ => "move the file to a safe place; towpath then starts a new one",
            };
            return Finding::bad(with_causes(&error), hint);
        }
    };
    if let Some(repair) = &opened.repair {
        let hint = "it has been repaired; delete the damaged file once you miss nothing";
        return Finding::bad(describe_repair(repair), hint);
    }
    let checked = opened.journal.check().await;
    let _ = opened.journal.close().await;
    match checked {
        Ok(health) if health.faults.is_empty() => {
            let sessions = usize::try_from(health.sessions).unwrap_or(usize::MAX);
            let sessions = wording::plural(sessions, "session", "sessions");
            Finding::good(format!("intact, {sessions}, {}", wording::size(health.bytes)))
        }
        Ok(health) => {
            let hint = "stop every towpath and run `towpath doctor` again to repair it";
            Finding::bad(format!("damaged: {}", health.faults.join("; ")), hint)
        }
        Err(error) => Finding::bad(with_causes(&error), "run `towpath doctor` again"),
    }
}

/// Checks whether a socket can be created where a session would create one.
fn check_sockets(settings: &CliSettings) -> Finding {
    let create = || -> io::Result<()> {
        let live = settings.data_directory.join("live");
        let runtime = &settings.runtime_directory;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&live)?;
        let probe = tempfile::Builder::new().prefix("probe-").tempdir_in(&live)?;
        let name = "probe-of-the-doctor-with-the-length-of-an-id";
        let longest = live.join("00000000-0000-0000-0000-000000000000");
        let socket = if shim::socket_path(&longest, runtime, name).starts_with(&longest) {
            probe.path().join("shim.sock")
        } else {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(runtime)?;
            runtime.join(format!("{}.sock", std::process::id()))
        };
        let bound = UnixListener::bind(&socket);
        let _ = fs::remove_file(&socket);
        bound.map(drop)
    };
    match create() {
        Ok(()) => Finding::good("can be created"),
        Err(error) => {
            let hint =
                "set `TOWPATH_DATA` to a local disk; network file systems do not support sockets";
            Finding::bad(format!("cannot be created: {error}"), hint)
        }
    }
}

/// Checks whether the process answers that drives the sessions of clients that may go away.
async fn check_host(settings: &CliSettings) -> Finding {
    let process =
        |pid: Option<u32>| pid.map_or("a process".to_owned(), |it| format!("process {it}"));
    match find_host(settings).await {
        HostState::None => Finding::good("none runs; one is started when it is needed"),
        HostState::Running { kind, pid, sessions } => {
            let kind = match kind {
                HostKind::Server => "a server",
                HostKind::Background => "in the background",
            };
            let sessions = match sessions {
                Some(number) => wording::plural(number, "open session", "open sessions"),
                None => "another version of Towpath".to_owned(),
            };
            Finding::good(format!("{kind}, process {pid}, {sessions}"))
        }
        HostState::Silent { pid } => {
            let hint = pid.map_or_else(
                || "stop every other towpath".to_owned(),
                |pid| {
                    format!("if this does not change, stop it with `kill -9 {pid}`; agents go on")
                },
            );
            Finding::bad(format!("{} hosts the sessions and does not answer", process(pid)), hint)
        }
    }
}

/// Whether something runs that sends scheduled prompts; none if there are none.
async fn check_schedules(settings: &CliSettings) -> Option<Finding> {
    let journal = Journal::open(&SessionsConfig::journal_path(&settings.data_directory)).ok()?;
    let records = journal.journal.sessions().await;
    let _ = journal.journal.close().await;
    let schedules = records.ok()?.iter().map(|it| schedules_of(it).len()).sum::<usize>();
    if schedules == 0 {
        return None;
    }
    let text = wording::plural(schedules, "scheduled prompt", "scheduled prompts");
    Some(match find_host(settings).await {
        HostState::None => Finding::bad(
            format!("{text}, and nothing runs that could send them"),
            "start `towpath serve`, or open the session with `towpath run --resume`",
        ),
        HostState::Running { .. } | HostState::Silent { .. } => Finding::good(text),
    })
}

async fn check_version(agent: &AgentProgram, limit: Duration) -> Finding {
    match timeout(limit, read_version(agent)).await {
        Err(_) => Finding::bad(
            format!("no output of `--version` within {} s", limit.as_secs()),
            "try a longer `--timeout`; does the agent ask something when run in a terminal?",
        ),
        Ok(Err(error)) => Finding::bad(
            format!("could not start it: {error}"),
            "check that the program is built for this system",
        ),
        Ok(Ok(output)) => {
            let line = output.lines().next().unwrap_or_default().trim();
            if line.starts_with(|it: char| it.is_ascii_digit()) {
                return Finding::good(match newer_than_proven(line) {
                    Some(remark) => format!("{line}; {remark}"),
                    None => line.to_owned(),
                });
            }
            let hint =
                format!("Claude Code {OLDEST_VERSION} or later prints a number for `--version`");
            Finding::bad(format!("unexpected output `{}`", shorten(line)), hint)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "reading the version needs no session")]
async fn read_version(agent: &AgentProgram) -> io::Result<String> {
    let mut command = std::process::Command::new(&agent.program);
    remove_secrets(&mut command);
    command.args(&agent.arguments).arg("--version").process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = tokio::process::Command::from(command).kill_on_drop(true).spawn()?;
    let group = KilledGroup::of(&child);
    let output = child.wait_with_output().await?;
    // It has ended by itself.
    std::mem::forget(group);
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Starts the agent in a temporary session and waits for its response to `initialize`.
async fn check_response(agent: AgentProgram, settings: &CliSettings, limit: Duration) -> Finding {
    let started = Instant::now();
    match initialize(agent, settings, limit).await {
        Ok(capabilities) => {
            let took = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            Finding::good(format!("`initialize` in {}{capabilities}", wording::duration(took)))
        }
        Err(problem) => Finding::bad(
            format!("no response to `initialize`: {}", shorten(&problem)),
            "run the agent once by itself: it may need a sign-in, an update or a trust decision",
        ),
    }
}

async fn initialize(
    agent: AgentProgram,
    settings: &CliSettings,
    limit: Duration,
) -> Result<String, String> {
    let temporary = tempfile::Builder::new().prefix("towpath-doctor-").tempdir();
    let temporary = temporary.map_err(|error| error.to_string())?;
    let directory = temporary.path().join("empty");
    fs::create_dir(&directory).map_err(|error| error.to_string())?;
    let limits = SessionLimits {
        initialize: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        restarts: 0,
        ..SessionLimits::default()
    };
    let config = settings.session_config(agent, limits).map_err(|error| with_causes(&error))?;
    let config = SessionsConfig { data: temporary.path().to_owned(), ..config };
    let opened = Journal::open(&SessionsConfig::journal_path(temporary.path()));
    let journal = opened.map_err(|error| with_causes(&error))?.journal;
    let sessions = Sessions::new(config, journal);
    let options = SessionOptions { directory, ..SessionOptions::default() };
    let creation = SessionSpec { options, ..SessionSpec::default() };
    let session = sessions.create(creation).await.map_err(|error| with_causes(&error))?;
    let result = session.wake().await;
    let cause = last_stop_cause(&sessions, &session).await;
    let id = session.id();
    drop(session);
    // Deleting the session also stops the agent, whatever state it is in.
    let _ = sessions.delete(id).await;
    match result {
        Ok(capabilities) => Ok(capabilities.as_deref().map(summarize).unwrap_or_default()),
        Err(error) => Err(cause.unwrap_or_else(|| with_causes(&error))),
    }
}

/// Why the agent stopped, as the session recorded it.
async fn last_stop_cause(sessions: &Sessions, session: &session::Session) -> Option<String> {
    let entries = sessions.journal().read(session.id(), journal::Seq(0), 100).await.ok()?;
    let notes = entries.iter().filter_map(|entry| wire::note::Note::read(&entry.bytes));
    let causes = notes.filter_map(|note| match note {
        wire::note::Note::AgentExited { cause } => Some(wording::stop_cause(&cause)),
        _ => None,
    });
    causes.last()
}

/// The number of models, commands and agents that the response to `initialize` lists.
fn summarize(capabilities: &str) -> String {
    let Some(capabilities) = Raw::parse(capabilities) else { return String::new() };
    let count = |name: &str| capabilities.get(name).map_or(0, |list| list.items().count());
    let mut parts = String::new();
    for (name, one, many) in [
        ("models", "model", "models"),
        ("commands", "command", "commands"),
        ("agents", "agent", "agents"),
    ] {
        if count(name) > 0 {
            parts.push_str(", ");
            parts.push_str(&wording::plural(count(name), one, many));
        }
    }
    parts
}

/// An error and its causes, on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// The beginning of an agent's output, without control characters.
fn shorten(text: &str) -> String {
    view::terminal::StyledLine::of(view::ansi::TextStyle::PLAIN, &text.replace('\n', " "))
        .cut(ERROR_WIDTH)
        .text()
}
