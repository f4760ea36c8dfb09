//! Checking whether the servers keep what Towpath promises.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use super::finding::{FindingSeverity, SetupFinding};
use super::monitor::{MonitorReport, usual_address};
use super::stream_plan::{StreamDifference, StreamPlan};
use super::{FleetSetup, FleetSize, is_supported};
use crate::bus::nats::subjects::LOG_STREAM;
use crate::bus::{BusError, MAX_MESSAGE};

/// How many bytes a message may have beside its content.
const HEADER_ROOM: usize = 64 << 10;

/// By how many seconds the clock of this machine may differ.
const CLOCK_TOLERANCE: i64 = 5;

const SYNC_LINE: &str = "in the `jetstream` block of its configuration: sync_interval: always";

/// What to check the servers for.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    pub size: FleetSize,
    /// The addresses of the servers' monitoring. Without any, the usual port of each host is tried.
    pub monitors: Vec<String>,
    /// The time of this machine.
    pub now: std::time::SystemTime,
}

impl FleetSetup {
    /// Checks everything that can be checked, in the order in which to repair it.
    pub async fn check(&self, options: &CheckOptions) -> Result<Vec<SetupFinding>, BusError> {
        let mut findings = self.check_server();
        let account = self.api("INFO", None).await;
        match account {
            Ok(Ok(_)) => findings.push(SetupFinding::good("jetstream", "enabled")),
            Ok(Err(error)) if error.status < 500 || error.code == NOT_ENABLED => {
                findings.push(no_jetstream(&error.description));
                return Ok(findings);
            }
            Ok(Err(error)) => return Err(error.into_error()),
            Err(BusError::Unavailable(why))
                if !self.connection.client().server_info().jetstream =>
            {
                findings.push(no_jetstream(&why));
                return Ok(findings);
            }
            Err(error) => return Err(error),
        }
        let mut peers = Vec::new();
        for plan in StreamPlan::all(options.size) {
            let info = self.stream_info(&plan.name).await?;
            findings.push(check_stream(&plan, info.as_ref()));
            let Some(info) = info.filter(|_| plan.name == LOG_STREAM) else { continue };
            peers = peer_names(&info);
            findings.extend(check_peers(&info));
            findings.extend(check_clock(&info, options.now));
        }
        if peers.is_empty() {
            peers.push(self.connection.client().server_info().server_name);
        }
        findings.extend(self.check_sync(&peers, &options.monitors).await);
        Ok(findings)
    }

    fn check_server(&self) -> Vec<SetupFinding> {
        let server = self.connection.client().server_info();
        let mut findings = vec![check_version(&server.server_name, &server.version)];
        let needed = MAX_MESSAGE + HEADER_ROOM;
        if server.max_payload < needed {
            findings.push(SetupFinding::new(
                FindingSeverity::Refused,
                "max_payload",
                format!(
                    "server `{}` accepts messages of {} bytes, Towpath sends up to {needed}",
                    server.server_name, server.max_payload
                ),
                "in its configuration: max_payload: 1MB",
            ));
        }
        findings
    }

    async fn check_sync(&self, peers: &[String], monitors: &[String]) -> Vec<SetupFinding> {
        let mut findings = Vec::new();
        let mut reports: BTreeMap<String, MonitorReport> = BTreeMap::new();
        for address in monitors {
            match MonitorReport::fetch(address).await {
                Ok(report) => drop(reports.insert(report.server_name.clone(), report)),
                Err(why) => findings.push(SetupFinding::new(
                    FindingSeverity::Unknown,
                    "monitoring",
                    format!("`{address}` does not answer: {why}"),
                    "in the configuration of the server: http: 127.0.0.1:8222",
                )),
            }
        }
        if monitors.is_empty() {
            for server in &self.config.servers {
                let Some((address, port)) = usual_address(server) else { continue };
                // Another server of the same host may have the usual port.
                if let Ok(report) = MonitorReport::fetch(&address).await
                    && report.port == port
                {
                    reports.insert(report.server_name.clone(), report);
                }
            }
        }
        let connected = self.connection.client().server_info().server_name;
        for peer in peers {
            let report = reports.get(peer);
            findings.push(check_peer_sync(peer, report));
            if let Some(report) = report.filter(|_| *peer != connected) {
                findings.push(check_version(peer, &report.version));
            }
        }
        findings
    }
}

/// JetStream is not enabled.
const NOT_ENABLED: u64 = 10076;

fn no_jetstream(why: &str) -> SetupFinding {
    SetupFinding::new(
        FindingSeverity::Refused,
        "jetstream",
        format!("JetStream is not enabled: {why}"),
        "in the configuration of each server: jetstream { store_dir: \"/var/lib/nats\", \
         sync_interval: always }; with accounts, also in the account: jetstream: enabled",
    )
}

fn check_version(server: &str, version: &str) -> SetupFinding {
    let name = format!("version of {server}");
    if is_supported(version) {
        return SetupFinding::good(name, version);
    }
    SetupFinding::new(
        FindingSeverity::Refused,
        name,
        format!(
            "NATS {version} is too old, 2.12 is needed: older versions ignore that keys expire, and \
             accept writers that were replaced"
        ),
        "install nats-server 2.15 from its releases on GitHub; the packages of Debian 12 and 13 are \
         older",
    )
}

fn check_stream(plan: &StreamPlan, info: Option<&Value>) -> SetupFinding {
    let name = format!("stream {}", plan.name);
    let Some(info) = info else {
        return SetupFinding::new(
            FindingSeverity::Refused,
            name,
            "it does not exist",
            "run: towpath fleet init",
        );
    };
    let differences = plan.differences(&info["config"]);
    if differences.is_empty() {
        let replicas = info["config"]["num_replicas"].as_u64().unwrap_or(1);
        let servers = if replicas == 1 { "server" } else { "servers" };
        return SetupFinding::good(name, format!("stored on {replicas} {servers}"));
    }
    let is_replicas = differences.iter().any(|it| it.setting == "num_replicas");
    let differences: Vec<String> = differences.iter().map(StreamDifference::text).collect();
    let hint = if is_replicas {
        "run: towpath fleet init (with three servers), or accept one server with --single"
    } else {
        "run: towpath fleet init"
    };
    SetupFinding::new(FindingSeverity::Refused, name, differences.join("; "), hint)
}

/// The names of the servers that store a stream.
fn peer_names(info: &Value) -> Vec<String> {
    let replicas = info["cluster"]["replicas"].as_array().into_iter().flatten();
    let replicas = replicas.filter_map(|it| it["name"].as_str());
    let leader = info["cluster"]["leader"].as_str();
    let mut names: Vec<String> = leader.into_iter().chain(replicas).map(str::to_owned).collect();
    names.sort();
    names
}

fn check_peers(info: &Value) -> Vec<SetupFinding> {
    let replicas = info["cluster"]["replicas"].as_array().into_iter().flatten();
    let problem = |replica: &Value| {
        let name = replica["name"].as_str().unwrap_or("unknown");
        let text = if replica["offline"].as_bool() == Some(true) {
            "it is offline: the loss of another server stops the fleet"
        } else if replica["current"].as_bool() == Some(false) {
            "it does not have all messages yet"
        } else {
            return None;
        };
        let hint = format!("look at the log of server `{name}`");
        Some(SetupFinding::new(FindingSeverity::Warning, format!("server {name}"), text, hint))
    };
    replicas.filter_map(problem).collect()
}

fn check_clock(info: &Value, now: std::time::SystemTime) -> Option<SetupFinding> {
    let server: Timestamp = info["ts"].as_str()?.parse().ok()?;
    let here = Timestamp::try_from(now).ok()?;
    let seconds = here.as_second() - server.as_second();
    if seconds.abs() <= CLOCK_TOLERANCE {
        return Some(SetupFinding::good("clock", "as on the servers"));
    }
    let direction = if seconds > 0 { "ahead of" } else { "behind" };
    Some(SetupFinding::new(
        FindingSeverity::Warning,
        "clock",
        format!("the clock of this machine is {} s {direction} the servers'", seconds.abs()),
        "synchronize the clocks, for example with chrony: times in lists and schedules are wrong",
    ))
}

fn check_peer_sync(peer: &str, report: Option<&MonitorReport>) -> SetupFinding {
    let name = format!("sync of {peer}");
    match report.and_then(MonitorReport::syncs_always) {
        Some(true) => SetupFinding::good(name, "each message is on disk before it is acknowledged"),
        Some(false) => SetupFinding::new(
            FindingSeverity::Refused,
            name,
            "messages are acknowledged before they are on disk: a power failure loses them",
            SYNC_LINE,
        ),
        None => SetupFinding::new(
            FindingSeverity::Unknown,
            name,
            "unknown: its monitoring address is not given and not at the usual port",
            format!(
                "give it with --monitor http://HOST:8222, and make sure of this line {SYNC_LINE}"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::json;

    use super::{FindingSeverity, check_clock, check_peers, check_version, peer_names};

    #[test]
    fn an_old_server_is_refused_with_what_to_install() {
        let finding = check_version("n1", "2.10.27");
        assert_eq!(finding.severity, FindingSeverity::Refused);
        assert!(finding.text.contains("2.10.27"), "{}", finding.text);
        assert!(finding.hint.unwrap().contains("2.15"));
        assert_eq!(check_version("n1", "2.15.1").severity, FindingSeverity::Good);
    }

    #[test]
    fn a_server_that_is_offline_or_behind_is_a_warning() {
        let info = json!({ "cluster": { "leader": "n2", "replicas": [
            { "name": "n3", "current": false, "offline": true },
            { "name": "n1", "current": true },
        ] } });
        assert_eq!(peer_names(&info), ["n1", "n2", "n3"]);
        let findings = check_peers(&info);
        assert_eq!(findings.len(), 1);
        assert_eq!(
            (findings[0].severity, &*findings[0].name),
            (FindingSeverity::Warning, "server n3")
        );
    }

    #[test]
    fn a_clock_that_is_off_is_a_warning() {
        let info = json!({ "ts": "2026-11-17T00:12:32.908846512Z" });
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_794_874_352);
        let severity = |now| check_clock(&info, now).unwrap().severity;
        assert_eq!(severity(now), FindingSeverity::Good);
        let off = check_clock(&info, now + Duration::from_hours(1)).unwrap();
        assert_eq!(off.severity, FindingSeverity::Warning);
        assert!(off.text.contains("3600 s ahead of"), "{}", off.text);
        assert_eq!(severity(now - Duration::from_mins(1)), FindingSeverity::Warning);
        assert_eq!(check_clock(&json!({}), now), None);
    }
}
