//! What must hold in a fleet whatever fails: no log has a hole, every turn is over once, and no prompt that
//! was confirmed is lost or runs twice.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fleet::bus::nats::{NatsBus, NatsConfig};
use fleet::bus::{Bus, BusError, LogPosition};
use fleet::mirror::Mirror;
use fleet::pack::{Pack, PackKind};
use fleet::setup::FleetSetup;
use futures_util::future::join_all;
use journal::{Journal, Origin, Seq, SessionId};
use serde_json::{Value, json};
use testbed::api::ApiRequestRecord;
use tokio::time::timeout;
use uuid::Uuid;
use wire::note::{Note, PromptState};

use crate::fixture::{Fixture, TestServer};
use crate::fleet_moves::until_within;

/// How long a request to a gateway may take. What was not answered by then is sent again.
const REQUEST: Duration = Duration::from_secs(30);

/// How long the fleet may take to come to rest.
pub(crate) const SETTLE: Duration = Duration::from_mins(3);

/// The pause before something that was not possible is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// What the model answers to the prompts.
pub(crate) const REPLIES: &str = "api text \"an answer of some words\" slow 20";

/// A prompt of the test.
#[derive(Clone, Debug)]
pub(crate) struct SentPrompt {
    id: Uuid,
    session: usize,
    text: String,
    pub(crate) is_confirmed: bool,
}

/// The sessions of a test and what was sent to them.
pub(crate) struct CheckedSessions<'a> {
    fixture: &'a Fixture,
    /// The addresses of the NATS servers.
    servers: Vec<String>,
    pub(crate) sessions: Vec<String>,
    pub(crate) prompts: Vec<SentPrompt>,
    /// How long a request may take.
    pub(crate) request_timeout: Duration,
}

/// Says when prompts have been sent long enough, and how many were confirmed.
#[derive(Debug, Default)]
pub(crate) struct SendingProgress {
    is_enough: AtomicBool,
    sent: AtomicUsize,
    /// By session.
    confirmed: Vec<AtomicUsize>,
    refused: AtomicUsize,
}

impl SendingProgress {
    pub(crate) fn stop(&self) {
        self.is_enough.store(true, Ordering::Relaxed);
    }

    /// How many prompts to a session were confirmed.
    pub(crate) fn confirmed(&self, session: usize) -> usize {
        self.confirmed[session].load(Ordering::Relaxed)
    }

    /// Waits until more prompts to a session are confirmed.
    pub(crate) async fn until_confirmed(&self, session: usize, more: usize) {
        let wanted = self.confirmed(session) + more;
        until_within(SETTLE, "more prompts are confirmed", async || {
            self.confirmed(session) >= wanted
        })
        .await;
    }

    /// Waits until one more prompt is refused or not answered.
    pub(crate) async fn until_refused(&self) {
        let before = self.refused.load(Ordering::Relaxed);
        until_within(SETTLE, "a prompt is refused", async || {
            self.refused.load(Ordering::Relaxed) > before
        })
        .await;
    }
}

/// Where a gateway can be reached. It may be killed meanwhile, and another one be elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct GatewayAddress {
    url: String,
    token: String,
    http: reqwest::Client,
}

impl GatewayAddress {
    pub(crate) fn of(server: &TestServer) -> Self {
        let (url, token) = (server.url.clone(), server.token.clone());
        Self { url, token, http: server.http.clone() }
    }

    /// The status, if there was an answer.
    async fn post(&self, path: &str, body: &Value, limit: Duration) -> Option<u16> {
        let url = format!("{}/api/v1{path}", self.url);
        let request = self.http.post(url).bearer_auth(&self.token).json(body).timeout(limit);
        request.send().await.ok().map(|it| it.status().as_u16())
    }

    /// Whether a session was moved.
    pub(crate) async fn move_session(&self, session: &str, to: &str) -> bool {
        let path = format!("/sessions/{session}/move");
        self.post(&path, &json!({ "to": to }), REQUEST).await == Some(204)
    }
}

impl<'a> CheckedSessions<'a> {
    pub(crate) fn new(fixture: &'a Fixture, servers: Vec<String>) -> Self {
        let (sessions, prompts) = (Vec::new(), Vec::new());
        Self { fixture, servers, sessions, prompts, request_timeout: REQUEST }
    }

    /// Creates a session, on a worker with a name if there is one.
    pub(crate) async fn create(&mut self, gateway: &TestServer, worker: Option<&str>) {
        let mut body = json!({ "cwd": self.fixture.project() });
        if let Some(worker) = worker {
            body["worker"] = json!(worker);
        }
        let (status, created) = gateway.post("/sessions", body).await;
        assert_eq!(status, 201, "{created}");
        self.sessions.push(created["id"].as_str().expect("an id").to_owned());
    }

    /// Sends a new prompt to a session.
    pub(crate) async fn send_new(&mut self, gateway: &TestServer, session: usize) {
        let mut prompt = SentPrompt::new(self.prompts.len(), session);
        self.send(&GatewayAddress::of(gateway), &mut prompt).await;
        self.prompts.push(prompt);
    }

    /// Sends a prompt again.
    pub(crate) async fn send_again(&mut self, gateway: &TestServer, at: usize) {
        let mut prompt = self.prompts[at].clone();
        self.send(&GatewayAddress::of(gateway), &mut prompt).await;
        self.prompts[at] = prompt;
    }

    async fn send(&self, gateway: &GatewayAddress, prompt: &mut SentPrompt) {
        let body = json!({ "id": prompt.id, "text": prompt.text });
        let path = format!("/sessions/{}/prompts", self.sessions[prompt.session]);
        let status = gateway.post(&path, &body, self.request_timeout).await;
        prompt.is_confirmed = status == Some(202);
    }

    pub(crate) async fn move_session(
        &self,
        gateway: &TestServer,
        session: usize,
        to: &str,
    ) -> bool {
        GatewayAddress::of(gateway).move_session(&self.sessions[session], to).await
    }

    /// Sends prompts to all sessions while something else happens, which says when it is enough.
    pub(crate) async fn send_during(
        &mut self,
        gateway: &TestServer,
        pause: Duration,
        what: impl AsyncFnOnce(&SendingProgress),
    ) {
        let gateway = GatewayAddress::of(gateway);
        self.send_to(|| gateway.clone(), pause, 0, what).await;
    }

    /// The same while the gateway may be another one each time. A prompt that is not confirmed is sent again
    /// some times before the next one.
    pub(crate) async fn send_to(
        &mut self,
        gateway: impl Fn() -> GatewayAddress,
        pause: Duration,
        repetitions: usize,
        what: impl AsyncFnOnce(&SendingProgress),
    ) {
        let confirmed = self.sessions.iter().map(|_| AtomicUsize::new(0)).collect();
        let first = AtomicUsize::new(self.prompts.len());
        let progress = SendingProgress { confirmed, sent: first, ..SendingProgress::default() };
        let senders = (0..self.sessions.len()).map(async |session| {
            let mut prompts = Vec::new();
            while !progress.is_enough.load(Ordering::Relaxed) {
                let number = progress.sent.fetch_add(1, Ordering::Relaxed);
                let mut prompt = SentPrompt::new(number, session);
                for _ in 0..=repetitions {
                    self.send(&gateway(), &mut prompt).await;
                    if prompt.is_confirmed {
                        break;
                    }
                    tokio::time::sleep(pause).await;
                }
                let confirmed = &progress.confirmed[session];
                let count = if prompt.is_confirmed { confirmed } else { &progress.refused };
                count.fetch_add(1, Ordering::Relaxed);
                prompts.push(prompt);
                tokio::time::sleep(pause).await;
            }
            prompts
        });
        let work = async {
            what(&progress).await;
            progress.stop();
        };
        let (sent, ()) = tokio::join!(join_all(senders), work);
        self.prompts.extend(sent.into_iter().flatten());
    }

    /// Repeats what was not confirmed, until it is. `repair` gets the number of a session that did not confirm.
    pub(crate) async fn confirm_all(
        &mut self,
        gateway: &TestServer,
        repair: impl AsyncFn(&Self, usize),
    ) {
        let begun = Instant::now();
        while let Some(at) = self.prompts.iter().position(|it| !it.is_confirmed) {
            self.send_again(gateway, at).await;
            let SentPrompt { session, text, is_confirmed, .. } = &self.prompts[at];
            if !is_confirmed {
                let log = self.fixture.log();
                assert!(begun.elapsed() < SETTLE, "not confirmed: {text}\n{log}");
                repair(self, *session).await;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    fn config(&self) -> NatsConfig {
        NatsConfig {
            servers: self.servers.clone(),
            credentials: None,
            authorities: None,
            certificate: None,
            name: "test".to_owned(),
        }
    }

    /// The name of the server that leads the stream with the logs. There is none during an election.
    pub(crate) async fn leader(&self) -> Option<String> {
        let status = async { FleetSetup::connect(&self.config()).await.ok()?.status().await.ok() };
        let status = timeout(REQUEST, status).await.ok()??;
        let logs = status.streams.into_iter().find(|it| it.name == "TP_E").expect("the logs");
        logs.leader
    }

    /// Checks that the servers have every confirmed prompt, whatever workers and gateways have. Returns how many
    /// these are.
    pub(crate) async fn check_confirmed(&self) -> usize {
        let fleet = StoredFleet::read(self).await;
        for (number, session) in self.sessions.iter().enumerate() {
            let id = SessionId(session.parse().expect("an id"));
            let confirmed = |it: &&SentPrompt| it.session == number && it.is_confirmed;
            let confirmed: Vec<_> = self.prompts.iter().filter(confirmed).collect();
            // A server that is catching up does not answer with everything.
            until_within(SETTLE, "every confirmed prompt is stored", async || {
                let _ = fleet.mirror.catch_up(id).await;
                let notes = SessionNotes::read(&fleet.journal, id).await;
                confirmed.iter().all(|it| notes.queued.contains_key(&it.id))
            })
            .await;
        }
        self.prompts.iter().filter(|it| it.is_confirmed).count()
    }

    /// Waits until the fleet is at rest, and checks what it has stored. Returns the number of epochs.
    pub(crate) async fn check(&self) -> u64 {
        let fleet = StoredFleet::read(self).await;
        let mut epochs = 0;
        for (number, session) in self.sessions.iter().enumerate() {
            let id = SessionId(session.parse().expect("an id"));
            until_within(SETTLE, "every prompt is over", async || {
                let _ = fleet.mirror.catch_up(id).await;
                let open = fleet.journal.open_prompts(id).await.expect("a journal");
                let record = fleet.journal.session(id).await.expect("a journal");
                open.is_empty() && record.is_some_and(|it| it.turn == it.turn_ended)
            })
            .await;
            epochs += check_log(&*fleet.bus, id).await;
            let sent: Vec<_> = self.prompts.iter().filter(|it| it.session == number).collect();
            check_session(&fleet.journal, id, &sent).await;
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

impl SentPrompt {
    fn new(number: usize, session: usize) -> Self {
        let text = format!("prompt number {number} please");
        Self { id: Uuid::new_v4(), session, text, is_confirmed: false }
    }
}

/// What the servers have, read into a journal of the test.
struct StoredFleet {
    bus: Arc<dyn Bus>,
    journal: Journal,
    mirror: Mirror,
}

impl StoredFleet {
    async fn read(sessions: &CheckedSessions<'_>) -> Self {
        let config = sessions.config();
        let bus = when_available(async || NatsBus::connect(&config).await).await;
        let bus: Arc<dyn Bus> = Arc::new(bus);
        // A new one each time: one that was read before would have what the servers have lost since.
        let file = sessions.fixture.path(&format!("mirror-{}.db", Uuid::new_v4()));
        let journal = Journal::open(&file).expect("a journal").journal;
        let mirror = Mirror::open(Arc::clone(&bus), journal.clone()).await.expect("a mirror");
        Self { bus, journal, mirror }
    }
}

/// What the servers answer, as soon as they do: after a kill, a stream may still be without a leader.
async fn when_available<T>(ask: impl AsyncFn() -> Result<T, BusError>) -> T {
    let begun = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(BusError::Unavailable(_)) if begun.elapsed() < SETTLE => {
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => panic!("the servers: {error}"),
        }
    }
}

/// Checks that a log has no hole and one owner in each epoch. Returns the number of epochs.
async fn check_log(bus: &dyn Bus, session: SessionId) -> u64 {
    let (mut after, mut epoch, mut last) = (LogPosition(0), 0, 0);
    let mut owner = None;
    loop {
        let messages = when_available(async || bus.read(session, after).await).await;
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

/// What Towpath has noted about the turns and prompts of a session.
#[derive(Debug, Default)]
struct SessionNotes {
    started: HashSet<u64>,
    ended: HashSet<u64>,
    /// How often each prompt was put into the queue, and given to the agent.
    queued: HashMap<Uuid, u32>,
    written: HashMap<Uuid, u32>,
}

impl SessionNotes {
    async fn read(journal: &Journal, session: SessionId) -> Self {
        let mut notes = Self::default();
        let mut after = Seq(0);
        loop {
            let entries = journal.read(session, after, 1000).await.expect("entries");
            let Some(end) = entries.last() else { return notes };
            after = end.seq;
            for entry in entries.iter().filter(|it| it.origin == Origin::Towpath) {
                match Note::read(&entry.bytes) {
                    Some(Note::TurnStarted { turn, .. }) => {
                        assert!(notes.started.insert(turn), "{turn}");
                    }
                    Some(Note::TurnEnded { turn, .. }) => {
                        assert!(notes.ended.insert(turn), "{turn}");
                    }
                    Some(Note::PromptQueued { prompt, .. }) => {
                        *notes.queued.entry(prompt).or_default() += 1;
                    }
                    Some(Note::PromptStateChanged { prompt, state: PromptState::Written }) => {
                        *notes.written.entry(prompt).or_default() += 1;
                    }
                    _ => {}
                }
            }
        }
    }
}

/// Checks that every turn is over once, and every confirmed prompt is there once and was sent at most once.
async fn check_session(journal: &Journal, session: SessionId, sent: &[&SentPrompt]) {
    let notes = SessionNotes::read(journal, session).await;
    assert_eq!(notes.started, notes.ended, "every turn is over once");
    for prompt in sent {
        assert_eq!(notes.queued.get(&prompt.id), Some(&1), "{} is there once", prompt.text);
        let written = notes.written.get(&prompt.id);
        assert!(written.is_none_or(|times| *times == 1), "{}", prompt.text);
    }
}
