//! The environment of a driven session: a data directory, a project, a scripted API, an agent.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journal::{Entry, Follower, Journal, Origin, Seq, SessionId};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use session::{
    AgentProgram, NewPrompt, Session, SessionLimits, SessionOptions, SessionSpec, Sessions,
    SessionsConfig, UnattendedLimits,
};
use tempfile::TempDir;
use test_support::test_run::mark;
use testbed::api::{ApiOptions, ApiRequestKind, ApiScript, ApiServer};
use testbed::scenario::Scenario;
use uuid::Uuid;
use wire::note::{Actor, Delivery, Note};

/// Longer than anything takes on a loaded machine, shorter than a test's own timeout.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(3);

/// Everything around sessions except Towpath itself.
pub(crate) struct DrivingFixture {
    _root: TempDir,
    pub(crate) api: ApiServer,
    pub(crate) setup: TestSetup,
}

/// The paths and settings, which another process needs to take part.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct TestSetup {
    root: PathBuf,
    api: String,
    agent: Vec<OsString>,
    /// How long idle agents run without an owner.
    pub(crate) idle: Duration,
    /// After how many milliseconds an idle agent is parked.
    pub(crate) park: Option<u64>,
    /// An agent over the Agent Client Protocol that sessions can choose.
    pub(crate) acp_agent: Option<session::AgentSpec>,
}

/// One Towpath, which can be dropped at any time.
pub(crate) struct TowpathInstance {
    pub(crate) sessions: Sessions,
}

impl DrivingFixture {
    /// A fixture whose model answers with `replies`, in the syntax of a scenario.
    pub(crate) async fn new(agent: Vec<OsString>, replies: &str) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        for name in ["data", "project", "home", "tmp"] {
            std::fs::create_dir(root.path().join(name)).expect("a directory");
        }
        let project = root.path().join("project").display().to_string();
        let replies = replies.replace("$cwd", &project);
        let text = format!("# A fixture\n\n{replies}\n> user \"a scenario needs a step\"\n");
        let scenario = Scenario::parse("fixture", &text).unwrap_or_else(|error| panic!("{error}"));
        let script = ApiScript::from_scenario(&scenario).expect("no recording among the replies");
        let api = ApiServer::start(script, ApiOptions::default()).await;
        let api = api.expect("a free port");
        let setup = TestSetup {
            root: root.path().to_owned(),
            api: api.url.clone(),
            agent,
            idle: Duration::ZERO,
            park: None,
            acp_agent: None,
        };
        Self { _root: root, api, setup }
    }

    /// With the built-in agent.
    pub(crate) async fn with_player(replies: &str) -> Self {
        Self::new(player_command(), replies).await
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.setup.project()
    }

    pub(crate) fn towpath(&self) -> TowpathInstance {
        self.setup.towpath()
    }

    /// The messages of each request of the main conversation, as JSON.
    pub(crate) fn model_requests(&self) -> Vec<String> {
        let main = self.api.requests().into_iter().filter(|it| it.kind == ApiRequestKind::Main);
        main.map(|request| request.body["messages"].to_string()).collect()
    }
}

/// The command of the built-in agent.
pub(crate) fn player_command() -> Vec<OsString> {
    vec![env!("CARGO_BIN_EXE_towpath").into(), "play".into()]
}

impl TestSetup {
    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub(crate) fn project(&self) -> PathBuf {
        self.path("project")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn config(&self) -> SessionsConfig {
        SessionsConfig {
            data: self.path("data"),
            allow_bypass: false,
            config_file: None,
            runtime: self.path("tmp"),
            towpath: env!("CARGO_BIN_EXE_towpath").into(),
            agent: AgentProgram {
                program: self.agent[0].clone(),
                arguments: self.agent[1..].to_vec(),
            },
            agents: session::AgentCatalog::with(self.acp_agent.clone().into_iter().collect()),
            environment: self.environment(),
            limits: SessionLimits {
                park: self.park,
                // Agents on Node need a minute to start on a busy machine.
                initialize: 180_000,
                ..SessionLimits::default()
            },
            unattended: UnattendedLimits { idle: self.idle, ..UnattendedLimits::SHORT },
            takeover_delay: Duration::ZERO,
            prompt_gate: session::PromptGate::default(),
            watch: session::WatchPolicy::default(),
        }
    }

    /// The environment with which an agent uses only the scripted API.
    fn environment(&self) -> Vec<(OsString, OsString)> {
        #[expect(clippy::disallowed_methods, reason = "agents need a search path")]
        let search_path = std::env::var_os("PATH").unwrap_or_default();
        let text = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let path = |name: &str, value: &Path| (OsString::from(name), value.as_os_str().to_owned());
        let mut environment = vec![
            ("PATH".into(), search_path),
            path("HOME", &self.path("home")),
            path("TMPDIR", &self.path("tmp")),
            path("CLAUDE_CODE_TMPDIR", &self.path("tmp")),
            text("ANTHROPIC_BASE_URL", &self.api),
            text("ANTHROPIC_API_KEY", "sk-dummy"),
            text("IS_SANDBOX", "1"),
            text("LANG", "C.UTF-8"),
            text("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            text("CLAUDE_CODE_MAX_RETRIES", "1"),
            text("DISABLE_AUTOUPDATER", "1"),
            text("DISABLE_TELEMETRY", "1"),
        ];
        environment.extend(mark());
        environment
    }

    pub(crate) fn towpath(&self) -> TowpathInstance {
        let opening =
            Journal::open(&SessionsConfig::journal_path(&self.path("data"))).expect("a journal");
        assert!(opening.repair.is_none(), "the journal is intact");
        TowpathInstance { sessions: Sessions::new(self.config(), opening.journal) }
    }

    /// The processes of this setup: agents and all they started, found by their `HOME`.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let home = format!("HOME={}", self.path("home").display());
        let processes = std::fs::read_dir("/proc").expect("a process table");
        let pids = processes.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<i32>().ok());
        pids.filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|it| it == home.as_bytes())
        })
        .collect()
    }
}

impl TowpathInstance {
    pub(crate) async fn create(&self, fixture: &DrivingFixture) -> Session {
        let options = SessionOptions { directory: fixture.project(), ..SessionOptions::default() };
        self.create_with(options).await
    }

    pub(crate) async fn create_with(&self, options: SessionOptions) -> Session {
        let spec = SessionSpec { options, ..SessionSpec::default() };
        self.sessions.create(spec).await.expect("a session")
    }

    /// Where the journal of a session ends, which may not exist yet.
    pub(crate) async fn last_seq(&self, session: SessionId) -> Seq {
        let known = self.sessions.journal().session(session).await.expect("a journal");
        if known.is_none() {
            return Seq::default();
        }
        self.journal_of(session).await.last().map(|entry| entry.seq).unwrap_or_default()
    }

    pub(crate) async fn journal_of(&self, session: SessionId) -> Vec<Entry> {
        let journal = self.sessions.journal();
        let all = usize::MAX;
        let entries = journal.read_within(session, Seq::default(), all, all, all).await;
        entries.expect("a readable journal")
    }
}

pub(crate) fn ann() -> Actor {
    Actor { name: "ann".to_owned(), via: "terminal".to_owned() }
}

pub(crate) fn prompt(text: &str) -> NewPrompt {
    let (id, text) = (Uuid::new_v4(), text.to_owned());
    NewPrompt { id, text, images: Vec::new(), delivery: Delivery::Queue, by: ann() }
}

/// Reads the journal of a session entry by entry.
pub(crate) struct JournalReader {
    follower: Follower,
    waiting: VecDeque<Entry>,
}

impl JournalReader {
    pub(crate) fn new(session: &Session, after: Seq) -> Self {
        Self { follower: session.follow(after), waiting: VecDeque::new() }
    }

    /// Reads until an entry matches, and returns all entries read.
    pub(crate) async fn until(&mut self, mut wanted: impl FnMut(&Entry) -> bool) -> Vec<Entry> {
        let mut seen = Vec::new();
        let reading = async {
            loop {
                while let Some(entry) = self.waiting.pop_front() {
                    let found = wanted(&entry);
                    seen.push(entry);
                    if found {
                        return;
                    }
                }
                self.waiting.extend(self.follower.next().await.expect("a journal to follow"));
            }
        };
        let came = tokio::time::timeout(TIMEOUT, reading).await.is_ok();
        assert!(came, "it did not come; what came:\n{}", format_entries(&seen));
        seen
    }
}

pub(crate) fn note(entry: &Entry) -> Option<Note> {
    (entry.origin == Origin::Towpath).then(|| Note::read(&entry.bytes)).flatten()
}

pub(crate) fn is_turn_over(entry: &Entry) -> bool {
    matches!(note(entry), Some(Note::TurnEnded { .. }))
}

/// Matches a line of the agent that contains a text.
pub(crate) fn agent_line(words: &str) -> impl FnMut(&Entry) -> bool {
    move |entry| {
        entry.origin == Origin::Agent && String::from_utf8_lossy(&entry.bytes).contains(words)
    }
}

pub(crate) fn notes(entries: &[Entry]) -> Vec<Note> {
    entries.iter().filter_map(note).collect()
}

/// The entries as text, one line each.
pub(crate) fn format_entries(entries: &[Entry]) -> String {
    let line = |entry: &Entry| {
        let text = String::from_utf8_lossy(&entry.bytes);
        let text: String = text.chars().take(200).collect();
        format!("{} {text}\n", entry.seq)
    };
    entries.iter().map(line).collect()
}

/// Waits until a condition holds that can only be polled.
pub(crate) async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + TIMEOUT;
    while !holds() {
        assert!(std::time::Instant::now() < deadline, "it did not come: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Stops a process as a debugger would, and waits until each of its threads has stopped.
///
/// `kill` returns before that: on a busy machine a thread still answers for a while.
pub(crate) async fn suspend(process: Pid) {
    kill_process(process, Signal::STOP).expect("a signal");
    wait_until("the process is suspended", || is_suspended(process)).await;
}

#[cfg(target_os = "linux")]
fn is_suspended(process: Pid) -> bool {
    let threads = format!("/proc/{}/task", process.as_raw_nonzero());
    std::fs::read_dir(threads).expect("the threads of a process").all(|thread| {
        let stat = thread.expect("a thread").path().join("stat");
        // A thread that ended meanwhile does not answer either.
        std::fs::read_to_string(stat).map_or(true, |stat| {
            let state = stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next());
            matches!(state, Some('T' | 't' | 'Z' | 'X'))
        })
    })
}

#[cfg(not(target_os = "linux"))]
fn is_suspended(process: Pid) -> bool {
    let id = process.as_raw_nonzero().to_string();
    let output = std::process::Command::new("ps").args(["-o", "state=", "-p", &id]).output();
    output.expect("ps").stdout.starts_with(b"T")
}
