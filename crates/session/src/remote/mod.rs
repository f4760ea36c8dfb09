//! Sessions that another process on this machine drives.
//!
//! One process owns a session at a time (see [`Ownership`](crate::shim::Ownership)). While it does,
//! it listens on a Unix socket in the session's live directory, and other processes of the same
//! user send their commands there. They read the journal themselves, so only commands and their
//! results go over the socket.
//!
//! ```text
//!   towpath serve: Owner ◄── owner.sock ── RemoteOwner: towpath run, acp, telegram
//!         │                                    │
//!         └───────────► journal ◄──────────────┘ (reads)
//! ```
//!
//! A [`Session`](crate::Session) is the same on both sides: its commands arrive either at an owner
//! or at a [`RemoteOwner`], which passes them on. If the owner goes away, the remote owner waits for
//! the next one, and sends the commands that have no result yet again. Each command has the same
//! effect whether it arrives once or twice: prompts have ids, an interrupt names its turn, and a
//! repeated answer finds its own resolution. If no other process takes the session over, this one
//! does.

mod connection;
mod host_search;
mod listener;
mod protocol;
mod remote_owner;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use crate::shim::fits_socket;

pub(crate) use connection::{RemoteConnection, read_line};
pub(crate) use listener::OwnerSocket;
pub(crate) use protocol::to_line;
pub(crate) use remote_owner::{RemoteEnd, RemoteOwner};

/// Where the owner of a session listens: in the session's live directory if that is short enough for
/// a socket, else in `runtime`, a private directory with a short path.
fn owner_socket_path(live: &Path, runtime: &Path) -> PathBuf {
    let inside = live.join("owner.sock");
    if fits_socket(&inside) {
        return inside;
    }
    let session = live.file_name().unwrap_or_default().to_string_lossy();
    runtime.join(format!("owner-{session}.sock"))
}
