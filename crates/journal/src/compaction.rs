//! Compaction: after a turn, redundant deltas are removed and the other entries are compressed into
//! segments.
//!
//! Reading, deciding and compressing happen outside the writer thread, which only inserts a segment
//! per transaction. From then on the rows of its entries are obsolete, and maintenance deletes them in
//! small steps. An interrupted compaction is simply done again: how far a session is compacted is
//! stored with each segment.
//!
//! Which entries are removed depends on the order of lines alone, never on how many are compacted at
//! once: a compaction only goes up to a [boundary](DeltaFilter::boundary) between two messages.

use std::collections::HashSet;

use rusqlite::Connection;

use crate::delta_filter::DeltaFilter;
use crate::entries::{self, ReadLimit};
use crate::error::Error;
use crate::id::{Seq, SessionId, SessionKey};
use crate::journal::Journal;
use crate::query;
use crate::records::Entry;
use crate::segment::Segment;
use crate::writer::{Mutation, NewSegment};

/// The size of a segment before compression: enough to compress well, and no more, because a reader
/// decompresses the whole segment for one entry.
const SEGMENT_BYTES: usize = 256 << 10;

/// A smaller segment is compressed again together with what follows, because turns can be short.
const SMALL_SEGMENT: usize = SEGMENT_BYTES / 2;

/// How much is read at once.
const READ_LIMIT: ReadLimit = ReadLimit { entries: 2048, bytes: 2 << 20, longest: usize::MAX };

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionStats {
    /// The last entry that is compacted.
    pub upto: Seq,
    /// How many entries were removed.
    pub removed: u64,
    /// How many entries were compressed.
    pub compressed: u64,
}

/// The entries to compact.
struct CompactionPlan {
    key: SessionKey,
    from: Seq,
    to: Seq,
    redundant: HashSet<Seq>,
}

pub(crate) async fn compact(
    journal: &Journal,
    session: SessionId,
    upto: Seq,
) -> Result<CompactionStats, Error> {
    let mut plan =
        journal.readers().read(move |reader| CompactionPlan::make(reader, session, upto)).await?;
    let mut stats = CompactionStats { upto: plan.from, ..CompactionStats::default() };
    while plan.from < plan.to {
        let (next, step) = journal.readers().read(move |reader| plan.next(reader, session)).await?;
        plan = next;
        let (to, compressed) = (step.segment.to, step.compressed);
        let passed = to.0 - step.segment.from.0;
        if journal.change(Mutation::Compact(step.segment)).await? != to {
            break;
        }
        stats.upto = to;
        stats.compressed += compressed;
        stats.removed += passed - compressed;
        plan.from = to;
    }
    Ok(stats)
}

/// One segment of a compaction.
struct CompactionStep {
    segment: NewSegment,
    compressed: u64,
}

impl CompactionPlan {
    /// Selects the entries from where the session is compacted up to the last boundary.
    fn make(connection: &Connection, session: SessionId, upto: Seq) -> Result<Self, Error> {
        let head = query::head(connection, session)?.ok_or(Error::NoSuchSession(session))?;
        let from = head.compacted;
        let mut filter = DeltaFilter::default();
        let mut seen = from;
        'all: while seen < upto {
            let entries = entries::uncompacted(connection, head.key, seen, READ_LIMIT)?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                if entry.seq > upto {
                    break 'all;
                }
                filter.observe(&entry);
                seen = entry.seq;
            }
        }
        let to = filter.boundary().unwrap_or(from);
        let redundant = filter.redundant().into_iter().collect();
        Ok(Self { key: head.key, from, to, redundant })
    }

    /// Compresses the next segment.
    fn next(
        self,
        connection: &Connection,
        session: SessionId,
    ) -> Result<(Self, CompactionStep), Error> {
        let snapshot = connection.unchecked_transaction()?;
        let before = entries::last_segment_below(&snapshot, self.key, SMALL_SEGMENT)?;
        if before.as_ref().is_some_and(|(last, _)| *last > self.from) {
            // Another task compacted the session; the writer will discard this step.
            let (from, to) = (self.from, self.to);
            let segment = NewSegment { session, from, to, replaces: None, segment: None };
            return Ok((self, CompactionStep { segment, compressed: 0 }));
        }
        let replaces = before.as_ref().map(|(last, _)| *last);
        let mut entries = before.map(|(_, entries)| entries).unwrap_or_default();
        let included = entries.len();
        let mut bytes: usize = entries.iter().map(|entry| entry.bytes.len()).sum();
        let mut to = self.from;
        while bytes < SEGMENT_BYTES && to < self.to {
            let next = entries::uncompacted(&snapshot, self.key, to, READ_LIMIT)?;
            if next.is_empty() {
                // Another process compacted the session; the writer will discard this segment.
                to = self.to;
            }
            for entry in next {
                // An entry as large as a segment gets one of its own.
                let alone = entry.bytes.len() >= SEGMENT_BYTES && entries.len() > included;
                if entry.seq > self.to || bytes >= SEGMENT_BYTES || alone {
                    bytes = SEGMENT_BYTES;
                    break;
                }
                to = entry.seq;
                if !self.redundant.contains(&entry.seq) {
                    bytes += entry.bytes.len();
                    entries.push(entry);
                }
            }
        }
        let compressed = (entries.len() - included) as u64;
        let replaces = replaces.filter(|_| compressed > 0);
        let segment = if compressed == 0 { None } else { Some(compress(&entries)?) };
        let from = self.from;
        let segment = NewSegment { session, from, to, replaces, segment };
        Ok((self, CompactionStep { segment, compressed }))
    }
}

fn compress(entries: &[Entry]) -> Result<(Seq, Segment), Error> {
    let last = entries.last().map_or(Seq(0), |entry| entry.seq);
    let segment = Segment::compress(entries)
        .map_err(|error| Error::io(std::path::Path::new("a segment in memory"), error))?;
    Ok((last, segment))
}
