//! Entries of the journal on their way to a client, in pieces.
//!
//! A client that takes nothing costs one piece and a position. The entries that were read for it are
//! in leased memory; if they are taken away, they are read again.

use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use journal::{Entry, Error, Follower, Origin, Seq, SessionId};
use tokio::time::timeout;

use super::lines::LineResponse;
use crate::gateway::Gateway;
use crate::limits::{MAX_LINE_BYTES, PIECE_BYTES, READ_BYTES, SMALL_BYTES};
use crate::memory_pool::Leased;

/// How often an idle stream sends a comment, so that both sides notice a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Bytes of a line that become whole groups of base64.
const BASE64_PIECE: usize = PIECE_BYTES / 4 * 3;

/// What an entry costs beside its bytes.
const ENTRY_COST: usize = 64;

/// The entries of a session as bytes for a client.
#[derive(Debug)]
pub(super) struct LineStream {
    gateway: Gateway,
    session: SessionId,
    follower: Follower,
    entries: ReadEntries,
    /// The last entry that was given completely.
    given: Seq,
    /// How many entries were given.
    count: usize,
    part: Option<PartialLine>,
    format: LineFormat,
    started: bool,
    ended: bool,
}

/// How entries are given.
#[derive(Clone, Copy, Debug)]
pub(super) enum LineFormat {
    /// As a page of at most `limit` entries, up to entry `last`.
    Page { limit: usize, last: Seq },
    /// As server-sent events, for as long as the session exists.
    Events,
}

/// Entries that were read and not given yet.
#[derive(Debug)]
enum ReadEntries {
    Few(VecDeque<ReadEntry>),
    Many(Leased<VecDeque<ReadEntry>>),
}

#[derive(Debug)]
enum ReadEntry {
    Whole(Entry),
    /// It is too long to be given; this is its beginning.
    Omitted(Entry),
}

/// How many entries are read at once.
const READ_ENTRIES: usize = 1024;

/// A long line that is being given, and how much of it was.
#[derive(Clone, Copy, Debug)]
struct PartialLine {
    offset: usize,
    is_text: bool,
}

/// What can be done with the entries that were read.
enum NextPiece {
    Give(Vec<u8>),
    /// There are none, or they were taken away.
    Read,
}

impl LineStream {
    pub(super) fn new(
        gateway: Gateway,
        session: SessionId,
        after: Seq,
        format: LineFormat,
    ) -> Self {
        let follower = follow(&gateway, session, after);
        let entries = ReadEntries::Few(VecDeque::new());
        let (count, part, started, ended) = (0, None, false, false);
        let given = after;
        Self { gateway, session, follower, entries, given, count, part, format, started, ended }
    }

    /// The pieces of the body. An error ends it too early, which the client notices.
    pub(super) fn into_pieces(self) -> impl Stream<Item = Result<Bytes, Error>> {
        stream::try_unfold(self, async |mut this| {
            let piece = this.next().await?;
            Ok(piece.map(|piece| (Bytes::from(piece), this)))
        })
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, Error> {
        if self.ended {
            return Ok(None);
        }
        if !self.started {
            self.started = true;
            if let LineFormat::Page { .. } = self.format {
                return Ok(Some(b"{\"lines\":[".to_vec()));
            }
        }
        loop {
            if self.part.is_none() && self.is_complete() {
                return Ok(Some(self.end()));
            }
            if let NextPiece::Give(piece) = self.piece() {
                return Ok(Some(piece));
            }
            match self.format {
                LineFormat::Page { .. } => {
                    let entries = self.read_again().await?;
                    if entries.is_empty() {
                        return Ok(Some(self.end()));
                    }
                    self.store(entries).await?;
                }
                LineFormat::Events => match timeout(HEARTBEAT, self.follower.next()).await {
                    Err(_) => return Ok(Some(b":\n\n".to_vec())),
                    Ok(Ok(entries)) => self.store(entries).await?,
                    // The session was deleted, or the server stops.
                    Ok(Err(Error::Gone)) => return Ok(None),
                    Ok(Err(error)) => return Err(error),
                },
            }
        }
    }

    fn is_complete(&self) -> bool {
        match self.format {
            LineFormat::Page { limit, last } => self.count >= limit || self.given >= last,
            LineFormat::Events => false,
        }
    }

    fn end(&mut self) -> Vec<u8> {
        self.ended = true;
        let more = match self.format {
            LineFormat::Page { limit, last } => self.count >= limit && self.given < last,
            LineFormat::Events => false,
        };
        format!("],\"more\":{more}}}").into_bytes()
    }

    /// Reads behind the last entry that was given. Of long entries there is only the beginning.
    async fn read_again(&self) -> Result<Vec<Entry>, Error> {
        let (journal, given) = (self.gateway.sessions.journal(), self.given);
        journal.read_within(self.session, given, READ_ENTRIES, READ_BYTES, READ_BYTES).await
    }

    /// Keeps entries until they are given, in leased memory unless they are small.
    async fn store(&mut self, entries: Vec<Entry>) -> Result<(), Error> {
        let Some(entries) = self.store_long(entries).await? else { return Ok(()) };
        let cost: usize = entries.iter().map(|it| it.bytes.len() + ENTRY_COST).sum();
        if cost <= SMALL_BYTES {
            self.entries = ReadEntries::Few(whole(entries));
            return Ok(());
        }
        if let Some(lease) = self.gateway.memory.try_lease(cost) {
            self.entries = ReadEntries::Many(lease.send(whole(entries)));
            return Ok(());
        }
        // Entries that wait for memory take memory, so they are read again when there is enough.
        drop(entries);
        let lease = self.gateway.memory.lease(READ_BYTES).await;
        let entries = self.read_again().await?;
        let end = entries.last().map_or(self.given, |it| it.seq);
        self.follower = follow(&self.gateway, self.session, end);
        if let Some(entries) = self.store_long(entries).await? {
            self.entries = ReadEntries::Many(lease.send(whole(entries)));
        }
        Ok(())
    }

    /// Keeps the first entry if it is long. Otherwise, returns the entries before the first long one.
    async fn store_long(&mut self, mut entries: Vec<Entry>) -> Result<Option<Vec<Entry>>, Error> {
        let Some(at) = entries.iter().position(|it| it.omitted > 0) else {
            return Ok(Some(entries));
        };
        if at > 0 {
            entries.truncate(at);
            let end = entries[at - 1].seq;
            self.follower = follow(&self.gateway, self.session, end);
            return Ok(Some(entries));
        }
        let mut entry = entries.swap_remove(0);
        drop(entries);
        self.follower = follow(&self.gateway, self.session, entry.seq);
        let size = entry.bytes.len() + entry.omitted;
        if size > MAX_LINE_BYTES {
            self.entries = ReadEntries::Few([ReadEntry::Omitted(entry)].into());
            return Ok(None);
        }
        let lease = self.gateway.memory.lease(size).await;
        let journal = self.gateway.sessions.journal();
        let bytes = journal.read_part(self.session, entry.seq, 0, size).await?;
        (entry.bytes, entry.omitted) = (bytes.ok_or(Error::Gone)?, 0);
        let entries: VecDeque<_> = [ReadEntry::Whole(entry)].into();
        self.entries = ReadEntries::Many(lease.send(entries));
        Ok(None)
    }

    /// Continues behind the last entry that was given.
    fn rewind(&mut self) {
        self.entries = ReadEntries::Few(VecDeque::new());
        self.follower = follow(&self.gateway, self.session, self.given);
    }

    fn piece(&mut self) -> NextPiece {
        let Self { entries, given, count, part, format, .. } = self;
        let mut writer = PieceWriter { out: Vec::new(), given, count, part, format: *format };
        let done = match entries {
            ReadEntries::Few(entries) => {
                writer.write(entries);
                true
            }
            ReadEntries::Many(leased) => leased.with(|entries| writer.write(entries)).is_some(),
        };
        let piece = writer.out;
        if !piece.is_empty() {
            return NextPiece::Give(piece);
        }
        if done {
            // All were given; their memory is free again.
            self.entries = ReadEntries::Few(VecDeque::new());
        } else {
            self.rewind();
        }
        NextPiece::Read
    }
}

fn follow(gateway: &Gateway, session: SessionId, after: Seq) -> Follower {
    gateway.sessions.journal().follow(session, after).omit_longer_than(READ_BYTES)
}

fn whole(entries: Vec<Entry>) -> VecDeque<ReadEntry> {
    entries.into_iter().map(ReadEntry::Whole).collect()
}

impl ReadEntry {
    fn entry(&self) -> &Entry {
        match self {
            Self::Whole(entry) | Self::Omitted(entry) => entry,
        }
    }
}

/// Writes entries until a piece is full.
struct PieceWriter<'a> {
    out: Vec<u8>,
    given: &'a mut Seq,
    count: &'a mut usize,
    part: &'a mut Option<PartialLine>,
    format: LineFormat,
}

impl PieceWriter<'_> {
    fn write(&mut self, entries: &mut VecDeque<ReadEntry>) {
        while self.out.len() < PIECE_BYTES
            && let Some(entry) = entries.front()
        {
            if let LineFormat::Page { limit, last } = self.format
                && (*self.count >= limit || entry.entry().seq > last)
            {
                return;
            }
            let finished = match entry {
                ReadEntry::Whole(line) => self.write_line(entry, line),
                ReadEntry::Omitted(line) => {
                    self.start(entry);
                    self.write_json(&LineResponse::omitted(line));
                    true
                }
            };
            if finished {
                self.finish();
                *self.given = entry.entry().seq;
                *self.count += 1;
                entries.pop_front();
            }
        }
    }

    /// Writes a line or the next part of a long one. Returns whether it is complete.
    fn write_line(&mut self, entry: &ReadEntry, line: &Entry) -> bool {
        if let Some(mut part) = self.part.take() {
            let finished = self.write_part(line, &mut part);
            *self.part = (!finished).then_some(part);
            finished
        } else if line.bytes.len() > PIECE_BYTES {
            self.start(entry);
            self.start_long(line);
            false
        } else {
            self.start(entry);
            self.write_json(&LineResponse::new(line));
            true
        }
    }

    fn write_json(&mut self, line: &LineResponse) {
        // Structs of numbers and strings always serialise.
        let _ = serde_json::to_writer(&mut self.out, line);
    }

    fn start(&mut self, entry: &ReadEntry) {
        match self.format {
            LineFormat::Page { .. } if *self.count > 0 => self.out.push(b','),
            LineFormat::Page { .. } => {}
            LineFormat::Events => {
                let head = format!(
                    "id: {}\nevent: {}\ndata: ",
                    entry.entry().seq,
                    origin(entry.entry().origin)
                );
                self.out.extend_from_slice(head.as_bytes());
            }
        }
    }

    fn finish(&mut self) {
        if let LineFormat::Events = self.format {
            self.out.extend_from_slice(b"\n\n");
        }
    }

    fn start_long(&mut self, entry: &Entry) {
        let is_text = std::str::from_utf8(&entry.bytes).is_ok();
        let member = if is_text { "line" } else { "base64" };
        let Entry { seq, at, .. } = entry;
        let origin = origin(entry.origin);
        let head = format!("{{\"seq\":{seq},\"at\":{at},\"origin\":\"{origin}\",\"{member}\":\"");
        self.out.extend_from_slice(head.as_bytes());
        *self.part = Some(PartialLine { offset: 0, is_text });
    }

    /// Writes the next part of a long line. Returns whether it was the last one.
    fn write_part(&mut self, entry: &Entry, part: &mut PartialLine) -> bool {
        let rest = entry.bytes.get(part.offset..).unwrap_or_default();
        if part.is_text {
            let mut end = rest.len().min(PIECE_BYTES);
            // A piece ends with a whole character.
            while end < rest.len() && rest[end] & 0xc0 == 0x80 {
                end -= 1;
            }
            escape(&String::from_utf8_lossy(&rest[..end]), &mut self.out);
            part.offset += end;
        } else {
            let end = rest.len().min(BASE64_PIECE);
            self.out.extend_from_slice(BASE64_STANDARD.encode(&rest[..end]).as_bytes());
            part.offset += end;
        }
        let finished = part.offset >= entry.bytes.len();
        if finished {
            self.out.extend_from_slice(b"\"}");
        }
        finished
    }
}

/// Appends the content of a JSON string.
fn escape(text: &str, out: &mut Vec<u8>) {
    let start = out.len();
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(&mut *out, text);
    out.pop();
    out.remove(start);
}

pub(super) fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Agent => "agent",
        Origin::Towpath => "towpath",
        Origin::Sent => "sent",
        Origin::Transcript => "transcript",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use journal::{Entry, Origin, Seq};
    use serde_json::Value;

    use super::{LineFormat, PieceWriter, ReadEntry};
    use crate::limits::PIECE_BYTES;

    fn page(lines: &[Vec<u8>]) -> Value {
        let entry = |(at, line): (usize, &Vec<u8>)| {
            let (seq, origin, continues) = (Seq(at as u64 + 1), Origin::Agent, false);
            let omitted = if line == b"too long" { 92 } else { 0 };
            let bytes = line.clone().into();
            let entry = Entry { seq, at: 5, origin, continues, bytes, omitted };
            if omitted > 0 { ReadEntry::Omitted(entry) } else { ReadEntry::Whole(entry) }
        };
        let mut entries: VecDeque<_> = lines.iter().enumerate().map(entry).collect();
        let (mut given, mut count, mut part) = (Seq(0), 0, None);
        let mut text = Vec::new();
        loop {
            let format = LineFormat::Page { limit: 100, last: Seq(100) };
            let (given, count, part) = (&mut given, &mut count, &mut part);
            let mut writer = PieceWriter { out: Vec::new(), given, count, part, format };
            writer.write(&mut entries);
            if writer.out.is_empty() {
                break;
            }
            assert!(writer.out.len() < 8 * PIECE_BYTES);
            text.extend(writer.out);
        }
        serde_json::from_slice(&[b"[", &text[..], b"]"].concat()).unwrap()
    }

    #[test]
    fn long_lines_in_pieces_are_the_same_lines() {
        let text = "\"ä\\\u{1}🐕".repeat(PIECE_BYTES / 3);
        let mut bytes = text.clone().into_bytes();
        bytes.push(0xff);
        let lines =
            [b"{}".to_vec(), text.clone().into_bytes(), bytes.clone(), b"too long".to_vec()];
        let page = page(&lines);
        assert_eq!(page[0]["line"], "{}");
        assert_eq!(page[1]["line"].as_str(), Some(&*text));
        let decoded = base64::Engine::decode(
            &base64::prelude::BASE64_STANDARD,
            page[2]["base64"].as_str().unwrap(),
        );
        assert_eq!(decoded.unwrap(), bytes);
        assert_eq!((&page[3]["omitted"], page[3]["bytes"].as_u64()), (&true.into(), Some(100)));
        assert_eq!(page[3]["line"], Value::Null);
    }
}
