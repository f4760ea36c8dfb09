//! Figures for Prometheus: how many sessions there are, and how much the workers of a fleet do.
//!
//! Nothing here names a session or says what is in it, so the least role may read it.

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use journal::SessionStatus;
use session::{FleetConnection, WorkerPresence, WorkerSummary};

use crate::gateway::Gateway;
use crate::problem::ApiResult;

/// The media type of the text format.
const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All statuses, so that a figure that becomes zero does not disappear.
const STATUSES: [(SessionStatus, &str); 5] = [
    (SessionStatus::Idle, "idle"),
    (SessionStatus::Running, "running"),
    (SessionStatus::Waiting, "waiting"),
    (SessionStatus::Dead, "dead"),
    (SessionStatus::Failed, "failed"),
];

/// A figure of each worker.
type Figure = fn(&WorkerSummary) -> u64;

/// Answers `GET /metrics`.
pub(crate) async fn show(State(gateway): State<Gateway>) -> ApiResult<Response> {
    let records = gateway.sessions.journal().sessions().await?;
    let workers = gateway.sessions.workers().await;
    let statuses: Vec<SessionStatus> = records.iter().map(|it| it.status).collect();
    let connection = gateway.sessions.fleet_connection();
    let text = exposition(&statuses, connection.as_ref(), &workers);
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

fn exposition(
    sessions: &[SessionStatus],
    connection: Option<&FleetConnection>,
    workers: &[WorkerSummary],
) -> String {
    let mut text = String::new();
    let version = env!("CARGO_PKG_VERSION");
    gauge(&mut text, "towpath_info", "The version of Towpath.");
    line(&mut text, "towpath_info", &[("version", version)], 1);
    gauge(&mut text, "towpath_sessions", "Sessions by status.");
    for (status, name) in STATUSES {
        let count = sessions.iter().filter(|it| **it == status).count();
        line(&mut text, "towpath_sessions", &[("status", name)], count as u64);
    }
    let Some(connection) = connection else { return text };
    let lag = connection.lost.map_or(0, |it| it.lasted.as_secs());
    let figures = [
        (
            "towpath_fleet_connected",
            "Whether this gateway has a connection to the fleet.",
            u64::from(connection.lost.is_none()),
        ),
        (
            "towpath_mirror_lag_seconds",
            "How long this gateway has not followed the sessions of the fleet.",
            lag,
        ),
        (
            "towpath_mirror_problems",
            "Sessions that this gateway cannot copy any further.",
            connection.problems as u64,
        ),
    ];
    for (name, help, value) in figures {
        gauge(&mut text, name, help);
        let _ = writeln!(text, "{name} {value}");
    }
    let is_connected = |it: &WorkerSummary| it.presence == WorkerPresence::Connected;
    let figures: [(&str, &str, Figure); 4] = [
        ("towpath_worker_connected", "Whether a worker is connected.", |it| {
            u64::from(it.presence == WorkerPresence::Connected)
        }),
        ("towpath_worker_slots", "How many agents may work at the same time.", |it| {
            u64::from(it.slots)
        }),
        ("towpath_worker_slots_used", "How many agents work.", |it| u64::from(it.used)),
        ("towpath_worker_sessions", "Sessions of a worker.", |it| it.sessions as u64),
    ];
    for (name, help, figure) in figures {
        gauge(&mut text, name, help);
        for worker in workers {
            let pool = worker.pool.as_deref().unwrap_or_default();
            let labels = [("worker", worker.name.as_str()), ("pool", pool)];
            line(&mut text, name, &labels, figure(worker));
        }
    }
    gauge(&mut text, "towpath_workers", "Workers by whether they are connected.");
    for (state, connected) in [("connected", true), ("away", false)] {
        let count = workers.iter().filter(|it| is_connected(it) == connected).count();
        line(&mut text, "towpath_workers", &[("state", state)], count as u64);
    }
    text
}

fn gauge(text: &mut String, name: &str, help: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
}

fn line(text: &mut String, name: &str, labels: &[(&str, &str)], value: u64) {
    let label = |(key, value): &(&str, &str)| format!("{key}=\"{}\"", escaped(value));
    let labels: Vec<String> = labels.iter().map(label).collect();
    let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use journal::SessionStatus;
    use session::{FleetConnection, LostConnection, WorkerPresence, WorkerSummary};

    use super::exposition;

    #[test]
    fn sessions_and_workers_are_counted_and_names_are_escaped() {
        let worker = |name: &str, presence| WorkerSummary {
            name: name.to_owned(),
            pool: Some("linux".to_owned()),
            slots: 4,
            used: 1,
            roots: Vec::new(),
            version: None,
            presence,
            sessions: 7,
        };
        let workers = [
            worker("w1", WorkerPresence::Connected),
            worker("a\"b\\", WorkerPresence::Away { since: None }),
        ];
        let since = LostConnection { since: 7, lasted: Duration::from_secs(9) };
        let connection = FleetConnection { lost: Some(since), problems: 2 };
        let statuses = [SessionStatus::Idle, SessionStatus::Running];
        let text = exposition(&statuses, Some(&connection), &workers);
        for expected in [
            "towpath_sessions{status=\"running\"} 1\n",
            "towpath_sessions{status=\"failed\"} 0\n",
            "towpath_worker_slots_used{worker=\"w1\",pool=\"linux\"} 1\n",
            "towpath_worker_connected{worker=\"a\\\"b\\\\\",pool=\"linux\"} 0\n",
            "towpath_workers{state=\"away\"} 1\n",
            "towpath_fleet_connected 0\n",
            "towpath_mirror_lag_seconds 9\n",
            "towpath_mirror_problems 2\n",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        let connected = exposition(&[], Some(&FleetConnection::default()), &[]);
        assert!(connected.contains("towpath_fleet_connected 1\n"), "{connected}");
        assert!(!exposition(&[], None, &[]).contains("worker"), "one machine has none");
    }
}
