//! `towpath sessions move`: has a worker of a fleet take a session over.

use std::io::{self, Write as _};
use std::time::Duration;

use clap::Args;
use fleet::bus::nats::NatsBus;
use fleet::bus::{Bus as _, BusError};
use fleet::question::{WorkerFailure, WorkerQuestion, decode_answer};
use journal::SessionId;
use serde_json::json;

use super::{SessionLookupError, SessionsError};
use crate::fleet::NatsArgs;

/// How long the worker may take: the one before finishes first.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(90);

/// The name of this command among the connections of the servers.
const CONNECTION_NAME: &str = "fleet-admin";

/// Move a session of a fleet to another worker, or take it over from one that is away
///
/// If the worker that has the session is connected, it interrupts a running turn and gives the session away
/// with everything. If it is away, the session goes on with what the servers have, and the other worker's
/// agent is ended when it is back. Needs credentials that may ask workers.
#[derive(Args, Clone, Debug)]
pub(super) struct MoveArgs {
    /// The session, or the beginning of its id
    id: String,
    /// The worker that takes it over
    #[arg(long, value_name = "WORKER")]
    to: String,
    #[command(flatten)]
    servers: NatsArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Why a session was not moved.
#[derive(Debug, thiserror::Error)]
pub(super) enum MoveError {
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("worker `{0}` is not connected")]
    NotConnected(String),
    #[error(transparent)]
    Worker(#[from] WorkerFailure),
}

pub(super) async fn run(args: &MoveArgs) -> Result<(), SessionsError> {
    let bus = NatsBus::connect(&args.servers.config(CONNECTION_NAME)).await;
    let bus = bus.map_err(MoveError::from)?;
    let prefix = args.id.to_lowercase();
    let logs = bus.logs().await.map_err(MoveError::from)?;
    let matching =
        logs.into_iter().map(|(id, _)| id).filter(|id| id.to_string().starts_with(&prefix));
    let matching: Vec<SessionId> = matching.collect();
    let session = match matching[..] {
        [session] => session,
        [] => return Err(SessionLookupError::NotFound(args.id.clone()).into()),
        _ => return Err(SessionLookupError::Ambiguous(args.id.clone(), matching.len()).into()),
    };
    let question = WorkerQuestion::TakeOver { session }.encode();
    let answer =
        bus.ask(&args.to, question, ANSWER_TIMEOUT).await.map_err(|error| match error {
            BusError::NoListener => MoveError::NotConnected(args.to.clone()),
            error => error.into(),
        })?;
    decode_answer(&answer).map_err(MoveError::from)?;
    if args.json {
        let object = json!({ "session": session, "worker": args.to });
        writeln!(io::stdout().lock(), "{object}")?;
    } else {
        writeln!(anstream::stdout().lock(), "Session {session} is on worker {}.", args.to)?;
    }
    Ok(())
}

impl MoveError {
    pub(super) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Bus(BusError::Denied(_)) => {
                "give credentials that may ask workers with `--creds`, such as those of the fleet's \
                 administrator"
            }
            Self::Bus(BusError::Unavailable(_)) => {
                "start the servers, or give their addresses with `--nats`"
            }
            Self::NotConnected(_) => "`towpath fleet status` lists the workers that are connected",
            Self::Bus(_) | Self::Worker(_) => return None,
        };
        Some(hint.to_owned())
    }
}
