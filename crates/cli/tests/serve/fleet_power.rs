//! A power cut on all NATS servers of a fleet at the same time.

use std::path::Path;
use std::time::{Duration, Instant};

use test_support::loop_disk::LoopDisk;
use test_support::nats_servers::{self, NatsPlace, NatsServerOptions, NatsServers};
use test_support::packages;

use crate::fixture::Fixture;
use crate::fleet_check::{CheckedSessions, REPLIES};
use crate::fleet_moves::{TestWorker, gateway, init_cluster};

/// The pause between two prompts to a session. The agent is slower, so that some always wait.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a request may take. What is asked while there are no servers is asked again afterwards.
const REQUEST: Duration = Duration::from_secs(5);

/// How often the power is cut.
const CUTS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_confirmed_is_lost_when_the_power_of_all_servers_is_cut() {
    let program = nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let Some(program) = packages::or_skip(program) else { return };
    let disks: Result<Vec<LoopDisk>, String> = (0..3).map(|_| LoopDisk::mount()).collect();
    let Some(disks) = packages::or_skip(disks) else { return };
    let places = disks.iter().map(|it| NatsPlace::with_store(it.path().join("store"))).collect();
    let options = NatsServerOptions { places, ..NatsServerOptions::cluster() };
    let mut servers = NatsServers::start(&program, &options);
    let fixture = Fixture::new(REPLIES).await;
    init_cluster(&fixture, &servers);
    let (nats, project) = (servers.addresses().join(","), fixture.path("project"));
    let mut first = TestWorker::start(&fixture, &nats, "w1", &project).await;
    let _second = TestWorker::start(&fixture, &nats, "w2", &project).await;
    let gateway = gateway(&fixture, &nats).await;
    let mut sessions = CheckedSessions::new(&fixture, servers.addresses());
    sessions.request_timeout = REQUEST;
    for worker in ["w1", "w2"] {
        sessions.create(&gateway, Some(worker)).await;
    }

    for _ in 0..CUTS {
        let sending = sessions.send_during(&gateway, PAUSE, async |progress| {
            tokio::join!(progress.until_confirmed(0, 8), progress.until_confirmed(1, 8));
            // Without power no server answers any more, so they stop first.
            (0..3).for_each(|server| servers.pause(server));
            LoopDisk::cut_power(&disks);
            servers.kill_all();
            // One of the workers is gone too, and cannot send again what the servers have lost.
            first.kill().await;
            progress.stop();
            disks.iter().for_each(LoopDisk::mount_again);
            let begun = Instant::now();
            servers.restart_all();
            println!("servers ready {:?} after the power was back", begun.elapsed());
        });
        sending.await;
        let confirmed = sessions.check_confirmed().await;
        println!("{confirmed} of {} prompts were confirmed", sessions.prompts.len());
        first.restart().await;
        sessions.confirm_all(&gateway, async |_, _| {}).await;
    }
    let epochs = sessions.check().await;
    assert_eq!(epochs, 2, "no session needed another owner");
}
