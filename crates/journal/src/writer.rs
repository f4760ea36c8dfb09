//! The one thread that writes.
//!
//! It takes what waits, makes it in one transaction, commits, and only then answers. If the
//! transaction fails, its changes are tried one by one, so that a bad one fails alone. When nothing
//! waits it cleans up, in small steps; when it is never idle it still takes a step now and then.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rusqlite::Connection;
use tokio::sync::mpsc::Receiver;
use tokio::sync::mpsc::error::TryRecvError;
use tracing::warn;

use crate::chores::Chores;
use crate::command::{Answer, Change, Command};
use crate::connection::Durability;
use crate::error::Error;
use crate::follower::Shared;
use crate::group::{Group, News};
use crate::id::Seq;
use crate::mend;

/// How many changes are made at once, and how many bytes they may hold together: what a commit of
/// this size delays, a person does not notice.
const GROUP_CHANGES: usize = 1024;
const GROUP_BYTES: usize = 4 << 20;

/// After so many groups without a pause, a chore is done nevertheless.
const GROUPS_PER_CHORE: u32 = 32;

/// The state of the writing thread.
pub(crate) struct Writer {
    connection: Connection,
    /// Held shared as long as the file is open.
    lock: File,
    path: PathBuf,
    commands: Receiver<Command>,
    shared: Arc<Shared>,
    /// A command that ended a group without being part of it.
    held: Option<Command>,
    durability: Option<Durability>,
    chores: Chores,
    groups_since_chore: u32,
    /// What the connection last said of commits by others.
    others: i64,
    tidying: Vec<Answer>,
    closing: Vec<Answer>,
}

impl Writer {
    /// Starts the thread. It ends when the last handle is dropped or one of them closes it.
    pub(crate) fn start(
        connection: Connection,
        lock: File,
        path: &Path,
        commands: Receiver<Command>,
        shared: Arc<Shared>,
    ) -> Result<(), Error> {
        let chores = Chores::in_file(&connection)?;
        let others = others(&connection)?;
        let writer = Self {
            connection,
            lock,
            path: path.to_owned(),
            commands,
            shared,
            held: None,
            durability: None,
            chores,
            groups_since_chore: 0,
            others,
            tidying: Vec::new(),
            closing: Vec::new(),
        };
        thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| Error::io(path, error))?;
        Ok(())
    }

    fn run(mut self) {
        while let Some(command) = self.next() {
            match command {
                Command::Change(change, answer) => {
                    let group = self.group(*change, answer);
                    self.write(group);
                    self.groups_since_chore += 1;
                }
                Command::LookAround => self.look_around(),
                Command::Tidy(answer) => self.tidying.push(answer),
                Command::Close(answer) => {
                    // What was sent before is still received, and then nothing more.
                    self.commands.close();
                    self.closing.push(answer);
                }
            }
        }
        let Self { connection, lock, shared, closing, tidying, .. } = self;
        shared.feeds.close();
        shared.readers.close();
        let closed = connection.close().map_err(|(_, error)| Error::from(error));
        drop((lock, tidying));
        for answer in closing {
            let _ = answer.send(closed.clone().map(|()| Seq(0)));
        }
    }

    /// The next command; chores while there is none.
    fn next(&mut self) -> Option<Command> {
        loop {
            if let Some(held) = self.held.take() {
                return Some(held);
            }
            if self.chores.is_done() {
                for answer in self.tidying.drain(..) {
                    let _ = answer.send(Ok(Seq(0)));
                }
                return self.commands.blocking_recv();
            }
            if self.groups_since_chore >= GROUPS_PER_CHORE {
                self.chore();
            }
            match self.commands.try_recv() {
                Ok(command) => return Some(command),
                Err(TryRecvError::Empty) => self.chore(),
                Err(TryRecvError::Disconnected) => return None,
            }
        }
    }

    fn chore(&mut self) {
        self.groups_since_chore = 0;
        let done = self
            .set_durability(Durability::Relaxed)
            .and_then(|()| self.chores.step(&self.connection));
        if let Err(error) = done {
            self.met(&error);
            self.chores.put_off();
            warn!(%error, "could not clean up; the next settling tries again");
            for answer in self.tidying.drain(..) {
                let _ = answer.send(Err(error.clone()));
            }
        }
    }

    /// A change and those that wait behind it.
    fn group(&mut self, change: Change, answer: Answer) -> Vec<(Change, Answer)> {
        let mut bytes = change.size();
        let mut group = vec![(change, answer)];
        while group.len() < GROUP_CHANGES && bytes < GROUP_BYTES {
            match self.commands.try_recv() {
                Ok(Command::Change(change, answer)) => {
                    bytes += change.size();
                    group.push((*change, answer));
                }
                Ok(other) => {
                    self.held = Some(other);
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        group
    }

    fn write(&mut self, group: Vec<(Change, Answer)>) {
        let (changes, answers): (Vec<Change>, Vec<Answer>) = group.into_iter().unzip();
        let results = match self.make(&changes) {
            Ok(results) => results,
            // Nobody got in: trying each again would only wait as often.
            Err(error @ Error::Busy) => changes.iter().map(|_| Err(error.clone())).collect(),
            Err(error) if changes.len() == 1 && !matches!(error, Error::Full) => vec![Err(error)],
            Err(error) => {
                if matches!(error, Error::Full) {
                    self.fold_log();
                }
                changes.chunks(1).map(|change| self.make_one(change)).collect()
            }
        };
        for (answer, result) in answers.into_iter().zip(results) {
            if let Err(error) = &result {
                self.met(error);
            }
            // Who asked may have gone; what is written is written.
            let _ = answer.send(result);
        }
    }

    fn make_one(&mut self, change: &[Change]) -> Result<Seq, Error> {
        self.make(change)?.pop().unwrap_or(Err(Error::Closed))
    }

    /// Makes changes in one transaction. Refusals are results; any other error undoes all of it.
    fn make(&mut self, changes: &[Change]) -> Result<Vec<Result<Seq, Error>>, Error> {
        let lasting = changes.iter().any(|it| it.durability() == Durability::Lasting);
        self.set_durability(if lasting { Durability::Lasting } else { Durability::Relaxed })?;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        let made = in_transaction(&self.connection, changes);
        let committed = made.and_then(|made| {
            self.connection.execute_batch("COMMIT")?;
            Ok(made)
        });
        match committed {
            Ok((results, news)) => {
                self.tell(news);
                Ok(results)
            }
            Err(error) => {
                // Some failures have rolled back already.
                if !self.connection.is_autocommit() {
                    self.connection.execute_batch("ROLLBACK")?;
                }
                Err(error)
            }
        }
    }

    /// Folds the log into the file: on a full disk, that may be all the room there is.
    fn fold_log(&self) {
        if let Err(error) = Chores::fold_log(&self.connection) {
            warn!(%error, "could not fold the log into the file");
        }
    }

    fn tell(&mut self, news: News) {
        self.shared.changes.send_modify(|count| *count += 1);
        for (session, entries) in news.entries {
            self.shared.feeds.publish(session, entries);
        }
        for (session, key) in news.deleted {
            self.shared.feeds.delete(session);
            self.chores.deleted(key);
        }
        for key in news.settled {
            self.chores.settled(key);
        }
    }

    fn set_durability(&mut self, durability: Durability) -> Result<(), Error> {
        if self.durability != Some(durability) {
            durability.set(&self.connection)?;
            self.durability = Some(durability);
        }
        Ok(())
    }

    /// This process writes through this connection alone, so what it notices is another's.
    fn look_around(&mut self) {
        match others(&self.connection) {
            Ok(others) if others != self.others => {
                self.others = others;
                self.shared.changes.send_modify(|count| *count += 1);
                self.shared.feeds.strangers_wrote();
            }
            Ok(_) => {}
            Err(error) => self.met(&error.into()),
        }
    }

    fn met(&self, error: &Error) {
        if matches!(error, Error::Damaged { .. }) {
            mend::suspect(&self.path, error);
        }
    }
}

fn in_transaction(
    connection: &Connection,
    changes: &[Change],
) -> Result<(Vec<Result<Seq, Error>>, News), Error> {
    let mut group = Group::new(connection);
    let mut results = Vec::with_capacity(changes.len());
    for change in changes {
        match group.make(change) {
            Err(error) if !error.is_refusal() => return Err(error),
            result => results.push(result),
        }
    }
    Ok((results, group.finish()?))
}

fn others(connection: &Connection) -> Result<i64, rusqlite::Error> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}
