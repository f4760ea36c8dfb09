//! Who is attached: what it orders, and what it is still to be told.

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use super::agent::{Flow, read_now};
use super::door::Caller;
use crate::shim::frame::Unframer;
use crate::shim::greeting::{Terms, Version};
use crate::shim::news::{self, News};
use crate::shim::order::{Order, Said};
use crate::shim::spool::Spool;

/// Output is read from the spool in pieces of this length, and only when the piece before is gone.
const PIECE: usize = 64 << 10;

/// While more than this waits to be sent, what is best effort is left out.
const CROWDED: usize = 256 << 10;

/// Who lets more than this wait does not read what it caused, and is left.
const FLOODED: usize = 4 << 20;

/// How much is read from it in a row, so that it cannot keep the shim from everybody else.
const TURN: usize = 1 << 20;

/// The owner.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) socket: UnixStream,
    pub(super) pid: Option<i32>,
    unframer: Unframer,
    terms: Terms,
    out: Vec<u8>,
    sent: usize,
    /// How far it has been sent the output.
    cursor: u64,
    /// The last write it was told of.
    written: u64,
    /// It was told of the agent's end.
    knows_exit: bool,
    /// When it last took something.
    pub(super) moved: Instant,
}

/// Whether an owner is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is.
    Here,
    /// It has gone.
    Gone,
}

impl Owner {
    pub(super) fn new(caller: Caller, spool: &Spool, now: Instant) -> Self {
        let Caller { socket, unframer, hello } = caller;
        Self {
            socket,
            pid: hello.pid,
            unframer,
            terms: Version::OURS.terms_with(hello.version),
            out: Vec::new(),
            sent: 0,
            cursor: hello.from.clamp(spool.start(), spool.end()),
            written: 0,
            knows_exit: false,
            moved: now,
        }
    }

    /// What waits to be sent.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Reads its orders. `buffer` is only room to read into.
    pub(super) fn read(&mut self, buffer: &mut [u8], orders: &mut Vec<Order>) -> Presence {
        let mut read = 0;
        loop {
            loop {
                match self.unframer.next() {
                    Ok(Some(frame)) => match Said::read(frame) {
                        Some(Said::Order(order)) => orders.push(order),
                        // Whoever says hello again, or what this version does not know, is ignored.
                        Some(Said::Hello(_)) | None => {}
                    },
                    Ok(None) => break,
                    Err(_) => return Presence::Gone,
                }
            }
            if read >= TURN {
                return Presence::Here;
            }
            match read_now(&mut self.socket, buffer) {
                Flow::Bytes(more) => {
                    read += more;
                    self.unframer.feed(&buffer[..more]);
                }
                Flow::Dry => return Presence::Here,
                Flow::End => return Presence::Gone,
            }
        }
    }

    /// Whether it may order writes.
    pub(super) fn may_write(&self) -> bool {
        self.terms == Terms::Full
    }

    /// Tells it something, if it is of a version that knows what that is.
    pub(super) fn tell(&mut self, news: &News) {
        let crowded = self.out.len() - self.sent > CROWDED;
        let optional = matches!(news, News::Stderr(_));
        if self.terms == Terms::Full && !(crowded && optional) {
            news.put(&mut self.out);
        }
    }

    /// Whether there is anything to send.
    pub(super) fn awaits(&self, spool: &Spool) -> bool {
        self.sent < self.out.len() || self.cursor < spool.end()
    }

    /// Whether it knows all there is to know.
    pub(super) fn knows_all(&self) -> bool {
        self.knows_exit && self.sent == self.out.len()
    }

    /// Sends what it takes now. `exit` is the agent's, once the spool is complete.
    pub(super) fn send(
        &mut self,
        spool: &mut Spool,
        buffer: &mut [u8],
        written: u64,
        exit: Option<&News>,
        now: Instant,
    ) -> Presence {
        if self.out.len() - self.sent > FLOODED {
            return Presence::Gone;
        }
        let mut turn = 0;
        loop {
            if self.sent == self.out.len() {
                self.out.clear();
                self.out.shrink_to(2 * PIECE);
                self.sent = 0;
                if turn >= TURN {
                    return Presence::Here;
                }
                if written > self.written {
                    self.written = written;
                    self.tell(&News::Written(written));
                }
                let most = buffer.len().min(PIECE);
                match spool.read(self.cursor, &mut buffer[..most]) {
                    Ok(read) if read > 0 => {
                        news::put_output(&mut self.out, self.cursor, &buffer[..read]);
                        self.cursor += read as u64;
                    }
                    Ok(_) if self.cursor < spool.end() => return Presence::Gone,
                    Ok(_) => {
                        if let Some(exit) = exit
                            && !self.knows_exit
                        {
                            self.knows_exit = true;
                            exit.put(&mut self.out);
                        }
                    }
                    // Without the spool nothing can be told; attaching again may find it better.
                    Err(_) => return Presence::Gone,
                }
                if self.out.is_empty() {
                    return Presence::Here;
                }
            }
            match self.socket.write(&self.out[self.sent..]) {
                Ok(more) => {
                    self.sent += more;
                    turn += more;
                    self.moved = now;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Presence::Here,
                Err(_) => return Presence::Gone,
            }
        }
    }
}
