//! Reading entries, within limits.
//!
//! Entries are in two tables: compacted ones in segments, the others in rows of their own. A row at or
//! below the session's `compacted` number is obsolete: a segment holds the entry, or it was removed.
//!
//! SQLite reads the whole value of a column that a query selects. An entry that is larger than the
//! limit is therefore not selected at all; its reader gets it in parts.

use bytes::Bytes;
use rusqlite::blob::Blob;
use rusqlite::{Connection, MAIN_DB, OptionalExtension as _, Row, params};

use crate::columns::{self, number};
use crate::error::Error;
use crate::id::{Seq, SessionId, SessionKey};
use crate::query::{self, SessionHead};
use crate::records::{Entry, EntryHead, origin_from_code};
use crate::segment::{Segment, SegmentStream};

/// The decompressed size above which a segment is read as a stream.
const STREAMED_SEGMENT: u64 = 1 << 20;

/// How much is given of an entry that is longer than its reader wants.
const BEGINNING: usize = 4 << 10;

/// How much to read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadLimit {
    pub(crate) entries: usize,
    /// The number of bytes of all entries together.
    pub(crate) bytes: usize,
    /// The size of an entry above which only its beginning is given.
    pub(crate) longest: usize,
}

impl ReadLimit {
    /// The size up to which an entry is given whole. A beginning would not be shorter than that.
    pub(crate) fn longest(self) -> usize {
        self.longest.max(BEGINNING)
    }
}

/// Consecutive entries of a session, within a limit.
#[derive(Debug)]
pub(crate) struct EntryPage {
    pub(crate) key: SessionKey,
    pub(crate) entries: Vec<Entry>,
    /// The next entry, if it alone is larger than the limit. There are no other entries then.
    pub(crate) large: Option<EntryHead>,
    /// The last entry of the session at the time.
    pub(crate) last: Seq,
}

/// The entries after `after`, in order.
pub(crate) fn page(
    connection: &Connection,
    session: SessionId,
    after: Seq,
    limit: ReadLimit,
) -> Result<EntryPage, Error> {
    // One snapshot: an entry may move from its row to a segment at any time.
    let snapshot = connection.unchecked_transaction()?;
    let SessionHead { key, last, compacted, .. } =
        query::head(&snapshot, session)?.ok_or(Error::NoSuchSession(session))?;
    let mut collector = EntryCollector::new(limit);
    if after < compacted {
        segment_entries(&snapshot, key, after, &mut collector)?;
    }
    if !collector.full {
        own_rows(&snapshot, key, after.max(compacted), &mut collector)?;
    }
    Ok(EntryPage { key, entries: collector.entries, large: collector.large, last })
}

/// The entries after `after` in a transaction of the caller: at least one if there is any, however large it
/// is.
pub(crate) fn page_in(
    connection: &Connection,
    head: SessionHead,
    after: Seq,
    limit: ReadLimit,
) -> Result<Vec<Entry>, Error> {
    let mut collector = EntryCollector::new(limit);
    if after < head.compacted {
        segment_entries(connection, head.key, after, &mut collector)?;
    }
    if !collector.full {
        own_rows(connection, head.key, after.max(head.compacted), &mut collector)?;
    }
    let Some(large) = collector.large else { return Ok(collector.entries) };
    let size = usize::try_from(large.size).unwrap_or(usize::MAX);
    let bytes = if large.seq > head.compacted {
        own_row_part(connection, head.key, large.seq, 0, size)?
    } else {
        segment_part(connection, head.key, large.seq, 0, size)?
    };
    Ok(vec![large.with_bytes(bytes.unwrap_or_default().into())])
}

/// At most `most` bytes of an entry from `offset` on. `None` if there is no such entry.
pub(crate) fn part(
    connection: &Connection,
    session: SessionId,
    seq: Seq,
    offset: u64,
    most: usize,
) -> Result<Option<Vec<u8>>, Error> {
    let snapshot = connection.unchecked_transaction()?;
    let head = query::head(&snapshot, session)?.ok_or(Error::NoSuchSession(session))?;
    if seq > head.compacted {
        own_row_part(&snapshot, head.key, seq, offset, most)
    } else {
        segment_part(&snapshot, head.key, seq, offset, most)
    }
}

/// Entries in rows of their own, after `after`: at least one, however large it is.
pub(crate) fn uncompacted(
    connection: &Connection,
    key: SessionKey,
    after: Seq,
    limit: ReadLimit,
) -> Result<Vec<Entry>, Error> {
    let mut collector = EntryCollector::new(limit);
    own_rows(connection, key, after, &mut collector)?;
    if let Some(large) = collector.large {
        let size = usize::try_from(large.size).unwrap_or(usize::MAX);
        let bytes = own_row_part(connection, key, large.seq, 0, size)?;
        return Ok(vec![large.with_bytes(bytes.unwrap_or_default().into())]);
    }
    Ok(collector.entries)
}

impl EntryHead {
    /// The entry with its bytes, or with the beginning of them.
    pub(crate) fn with_bytes(self, bytes: Bytes) -> Entry {
        let Self { seq, at, origin, continues, size } = self;
        let omitted = usize::try_from(size).unwrap_or(usize::MAX).saturating_sub(bytes.len());
        Entry { seq, at, origin, bytes, continues, omitted }
    }
}

/// The entries read so far, and how many more are wanted.
struct EntryCollector {
    entries: Vec<Entry>,
    large: Option<EntryHead>,
    limit: ReadLimit,
    bytes_left: usize,
    full: bool,
}

impl EntryCollector {
    fn new(limit: ReadLimit) -> Self {
        let full = limit.entries == 0;
        Self { entries: Vec::new(), large: None, limit, bytes_left: limit.bytes, full }
    }

    /// How many bytes of the next entry are wanted; `None` if it is not.
    fn wanted(&mut self, head: &EntryHead) -> Option<usize> {
        let size = usize::try_from(head.size).unwrap_or(usize::MAX);
        let wanted = if size > self.limit.longest() { BEGINNING } else { size };
        if !self.full && wanted > self.bytes_left {
            self.full = true;
            if self.entries.is_empty() {
                self.large = Some(*head);
            }
        }
        (!self.full).then_some(wanted)
    }

    fn take(&mut self, entry: Entry) {
        self.bytes_left = self.bytes_left.saturating_sub(entry.bytes.len());
        self.entries.push(entry);
        self.full = self.entries.len() >= self.limit.entries;
    }
}

fn segment_entries(
    connection: &Connection,
    key: SessionKey,
    after: Seq,
    collector: &mut EntryCollector,
) -> Result<(), Error> {
    let mut query = connection.prepare_cached(
        "SELECT raw, CASE WHEN raw <= ?3 THEN bytes END, row FROM segment
         WHERE row > ?1 AND row <= ?2 ORDER BY row",
    )?;
    let mut rows = query.query(params![key.row(after), key.end(), number(STREAMED_SEGMENT)])?;
    while !collector.full
        && let Some(row) = rows.next()?
    {
        if columns::unsigned(row, 0)? > STREAMED_SEGMENT {
            stream_segment(connection, row, after, collector)?;
            continue;
        }
        for entry in entries_of_segment(row)? {
            let head = entry.head();
            if entry.seq > after
                && let Some(wanted) = collector.wanted(&head)
            {
                collector.take(if wanted < entry.bytes.len() {
                    // A copy, because a slice would keep the whole segment in memory.
                    head.with_bytes(Bytes::copy_from_slice(&entry.bytes[..wanted]))
                } else {
                    entry
                });
            }
        }
    }
    Ok(())
}

/// Takes entries from a large segment. A segment ends with its large entry, so what comes before
/// that is small.
fn stream_segment(
    connection: &Connection,
    row: &Row<'_>,
    after: Seq,
    collector: &mut EntryCollector,
) -> Result<(), Error> {
    let (heads, mut stream) = open_segment(connection, row.get(2)?, columns::unsigned(row, 0)?)?;
    for head in heads {
        if head.seq <= after {
            stream.skip(head.size)?;
        } else if let Some(wanted) = collector.wanted(&head) {
            let bytes = stream.read(wanted)?;
            collector.take(head.with_bytes(bytes.into()));
            if collector.full {
                break;
            }
            stream.skip(head.size - wanted as u64)?;
        } else {
            break;
        }
    }
    Ok(())
}

fn open_segment(
    connection: &Connection,
    row: i64,
    raw: u64,
) -> Result<(Vec<EntryHead>, SegmentStream<Blob<'_>>), Error> {
    let bytes = connection.blob_open(MAIN_DB, c"segment", c"bytes", row, true)?;
    SegmentStream::open(usize::try_from(raw).unwrap_or(usize::MAX), bytes)
}

fn segment_part(
    connection: &Connection,
    key: SessionKey,
    seq: Seq,
    offset: u64,
    most: usize,
) -> Result<Option<Vec<u8>>, Error> {
    let mut query = connection.prepare_cached(
        "SELECT row, raw FROM segment WHERE row >= ?1 AND row <= ?2 ORDER BY row LIMIT 1",
    )?;
    let found = query.query_row([key.row(seq), key.end()], |row| {
        Ok((row.get::<_, i64>(0)?, columns::unsigned(row, 1)?))
    });
    let Some((row, raw)) = found.optional()? else { return Ok(None) };
    let (heads, mut stream) = open_segment(connection, row, raw)?;
    for head in heads {
        if head.seq == seq {
            let offset = offset.min(head.size);
            let left = usize::try_from(head.size - offset).unwrap_or(usize::MAX);
            stream.skip(offset)?;
            return stream.read(most.min(left)).map(Some);
        }
        stream.skip(head.size)?;
    }
    Ok(None)
}

/// The entries of a segment, from its columns `raw` and `bytes`.
pub(crate) fn entries_of_segment(row: &Row<'_>) -> Result<Vec<Entry>, Error> {
    let raw = usize::try_from(columns::unsigned(row, 0)?).unwrap_or(usize::MAX);
    let bytes = row.get_ref(1)?.as_blob().map_err(|error| Error::corrupt(error.to_string()))?;
    Segment::decompress(raw, bytes)
}

fn own_rows(
    connection: &Connection,
    key: SessionKey,
    after: Seq,
    collector: &mut EntryCollector,
) -> Result<(), Error> {
    let mut query = connection.prepare_cached(
        "SELECT row, at, origin, length(bytes), CASE WHEN length(bytes) <= ?3 THEN bytes END
         FROM entry WHERE row > ?1 AND row <= ?2 ORDER BY row",
    )?;
    let most = number(collector.limit.bytes.min(collector.limit.longest()) as u64);
    let mut rows = query.query(params![key.row(after), key.end(), most])?;
    while !collector.full
        && let Some(row) = rows.next()?
    {
        let head = entry_head(row)?;
        let Some(wanted) = collector.wanted(&head) else { break };
        let bytes = if wanted as u64 == head.size {
            let bytes =
                row.get_ref(4)?.as_blob().map_err(|error| Error::corrupt(error.to_string()))?;
            Bytes::copy_from_slice(bytes)
        } else {
            own_row_part(connection, key, head.seq, 0, wanted)?.unwrap_or_default().into()
        };
        collector.take(head.with_bytes(bytes));
    }
    Ok(())
}

/// What is known of an entry from the columns `row`, `at`, `origin` and the length of `bytes`.
fn entry_head(row: &Row<'_>) -> Result<EntryHead, Error> {
    let (_, seq) = SessionKey::from_row(row.get(0)?);
    let code = row.get(2).ok().and_then(origin_from_code);
    let (origin, continues) =
        code.ok_or_else(|| Error::corrupt("an entry has an unknown origin"))?;
    let size = columns::unsigned(row, 3)?;
    Ok(EntryHead { seq, at: columns::unsigned(row, 1)?, origin, continues, size })
}

fn own_row_part(
    connection: &Connection,
    key: SessionKey,
    seq: Seq,
    offset: u64,
    most: usize,
) -> Result<Option<Vec<u8>>, Error> {
    let row = key.row(seq);
    let exists = connection.prepare_cached("SELECT 1 FROM entry WHERE row = ?1")?.exists([row])?;
    if !exists {
        return Ok(None);
    }
    let bytes = connection.blob_open(MAIN_DB, c"entry", c"bytes", row, true)?;
    let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
    let mut part = vec![0; most.min(bytes.len() - offset)];
    bytes.read_at_exact(&mut part, offset)?;
    Ok(Some(part))
}

/// The last segment of a session if its decompressed size is below `size`: the number of its last
/// entry, and its entries.
pub(crate) fn last_segment_below(
    connection: &Connection,
    key: SessionKey,
    size: usize,
) -> Result<Option<(Seq, Vec<Entry>)>, Error> {
    let mut query = connection.prepare_cached(
        "SELECT raw, CASE WHEN raw < ?3 THEN bytes END, row FROM segment
         WHERE row > ?1 AND row <= ?2 ORDER BY row DESC LIMIT 1",
    )?;
    let mut rows = query.query(params![key.row(Seq(0)), key.end(), number(size as u64)])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    if columns::unsigned(row, 0)? >= size as u64 {
        return Ok(None);
    }
    let (_, last) = SessionKey::from_row(row.get(2)?);
    Ok(Some((last, entries_of_segment(row)?)))
}
