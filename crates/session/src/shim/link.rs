//! An owner's connection to a shim.
//!
//! Orders go out through a task of their own with a short queue, so that giving one never waits for
//! news to be read, and dropping a half-given one cannot cut a frame. The queue empties by itself: a
//! shim reads its owner's orders whatever else it does.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::frame::Unframer;
use super::greeting::{Greeting, OwnerHello, Terms, Version};
use super::news::{News, Told};
use super::order::{LONGEST_WRITE, Order};
use super::place::Place;

/// How long a shim may take to greet. It is busy for a moment when it ends what an agent left.
const GREETING_DEADLINE: Duration = Duration::from_secs(10);

/// How many orders may wait to be sent. When it is full, whoever gives one waits.
const QUEUE: usize = 32;

/// Read at once; the shim's frames of output are about as long.
const CHUNK: usize = 64 << 10;

/// Why nobody could attach.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No shim lives there: see what [remains](super::remains()), and [sweep](super::sweep()).
    #[error("no shim lives there")]
    Nobody,
    /// Somebody else is attached.
    #[error("somebody else is attached to the shim")]
    Owned {
        /// Its process, where known.
        pid: Option<i32>,
    },
    /// Whatever listens there does not speak even the core of the protocol.
    #[error("what listens there is no shim this program understands")]
    Skew,
    /// Whatever listens there belongs to another user.
    #[error("what listens there belongs to user {uid}")]
    Stranger {
        /// The user.
        uid: u32,
    },
    /// The connection failed.
    #[error("could not attach to the shim")]
    Io(#[from] io::Error),
}

/// A connection to a shim, as its one owner. Dropped, what was ordered before still goes out.
#[derive(Debug)]
pub struct Link {
    socket: OwnedReadHalf,
    unframer: Unframer,
    chunk: Vec<u8>,
    orders: Orders,
    writer: JoinHandle<()>,
}

/// The right to give a shim orders; as many as wanted, all of one [`Link`].
#[derive(Clone, Debug)]
pub struct Orders {
    queue: mpsc::Sender<Order>,
    terms: Terms,
}

impl Link {
    /// Attaches to the shim that lives in a session's live directory, to hear its agent's output from
    /// `from` on.
    pub async fn attach(directory: &Path, from: u64) -> Result<(Greeting, Self), AttachError> {
        let register = Place::at(directory).register()?.ok_or(AttachError::Nobody)?;
        let mut socket = match UnixStream::connect(&register.socket).await {
            Ok(socket) => socket,
            Err(error) => {
                return Err(match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        AttachError::Nobody
                    }
                    _ => AttachError::Io(error),
                });
            }
        };
        let uid = socket.peer_cred()?.uid();
        if uid != rustix::process::geteuid().as_raw() {
            return Err(AttachError::Stranger { uid });
        }
        let pid = i32::try_from(std::process::id()).ok();
        let mut hello = Vec::new();
        OwnerHello { version: Version::OURS, from, pid }.put(&mut hello);
        let mut unframer = Unframer::default();
        let exchange = async {
            // A shim that ends just now closes the door instead of answering.
            if socket.write_all(&hello).await.is_err() {
                return Err(AttachError::Nobody);
            }
            greeting(&mut socket, &mut unframer).await
        };
        let greeting = timeout(GREETING_DEADLINE, exchange)
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        let (read, write) = socket.into_split();
        let (queue, orders) = mpsc::channel(QUEUE);
        let link = Self {
            socket: read,
            unframer,
            chunk: vec![0; CHUNK],
            orders: Orders { queue, terms: greeting.terms },
            writer: tokio::spawn(send(orders, write)),
        };
        Ok((greeting, link))
    }

    /// The next news; nothing once the shim is gone. May be given up at any time without a loss.
    pub async fn next(&mut self) -> Option<News> {
        loop {
            match self.unframer.next() {
                Ok(Some(frame)) => match Told::read(frame) {
                    Some(Told::News(news)) => return Some(news),
                    // A later minor version may say what this one has no word for.
                    Some(Told::Hello(_) | Told::Refused(_)) | None => continue,
                },
                Ok(None) => {}
                Err(_) => return None,
            }
            match self.socket.read(&mut self.chunk).await {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.unframer.feed(&self.chunk[..read]),
            }
        }
    }

    /// Gives an order. May be given up; then it was not given.
    pub async fn order(&self, order: Order) -> io::Result<()> {
        self.orders.order(order).await
    }

    /// The right to give orders, for somebody who does not listen.
    pub fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// Leaves once everything ordered so far has gone out. Other [`Orders`] of this link keep it from
    /// ending.
    pub async fn close(self) {
        let Self { orders, writer, socket: _socket, .. } = self;
        drop(orders);
        // It only ends early if it panicked, and then nothing goes out any more.
        let _ = writer.await;
    }
}

impl Orders {
    /// Gives an order. May be given up; then it was not given.
    pub async fn order(&self, order: Order) -> io::Result<()> {
        match (&order, self.terms) {
            (Order::Write { .. } | Order::CloseStdin, Terms::Core) => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "the shim is of another version and can only be listened to and ended",
                ));
            }
            (Order::Write { bytes, .. }, Terms::Full) if bytes.len() > LONGEST_WRITE => {
                let text = format!("a write of {} bytes is too long", bytes.len());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
            _ => {}
        }
        self.queue.send(order).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Sends orders until there are no more or nobody listens.
async fn send(mut orders: mpsc::Receiver<Order>, mut socket: OwnedWriteHalf) {
    let mut out = Vec::new();
    while let Some(order) = orders.recv().await {
        out.clear();
        order.put(&mut out);
        if socket.write_all(&out).await.is_err() {
            return;
        }
        out.shrink_to(CHUNK);
    }
}

async fn greeting(
    socket: &mut UnixStream,
    unframer: &mut Unframer,
) -> Result<Greeting, AttachError> {
    let mut chunk = [0; 4096];
    loop {
        match unframer.next() {
            Ok(Some(frame)) => match Told::read(frame) {
                Some(Told::Hello(hello)) => return Ok(Greeting::of(hello)),
                Some(Told::Refused(refused)) => {
                    return Err(AttachError::Owned { pid: refused.owner });
                }
                Some(Told::News(_)) => return Err(AttachError::Skew),
                None => continue,
            },
            Ok(None) => {}
            Err(_) => return Err(AttachError::Skew),
        }
        match socket.read(&mut chunk).await {
            // It ended between our call and its answer.
            Ok(0) => return Err(AttachError::Nobody),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                return Err(AttachError::Nobody);
            }
            Err(error) => return Err(error.into()),
            Ok(read) => unframer.feed(&chunk[..read]),
        }
    }
}
