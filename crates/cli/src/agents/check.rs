//! Whether an agent answers: it is started in an empty directory, and asked to open a session.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use session::{AgentSpec, LocatedAgent, VersionError};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;
use wire::acp::AcpVersion;
use wire::outgoing::{AcpRequest, OutgoingLine, SessionStart};

/// The longest line of an agent that is read.
const MAX_LINE: u64 = 16 << 20;

/// The code of the error that says that someone has to sign in.
const SIGN_IN_NEEDED: i64 = -32000;

/// What an agent did when it was started.
pub(super) struct AgentCheck {
    outcome: AgentCheckResult,
    took: Duration,
}

enum AgentCheckResult {
    /// It opened a session, or there is nothing to open.
    Ready,
    /// It answers, but opens no session before someone signs in. These are the ways it names.
    SignInNeeded(Vec<String>),
    Failed(String),
}

/// A running agent, which is killed with all that it started.
struct StartedAgent {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    _child: Child,
    _group: Option<KilledAgents>,
}

/// Kills a group of processes when it is dropped.
struct KilledAgents(Pid);

impl Drop for KilledAgents {
    fn drop(&mut self) {
        // Fails if it has ended meanwhile.
        let _ = kill_process_group(self.0, Signal::KILL);
    }
}

impl AgentCheck {
    /// Starts an agent over the Agent Client Protocol and asks it to open a session.
    pub(super) async fn run(
        program: &LocatedAgent,
        environment: &[(OsString, OsString)],
        limit: Duration,
    ) -> Self {
        let started = Instant::now();
        let outcome = match timeout(limit, open_session(program, environment)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(problem)) => AgentCheckResult::Failed(problem),
            Err(_) => AgentCheckResult::Failed(format!("no answer within {} s", limit.as_secs())),
        };
        Self { outcome, took: started.elapsed() }
    }

    /// The result for an agent that is checked with `towpath doctor`.
    pub(super) fn of_version(error: Option<&VersionError>) -> Self {
        let outcome =
            error.map_or(AgentCheckResult::Ready, |it| AgentCheckResult::Failed(it.to_string()));
        Self { outcome, took: Duration::ZERO }
    }

    pub(super) fn answers(&self) -> bool {
        !matches!(self.outcome, AgentCheckResult::Failed(_))
    }

    pub(super) fn text(&self, agent: &AgentSpec) -> String {
        match &self.outcome {
            AgentCheckResult::Ready if self.took.is_zero() => "it runs".to_owned(),
            AgentCheckResult::Ready => {
                format!("ready in {:.1} s", self.took.as_secs_f64())
            }
            AgentCheckResult::SignInNeeded(methods) => match (&agent.sign_in, methods.as_slice()) {
                (Some(how), _) => format!("needs a sign-in: {how}"),
                (None, []) => "needs a sign-in".to_owned(),
                (None, methods) => format!("needs a sign-in: {}", methods.join(", ")),
            },
            AgentCheckResult::Failed(problem) => problem.clone(),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        let (methods, problem) = match &self.outcome {
            AgentCheckResult::Ready => (None, None),
            AgentCheckResult::SignInNeeded(methods) => (Some(methods), None),
            AgentCheckResult::Failed(problem) => (None, Some(problem)),
        };
        json!({
            "answers": self.answers(),
            "sign_in_needed": methods.is_some(),
            "sign_in_methods": methods.cloned().unwrap_or_default(),
            "problem": problem,
            "milliseconds": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
        })
    }
}

async fn open_session(
    program: &LocatedAgent,
    environment: &[(OsString, OsString)],
) -> Result<AgentCheckResult, String> {
    let directory = tempfile::Builder::new().prefix("towpath-agents-").tempdir();
    let directory = directory.map_err(|error| error.to_string())?;
    let mut agent = StartedAgent::start(program, environment, directory.path())?;
    let initialize = AcpRequest::Initialize { product_version: env!("CARGO_PKG_VERSION") };
    let answer = agent.ask("towpath-initialize", &initialize).await?;
    let Ok(described) = answer else {
        return Err(format!("it refused `initialize`: {}", error_text(answer.as_ref().err())));
    };
    let methods = described["authMethods"].as_array().into_iter().flatten();
    let methods = methods.filter_map(|it| it["name"].as_str().or(it["id"].as_str()));
    let methods: Vec<String> = methods.take(10).map(plain).collect();
    let version = if described["protocolVersion"] == 2 { AcpVersion::V2 } else { AcpVersion::V1 };
    let path = directory.path().to_string_lossy().into_owned();
    let start = SessionStart {
        version,
        directory: &path,
        extra_directories: Vec::new(),
        mcp_servers: Vec::new(),
    };
    match agent.ask("towpath-session", &AcpRequest::NewSession(start)).await? {
        Ok(_) => Ok(AgentCheckResult::Ready),
        Err(error) if error["code"] == SIGN_IN_NEEDED => {
            Ok(AgentCheckResult::SignInNeeded(methods))
        }
        Err(error) => Err(format!("it opened no session: {}", error_text(Some(&error)))),
    }
}

fn error_text(error: Option<&Value>) -> String {
    plain(error.and_then(|it| it["message"].as_str()).unwrap_or("it gave no reason"))
}

/// The beginning of an agent's text on one line.
fn plain(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|it| !it.is_control()).take(200).collect()
}

impl StartedAgent {
    #[expect(clippy::disallowed_methods, reason = "checking an agent needs no session")]
    fn start(
        program: &LocatedAgent,
        environment: &[(OsString, OsString)],
        directory: &Path,
    ) -> Result<Self, String> {
        let mut command = std::process::Command::new(&program.program);
        command.args(&program.arguments).current_dir(directory).process_group(0);
        command.env_clear().envs(environment.iter().cloned());
        command.envs(program.environment.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = tokio::process::Command::from(command).kill_on_drop(true).spawn();
        let mut child = child.map_err(|error| format!("it could not be started: {error}"))?;
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).map(KilledAgents);
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (stdin, stdout) = pipes.ok_or("it has no pipes")?;
        Ok(Self { stdin, stdout: BufReader::new(stdout), _child: child, _group: group })
    }

    /// Sends a request and waits for its response: the result, or the error.
    async fn ask(
        &mut self,
        id: &str,
        request: &AcpRequest<'_>,
    ) -> Result<Result<Value, Value>, String> {
        let line = OutgoingLine::acp_request(id, request);
        let ended = |_| "it ended without an answer".to_owned();
        self.stdin.write_all(line.as_str().as_bytes()).await.map_err(ended)?;
        self.stdin.write_all(b"\n").await.map_err(ended)?;
        self.stdin.flush().await.map_err(ended)?;
        loop {
            let mut line = Vec::new();
            let read = (&mut self.stdout).take(MAX_LINE).read_until(b'\n', &mut line).await;
            if read.map_err(ended)? == 0 {
                return Err("it ended without an answer".to_owned());
            }
            // What is no JSON is noise, and notifications may come before the response.
            let Ok(mut message) = serde_json::from_slice::<Value>(&line) else { continue };
            if message["id"] != id {
                continue;
            }
            return Ok(match message.get("error") {
                Some(error) => Err(error.clone()),
                None => Ok(message["result"].take()),
            });
        }
    }
}
