//! Kills at random moments of `towpath serve`, its shims and its agents, with clients over HTTP.
//!
//! Several lanes run side by side, each with a server and a session of its own. The server is started
//! again whenever it was killed. Clients repeat a request until it is answered, with the same id, so
//! every prompt arrives in the end, and once.

use std::fs::Permissions;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use journal::{Seq, SessionId};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use test_support::test_run::clear_environment;
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use crate::fixture::{
    DrivingFixture, TIMEOUT, TestSetup, format_entries, player_command, wait_until,
};
use crate::random_kills::{
    KillCounts, LAST_PROMPT, LONGEST_PAUSE, MOMENTS, SETTLE_TIMEOUT, SplitMix, VICTIMS, Victim,
    check_outcome, kill_recorded, prompt_id, prompt_text, replies, report,
};

const LANES: u64 = 4;

/// The kills of a lane, unless the variable says otherwise.
const KILLS_PER_LANE: u64 = 10;
const KILLS_VARIABLE: &str = "TOWPATH_TEST_SERVER_KILLS";

/// The time between two attempts of a client.
const RETRY: Duration = Duration::from_millis(20);

pub(crate) async fn check() {
    #[expect(clippy::disallowed_methods, reason = "a person may ask for more kills")]
    let kills = std::env::var(KILLS_VARIABLE).ok().and_then(|it| it.parse().ok());
    let kills = kills.unwrap_or(KILLS_PER_LANE);
    let begun = Instant::now();
    let lanes = join_all((0..LANES).map(|lane| run_lane(lane, kills))).await;
    report(&lanes, LANES * kills);
    println!("the kills took {:.0} s", begun.elapsed().as_secs_f64());
}

async fn run_lane(lane: u64, kills: u64) -> KillCounts {
    let fixture = DrivingFixture::new(player_command(), &replies(kills)).await;
    let observer = fixture.towpath();
    let journal = observer.sessions.journal();
    let client = ServerClient::default();
    let mut server = Some(KillableServer::start(&fixture.setup, &client).await);
    let id = client.create_session(&fixture).await;
    let answers = Arc::new(Mutex::new(Vec::new()));
    let answering = tokio::spawn(answer_requests(client.clone(), id, Arc::clone(&answers)));
    let mut prompts = Vec::new();
    let mut random = SplitMix(1000 + lane);
    let mut counts = KillCounts::default();
    for number in 1..=kills {
        if server.is_none() {
            server = Some(KillableServer::start(&fixture.setup, &client).await);
        }
        let last = observer.last_seq(id).await;
        prompts.push(tokio::spawn(send_prompt(client.clone(), id, number)));
        random.choose(&MOMENTS).wait(journal, id, last).await;
        sleep(Duration::from_millis(random.next() % LONGEST_PAUSE)).await;
        let mut killed = 0;
        for victim in random.choose(&VICTIMS).iter().copied() {
            killed += match victim {
                Victim::Towpath => server.take().map_or(0, |server| server.kill(&client)),
                Victim::Shim | Victim::Agent => {
                    u64::from(kill_recorded(&fixture.setup, id, victim))
                }
            };
        }
        if killed == 0 {
            // No agent runs at the moment.
            killed = server.take().map_or(0, |server| server.kill(&client));
        }
        counts.processes_killed += killed;
        counts.kills += 1;
    }
    if server.is_none() {
        server = Some(KillableServer::start(&fixture.setup, &client).await);
    }
    // Every prompt is accepted in the end: its client repeats it.
    let mut acknowledged = Vec::new();
    for prompt in prompts {
        acknowledged.push(timeout(TIMEOUT, prompt).await.expect("in time").expect("an answer"));
    }
    client.prompt(id, Uuid::new_v4(), LAST_PROMPT).await;
    let settled = async {
        let mut follower = journal.follow(id, Seq::default());
        while !journal.open_prompts(id).await.expect("prompts").is_empty() {
            follower.next().await.expect("a journal to follow");
        }
    };
    let came = timeout(SETTLE_TIMEOUT, settled).await.is_ok();
    let entries = observer.journal_of(id).await;
    assert!(came, "it does not settle:\n{}", format_entries(&entries));
    answering.abort();
    check_outcome(&fixture, &observer, id, kills, &acknowledged, &mut counts).await;
    let stored = journal.prompts(id).await.expect("prompts").len() as u64;
    assert_eq!(stored, kills + 1, "each prompt is there once");
    let mut accepted = answers.lock().expect("a lock").clone();
    let all = accepted.len();
    accepted.sort();
    accepted.dedup();
    assert_eq!(accepted.len(), all, "an answer was accepted twice");

    let stopped = command(&fixture.setup, &["serve", "--stop"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&stopped.stderr);
    assert!(stopped.status.success(), "{said}");
    if let Some(server) = server {
        server.reap();
    }
    wait_until("nothing is left", || fixture.setup.processes().is_empty()).await;
    assert!(!session::shim::is_running(&fixture.setup.config().live_directory(id)));
    counts
}

async fn send_prompt(client: ServerClient, session: SessionId, number: u64) -> u64 {
    client.prompt(session, prompt_id(number), &prompt_text(number)).await;
    number
}

/// Allows every request of the agent, and notes which answers were accepted.
async fn answer_requests(
    client: ServerClient,
    session: SessionId,
    accepted: Arc<Mutex<Vec<String>>>,
) {
    loop {
        let path = format!("/sessions/{session}/requests");
        let open = client.ask(Method::GET, &path, None).await;
        let open = open.map(|(_, answer)| answer["requests"].clone()).unwrap_or_default();
        for request in open.as_array().into_iter().flatten() {
            let Some(request) = request["id"].as_str() else { continue };
            let path = format!("{path}/{request}");
            let answer =
                client.ask(Method::POST, &path, Some(json!({ "decision": "allow" }))).await;
            if answer.is_some_and(|(status, _)| status == 200) {
                accepted.lock().expect("a lock").push(request.to_owned());
            }
        }
        sleep(RETRY).await;
    }
}

/// A client of whichever server runs.
#[derive(Clone, Default)]
struct ServerClient {
    server: Arc<Mutex<Option<ServerAddress>>>,
    http: Arc<std::sync::OnceLock<Client>>,
}

#[derive(Clone)]
struct ServerAddress {
    url: String,
    token: String,
}

impl ServerClient {
    fn set_server(&self, address: Option<ServerAddress>) {
        *self.server.lock().expect("a lock") = address;
    }

    /// Sends a request once. None if there is no server or no answer.
    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Option<(u16, Value)> {
        let ServerAddress { url, token } = self.server.lock().expect("a lock").clone()?;
        let http = self.http.get_or_init(test_support::http_client);
        let mut request = http.request(method, format!("{url}/api/v1{path}")).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = timeout(TIMEOUT, request.send()).await.ok()?.ok()?;
        let status = response.status().as_u16();
        let answer = response.json().await.unwrap_or_default();
        Some((status, answer))
    }

    /// Repeats a request until it has succeeded.
    async fn repeat(&self, path: &str, body: &Value) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        let mut last = None;
        loop {
            match self.ask(Method::POST, path, Some(body.clone())).await {
                Some((200..=299, answer)) => return answer,
                // The session may have no owner for a moment.
                refused => last = refused.or(last),
            }
            assert!(Instant::now() < deadline, "`{path}` did not succeed: {last:?}");
            sleep(RETRY).await;
        }
    }

    async fn prompt(&self, session: SessionId, id: Uuid, text: &str) {
        let body = json!({ "id": id, "text": text });
        self.repeat(&format!("/sessions/{session}/prompts"), &body).await;
    }

    async fn create_session(&self, fixture: &DrivingFixture) -> SessionId {
        let body = json!({ "cwd": fixture.project() });
        let session = self.repeat("/sessions", &body).await;
        let id = session["id"].as_str().and_then(|id| id.parse().ok());
        SessionId(id.unwrap_or_else(|| panic!("{session}")))
    }
}

/// A server that is killed.
struct KillableServer {
    child: Child,
    /// A server ends when its output cannot be read.
    _stdout: BufReader<ChildStdout>,
}

impl KillableServer {
    async fn start(setup: &TestSetup, client: &ServerClient) -> Self {
        let agent = setup.data().join("agent.sh");
        let player = format!("#!/bin/sh\nexec '{}' play \"$@\"\n", env!("CARGO_BIN_EXE_towpath"));
        if !agent.exists() {
            std::fs::write(&agent, player).expect("a script");
            std::fs::set_permissions(&agent, Permissions::from_mode(0o700)).expect("permissions");
        }
        let mut command = command(setup, &["serve", "--json", "--listen", "127.0.0.1:0"]);
        command.arg("--claude").arg(agent).arg("--root").arg(setup.project());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("a server");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let ready = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            stdout.read_line(&mut line).map(|_| (line, stdout))
        });
        let ready = timeout(TIMEOUT, ready).await.expect("in time");
        let (line, stdout) = ready.expect("no panic").expect("output");
        let ready: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
        let text = |name: &str| ready[name].as_str().expect("a string").to_owned();
        client.set_server(Some(ServerAddress { url: text("url"), token: text("token") }));
        Self { child, _stdout: stdout }
    }

    /// Kills it. Returns how many processes that were.
    fn kill(mut self, client: &ServerClient) -> u64 {
        client.set_server(None);
        self.child.kill().expect("a kill");
        self.reap();
        1
    }

    fn reap(mut self) {
        self.child.wait().expect("an end");
    }
}

/// A lane that fails leaves no server behind.
impl Drop for KillableServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The built binary with the fixture's data and environment.
#[expect(clippy::disallowed_methods, reason = "the test starts the program itself")]
fn command(setup: &TestSetup, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    clear_environment(command.args(arguments)).envs(setup.config().environment);
    command.env("TOWPATH_DATA", setup.data()).stdin(Stdio::null());
    command.current_dir(setup.project());
    command
}
