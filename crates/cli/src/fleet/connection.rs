//! Arguments that name the servers of a fleet, and the connection to them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fleet::bus::BusError;
use fleet::bus::nats::{ClientCertificate, NatsBus, NatsConfig};
use tracing::{error, warn};

/// The pause until servers that cannot be reached are tried again.
const RETRY: Duration = Duration::from_secs(2);

/// When a connection is established.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionTime {
    Now,
    /// The servers are away.
    Later,
}

/// The servers of a fleet.
#[derive(Args, Clone, Debug)]
pub(crate) struct NatsArgs {
    /// Addresses of NATS servers, `nats://HOST:PORT` or `tls://HOST:PORT`
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        default_value = "nats://127.0.0.1:4222",
        hide_default_value = false
    )]
    pub(crate) nats: Vec<String>,
    /// A file with the credentials of a user
    #[arg(long, value_name = "FILE")]
    pub(crate) creds: Option<PathBuf>,
    /// Certificates of the authorities to trust, in place of the system's
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// The certificate of this machine, for servers that ask for one
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
}

/// The servers of the fleet whose sessions are served, if any.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServedFleetArgs {
    /// Serve the sessions of a fleet: addresses of its NATS servers. Drives nothing itself
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        conflicts_with_all = ["roots", "demo", "claude"]
    )]
    nats: Vec<String>,
    /// A file with the credentials of a user of the fleet
    #[arg(long, value_name = "FILE", requires = "nats")]
    creds: Option<PathBuf>,
    /// Certificates of the authorities to trust for the fleet's servers, in place of the system's
    #[arg(long, value_name = "FILE", requires = "nats")]
    ca: Option<PathBuf>,
    /// The certificate of this gateway, for servers of the fleet that ask for one
    #[arg(long, value_name = "FILE", requires_all = ["key", "nats"])]
    cert: Option<PathBuf>,
    /// The key of that certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// The name of this gateway in the permissions of its credentials
    #[arg(long, value_name = "NAME", default_value = "gateway")]
    pub(crate) gateway_name: String,
}

impl NatsArgs {
    pub(crate) fn config(&self, name: &str) -> NatsConfig {
        NatsConfig {
            servers: self.nats.clone(),
            credentials: self.creds.clone(),
            authorities: self.ca.clone(),
            certificate: self.certificate(),
            name: name.to_owned(),
        }
    }

    fn certificate(&self) -> Option<ClientCertificate> {
        let (chain, key) = (self.cert.clone()?, self.key.clone()?);
        Some(ClientCertificate { chain, key })
    }

    /// Connects at once, or as soon as servers that are away are back: nothing is checked before that then, and what
    /// the check finds is only logged.
    pub(crate) async fn connect_or_wait(
        &self,
        name: &str,
    ) -> Result<(NatsBus, ConnectionTime), BusError> {
        let config = self.config(name);
        match NatsBus::connect(&config).await {
            Ok(bus) => return Ok((bus, ConnectionTime::Now)),
            Err(BusError::Unavailable(reason)) => {
                warn!(reason, "the NATS servers cannot be reached; trying again");
            }
            Err(error) => return Err(error),
        }
        let bus = NatsBus::connect_later(&config).await?;
        let (mut status, checked) = (bus.status(), bus.clone());
        tokio::spawn(async move {
            if status.wait_for(|it| it.connected).await.is_ok()
                && let Err(error) = checked.check_servers().await
            {
                error!(%error, "the servers of the fleet cannot be used");
            }
        });
        Ok((bus, ConnectionTime::Later))
    }

    /// Connects, and waits for servers that are away.
    pub(crate) async fn connect(&self, name: &str) -> Result<NatsBus, BusError> {
        let mut is_reported = false;
        loop {
            match NatsBus::connect(&self.config(name)).await {
                Ok(bus) => return Ok(bus),
                Err(BusError::Unavailable(reason)) => {
                    if !std::mem::replace(&mut is_reported, true) {
                        warn!(reason, "the NATS servers cannot be reached; trying again");
                    }
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl ServedFleetArgs {
    /// The servers; none if the sessions of this machine are served.
    pub(crate) fn servers(&self) -> Option<NatsArgs> {
        let Self { nats, creds, ca, cert, key, gateway_name: _ } = self.clone();
        (!nats.is_empty()).then_some(NatsArgs { nats, creds, ca, cert, key })
    }
}
