//! How the file is.

use rusqlite::Connection;

use crate::error::Error;
use crate::schema;
use crate::stored::unsigned;

/// How the journal's file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// What is wrong with it, in the database's words; sound where nothing is.
    pub faults: Vec<String>,
    /// The format of the file.
    pub format: u32,
    /// How many sessions there are.
    pub sessions: u64,
    /// How many entries are not settled yet.
    pub unsettled: u64,
    /// How many pages of settled entries there are.
    pub pages: u64,
    /// How many bytes the file takes, without its log.
    pub bytes: u64,
}

impl Health {
    pub(crate) fn of(connection: &Connection) -> Result<Self, Error> {
        let mut faults: Vec<String> = connection
            .prepare("PRAGMA integrity_check(20)")?
            .query_map([], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        faults.retain(|fault| fault != "ok");
        let count = |table: &str| -> Result<u64, rusqlite::Error> {
            connection
                .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| unsigned(row, 0))
        };
        let pragma = |name: &str| -> Result<u64, rusqlite::Error> {
            connection.pragma_query_value(None, name, |row| unsigned(row, 0))
        };
        Ok(Self {
            faults,
            format: schema::format(connection)?,
            sessions: count("session")?,
            unsettled: count("entry")?,
            pages: count("page")?,
            bytes: pragma("page_count")? * pragma("page_size")?,
        })
    }
}
