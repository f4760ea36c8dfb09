//! `towpath serve tokens`: manages access tokens.

use std::io::{self, Write as _};
use std::path::Path;

use anstream::eprintln;
use gateway::access::{Role, TokenStore};

use super::ServeError;
use super::arguments::TokensCommand;
use super::lock::ServerLock;
use crate::clock::now;
use crate::exit::CommandStatus;

pub(super) fn run(command: &TokensCommand, data: &Path) -> Result<CommandStatus, ServeError> {
    let store = TokenStore::open(data)?;
    let mut stdout = io::stdout().lock();
    let written = match command {
        TokensCommand::Add { name, role, shell } => {
            let secret = if *shell {
                store.add_with_shell(name, (*role).into(), now())?
            } else {
                store.add(name, (*role).into(), now())?
            };
            eprintln!("append `/#token=…` to the server's address, or use it as a bearer token:");
            writeln!(stdout, "{}", secret.reveal())
        }
        TokensCommand::List => store.tokens()?.iter().try_for_each(|token| {
            let role = match token.role {
                Role::Watch => "watch",
                Role::Drive => "drive",
                Role::Admin => "admin",
            };
            let shell = if token.shell { "\tshell" } else { "" };
            writeln!(stdout, "{}\t{role}{shell}", token.name)
        }),
        TokensCommand::Revoke { name } => {
            if !store.revoke(name)? {
                eprintln!("there is no token `{name}`");
                return Ok(CommandStatus::Negative);
            }
            ServerLock::notify_tokens_changed(data)?;
            Ok(())
        }
    };
    // The reader of the output may have closed it early.
    Ok(if written.is_ok() { CommandStatus::Success } else { CommandStatus::Error })
}
