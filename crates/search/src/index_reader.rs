//! Reading the index: which lines may contain what is looked for, the newest first.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{Connection, params};

use crate::document::SearchRole;
use crate::error::Error;
use crate::index_file::IndexFile;
use crate::period::IndexPeriod;
use crate::query::IndexTerms;
use crate::source::{SOURCE_COLUMNS, SourceKey, SourceRecord};
use crate::time_limit::TimeLimit;

/// How many idle connections are kept.
const MAX_IDLE: usize = 2;

/// How often the time is looked at, in lines.
const LINES_PER_LOOK: usize = 256;

/// A line that may contain what is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) row: i64,
    pub(crate) source: SourceKey,
    /// The number of the entry, or the offset of the line.
    pub(crate) place: u64,
    /// How many bytes the line has.
    pub(crate) length: u64,
    pub(crate) role: SearchRole,
}

/// Some candidates in the order of their rows.
#[derive(Debug, Default)]
pub(crate) struct CandidateWindow {
    pub(crate) candidates: Vec<Candidate>,
    /// The row before which to continue; none if there are no more.
    pub(crate) more: Option<i64>,
}

/// Which rows are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowBounds {
    /// Rows before this one.
    pub(crate) before: i64,
    /// No row before this one, if an earlier search has found where the window ends.
    pub(crate) end: Option<i64>,
    /// How many candidates are wanted.
    pub(crate) wanted: usize,
    /// No more lines than this are looked at.
    pub(crate) scanned: usize,
    /// When this is over, the window ends, unless it is known where it does.
    pub(crate) limit: TimeLimit,
}

/// Connections that read the index.
#[derive(Debug)]
pub(crate) struct IndexReader {
    file: IndexFile,
    idle: Mutex<Vec<ReaderConnection>>,
}

/// A connection and what it has read.
#[derive(Debug)]
struct ReaderConnection {
    /// That of the file when it was opened.
    inode: Option<u64>,
    connection: Connection,
    /// All sources, and SQLite's number of the version that they are of.
    sources: Option<(i64, Arc<Vec<SourceRecord>>)>,
}

impl IndexReader {
    pub(crate) fn new(file: IndexFile) -> Self {
        Self { file, idle: Mutex::default() }
    }

    pub(crate) fn file(&self) -> &IndexFile {
        &self.file
    }

    /// Runs a query. The default is the result if there is no index yet. Blocks.
    pub(crate) fn read<T: Default>(
        &self,
        query: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.with_connection(|it| query(&it.connection))
    }

    /// All sources of the index. If nothing has changed, they are the same as before. Blocks.
    pub(crate) fn sources(&self) -> Result<Arc<Vec<SourceRecord>>, Error> {
        self.with_connection(|it| {
            let version =
                it.connection.pragma_query_value(None, "data_version", |row| row.get(0))?;
            if let Some((known, sources)) = &it.sources
                && *known == version
            {
                return Ok(Arc::clone(sources));
            }
            let sql = format!("SELECT {SOURCE_COLUMNS} FROM source");
            let mut query = it.connection.prepare_cached(&sql)?;
            let rows = query.query_map([], SourceRecord::read)?;
            let sources: Arc<Vec<_>> = Arc::new(rows.collect::<Result<_, _>>()?);
            it.sources = Some((version, Arc::clone(&sources)));
            Ok(sources)
        })
    }

    fn with_connection<T: Default>(
        &self,
        query: impl FnOnce(&mut ReaderConnection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let inode = self.file.inode();
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle.filter(|it| it.inode == inode) {
            Some(connection) => connection,
            None => match self.file.open_readable()? {
                Some(connection) => ReaderConnection { inode, connection, sources: None },
                None => return Ok(T::default()),
            },
        };
        let result = query(&mut connection);
        if result.is_ok() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.push(connection);
            idle.truncate(MAX_IDLE);
        }
        result
    }
}

/// The lines within the bounds that match and that `accepts`, the newest first.
pub(crate) fn candidates(
    connection: &Connection,
    terms: &IndexTerms,
    bounds: WindowBounds,
    mut accepts: impl FnMut(SourceKey) -> bool,
) -> Result<CandidateWindow, Error> {
    let WindowBounds { mut before, end, mut wanted, mut scanned, limit } = bounds;
    if end.is_some() {
        // What was added meanwhile may be in it too.
        (wanted, scanned) = (4 * wanted, 4 * scanned);
    }
    let mut newest = connection.prepare_cached("SELECT max(row) FROM document WHERE row < ?1")?;
    let mut query = connection.prepare_cached(
        "SELECT document.row, source, place, length, role
         FROM words JOIN document ON document.row = words.rowid
         WHERE words MATCH ?1 AND words.rowid < ?2 ORDER BY words.rowid DESC",
    )?;
    let mut window = CandidateWindow::default();
    let mut looked = 0;
    while let Some(row) = newest.query_row([before], |row| row.get::<_, Option<i64>>(0))? {
        if end.is_some_and(|end| row < end) {
            window.more = end;
            break;
        }
        let period = IndexPeriod::of_row(row);
        let mut rows = query.query(params![terms.expression(period), before])?;
        while let Some(row) = rows.next()? {
            let number: i64 = row.get(0)?;
            if end.is_some_and(|end| number < end) {
                window.more = end;
                return Ok(window);
            }
            let source = SourceKey(row.get(1)?);
            let role = SearchRole::from_code(row.get(4)?);
            if accepts(source) {
                window.candidates.push(Candidate {
                    row: number,
                    source,
                    place: row.get::<_, i64>(2)?.cast_unsigned(),
                    length: row.get::<_, i64>(3)?.cast_unsigned(),
                    role: role.ok_or(rusqlite::Error::InvalidQuery)?,
                });
            }
            looked += 1;
            let is_full = window.candidates.len() >= wanted || looked >= scanned;
            let is_late = end.is_none() && looked % LINES_PER_LOOK == 0 && limit.is_over();
            if is_full || is_late {
                window.more = Some(number);
                return Ok(window);
            }
        }
        before = period.start();
        if end.is_none() && limit.is_over() {
            window.more = Some(before);
            break;
        }
    }
    Ok(window)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rusqlite::{Connection, params};

    use super::{CandidateWindow, WindowBounds, candidates};
    use crate::index_file::IndexFile;
    use crate::period::IndexPeriod;
    use crate::query::SearchQuery;
    use crate::time_limit::TimeLimit;

    /// Ten lines in each of twenty periods.
    fn fill(connection: &Connection) -> Vec<i64> {
        let mut rows = Vec::new();
        for row in (0..20)
            .flat_map(|period| (0..10).map(move |line| ((1300 + period) << 21) + 7 * line + 1))
        {
            let terms = IndexPeriod::of_row(row).encode("word other");
            let document = "INSERT INTO document VALUES (?1, 1, ?1, 100, 0)";
            connection.execute(document, [row]).unwrap();
            let words = "INSERT INTO words (rowid, terms) VALUES (?1, ?2)";
            connection.execute(words, params![row, terms]).unwrap();
            rows.push(row);
        }
        rows.reverse();
        rows
    }

    fn window(
        connection: &Connection,
        before: i64,
        end: Option<i64>,
        time: Duration,
    ) -> CandidateWindow {
        let terms = SearchQuery::parse("other wor").index_terms().unwrap();
        let limit = TimeLimit::start(time);
        let bounds = WindowBounds { before, end, wanted: 25, scanned: 1000, limit };
        candidates(connection, &terms, bounds, |_| true).unwrap()
    }

    #[test]
    fn a_search_without_time_looks_at_one_period_and_continues_with_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let file = IndexFile::new(directory.path().join("search.db"));
        let connection = file.open_writable().unwrap();
        let rows = fill(&connection);
        for (time, of_window) in [(Duration::ZERO, 10), (Duration::MAX, 25)] {
            let (mut found, mut before) = (Vec::new(), Some(i64::MAX));
            while let Some(row) = before {
                let one = window(&connection, row, None, time);
                assert!(one.candidates.len() <= of_window);
                // The same again, however much time there is.
                let end = Some(one.more.unwrap_or(i64::MIN));
                let again = window(&connection, row, end, Duration::ZERO);
                assert_eq!(again.candidates, one.candidates);
                found.extend(one.candidates.iter().map(|it| it.row));
                before = one.more;
            }
            assert_eq!(found, rows);
        }
    }
}
