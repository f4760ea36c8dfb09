//! `towpath play --acp`: an agent of the Agent Client Protocol, version 1, without a model.
//!
//! It behaves as the protocol says, or as badly as a real agent, if it is told to. Each turn is a
//! task; [`AcpPlayer`](player::AcpPlayer) reads stdin and answers everything else.

mod args;
mod calls;
mod misbehavior;
mod options;
mod output;
mod player;
mod script;
mod store;
mod turn;

use std::io::Write as _;

pub use args::{AcpPlayerArgs, AcpPlayerArgsError};

use crate::play::PlayerEnvironment;
use store::AcpPlayerStore;

/// The directory of the sessions, in the home directory.
const DIRECTORY: &str = ".towpath-player";

/// Plays an agent until its stdin is closed, and returns its exit code.
pub async fn run_acp(args: AcpPlayerArgs, environment: PlayerEnvironment) -> u8 {
    if args.help {
        drop(std::io::stdout().write_all(AcpPlayerArgs::help().as_bytes()));
        return 0;
    }
    let directory = args.sessions.clone().unwrap_or_else(|| environment.home.join(DIRECTORY));
    let store = AcpPlayerStore::new(directory);
    if args.sign_in {
        return u8::from(store.sign_in().is_err());
    }
    player::run(args.misbehaviors, store, environment.pace).await
}
