//! The monitoring addresses of servers, which alone tell whether messages are synced to disk.

use std::time::Duration;

use serde::Deserialize;

const MONITOR_TIMEOUT: Duration = Duration::from_secs(3);

/// The port that servers usually have for monitoring.
const USUAL_PORT: u16 = 8222;

/// What a server says about itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct MonitorReport {
    #[serde(default)]
    pub(super) server_name: String,
    #[serde(default)]
    pub(super) version: String,
    /// The port for clients.
    #[serde(default)]
    pub(super) port: u16,
    #[serde(default)]
    jetstream: MonitoredJetStream,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct MonitoredJetStream {
    config: Option<MonitoredStore>,
}

#[derive(Clone, Debug, Deserialize)]
struct MonitoredStore {
    #[serde(default)]
    sync_always: bool,
}

impl MonitorReport {
    /// Whether the server syncs each message to disk before it acknowledges it; none if it stores nothing.
    pub(super) fn syncs_always(&self) -> Option<bool> {
        self.jetstream.config.as_ref().map(|it| it.sync_always)
    }

    /// Asks a server. The error says why that is not possible.
    pub(super) async fn fetch(address: &str) -> Result<Self, String> {
        // `reqwest` is built without a provider of cryptography. Later calls change nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().timeout(MONITOR_TIMEOUT).build();
        let client = client.map_err(|error| error.to_string())?;
        let address = address.trim_end_matches('/');
        let url = if address.contains("://") {
            format!("{address}/varz")
        } else {
            format!("http://{address}/varz")
        };
        let response = client.get(url).send().await.and_then(reqwest::Response::error_for_status);
        let response = response.map_err(|error| error.without_url().to_string())?;
        response.json().await.map_err(|error| error.without_url().to_string())
    }
}

/// The monitoring address that a server usually has, with the port for clients that it then reports.
pub(super) fn usual_address(server: &str) -> Option<(String, u16)> {
    let address: async_nats::ServerAddr = server.trim().parse().ok()?;
    let host = address.host();
    let host = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    Some((format!("http://{host}:{USUAL_PORT}"), address.port()))
}

#[cfg(test)]
mod tests {
    use super::{MonitorReport, usual_address};

    #[test]
    fn the_report_says_whether_messages_are_synced() {
        let report = |json: &str| serde_json::from_str::<MonitorReport>(json).unwrap();
        let always = report(r#"{"jetstream":{"config":{"sync_interval":120,"sync_always":true}}}"#);
        assert_eq!(always.syncs_always(), Some(true));
        // A server with the default leaves the field out.
        let default = report(r#"{"jetstream":{"config":{"sync_interval":120}}}"#);
        assert_eq!(default.syncs_always(), Some(false));
        assert_eq!(report(r#"{"jetstream":{}}"#).syncs_always(), None);
        assert_eq!(report("{}").syncs_always(), None);
    }

    #[test]
    fn the_usual_address_is_that_of_the_host() {
        let usual = |server| usual_address(server).unwrap();
        assert_eq!(usual("nats://u:p@a.example:4333"), ("http://a.example:8222".to_owned(), 4333));
        assert_eq!(usual("b.example"), ("http://b.example:8222".to_owned(), 4222));
    }
}
