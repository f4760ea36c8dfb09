//! A fleet whose workers, gateway and servers are killed at random while sessions are prompted and moved.
//!
//! `TOWPATH_TEST_FLEET_SECONDS` is how long (20 by default), `TOWPATH_TEST_SEED` the seed of the choices. It is
//! printed, but what happens also depends on when.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;

use crate::fixture::{Fixture, TestServer};
use crate::fleet_check::{CheckedSessions, REPLIES};
use crate::fleet_moves::{TestWorker, gateway, init_cluster};

const SESSIONS: usize = 3;
const WORKERS: [&str; 2] = ["w1", "w2"];

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

/// What was done and what came of it.
#[derive(Debug, Default)]
struct KillCounts {
    workers: usize,
    gateways: usize,
    /// Servers that led the stream with the logs, and others.
    leaders: usize,
    servers: usize,
    moves: usize,
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|it| it.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_confirmed_is_lost_or_run_twice_when_parts_of_a_fleet_are_killed_at_random() {
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Some(program) = packages::or_skip(program) else { return };
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seed = number("TOWPATH_TEST_SEED").unwrap_or(u64::from(now.subsec_nanos()));
    let seconds = number("TOWPATH_TEST_FLEET_SECONDS").unwrap_or(20);
    println!("seed {seed}, {seconds} s");
    let fixture = Fixture::new(REPLIES).await;
    let servers = NatsServers::start(&program, &NatsServerOptions::cluster());
    let mut fleet = KilledFleet::start(&fixture, servers, seed).await;
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(seconds) {
        fleet.act().await;
        let pause = fleet.random.below(200) as u64;
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    // A move that was cut off may have left a session without an owner.
    let gateway = &fleet.gateway;
    let repair = async |sessions: &CheckedSessions<'_>, session| {
        let _ = sessions.move_session(gateway, session, WORKERS[0]).await;
    };
    fleet.sessions.confirm_all(gateway, repair).await;
    let epochs = fleet.sessions.check().await;
    println!(
        "{} prompts, {:?}, {epochs} epochs in {:.0} s",
        fleet.sessions.prompts.len(),
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
    sessions: CheckedSessions<'a>,
    counts: KillCounts,
    random: Random,
}

impl<'a> KilledFleet<'a> {
    async fn start(fixture: &'a Fixture, servers: NatsServers, seed: u64) -> Self {
        init_cluster(fixture, &servers);
        let nats = servers.addresses().join(",");
        let project = fixture.path("project");
        let mut workers = Vec::new();
        for name in WORKERS {
            workers.push(TestWorker::start(fixture, &nats, name, &project).await);
        }
        let gateway = gateway(fixture, &nats).await;
        let mut sessions = CheckedSessions::new(fixture, servers.addresses());
        for _ in 0..SESSIONS {
            sessions.create(&gateway, None).await;
        }
        let (counts, random) = (KillCounts::default(), Random(seed));
        Self { fixture, servers, nats, workers, gateway, sessions, counts, random }
    }

    /// Sends or repeats a prompt, kills something, or moves a session.
    async fn act(&mut self) {
        match self.random.below(12) {
            0..=5 => {
                let session = self.random.below(SESSIONS);
                self.sessions.send_new(&self.gateway, session).await;
            }
            6 => {
                let prompts = self.sessions.prompts.iter().enumerate();
                let unsure = prompts.filter(|(_, it)| !it.is_confirmed);
                let unsure: Vec<usize> = unsure.map(|(at, _)| at).collect();
                if !unsure.is_empty() {
                    let at = unsure[self.random.below(unsure.len())];
                    self.sessions.send_again(&self.gateway, at).await;
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
                self.gateway = gateway(self.fixture, &self.nats).await;
                self.counts.gateways += 1;
            }
            10 => {
                let (index, wants_leader) = (self.random.below(3), self.random.below(3) > 0);
                let leader = if wants_leader { self.sessions.leader().await } else { None };
                let leader = leader.map(|name| self.servers.index(&name));
                let index = leader.unwrap_or(index);
                self.servers.kill(index);
                let pause = self.random.below(1500) as u64;
                tokio::time::sleep(Duration::from_millis(pause)).await;
                self.servers.restart(index);
                match leader {
                    Some(_) => self.counts.leaders += 1,
                    None => self.counts.servers += 1,
                }
            }
            _ => {
                let session = self.random.below(SESSIONS);
                let to = WORKERS[self.random.below(WORKERS.len())];
                let moved = self.sessions.move_session(&self.gateway, session, to).await;
                self.counts.moves += usize::from(moved);
            }
        }
    }
}
