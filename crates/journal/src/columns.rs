//! Conversions between records and table columns.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rusqlite::Row;
use rusqlite::types::{Type, ValueRef};
use serde::Serialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use uuid::Uuid;
use wire::consent::RuleKind;

use crate::id::{Seq, SessionId, SessionKey};
use crate::records::{
    Grant, PromptRecord, RequestRecord, Resolution, SessionRecord, SessionStatus, SpoolPosition,
};

/// A small value as JSON for a text column.
pub(crate) fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("enums and strings serialise")
}

/// A path as bytes, because not every path is UTF-8.
pub(crate) fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// A number for an integer column. Times, offsets and counts stay below 2⁶³.
pub(crate) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) const SESSION_COLUMNS: &str = "key, id, title, directory, status, options, created, \
     active, last, spool_run, spool_offset, writes, turn, turn_ended, imported_turns, importing, \
     agent_state";

/// The number of the column that marks an import.
pub(crate) const IMPORTING: usize = 15;

/// A session from [`SESSION_COLUMNS`] that is not being imported. The agent's ids are in another table.
///
/// What cannot be read is replaced and reported in the record.
pub(crate) fn session(row: &Row<'_>) -> SessionRecord {
    let mut faults = RowFaults::default();
    let options: String = faults.or_default("the options", row.get(5));
    if faults.list.is_empty()
        && let Err(error) = serde_json::from_str::<IgnoredAny>(&options)
        && !options.is_empty()
    {
        faults.add("the options", &error);
    }
    let directory = row.get_ref(3).and_then(|value| Ok(path(value.as_blob()?)));
    let mut count = |what: &str, column| faults.or_default(what, strictly_unsigned(row, column));
    let mut record = SessionRecord {
        created: count("the time of creation", 6),
        active: count("the time of the last activity", 7),
        last: Seq(count("the number of entries", 8)),
        spool: SpoolPosition {
            run: count("the position in the output", 9),
            offset: count("the position in the output", 10),
        },
        writes: count("the number of lines written", 11),
        turn: count("the number of turns", 12),
        turn_ended: count("the number of turns", 13),
        imported_turns: count("the number of turns", 14),
        id: session_id(row, 1, 0).unwrap_or(SessionKey(0).stand_in()),
        title: faults.or_default("the title", row.get(2)),
        directory: faults.or_default("the directory", directory),
        status: faults.or_default("the status", from_json(row, 4)),
        options,
        agent_state: faults.or_default("what was agreed with the agent", row.get(16)),
        agent_ids: Vec::new(),
        damage: None,
    };
    if let Err(error) = parsed::<SessionId>(row, 1) {
        faults.add("the id", &error);
    }
    if !matches!(row.get_ref(IMPORTING), Ok(ValueRef::Null)) {
        faults.list.push("the mark of an import cannot be read".to_owned());
    }
    for fault in faults.list {
        add_damage(&mut record, &fault);
    }
    record
}

/// Whether the session in a row is still being imported. No client may see it yet. A damaged value must
/// not hide a session.
pub(crate) fn is_importing(row: &Row<'_>, column: usize) -> bool {
    parsed::<Uuid>(row, column).is_ok()
}

/// Adds to what could not be read of a session.
pub(crate) fn add_damage(record: &mut SessionRecord, fault: &str) {
    record.status = SessionStatus::Failed;
    record.damage = Some(match record.damage.take() {
        None => fault.to_owned(),
        Some(before) => format!("{before}; {fault}"),
    });
}

/// What cannot be read of a row.
#[derive(Default)]
struct RowFaults {
    list: Vec<String>,
}

impl RowFaults {
    fn or_default<T: Default>(&mut self, what: &str, value: rusqlite::Result<T>) -> T {
        value.unwrap_or_else(|error| {
            self.add(what, &error);
            T::default()
        })
    }

    fn add(&mut self, what: &str, error: &dyn std::error::Error) {
        self.list.push(format!("{what} cannot be read ({error})"));
    }
}

/// The id of a session, or a stand-in with its key if the id cannot be read.
pub(crate) fn session_id(row: &Row<'_>, id: usize, key: usize) -> rusqlite::Result<SessionId> {
    match parsed(row, id) {
        Ok(id) => Ok(id),
        Err(_) => Ok(SessionKey(row.get(key)?).stand_in()),
    }
}

pub(crate) const PROMPT_COLUMNS: &str =
    "id, position, text, content, delivery, state, by, turn, created, changed";

/// A prompt from [`PROMPT_COLUMNS`].
pub(crate) fn prompt(row: &Row<'_>) -> rusqlite::Result<PromptRecord> {
    Ok(PromptRecord {
        id: parsed(row, 0)?,
        position: row.get(1)?,
        text: row.get(2)?,
        content: row.get(3)?,
        delivery: from_json(row, 4)?,
        state: from_json(row, 5)?,
        by: from_json(row, 6)?,
        turn: optional_unsigned(row, 7)?,
        created: unsigned(row, 8)?,
        changed: unsigned(row, 9)?,
    })
}

pub(crate) const REQUEST_COLUMNS: &str = "request.id, kind, tool_name, tool_use_id, input, \
     suggestions, agent, opened, expires, outcome, by, message, resolved, choices";

/// A request from [`REQUEST_COLUMNS`].
pub(crate) fn request(row: &Row<'_>) -> rusqlite::Result<RequestRecord> {
    let outcome: Option<String> = row.get(9)?;
    let resolution = match outcome {
        None => None,
        Some(_) => Some(Resolution {
            outcome: from_json(row, 9)?,
            by: optional_from_json(row, 10)?,
            message: row.get(11)?,
            at: optional_unsigned(row, 12)?.unwrap_or_default(),
        }),
    };
    Ok(RequestRecord {
        id: row.get(0)?,
        kind: from_json(row, 1)?,
        tool_name: row.get(2)?,
        tool_use_id: row.get(3)?,
        input: row.get(4)?,
        suggestions: row.get(5)?,
        agent: row.get(6)?,
        opened: unsigned(row, 7)?,
        expires: optional_unsigned(row, 8)?,
        choices: optional_from_json(row, 13)?.unwrap_or_default(),
        resolution,
    })
}

pub(crate) const GRANT_COLUMNS: &str =
    "id, session, directory, tool, pattern, until, by, created, kind";

/// A grant from [`GRANT_COLUMNS`].
pub(crate) fn grant(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let session: Option<String> = row.get(1)?;
    Ok(Grant {
        id: parsed(row, 0)?,
        session: session.map(|_| parsed(row, 1)).transpose()?,
        directory: row.get_ref(2)?.as_blob_or_null()?.map(path),
        tool: row.get(3)?,
        kind: RuleKind::of_name(row.get_ref(8)?.as_str()?),
        pattern: row.get(4)?,
        until: optional_unsigned(row, 5)?,
        by: from_json(row, 6)?,
        created: unsigned(row, 7)?,
    })
}

/// A column that holds an id.
pub(crate) fn parsed<T>(row: &Row<'_>, column: usize) -> rusqlite::Result<T>
where
    T: std::str::FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    row.get_ref(column)?.as_str()?.parse().map_err(|error| unusable(column, error))
}

pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(|number| u64::try_from(number).unwrap_or(0))
}

/// A number that is never stored as a negative one.
pub(crate) fn strictly_unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

fn optional_unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    let number: Option<i64> = row.get(column)?;
    Ok(number.map(|number| u64::try_from(number).unwrap_or(0)))
}

fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|error| unusable(column, error))
}

fn optional_from_json<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| unusable(column, error)))
        .transpose()
}

fn unusable(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

#[cfg(unix)]
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    OsStr::new(&*String::from_utf8_lossy(bytes)).into()
}
