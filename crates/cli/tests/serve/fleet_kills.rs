//! A fleet whose workers, gateway and servers are killed at random while sessions are prompted and moved. All
//! of it happens at the same time, so that kills meet prompts and moves that are on their way.
//!
//! `TOWPATH_TEST_FLEET_SECONDS` is how long (40 by default), `TOWPATH_TEST_SEED` the seed of the choices. It is
//! printed, but what happens also depends on when.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;

use crate::fixture::{Fixture, TestServer};
use crate::fleet_check::{CheckedSessions, GatewayAddress, REPLIES};
use crate::fleet_moves::{TestWorker, gateway, init_cluster};

const SESSIONS: usize = 4;
const WORKERS: [&str; 3] = ["w1", "w2", "w3"];

/// The pause of those who send after each prompt.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a prompt that is not confirmed is sent again before the next one.
const REPETITIONS: usize = 5;

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
}

/// What came of moving sessions.
#[derive(Debug, Default)]
struct MoveCounts {
    done: usize,
    failed: usize,
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
    let seconds = number("TOWPATH_TEST_FLEET_SECONDS").unwrap_or(40);
    println!("seed {seed}, {seconds} s");
    let fixture = Fixture::new(REPLIES).await;
    let servers = NatsServers::start(&program, &NatsServerOptions::cluster());
    let (mut fleet, mut sessions) = KilledFleet::start(&fixture, servers, seed).await;
    let begun = Instant::now();
    let is_over = || begun.elapsed() >= Duration::from_secs(seconds);
    let address = Mutex::new(GatewayAddress::of(&fleet.gateway));
    let here = || address.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let ids = sessions.sessions.clone();
    // Only asks which server leads the stream with the logs.
    let checked =
        CheckedSessions::new(&fixture, fleet.nats.split(',').map(str::to_owned).collect());
    let mut moves = MoveCounts::default();
    let kill = async {
        while !is_over() {
            fleet.kill_something(&checked, &address).await;
            let pause = fleet.random.below(800) as u64;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    };
    let move_about = async {
        let mut random = Random(seed.wrapping_add(1));
        while !is_over() {
            let (session, to) = (&ids[random.below(SESSIONS)], WORKERS[random.below(3)]);
            let is_moved = here().move_session(session, to).await;
            *(if is_moved { &mut moves.done } else { &mut moves.failed }) += 1;
            let pause = random.below(3000) as u64;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
    };
    let both = async |_: &_| {
        tokio::join!(kill, move_about);
    };
    Box::pin(sessions.send_to(here, PAUSE, REPETITIONS, both)).await;
    let unconfirmed = sessions.prompts.iter().filter(|it| !it.is_confirmed).count();
    // A move that was cut off may have left a session without an owner.
    let gateway = &fleet.gateway;
    let repair = async |sessions: &CheckedSessions<'_>, session| {
        let _ = sessions.move_session(gateway, session, WORKERS[0]).await;
    };
    sessions.confirm_all(gateway, repair).await;
    let epochs = sessions.check().await;
    println!(
        "seed {seed}: {} prompts ({unconfirmed} confirmed only afterwards), {:?}, {moves:?}, {epochs} epochs in {:.0} s",
        sessions.prompts.len(),
        fleet.counts,
        begun.elapsed().as_secs_f64()
    );
}

/// A fleet of three servers, three workers and a gateway.
struct KilledFleet<'a> {
    fixture: &'a Fixture,
    /// None while one of them is being started.
    servers: Option<NatsServers>,
    nats: String,
    workers: Vec<TestWorker<'a>>,
    gateway: TestServer,
    counts: KillCounts,
    random: Random,
}

impl<'a> KilledFleet<'a> {
    async fn start(
        fixture: &'a Fixture,
        servers: NatsServers,
        seed: u64,
    ) -> (Self, CheckedSessions<'a>) {
        init_cluster(fixture, &servers);
        let nats = servers.addresses().join(",");
        let project = fixture.path("project");
        let mut workers = Vec::new();
        for name in WORKERS {
            workers.push(TestWorker::start(fixture, &nats, name, &project).await);
        }
        let gateway = gateway(fixture, &nats).await;
        let mut sessions = CheckedSessions::new(fixture, servers.addresses());
        for number in 0..SESSIONS {
            sessions.create(&gateway, Some(WORKERS[number % WORKERS.len()])).await;
        }
        let (counts, random, servers) = (KillCounts::default(), Random(seed), Some(servers));
        (Self { fixture, servers, nats, workers, gateway, counts, random }, sessions)
    }

    /// Kills something, and starts it again.
    async fn kill_something(
        &mut self,
        sessions: &CheckedSessions<'_>,
        address: &Mutex<GatewayAddress>,
    ) {
        match self.random.below(6) {
            0..=2 => {
                let worker = &mut self.workers[self.random.below(WORKERS.len())];
                worker.kill().await;
                worker.restart().await;
                self.counts.workers += 1;
            }
            3 => {
                self.gateway.child.kill().await.expect("it can be killed");
                self.gateway = gateway(self.fixture, &self.nats).await;
                *address.lock().unwrap_or_else(PoisonError::into_inner) =
                    GatewayAddress::of(&self.gateway);
                self.counts.gateways += 1;
            }
            _ => {
                let (index, wants_leader) = (self.random.below(3), self.random.below(3) > 0);
                let leader = if wants_leader { sessions.leader().await } else { None };
                let Some(mut servers) = self.servers.take() else { return };
                let leader = leader.map(|name| servers.index(&name));
                let index = leader.unwrap_or(index);
                servers.kill(index);
                let pause = self.random.below(1500) as u64;
                tokio::time::sleep(Duration::from_millis(pause)).await;
                // It blocks until the server is ready, and the others go on meanwhile.
                let restarted = tokio::task::spawn_blocking(move || {
                    servers.restart(index);
                    servers
                });
                self.servers = Some(restarted.await.expect("the server starts again"));
                match leader {
                    Some(_) => self.counts.leaders += 1,
                    None => self.counts.servers += 1,
                }
            }
        }
    }
}
