//! A fleet whose workers, gateway and servers are killed at random while sessions are prompted and moved.
//!
//! `TOWPATH_TEST_FLEET_SECONDS` is how long (20 by default), `TOWPATH_TEST_SEED` the seed of the choices. It is
//! printed, but what happens also depends on when.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use fleet::bus::nats::{NatsBus, NatsConfig};
use fleet::bus::{Bus, LogPosition};
use fleet::mirror::Mirror;
use fleet::pack::{Pack, PackKind};
use journal::{Journal, Origin, Seq, SessionId};
use serde_json::json;
use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;
use testbed::api::ApiRequestRecord;
use uuid::Uuid;
use wire::note::{Note, PromptState};

use crate::fixture::{Fixture, TestServer};
use crate::fleet_moves::{TestWorker, until_within};

const SESSIONS: usize = 3;
const WORKERS: [&str; 2] = ["w1", "w2"];

/// How long a request to a gateway may take. What was not answered by then is sent again.
const REQUEST: Duration = Duration::from_secs(30);

/// How long the fleet may take to come to rest.
const SETTLE: Duration = Duration::from_mins(3);

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % limit as u64).expect("small")
    }
}

/// A prompt of the test.
#[derive(Clone)]
struct SentPrompt {
    id: Uuid,
    session: usize,
    text: String,
    is_confirmed: bool,
}

/// What was done and what came of it.
#[derive(Debug, Default)]
struct KillCounts {
    workers: usize,
    gateways: usize,
    servers: usize,
    moves: usize,
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|it| it.parse().ok())
}

/// Posts to a gateway that may be killed meanwhile. The status, if there was an answer.
async fn post(server: &TestServer, path: &str, body: &serde_json::Value) -> Option<u16> {
    let url = format!("{}/api/v1{path}", server.url);
    let request = server.http.post(url).bearer_auth(&server.token).json(body).timeout(REQUEST);
    request.send().await.ok().map(|it| it.status().as_u16())
}

async fn send(server: &TestServer, session: &str, prompt: &mut SentPrompt) {
    let body = json!({ "id": prompt.id, "text": prompt.text });
    let status = post(server, &format!("/sessions/{session}/prompts"), &body).await;
    prompt.is_confirmed = status == Some(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_confirmed_is_lost_or_run_twice_when_parts_of_a_fleet_are_killed_at_random() {
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Some(program) = packages::or_skip(program) else { return };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = number("TOWPATH_TEST_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    let seconds = number("TOWPATH_TEST_FLEET_SECONDS").unwrap_or(20);
    println!("seed {seed}, {seconds} s");
    let fixture = Fixture::new("api text \"an answer of some words\" slow 20").await;
    let servers = NatsServers::start(&program, &NatsServerOptions::cluster());
    let mut fleet = KilledFleet::start(&fixture, servers, seed).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) {
        fleet.act().await;
        let pause = fleet.random.below(200) as u64;
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    fleet.confirm_all().await;
    let epochs = fleet.check().await;
    println!(
        "{} prompts, {:?}, {epochs} epochs in {:.0} s",
        fleet.prompts.len(),
        fleet.counts,
        begun.elapsed().as_secs_f64()
    );
}

/// A fleet of three servers, two workers and a gateway, with sessions.
struct KilledFleet<'a> {
    fixture: &'a Fixture,
    servers: NatsServers,
    nats: String,
    workers: Vec<TestWorker<'a>>,
    gateway: TestServer,
    sessions: Vec<String>,
    prompts: Vec<SentPrompt>,
    counts: KillCounts,
    random: Random,
}

impl<'a> KilledFleet<'a> {
    async fn start(fixture: &'a Fixture, servers: NatsServers, seed: u64) -> Self {
        let nats = servers.addresses().join(",");
        let created = fixture.program(&["fleet", "init", "--nats", &nats]).output();
        let created = created.expect("it starts");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        let project = fixture.path("project");
        let mut workers = Vec::new();
        for name in WORKERS {
            workers.push(TestWorker::start(fixture, &nats, name, &project).await);
        }
        let gateway = crate::fleet_moves::gateway(fixture, &nats).await;
        let mut sessions = Vec::new();
        for _ in 0..SESSIONS {
            sessions.push(gateway.session(fixture).await);
        }
        let (prompts, counts, random) = (Vec::new(), KillCounts::default(), Random(seed));
        Self { fixture, servers, nats, workers, gateway, sessions, prompts, counts, random }
    }

    /// Sends or repeats a prompt, kills something, or moves a session.
    async fn act(&mut self) {
        match self.random.below(12) {
            0..=5 => {
                let session = self.random.below(SESSIONS);
                let text = format!("prompt number {} please", self.prompts.len());
                let id = Uuid::new_v4();
                let mut prompt = SentPrompt { id, session, text, is_confirmed: false };
                send(&self.gateway, &self.sessions[session], &mut prompt).await;
                self.prompts.push(prompt);
            }
            6 => {
                let mut unsure: Vec<_> =
                    self.prompts.iter_mut().filter(|it| !it.is_confirmed).collect();
                if !unsure.is_empty() {
                    let prompt = unsure.swap_remove(self.random.below(unsure.len()));
                    send(&self.gateway, &self.sessions[prompt.session], prompt).await;
                }
            }
            7 | 8 => {
                let worker = &mut self.workers[self.random.below(WORKERS.len())];
                worker.kill().await;
                worker.restart().await;
                self.counts.workers += 1;
            }
            9 => {
                self.gateway.child.kill().await.expect("it can be killed");
                self.gateway = crate::fleet_moves::gateway(self.fixture, &self.nats).await;
                self.counts.gateways += 1;
            }
            10 => {
                let index = self.random.below(3);
                self.servers.kill(index);
                let pause = self.random.below(1500) as u64;
                tokio::time::sleep(Duration::from_millis(pause)).await;
                self.servers.restart(index);
                self.counts.servers += 1;
            }
            _ => {
                let session = self.random.below(SESSIONS);
                let to = WORKERS[self.random.below(WORKERS.len())];
                self.counts.moves += usize::from(self.move_session(session, to).await);
            }
        }
    }

    async fn move_session(&self, session: usize, to: &str) -> bool {
        let path = format!("/sessions/{}/move", self.sessions[session]);
        post(&self.gateway, &path, &json!({ "to": to })).await == Some(204)
    }

    /// Repeats what was not confirmed, until it is.
    async fn confirm_all(&mut self) {
        let settling = Instant::now();
        while let Some(at) = self.prompts.iter().position(|it| !it.is_confirmed) {
            let prompt = &mut self.prompts[at];
            let (text, log) = (&prompt.text, self.fixture.log());
            assert!(settling.elapsed() < SETTLE, "not confirmed: {text}\n{log}");
            send(&self.gateway, &self.sessions[prompt.session], prompt).await;
            if !prompt.is_confirmed {
                // A move that was cut off may have left it without an owner.
                let session = prompt.session;
                let _ = self.move_session(session, WORKERS[0]).await;
            }
        }
    }

    /// Waits until the fleet is at rest, and checks what it has stored. Returns the number of epochs.
    async fn check(&self) -> u64 {
        let config = NatsConfig {
            servers: self.servers.addresses(),
            credentials: None,
            authorities: None,
            name: "test".to_owned(),
        };
        let bus: Arc<dyn Bus> = Arc::new(NatsBus::connect(&config).await.expect("the servers"));
        let journal = Journal::open(&self.fixture.path("mirror.db")).expect("a journal").journal;
        let mirror = Mirror::open(Arc::clone(&bus), journal.clone()).await.expect("a mirror");
        let mut epochs = 0;
        for (number, session) in self.sessions.iter().enumerate() {
            let id = SessionId(session.parse().expect("an id"));
            until_within(SETTLE, "every prompt is over", async || {
                let _ = mirror.catch_up(id).await;
                let open = journal.open_prompts(id).await.expect("a journal");
                let record = journal.session(id).await.expect("a journal");
                open.is_empty() && record.is_some_and(|it| it.turn == it.turn_ended)
            })
            .await;
            epochs += check_log(&*bus, id).await;
            let sent: Vec<_> = self.prompts.iter().filter(|it| it.session == number).collect();
            check_session(&journal, id, &sent).await;
        }
        let requests = self.fixture.api.requests();
        for prompt in &self.prompts {
            let is_last = |request: &&ApiRequestRecord| {
                let last = request.body["messages"].as_array().and_then(|it| it.last());
                last.is_some_and(|it| it.to_string().contains(&prompt.text))
            };
            assert!(requests.iter().filter(is_last).count() <= 1, "{} ran twice", prompt.text);
        }
        epochs
    }
}

/// Checks that a log has no hole and one owner in each epoch. Returns the number of epochs.
async fn check_log(bus: &dyn Bus, session: SessionId) -> u64 {
    let (mut after, mut epoch, mut last) = (LogPosition(0), 0, 0);
    let mut owner = None;
    loop {
        let messages = bus.read(session, after).await.expect("the log");
        let Some(end) = messages.last() else { return epoch };
        after = end.position;
        for message in messages {
            let header = Pack::decode(message.payload).expect("a pack").header;
            if header.kind == PackKind::Own {
                assert_eq!(header.epoch, epoch + 1, "an epoch begins once");
                epoch = header.epoch;
                owner = Some(header.worker.clone());
            }
            assert_eq!((header.epoch, Some(&header.worker)), (epoch, owner.as_ref()), "one owner");
            assert_eq!(header.first, last + 1, "no hole and nothing twice");
            last = header.last;
        }
    }
}

/// Checks that every turn is over once, and every confirmed prompt is there once and was sent at most once.
async fn check_session(journal: &Journal, session: SessionId, sent: &[&SentPrompt]) {
    let (mut started, mut ended) = (HashSet::new(), HashSet::new());
    let (mut queued, mut written) = (HashMap::<Uuid, u32>::new(), HashMap::<Uuid, u32>::new());
    let mut after = Seq(0);
    loop {
        let entries = journal.read(session, after, 1000).await.expect("entries");
        let Some(end) = entries.last() else { break };
        after = end.seq;
        for entry in entries.iter().filter(|it| it.origin == Origin::Towpath) {
            match Note::read(&entry.bytes) {
                Some(Note::TurnStarted { turn, .. }) => assert!(started.insert(turn), "{turn}"),
                Some(Note::TurnEnded { turn, .. }) => assert!(ended.insert(turn), "{turn}"),
                Some(Note::PromptQueued { prompt, .. }) => *queued.entry(prompt).or_default() += 1,
                Some(Note::PromptStateChanged { prompt, state: PromptState::Written }) => {
                    *written.entry(prompt).or_default() += 1;
                }
                _ => {}
            }
        }
    }
    assert_eq!(started, ended, "every turn is over once");
    for prompt in sent {
        assert_eq!(queued.get(&prompt.id), Some(&1), "{} is there once", prompt.text);
        assert!(written.get(&prompt.id).is_none_or(|times| *times == 1), "{}", prompt.text);
    }
}
