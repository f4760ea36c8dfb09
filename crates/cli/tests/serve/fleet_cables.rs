//! A fleet whose servers, workers and gateway are on machines of their own, with cables that are cut.
//!
//! A cut cable is worse than a killed process: connections stay open, and nothing arrives on them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use test_support::nats_servers::{self, NatsPlace, NatsServerOptions, NatsServers};
use test_support::network::{self, Cable, Network, NetworkMachine};
use test_support::packages;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::fixture::{Fixture, TestServer};
use crate::fleet_check::{CheckedSessions, REPLIES, SETTLE};
use crate::fleet_moves::{
    TestWorker, data_directory, gateway, init_cluster, is_in_files, until_within,
};

/// The pause between two prompts to a session.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a request may take. It is repeated afterwards: a question to a worker that is cut off is lost.
const REQUEST: Duration = Duration::from_secs(5);

#[test]
fn nothing_is_lost_when_a_server_of_a_fleet_is_cut_off() {
    run_alone("fleet_cables::server_is_cut_off");
}

#[test]
fn nothing_is_lost_when_a_worker_and_a_gateway_are_cut_off() {
    run_alone("fleet_cables::worker_and_gateway_are_cut_off");
}

fn run_alone(test: &str) {
    // It is installed here because there is no way to the network in the test.
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    if packages::or_skip(program).is_some()
        && packages::or_skip(network::check_available()).is_some()
    {
        network::run_alone(test);
    }
}

/// Three servers and two workers, each on a machine of its own. The gateway is on that of the test.
struct CabledFleet<'a> {
    gateway: TestServer,
    sessions: CheckedSessions<'a>,
    _workers: Vec<TestWorker<'a>>,
    servers: NatsServers,
    server_cables: Vec<Cable>,
    worker_cables: Vec<Cable>,
    gateway_cable: Cable,
    _machines: Vec<NetworkMachine>,
}

impl<'a> CabledFleet<'a> {
    async fn start(fixture: &'a Fixture) -> Self {
        let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
        let program = program.expect("it was there just now");
        // The model is in another network: an agent goes on when its worker is cut off.
        let (bus, internet) = (Network::new(77), Network::new(78));
        let this = NetworkMachine::of_this_test();
        let gateway_cable = bus.connect(&this);
        let model = forward(internet.connect(&this), &fixture.api.url).await;

        let mut machines: Vec<NetworkMachine> = (0..3).map(|_| NetworkMachine::start()).collect();
        let server_cables: Vec<Cable> = machines.iter().map(|it| bus.connect(it)).collect();
        let places = machines.iter().zip(&server_cables);
        let places = places.map(|(machine, cable)| NatsPlace::on_machine(machine, cable)).collect();
        let options = NatsServerOptions { places, ..NatsServerOptions::cluster() };
        let servers = NatsServers::start(&program, &options);
        init_cluster(fixture, &servers);

        let (nats, project) = (servers.addresses().join(","), fixture.path("project"));
        let (mut workers, mut worker_cables) = (Vec::new(), Vec::new());
        for name in ["w1", "w2"] {
            let machine = NetworkMachine::start();
            worker_cables.push(bus.connect(&machine));
            internet.connect(&machine);
            let (namespace, model) = (machine.namespace().expect("its own"), model.clone());
            let surroundings = Box::new(move |mut command: Command| {
                command.env("ANTHROPIC_BASE_URL", &model);
                network::in_namespace(&namespace, &command)
            });
            let worker = TestWorker::start_in(fixture, &nats, name, &project, &[], surroundings);
            workers.push(worker.await);
            machines.push(machine);
        }
        let gateway = gateway(fixture, &nats).await;
        let mut sessions = CheckedSessions::new(fixture, servers.addresses());
        sessions.request_timeout = REQUEST;
        for worker in ["w1", "w2"] {
            sessions.create(&gateway, Some(worker)).await;
        }
        Self {
            gateway,
            sessions,
            _workers: workers,
            servers,
            server_cables,
            worker_cables,
            gateway_cable,
            _machines: machines,
        }
    }

    /// The name of the server that leads the stream with the logs.
    async fn leader(&self) -> String {
        let ask = async {
            loop {
                if let Some(leader) = self.sessions.leader().await {
                    return leader;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        timeout(SETTLE, ask).await.expect("a leader in time")
    }

    /// Checks everything, with all cables in place.
    async fn check(mut self) {
        self.sessions.confirm_all(&self.gateway, async |_, _| {}).await;
        let epochs = self.sessions.check().await;
        assert_eq!(epochs, 2, "no session needed another owner");
        println!("{} prompts, {epochs} epochs", self.sessions.prompts.len());
    }
}

/// Accepts connections at the end of a cable and passes them on to the model, which listens on the loopback address
/// only. Returns the new address of the model.
async fn forward(cable: Cable, model: &str) -> String {
    let model: SocketAddr =
        model.strip_prefix("http://").expect("http").parse().expect("an address");
    let listener = TcpListener::bind((cable.address, 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                if let Ok(mut server) = TcpStream::connect(model).await {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                }
            });
        }
    });
    format!("http://{address}")
}

async fn is_connected(gateway: &TestServer, worker: &str) -> bool {
    let workers = gateway.get("/workers").await;
    let workers = workers["workers"].as_array().expect("workers");
    workers.iter().any(|it| it["name"] == worker && it["connected"] == true)
}

/// What a gateway has of a session.
async fn lines(gateway: &TestServer, session: &str) -> String {
    gateway.get(&format!("/sessions/{session}/lines?limit=1000")).await.to_string()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it runs inside a test above, in a network of its own"]
async fn server_is_cut_off() {
    let fixture = Fixture::new(REPLIES).await;
    let mut fleet = CabledFleet::start(&fixture).await;
    let leader = fleet.leader().await;
    let cable = &fleet.server_cables[fleet.servers.index(&leader)];
    let sending = fleet.sessions.send_during(&fleet.gateway, PAUSE, async |progress| {
        tokio::join!(progress.until_confirmed(0, 3), progress.until_confirmed(1, 3));
        cable.cut();
        let cut = Instant::now();
        // One of them may be on its way back.
        tokio::join!(progress.until_confirmed(0, 3), progress.until_confirmed(1, 3));
        println!("the others confirm {:?} after the leader was cut off", cut.elapsed());
        cable.restore();
        tokio::join!(progress.until_confirmed(0, 3), progress.until_confirmed(1, 3));
    });
    sending.await;
    fleet.check().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "it runs inside a test above, in a network of its own"]
async fn worker_and_gateway_are_cut_off() {
    let held = "api text \"said while it was cut off\" hold gate for \"say it then\"";
    let fixture = Fixture::new(&format!("{held}\n{REPLIES}")).await;
    let mut fleet = CabledFleet::start(&fixture).await;
    let (status, created) =
        fleet.gateway.post("/sessions", json!({ "cwd": fixture.project(), "worker": "w1" })).await;
    assert_eq!(status, 201, "{created}");
    let held = created["id"].as_str().expect("an id");
    fleet.gateway.prompt(held, "say it then").await;
    until_within(SETTLE, "the agent asks the model", async || {
        let requests = fixture.api.requests();
        requests.iter().any(|it| it.body.to_string().contains("say it then"))
    })
    .await;
    let (gateway, cable) = (&fleet.gateway, &fleet.worker_cables[0]);
    let gateway_cable = &fleet.gateway_cable;
    let sending = fleet.sessions.send_during(gateway, PAUSE, async |progress| {
        tokio::join!(progress.until_confirmed(0, 3), progress.until_confirmed(1, 3));
        cable.cut();
        let cut = Instant::now();
        until_within(SETTLE, "the worker is away", async || !is_connected(gateway, "w1").await)
            .await;
        println!("away {:?} after it was cut off", cut.elapsed());
        progress.until_confirmed(1, 3).await;
        // Its agent goes on meanwhile.
        fixture.api.open("gate");
        let live = data_directory(&fixture, "w1").join("live").join(held);
        until_within(SETTLE, "the agent speaks", async || is_in_files(&live, "cut off")).await;
        assert!(!lines(gateway, held).await.contains("cut off"), "no way to the gateway");
        cable.restore();
        let restored = Instant::now();
        until_within(SETTLE, "it is back", async || is_connected(gateway, "w1").await).await;
        progress.until_confirmed(0, 3).await;
        println!("confirms {:?} after its cable was restored", restored.elapsed());

        gateway_cable.cut();
        progress.until_refused().await;
        gateway_cable.restore();
        let restored = Instant::now();
        tokio::join!(progress.until_confirmed(0, 3), progress.until_confirmed(1, 3));
        println!("the gateway confirms {:?} after its cable was restored", restored.elapsed());
    });
    sending.await;
    until_within(SETTLE, "what it said is here", async || {
        let lines = lines(gateway, held).await;
        lines.contains("said while it was cut off") && lines.contains("turn_ended")
    })
    .await;
    fleet.check().await;
}
