//! Importing the lines of a session that began outside Towpath.
//!
//! An import may be larger than memory, so it takes many transactions. The session is created first and
//! is not shown before the last of them: a process that is killed in between leaves nothing that
//! anybody sees. What it leaves is removed when the same session is imported again, or by the first
//! process that opens the journal an hour later.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension as _, params};
use uuid::Uuid;

use crate::batch::Batch;
use crate::change::JournalChange;
use crate::columns::{is_importing, number, parsed};
use crate::error::Error;
use crate::id::{Seq, SessionId};
use crate::journal::Journal;
use crate::outbox;
use crate::query;
use crate::records::NewSession;
use crate::transaction::WriteTransaction;
use crate::writer::{ImportStep, Mutation};

/// An import that was not written to for this long is not going on any more.
const ABANDONED_AFTER: Duration = Duration::from_hours(1);

/// An import that has not finished. Dropping it leaves a session that no client sees.
#[derive(Debug)]
pub struct SessionImport {
    journal: Journal,
    session: SessionId,
    import: Uuid,
}

impl Journal {
    /// Creates a session that is not shown until it is imported. `import` is a random id. An earlier
    /// import of the same session that did not finish is discarded.
    pub async fn begin_import(
        &self,
        new: NewSession,
        import: Uuid,
    ) -> Result<SessionImport, Error> {
        let session = new.id;
        self.change(Mutation::BeginImport(new, import)).await?;
        Ok(SessionImport { journal: self.clone(), session, import })
    }
}

impl SessionImport {
    /// Writes the next lines.
    pub async fn write(&self, batch: Batch) -> Result<Seq, Error> {
        self.step(batch, None).await
    }

    /// Writes the last batch and shows the session. `turns` numbers of turns belong to what was
    /// imported.
    pub async fn finish(self, batch: Batch, turns: u64) -> Result<Seq, Error> {
        self.step(batch, Some(turns)).await
    }

    /// Removes what was imported.
    pub async fn discard(self) -> Result<(), Error> {
        self.journal.delete(self.session).await
    }

    async fn step(&self, batch: Batch, finished_with: Option<u64>) -> Result<Seq, Error> {
        let Self { session, import, .. } = *self;
        let step = ImportStep { session, import, batch, finished_with };
        self.journal.change(Mutation::Import(step)).await
    }
}

/// Removes imports of processes that are gone.
pub(crate) fn remove_abandoned(connection: &Connection) -> Result<(), Error> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let before = u64::try_from(now.saturating_sub(ABANDONED_AFTER).as_millis()).unwrap_or(0);
    // An import of another journal that is replayed here is removed there first.
    let kept = outbox::is_kept(connection)?;
    let mut query = connection.prepare(
        "SELECT id, importing FROM session
         WHERE importing IS NOT NULL AND active < ?1 AND (changes = 0 OR ?2)",
    )?;
    let mut rows = query.query(params![number(before), kept])?;
    let mut abandoned: Vec<SessionId> = Vec::new();
    while let Some(row) = rows.next()? {
        if is_importing(row, 1) {
            abandoned.extend(parsed::<SessionId>(row, 0).ok());
        }
    }
    drop(rows);
    if abandoned.is_empty() {
        return Ok(());
    }
    let transaction = connection.unchecked_transaction()?;
    let mut writes = WriteTransaction::new(&transaction);
    for session in abandoned {
        writes.apply(&Mutation::Delete(session))?;
    }
    writes.finish()?;
    Ok(transaction.commit()?)
}

impl WriteTransaction<'_> {
    /// Creates a session that is not shown until its import has finished. An earlier import with the
    /// same id that did not finish is discarded.
    pub(crate) fn begin_import(&mut self, new: &NewSession, import: Uuid) -> Result<Seq, Error> {
        let change_number = if self.running_import(new.id)?.is_some() {
            let changes = self.pending(new.id)?.head.changes;
            self.remove_session(new.id)?;
            changes + 1
        } else if query::head(self.connection, new.id)?.is_some() {
            return Err(Error::SessionExists(new.id));
        } else {
            1 + self.last_change_of_deleted(new.id)?
        };
        let change = || JournalChange::BeginImport { new: Cow::Borrowed(new), import };
        self.create_numbered(new, change_number, change)?;
        self.connection
            .prepare_cached("UPDATE session SET importing = ?2 WHERE id = ?1")?
            .execute([new.id.to_string(), import.to_string()])?;
        Ok(Seq(0))
    }

    pub(crate) fn import(&mut self, step: &ImportStep) -> Result<Seq, Error> {
        // Another import with the same id may have replaced this one.
        if self.running_import(step.session)? != Some(step.import) {
            return Err(Error::NoSuchSession(step.session));
        }
        let first = self.pending(step.session)?.head.last.next();
        let last = self.write_batch(step.session, &step.batch)?;
        self.record(step.session, || JournalChange::Import {
            first,
            import: step.import,
            batch: Cow::Borrowed(&step.batch),
            finished_with: step.finished_with,
        })?;
        if let Some(turns) = step.finished_with {
            self.connection
                .prepare_cached(
                    "UPDATE session SET importing = NULL, imported_turns = ?2 WHERE id = ?1",
                )?
                .execute(params![step.session.to_string(), number(turns)])?;
        }
        Ok(last)
    }

    /// The unfinished import that a session belongs to.
    fn running_import(&self, session: SessionId) -> Result<Option<Uuid>, Error> {
        let import = self
            .connection
            .prepare_cached("SELECT importing FROM session WHERE id = ?1")?
            .query_row([session.to_string()], |row| Ok(parsed(row, 0).ok()))
            .optional()?;
        Ok(import.flatten())
    }
}
