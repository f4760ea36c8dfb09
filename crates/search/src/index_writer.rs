//! Adding lines to the index, and removing them.
//!
//! Lines are collected and written in batches, because every transaction makes a segment of its own that
//! has to be merged with others later.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use journal::{Entry, Origin};
use rusqlite::{Connection, OptionalExtension as _, params};
use wire::{Piece, PieceEnd, Splitter};

use crate::document::{LineContent, SearchRole};
use crate::error::Error;
use crate::index_file::IndexFile;
use crate::message_chunks::JoinedMessage;
use crate::period::IndexPeriod;
use crate::source::{SOURCE_COLUMNS, SourceId, SourceKey, SourceRecord};
use crate::words::TermCollector;

/// Longer lines are pictures and other data, and are left out.
pub(crate) const MAX_LINE: usize = 2 << 20;

/// How much of a file is read at once.
const CHUNK: usize = 1 << 20;

/// How many bytes of lines are collected before they are written.
const BATCH_BYTES: usize = 8 << 20;

/// A message that may go on is indexed anyway if its entries have so many bytes: it might never end.
const MAX_OPEN_BYTES: usize = 1 << 20;

/// How many documents are removed in one transaction.
const REMOVED_AT_ONCE: u32 = 500;

/// How many pages are merged in one transaction.
const MERGED_PAGES: i32 = 500;

/// Rows for each second. Lines are seconds apart, and the closer the rows of a word are, the less space
/// they take. Where there are more lines in a second, the next ones are counted to the next second.
const ROWS_PER_SECOND: u64 = 4;

/// 2000-01-01. Earlier times count as this one.
const FIRST_SECOND: u64 = 946_684_800;

/// Writes the index.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    file: IndexFile,
    inode: Option<u64>,
    connection: Connection,
    terms: TermCollector,
    documents: Vec<NewDocument>,
    advances: Vec<SourceAdvance>,
    bytes: usize,
}

/// A line to be indexed.
#[derive(Debug)]
struct NewDocument {
    source: SourceKey,
    at: u64,
    place: u64,
    length: usize,
    role: SearchRole,
    terms: String,
}

/// How far a source is indexed with the next transaction.
#[derive(Debug)]
struct SourceAdvance {
    source: SourceKey,
    from: u64,
    to: u64,
}

impl IndexWriter {
    /// Opens or creates the index. Blocks, as everything here does.
    pub(crate) fn open(file: IndexFile) -> Result<Self, Error> {
        let connection = file.open_writable()?;
        let inode = file.inode();
        Ok(Self {
            file,
            inode,
            connection,
            terms: TermCollector::default(),
            documents: Vec::new(),
            advances: Vec::new(),
            bytes: 0,
        })
    }

    /// Opens the file again if another process has replaced it, or if it is damaged.
    pub(crate) fn reopen(&mut self, is_damaged: bool) -> Result<(), Error> {
        self.forget_pending();
        if is_damaged {
            self.file.remove()?;
        } else if self.file.inode() == self.inode {
            return Ok(());
        }
        *self = Self::open(self.file.clone())?;
        Ok(())
    }

    fn forget_pending(&mut self) {
        self.documents.clear();
        self.advances.clear();
        self.bytes = 0;
    }

    pub(crate) fn sources(&self) -> Result<Vec<SourceRecord>, Error> {
        let mut query =
            self.connection.prepare_cached(&format!("SELECT {SOURCE_COLUMNS} FROM source"))?;
        let rows = query.query_map([], SourceRecord::read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The record of a source, which is created if there is none.
    pub(crate) fn source(&self, id: &SourceId, inode: u64) -> Result<SourceRecord, Error> {
        let (kind, name) = (id.kind(), id.name());
        self.connection
            .prepare_cached(
                "INSERT OR IGNORE INTO source (kind, name, inode, done) VALUES (?1, ?2, ?3, 0)",
            )?
            .execute(params![kind, name, inode.cast_signed()])?;
        let sql = format!("SELECT {SOURCE_COLUMNS} FROM source WHERE kind = ?1 AND name = ?2");
        let mut query = self.connection.prepare_cached(&sql)?;
        Ok(query.query_row(params![kind, name], SourceRecord::read)?)
    }

    /// Adds entries of a session. They follow what is indexed. A message at their end that may go on is
    /// left for the next time.
    pub(crate) fn add_entries(
        &mut self,
        source: &mut SourceRecord,
        entries: &[Entry],
    ) -> Result<(), Error> {
        let mut rest = entries;
        while let Some(entry) = rest.first() {
            let mut count = 1;
            if let Some(message) = JoinedMessage::read(rest) {
                count = message.pieces;
                let bytes: usize = rest[..count].iter().map(|it| it.bytes.len()).sum();
                if message.is_open && bytes < MAX_OPEN_BYTES {
                    break;
                }
                self.bytes += bytes;
                let terms = self.terms.collect(&message.text);
                let (place, length) = (entry.seq.0, message.text.len());
                self.add_document(
                    source.key,
                    entry.at,
                    place,
                    length,
                    SearchRole::Assistant,
                    terms,
                );
            } else if entry.omitted == 0 && !entry.continues {
                let (place, at) = (entry.seq.0, entry.at);
                self.add_line(source.key, entry.origin, place, at, &entry.bytes);
            }
            rest = &rest[count..];
        }
        match entries[..entries.len() - rest.len()].last() {
            Some(last) => self.advance(source, last.seq.0),
            None => Ok(()),
        }
    }

    /// Adds the next lines of a session file. False if there are no more.
    pub(crate) fn add_lines(
        &mut self,
        source: &mut SourceRecord,
        path: &Path,
        modified: u64,
    ) -> Result<bool, Error> {
        let mut lines = FileLines { offset: source.done, done: source.done };
        let mut is_end = false;
        let read = File::open(path).and_then(|mut file| {
            file.seek(SeekFrom::Start(source.done))?;
            let mut splitter = Splitter::with_cap(MAX_LINE);
            let mut chunk = vec![0; CHUNK];
            // A long line is read to its end, however much that is.
            while self.bytes < BATCH_BYTES || lines.offset > lines.done {
                let read = match file.read(&mut chunk) {
                    Ok(0) => {
                        is_end = true;
                        break;
                    }
                    Ok(read) => read,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(error),
                };
                let mut pieces = splitter.feed(&chunk[..read]);
                while let Some(piece) = pieces.next() {
                    if let Some(place) = lines.take(&piece) {
                        let key = source.key;
                        self.add_line(key, Origin::Transcript, place, modified, piece.bytes);
                    }
                }
            }
            Ok(())
        });
        // A file that cannot be read is tried again when it has changed.
        let more = read.is_ok() && !is_end;
        self.advance(source, lines.done)?;
        Ok(more)
    }

    fn add_line(&mut self, source: SourceKey, origin: Origin, place: u64, at: u64, bytes: &[u8]) {
        let content = LineContent::read(origin, bytes);
        self.bytes += bytes.len();
        for (role, text) in &content.texts {
            let terms = self.terms.collect(text);
            let (at, length) = (content.at.unwrap_or(at), bytes.len());
            self.add_document(source, at, place, length, *role, terms);
        }
    }

    fn add_document(
        &mut self,
        source: SourceKey,
        at: u64,
        place: u64,
        length: usize,
        role: SearchRole,
        terms: String,
    ) {
        if !terms.is_empty() {
            self.documents.push(NewDocument { source, at, place, length, role, terms });
        }
    }

    fn advance(&mut self, source: &mut SourceRecord, to: u64) -> Result<(), Error> {
        let from = std::mem::replace(&mut source.done, to);
        if from != to {
            self.advances.push(SourceAdvance { source: source.key, from, to });
        }
        if self.bytes >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    /// Writes what was added.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        let (mut documents, advances) =
            (std::mem::take(&mut self.documents), std::mem::take(&mut self.advances));
        self.bytes = 0;
        if advances.is_empty() {
            return Ok(());
        }
        // SQLite collects rows in memory only while their numbers grow.
        documents.sort_by_key(|it| (it.at, it.source, it.place));
        let transaction = self.connection.unchecked_transaction()?;
        for SourceAdvance { source, from, to } in advances {
            let changed = transaction
                .prepare_cached("UPDATE source SET done = ?3 WHERE key = ?1 AND done = ?2")?
                .execute(params![source.0, from.cast_signed(), to.cast_signed()])?;
            if changed != 1 {
                return Err(Error::Conflict);
            }
        }
        let mut exists = transaction.prepare_cached("SELECT 1 FROM document WHERE row = ?1")?;
        let mut add_document = transaction.prepare_cached(
            "INSERT INTO document (row, source, place, length, role) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let mut add_words =
            transaction.prepare_cached("INSERT INTO words (rowid, terms) VALUES (?1, ?2)")?;
        let mut row = 0;
        for NewDocument { source, at, place, length, role, terms } in &documents {
            row = row_at(*at).max(row + 1);
            while exists.exists([row])? {
                row += 1;
            }
            let (place, length) = (place.cast_signed(), i64::try_from(*length).unwrap_or(i64::MAX));
            add_document.execute(params![row, source.0, place, length, role.code()])?;
            add_words.execute(params![row, IndexPeriod::of_row(row).encode(terms)])?;
        }
        drop((exists, add_document, add_words));
        Ok(transaction.commit()?)
    }

    /// Removes a source with everything that is indexed of it. The words of its lines stay in the file
    /// until [`purge`](Self::purge).
    pub(crate) fn remove(&self, source: SourceKey) -> Result<(), Error> {
        loop {
            let transaction = self.connection.unchecked_transaction()?;
            let mut query = transaction
                .prepare_cached("SELECT row FROM document WHERE source = ?1 LIMIT ?2")?;
            let rows = query.query_map(params![source.0, REMOVED_AT_ONCE], |row| row.get(0))?;
            let rows: Vec<i64> = rows.collect::<Result<_, _>>()?;
            drop(query);
            for row in &rows {
                transaction.prepare_cached("DELETE FROM words WHERE rowid = ?1")?.execute([row])?;
                transaction
                    .prepare_cached("DELETE FROM document WHERE row = ?1")?
                    .execute([row])?;
            }
            if rows.is_empty() {
                transaction.execute("DELETE FROM source WHERE key = ?1", [source.0])?;
                return Ok(transaction.commit()?);
            }
            transaction.commit()?;
        }
    }

    /// Removes the words of removed lines from the file. Everything is merged into one segment, in steps
    /// that let other processes write in between.
    pub(crate) fn purge(&self) -> Result<(), Error> {
        let mut pages = -MERGED_PAGES;
        loop {
            let before = self.connection.total_changes();
            self.connection
                .prepare_cached("INSERT INTO words (words, rank) VALUES ('merge', ?1)")?
                .execute([pages])?;
            // SQLite counts one change if there was nothing to do.
            if self.connection.total_changes() - before < 2 {
                break;
            }
            pages = MERGED_PAGES;
        }
        let truncate = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], truncate).optional()?;
        Ok(())
    }
}

/// Where the lines of a file begin.
struct FileLines {
    /// Behind the last piece.
    offset: u64,
    /// Behind the last line.
    done: u64,
}

impl FileLines {
    /// Where the line of a piece begins, if the piece is a whole line that can be read.
    fn take(&mut self, piece: &Piece<'_>) -> Option<u64> {
        let place = self.offset;
        self.offset += piece.bytes.len() as u64;
        if piece.end != PieceEnd::Newline {
            return None;
        }
        self.offset += 1;
        self.done = self.offset;
        piece.is_whole().then_some(place)
    }
}

/// The first row of a time.
fn row_at(at: u64) -> i64 {
    let seconds = (at / 1000).saturating_sub(FIRST_SECOND).min(u64::from(u32::MAX));
    (seconds * ROWS_PER_SECOND + 1).cast_signed()
}

/// The time of a row, in milliseconds since 1970. Many lines in one second come out a little later.
pub(crate) fn time_of_row(row: i64) -> u64 {
    (row.max(1).cast_unsigned() / ROWS_PER_SECOND + FIRST_SECOND) * 1000
}
