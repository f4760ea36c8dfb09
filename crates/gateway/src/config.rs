//! The configuration of a gateway.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use push::EndpointPolicy;
use session::Roots;
use terminal::ShellConfig;

use crate::access::{Hosts, Role};

/// The path of the API.
pub(crate) const API_PREFIX: &str = "/api/v1";

/// The path for editors and other clients of the Agent Client Protocol, which its RFD names.
pub(crate) const ACP_PATH: &str = "/acp";

/// The path of figures for Prometheus, which is the usual one.
pub(crate) const METRICS_PATH: &str = "/metrics";

#[derive(Debug)]
pub struct GatewayConfig {
    /// The directory with the access tokens and the checkpoints.
    pub data: PathBuf,
    pub hosts: Hosts,
    /// Where sessions may work.
    pub roots: Roots,
    pub proxy: Option<ProxyConfig>,
    /// A directory to serve the pages from instead of the embedded ones, for development.
    pub pages: Option<PathBuf>,
    /// How shells are started; `None` if there are no terminals. A gateway of a fleet starts none itself: its
    /// clients have those of the workers.
    pub shell: Option<ShellConfig>,
    /// Whether the agent is the built-in one.
    pub demo: bool,
    /// The file of the server's log, which internal errors name.
    pub log: Option<PathBuf>,
    /// Whether clients reach it over TLS, directly or through a proxy.
    pub secure: bool,
    pub max_connections: usize,
    pub push: PushConfig,
}

/// Which push messages are sent, and where.
#[derive(Clone, Debug)]
pub struct PushConfig {
    /// Which addresses of push services clients may give.
    pub endpoints: EndpointPolicy,
    /// How long a turn takes at least for its end to be worth a message.
    pub notify_after: Duration,
}

impl Default for PushConfig {
    fn default() -> Self {
        Self { endpoints: EndpointPolicy::Public, notify_after: Duration::from_secs(30) }
    }
}

/// A proxy in front of the server. What it says about its clients in `X-Forwarded-For` and
/// `X-Forwarded-Proto` is believed.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// The header with the user's name, if the proxy signs users in. The proxy must remove it from
    /// requests of clients.
    pub header: Option<String>,
    /// The addresses the proxy connects from.
    pub addresses: Vec<IpAddr>,
    /// The role of its users.
    pub role: Role,
}
