//! Where owners come in.
//!
//! Whoever connects is a guest until it has said hello. Guests are few and must hurry, so that
//! somebody who connects and says nothing keeps nobody out.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::agent::{Flow, read_now};
use crate::shim::frame::Unframer;
use crate::shim::greeting::OwnerHello;
use crate::shim::order::Said;
use crate::shim::place::remove_file;

/// How many may be about to say hello. While there are as many, others wait outside.
const MOST_GUESTS: usize = 8;

/// How long saying hello may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket, and who has come in and not yet said who it is.
#[derive(Debug)]
pub(super) struct Door {
    path: PathBuf,
    listener: UnixListener,
    guests: Vec<Guest>,
}

#[derive(Debug)]
struct Guest {
    socket: UnixStream,
    unframer: Unframer,
    until: Instant,
}

/// Somebody who has said hello.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) socket: UnixStream,
    /// What came behind the hello.
    pub(super) unframer: Unframer,
    pub(super) hello: OwnerHello,
}

impl Door {
    /// Listens at `path`, in a directory of this user's alone. The caller holds the shim's lock, so
    /// what lies there already is a dead shim's.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        remove_file(path)?;
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        Ok(Self { path: path.to_owned(), listener, guests: Vec::new() })
    }

    /// Nobody new can come in.
    pub(super) fn remove(&self) {
        // If it stays, connections to it are refused, which says as much.
        let _ = remove_file(&self.path);
    }

    /// The listener, while there is room for guests.
    pub(super) fn to_poll(&self) -> Option<&UnixListener> {
        (self.guests.len() < MOST_GUESTS).then_some(&self.listener)
    }

    /// The guests' sockets.
    pub(super) fn guests(&self) -> impl Iterator<Item = &UnixStream> {
        self.guests.iter().map(|guest| &guest.socket)
    }

    /// When the first guest has been silent for too long.
    pub(super) fn due(&self) -> Option<Instant> {
        self.guests.iter().map(|guest| guest.until).min()
    }

    /// Lets in who waits outside.
    pub(super) fn admit(&mut self, now: Instant) {
        while self.guests.len() < MOST_GUESTS {
            let Ok((socket, _)) = self.listener.accept() else { return };
            if is_ours(&socket) && socket.set_nonblocking(true).is_ok() {
                self.guests.push(Guest {
                    socket,
                    unframer: Unframer::default(),
                    until: now + PATIENCE,
                });
            }
        }
    }

    /// Hears the guests; gives those that have said hello, and forgets those that have gone or said
    /// anything else.
    pub(super) fn callers(&mut self, now: Instant) -> Vec<Caller> {
        let mut callers = Vec::new();
        for mut guest in std::mem::take(&mut self.guests) {
            let mut chunk = [0; 4096];
            match read_now(&mut guest.socket, &mut chunk) {
                Flow::Bytes(read) => guest.unframer.feed(&chunk[..read]),
                Flow::Dry => {}
                Flow::End => continue,
            }
            match guest.unframer.next() {
                Ok(None) if now < guest.until => self.guests.push(guest),
                Ok(Some(frame)) => {
                    if let Some(Said::Hello(hello)) = Said::read(frame) {
                        let Guest { socket, unframer, .. } = guest;
                        callers.push(Caller { socket, unframer, hello });
                    }
                }
                Ok(None) | Err(_) => {}
            }
        }
        callers
    }
}

/// Whether the other end belongs to this user. Where the system does not say, the directory's mode
/// must do, and does.
fn is_ours(socket: &UnixStream) -> bool {
    #[cfg(target_os = "linux")]
    {
        let peer = rustix::net::sockopt::socket_peercred(socket);
        peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid())
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = socket;
        true
    }
}
