//! Settling: after a turn, what only served streaming goes, and the rest is packed into pages.
//!
//! The reading, deciding and packing happen beside the writer, which only swaps a page in for the
//! rows it holds, one page to a transaction. From then on those rows are dead and are removed in
//! small steps. Whatever is interrupted is simply done again: how far a session is settled is
//! written with each page.

use std::collections::HashSet;

use rusqlite::Connection;

use crate::command::{Change, SettledPage};
use crate::draft::Drafts;
use crate::entry::Entry;
use crate::error::Error;
use crate::id::{Key, Seq, SessionId};
use crate::journal::Journal;
use crate::page::Page;
use crate::query::{self, Portion};

/// How much a page holds before it is packed: enough to compress well, and no more, for a reader
/// that wants one entry unpacks them all.
const PAGE_BYTES: usize = 256 << 10;

/// A page with less than this in it is packed again with what follows: turns may be short.
const PAGE_WITH_ROOM: usize = PAGE_BYTES / 2;

/// How much is read at once.
const PORTION: Portion = Portion { entries: 2048, bytes: 2 << 20 };

/// What a settling did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// The last entry that is settled.
    pub upto: Seq,
    /// How many entries were dropped.
    pub dropped: u64,
    /// How many entries were packed.
    pub packed: u64,
}

/// What a settling is going to do.
struct Plan {
    key: Key,
    from: Seq,
    to: Seq,
    superfluous: HashSet<Seq>,
}

pub(crate) async fn settle(
    journal: &Journal,
    session: SessionId,
    upto: Seq,
) -> Result<Settled, Error> {
    let mut plan = journal.readers().read(move |reader| Plan::make(reader, session, upto)).await?;
    let mut settled = Settled { upto: plan.from, ..Settled::default() };
    while plan.from < plan.to {
        let (next, step) = journal.readers().read(move |reader| plan.next(reader, session)).await?;
        plan = next;
        let (to, packed) = (step.page.to, step.packed);
        let passed = to.0 - step.page.from.0;
        if journal.change(Change::Settle(step.page)).await? != to {
            break;
        }
        settled.upto = to;
        settled.packed += packed;
        settled.dropped += passed - packed;
        plan.from = to;
    }
    Ok(settled)
}

/// One page of a settling.
struct Step {
    page: SettledPage,
    packed: u64,
}

impl Plan {
    /// Decides what goes, from where the session is settled up to the last entry that is calm.
    fn make(connection: &Connection, session: SessionId, upto: Seq) -> Result<Self, Error> {
        let standing =
            query::standing(connection, session)?.ok_or(Error::NoSuchSession(session))?;
        let from = standing.settled;
        let mut drafts = Drafts::default();
        let mut seen = from;
        'all: while seen < upto {
            let entries = query::unsettled(connection, standing.key, seen, PORTION)?;
            if entries.is_empty() {
                break;
            }
            for entry in entries {
                if entry.seq > upto {
                    break 'all;
                }
                drafts.look_at(&entry);
                seen = entry.seq;
            }
        }
        let to = drafts.calm().unwrap_or(from);
        let superfluous = drafts.superfluous().into_iter().collect();
        Ok(Self { key: standing.key, from, to, superfluous })
    }

    /// Packs the next page.
    fn next(self, connection: &Connection, session: SessionId) -> Result<(Self, Step), Error> {
        let snapshot = connection.unchecked_transaction()?;
        let before = query::page_with_room(&snapshot, self.key, PAGE_WITH_ROOM)?;
        let replaces = before.as_ref().map(|(last, _)| *last);
        let mut page = before.map(|(_, entries)| entries).unwrap_or_default();
        let already = page.len();
        let mut bytes: usize = page.iter().map(|entry| entry.bytes.len()).sum();
        let mut to = self.from;
        while bytes < PAGE_BYTES && to < self.to {
            let entries = query::unsettled(&snapshot, self.key, to, PORTION)?;
            if entries.is_empty() {
                // Somebody else settled meanwhile; the writer will not take what is made here.
                to = self.to;
            }
            for entry in entries {
                // An entry that is a page by itself does not share one.
                let alone = entry.bytes.len() >= PAGE_BYTES && page.len() > already;
                if entry.seq > self.to || bytes >= PAGE_BYTES || alone {
                    bytes = PAGE_BYTES;
                    break;
                }
                to = entry.seq;
                if !self.superfluous.contains(&entry.seq) {
                    bytes += entry.bytes.len();
                    page.push(entry);
                }
            }
        }
        let packed = (page.len() - already) as u64;
        let replaces = replaces.filter(|_| packed > 0);
        let page = if packed == 0 { None } else { Some(pack(&page)?) };
        let from = self.from;
        Ok((self, Step { page: SettledPage { session, from, to, replaces, page }, packed }))
    }
}

fn pack(entries: &[Entry]) -> Result<(Seq, Page), Error> {
    let last = entries.last().map_or(Seq(0), |entry| entry.seq);
    let page = Page::pack(entries)
        .map_err(|error| Error::io(std::path::Path::new("a page in memory"), error))?;
    Ok((last, page))
}
