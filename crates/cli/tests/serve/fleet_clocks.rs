//! Workers of a fleet whose clocks are wrong.

use std::time::{Duration, Instant, SystemTime};

use serde_json::json;
use test_support::packages;
use test_support::skewed_clock::SkewedClock;

use crate::fixture::{Fixture, TestServer};
use crate::fleet_check::{CheckedSessions, REPLIES, SETTLE};
use crate::fleet_moves::{Surroundings, TestWorker, gateway, init, servers, until_within};

const HOUR: i64 = 60 * 60 * 1000;

/// Longer than a lease lasts, so that it was renewed and did not expire.
const OBSERVED: Duration = Duration::from_secs(18);

/// The pause between two prompts to a session, about as long as a turn takes.
const PAUSE: Duration = Duration::from_millis(500);

/// How far the clock of the worker was off when it stored the last line of a session, in milliseconds.
async fn offset(gateway: &TestServer, session: &str) -> i64 {
    let page = gateway.get(&format!("/sessions/{session}/lines?limit=1000")).await;
    let last = page["lines"].as_array().and_then(|it| it.last()).expect("a line")["at"].as_i64();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    last.expect("a time") - i64::try_from(now.as_millis()).expect("a time")
}

/// Whether both workers are connected.
async fn are_connected(gateway: &TestServer) -> bool {
    let workers = gateway.get("/workers").await;
    let workers = workers["workers"].as_array().expect("workers");
    workers.len() == 2 && workers.iter().all(|it| it["connected"] == true)
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_whose_clocks_are_an_hour_off_are_not_away_and_lose_nothing() {
    let Some(clock) = packages::or_skip(SkewedClock::find()) else { return };
    let Some(servers) = servers() else { return };
    let nats = servers.addresses()[0].clone();
    let fixture = Fixture::new(REPLIES).await;
    init(&fixture, &nats);
    let project = fixture.path("project");
    let with_clock = |offset: &'static str| -> Surroundings<'static> {
        let clock = clock.clone();
        Box::new(move |mut command| {
            clock.set(&mut command, offset);
            command
        })
    };
    // Either would be taken over at once if an hour of its clock counted.
    let takeover = &["--takeover", "30s"];
    let worker = async |name, offset| {
        let clock = with_clock(offset);
        TestWorker::start_in(&fixture, &nats, name, &project, takeover, clock).await
    };
    let mut ahead = worker("w1", "+1h").await;
    let _behind = worker("w2", "-1h").await;
    let gateway = gateway(&fixture, &nats).await;
    let mut sessions = CheckedSessions::new(&fixture, servers.addresses());
    for worker in ["w1", "w2"] {
        sessions.create(&gateway, Some(worker)).await;
    }

    sessions
        .send_during(&gateway, PAUSE, async |progress| {
            let begun = Instant::now();
            while begun.elapsed() < OBSERVED {
                assert!(are_connected(&gateway).await, "{}", fixture.log());
                tokio::time::sleep(PAUSE).await;
            }
            assert!(progress.confirmed(0) > 0 && progress.confirmed(1) > 0);
        })
        .await;
    assert!((offset(&gateway, &sessions.sessions[0]).await - HOUR).abs() < HOUR / 2);
    assert!((offset(&gateway, &sessions.sessions[1]).await + HOUR).abs() < HOUR / 2);
    assert_eq!(sessions.check().await, 2, "no session was taken over");

    // Time goes back by two hours in the first session, and forward in the second.
    for (session, to) in [(0, "w2"), (1, "w1")] {
        let path = format!("/sessions/{}/move", sessions.sessions[session]);
        let (status, said) = gateway.post(&path, json!({ "to": to })).await;
        assert_eq!(status, 204, "{said}");
        sessions.send_new(&gateway, session).await;
    }
    ahead.kill().await;
    ahead.restart().await;
    until_within(SETTLE, "both are connected", async || are_connected(&gateway).await).await;
    sessions
        .send_during(&gateway, PAUSE, async |progress| {
            tokio::join!(progress.until_confirmed(0, 2), progress.until_confirmed(1, 2));
        })
        .await;
    sessions.confirm_all(&gateway, async |_, _| {}).await;
    let epochs = sessions.check().await;
    assert_eq!(epochs, 4, "each was moved once");
    println!("{} prompts, {epochs} epochs", sessions.prompts.len());
}
