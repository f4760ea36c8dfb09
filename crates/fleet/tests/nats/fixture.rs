//! Servers and connections for the tests.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use test_support::nats_servers::{self, NatsServerOptions, NatsServers};
use test_support::packages;
use towpath_fleet::bus::Bus;
use towpath_fleet::bus::memory::MemoryServers;
use towpath_fleet::bus::nats::{NatsBus, NatsConfig};
use towpath_fleet::setup::{FleetSetup, FleetSize};

/// What the contract is tested with.
pub(crate) enum TestServers {
    Memory(MemoryServers),
    Nats(NatsServers),
}

impl TestServers {
    pub(crate) fn memory() -> Self {
        Self::Memory(MemoryServers::default())
    }

    /// One server that is set up; none if it cannot be installed.
    pub(crate) async fn nats() -> Option<Self> {
        let servers = start(&NatsServerOptions::single())?;
        admin(&servers).await.init(FleetSize::Single).await.unwrap();
        Some(Self::Nats(servers))
    }

    pub(crate) async fn connect(&self, name: &str) -> Arc<dyn Bus> {
        match self {
            Self::Memory(servers) => Arc::new(servers.connect()),
            Self::Nats(servers) => Arc::new(connect(servers, name).await),
        }
    }
}

/// Starts servers; none if they cannot be installed.
pub(crate) fn start(options: &NatsServerOptions) -> Option<NatsServers> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let install = || nats_servers::install(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let program = packages::or_skip(PROGRAM.get_or_init(install).clone())?;
    Some(NatsServers::start(&program, options))
}

pub(crate) fn config(servers: &NatsServers, name: &str) -> NatsConfig {
    NatsConfig {
        servers: servers.addresses(),
        credentials: None,
        authorities: None,
        certificate: None,
        name: name.to_owned(),
    }
}

pub(crate) async fn connect(servers: &NatsServers, name: &str) -> NatsBus {
    NatsBus::connect(&config(servers, name)).await.unwrap()
}

pub(crate) async fn admin(servers: &NatsServers) -> FleetSetup {
    FleetSetup::connect(&config(servers, "admin")).await.unwrap()
}
