//! `towpath serve tokens`: who may use the server.

use std::io::{self, Write as _};
use std::path::Path;

use anstream::eprintln;
use gateway::access::{Keyring, KeyringError, Role};

use super::arguments::TokenDeed;
use crate::clock::now;
use crate::verdict::Verdict;

/// Runs the command.
pub(super) fn carry_out(deed: &TokenDeed, data: &Path) -> Result<Verdict, KeyringError> {
    let keyring = Keyring::open(data)?;
    let mut stdout = io::stdout().lock();
    let written = match deed {
        TokenDeed::Add { name, role } => {
            let secret = keyring.add(name, (*role).into(), now())?;
            eprintln!(
                "it opens the server as `/#token=…` at the end of its address, or as a bearer token:"
            );
            writeln!(stdout, "{}", secret.reveal())
        }
        TokenDeed::List => keyring.tokens()?.iter().try_for_each(|key| {
            let role = match key.role {
                Role::Watch => "watch",
                Role::Drive => "drive",
                Role::Admin => "admin",
            };
            writeln!(stdout, "{}\t{role}", key.name)
        }),
        TokenDeed::Revoke { name } => {
            if !keyring.revoke(name)? {
                eprintln!("there is no token `{name}`");
                return Ok(Verdict::No);
            }
            Ok(())
        }
    };
    // Whoever reads our output may have seen enough.
    Ok(if written.is_ok() { Verdict::Done } else { Verdict::CouldNotTry })
}
