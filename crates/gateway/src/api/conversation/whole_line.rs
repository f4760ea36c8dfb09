//! One line of the journal, however long, on its way to a client.

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use journal::{Error, Seq, SessionId};

use crate::gateway::Gateway;
use crate::limits::{PIECE_BYTES, SMALL_BYTES};
use crate::memory_pool::Leased;

/// How much of the line is read at once.
const PART_BYTES: usize = 4 << 20;

/// The bytes of a line.
#[derive(Debug)]
pub(super) struct WholeLine {
    gateway: Gateway,
    session: SessionId,
    seq: Seq,
    length: usize,
    /// How much was given.
    offset: usize,
    /// A part that was read, and where it starts.
    part: Option<(usize, Leased<Bytes>)>,
}

impl WholeLine {
    /// Finds a line; `None` if there is no such one.
    pub(super) async fn find(
        gateway: Gateway,
        session: SessionId,
        seq: Seq,
    ) -> Result<Option<Self>, Error> {
        let Some(before) = seq.0.checked_sub(1) else { return Ok(None) };
        let journal = gateway.sessions.journal();
        let entries = journal.read_within(session, Seq(before), 1, 1, SMALL_BYTES).await?;
        let Some(entry) = entries.into_iter().next().filter(|it| it.seq == seq) else {
            return Ok(None);
        };
        let length = entry.bytes.len() + entry.omitted;
        Ok(Some(Self { gateway, session, seq, length, offset: 0, part: None }))
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// The pieces of the body. An error ends it too early, which the client notices.
    pub(super) fn into_pieces(self) -> impl Stream<Item = Result<Bytes, Error>> {
        stream::try_unfold(self, async |mut this| Ok(this.next().await?.map(|it| (it, this))))
    }

    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while self.offset < self.length {
            let offset = self.offset;
            let piece = self.part.as_ref().and_then(|(start, part)| {
                part.with(|bytes| {
                    let from = (offset - start).min(bytes.len());
                    let to = (from + PIECE_BYTES).min(bytes.len());
                    // A copy, so that the part is free when it is taken away.
                    Bytes::copy_from_slice(&bytes[from..to])
                })
            });
            if let Some(piece) = piece.filter(|it| !it.is_empty()) {
                self.offset += piece.len();
                return Ok(Some(piece));
            }
            self.part = None;
            let lease = self.gateway.memory.lease(PART_BYTES).await;
            let journal = self.gateway.sessions.journal();
            let part = journal.read_part(self.session, self.seq, offset, PART_BYTES).await?;
            let part = part.filter(|it| !it.is_empty()).ok_or(Error::Gone)?;
            self.part = Some((offset, lease.send(part)));
        }
        Ok(None)
    }
}
