//! The session host of a data directory: a process that drives sessions for clients that may go away.
//!
//! A client such as an editor's relay lives as long as its editor. A turn that it started should go
//! on without it, and a permission request should wait until the client is back. So such a client
//! does not drive its sessions itself: it asks the session host to open them, and sends its commands
//! to the host as a client of a session that another process drives does.
//!
//! ```text
//!   client ── open ──► host.sock: session host ── owns ──► session
//!     └────────────────────── commands ────────────────► owner.sock
//! ```
//!
//! `towpath serve` is a session host while it runs. Otherwise a client starts a *background host*, a
//! detached process that exits when its sessions have nothing left to do. A data directory has one
//! session host at a time: it holds the [`HostLock`]. A server that starts asks a background host to
//! leave; the agents go on under their shims, and the server takes them over.

mod background;
mod client;
mod launcher;
mod listener;
mod lock;
mod protocol;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::shim::fits_socket;

pub use background::BackgroundHost;
pub use client::{HostClient, HostError};
pub(crate) use launcher::HostLauncher;
pub use listener::{HostListener, SessionHost};
pub use lock::HostLock;
pub use protocol::{AgentLaunch, HostKind, HostStatus};

/// The only command-line argument in front of the options with which this program runs as a
/// background host.
pub const COMMAND: &str = "host";

/// The directory with the host's socket and lock, which also has the live directories of sessions.
fn live_root(data: &Path) -> PathBuf {
    data.join("live")
}

/// Where the session host of a data directory listens: below it if that path is short enough for a
/// socket, else in `runtime`, a private directory with a short path.
fn host_socket_path(data: &Path, runtime: &Path) -> PathBuf {
    let inside = live_root(data).join("host.sock");
    if fits_socket(&inside) {
        return inside;
    }
    let digest = Sha256::digest(data.as_os_str().as_encoded_bytes());
    let number = digest.iter().take(8).fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    runtime.join(format!("host-{number:016x}.sock"))
}
