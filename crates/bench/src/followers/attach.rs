//! Attaching to a session of 100,000 events after a restart of the server.
//!
//! The session is written to the journal and compacted. A server loads it, saves its view and is
//! killed; the next server is asked for it at once. The table also has the cost for a session without
//! a saved view, as after an update of Towpath.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::{Batch, Journal, NewEntry, NewSession, Origin, Seq, SessionId};
use tokio::runtime::Runtime;
use tokio::time::sleep;
use uuid::Uuid;

use super::AnyError;
use super::server::ServeSetup;
use crate::cache::{BenchCache, lines};
use crate::corpus::Corpus;
use crate::table::{BenchRow, BenchTarget};

const EVENTS: usize = 100_000;

/// The longest time of so many restarts counts.
const RESTARTS: usize = 5;

/// How many lines are written at once.
const BATCH: usize = 1_000;

/// How long the server may take to save a view.
const SAVE_TIMEOUT: Duration = Duration::from_mins(2);

/// A view that has not changed for so long is the final one.
const FINAL_AGE: Duration = Duration::from_secs(5);

pub(crate) fn rows(cache: &BenchCache, runtime: &Runtime) -> Result<Vec<BenchRow>, AnyError> {
    let mut rows = Vec::new();
    for corpus in [Corpus::A, Corpus::C] {
        rows.extend(runtime.block_on(corpus_rows(cache, corpus))?);
    }
    Ok(rows)
}

async fn corpus_rows(cache: &BenchCache, corpus: Corpus) -> Result<Vec<BenchRow>, AnyError> {
    let bytes = cache.bytes(corpus).map_err(|error| error.to_string())?;
    let mut lines = lines(&bytes);
    if lines.len() < EVENTS {
        let reason = format!("the corpus has only {} lines; use `--mb 200`", lines.len());
        return Ok(vec![BenchRow::skipped("attach, first frame", corpus.name(), reason)]);
    }
    lines.truncate(EVENTS);
    let setup = ServeSetup::new(cache)?;
    let session = write(&setup, &lines).await?;
    let views = setup.data().join("views");
    let (cold, _) = attach(&setup, session).await?;
    let saved = {
        let _server = setup.serve()?;
        wait_for_view(&views, session).await?
    };
    let (mut longest, mut largest) = (Duration::ZERO, 0);
    for _ in 0..RESTARTS {
        let (time, size) = attach(&setup, session).await?;
        longest = longest.max(time);
        largest = largest.max(size);
    }
    #[expect(clippy::cast_precision_loss, reason = "an amount to one decimal")]
    let kilobytes = |bytes: u64| bytes as f64 / 1000.0;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let name = corpus.name();
    let restarts = format!("the longest of {RESTARTS} restarts");
    Ok(vec![
        BenchRow::amount(
            "attach, first frame",
            name,
            restarts,
            (milliseconds(longest), " ms"),
            Some(BenchTarget::AtMost(50.0)),
        ),
        BenchRow::amount(
            "attach, its size",
            name,
            format!("a saved view of {:.0} KB", kilobytes(saved)),
            (kilobytes(largest), " KB"),
            Some(BenchTarget::AtMost(200.0)),
        ),
        BenchRow::amount("attach, no view", name, String::new(), (milliseconds(cold), " ms"), None),
    ])
}

/// Writes a session to the journal and compacts it.
async fn write(setup: &ServeSetup, lines: &[&[u8]]) -> Result<Uuid, AnyError> {
    let session = SessionId(Uuid::new_v4());
    let opening = Journal::open(&session::SessionsConfig::journal_path(&setup.data()))?;
    let journal = opening.journal;
    let (directory, options) = (setup.project(), "{}".to_owned());
    journal.create(NewSession { id: session, directory, title: None, options, at: 1 }).await?;
    let mut last = Seq(0);
    for batch in lines.chunks(BATCH) {
        let entry = |line: &&[u8]| NewEntry {
            origin: Origin::Agent,
            bytes: Bytes::copy_from_slice(line),
            transient: true,
        };
        let entries = batch.iter().map(entry).collect();
        last = journal.write(session, Batch { at: 1, entries, ..Batch::default() }).await?;
    }
    journal.compact(session, last).await?;
    journal.close().await?;
    Ok(session.0)
}

/// Starts a server and requests a session from it; returns the time until the first frame, and the
/// size of that. The server is killed.
async fn attach(setup: &ServeSetup, session: Uuid) -> Result<(Duration, u64), AnyError> {
    let server = setup.serve()?;
    let start = Instant::now();
    let mut socket = server.follow(session).await?;
    let size = socket.next().await?.len() as u64;
    Ok((start.elapsed(), size))
}

/// Waits until the view is saved and no longer changes, and returns its size.
async fn wait_for_view(views: &Path, session: Uuid) -> Result<u64, AnyError> {
    let start = Instant::now();
    let view = views.join(format!("{session}.view"));
    while start.elapsed() < SAVE_TIMEOUT {
        let file = fs::metadata(&view).and_then(|file| Ok((file.len(), file.modified()?)));
        if let Ok((size, saved)) = file
            && saved.elapsed().is_ok_and(|age| age > FINAL_AGE)
        {
            return Ok(size);
        }
        sleep(Duration::from_millis(100)).await;
    }
    Err("the server saved no view".into())
}
