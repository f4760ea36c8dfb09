//! Attaching to a session of 100,000 events that nobody has looked at since it was written.
//!
//! The session is written as an agent would have had it written, and settled. A server finds it and
//! is killed; the next one is asked for it at once. That is what somebody meets who comes back after
//! a restart. What a session costs whose view is not there, because the version is new, is shown too.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::{Batch, Journal, NewEntry, NewSession, Origin, Seq, SessionId};
use tokio::runtime::Runtime;
use tokio::time::sleep;
use uuid::Uuid;

use super::Anything;
use super::ground::Ground;
use crate::bench::cache::{Cache, lines};
use crate::bench::table::{Row, Target};
use crate::corpus::Mix;

const EVENTS: usize = 100_000;

/// Restarts; the longest of the first frames counts.
const RESTARTS: usize = 5;

/// How many lines are written in one go.
const BATCH: usize = 1_000;

/// How long the server may take to save a view.
const PATIENCE: Duration = Duration::from_mins(2);

/// A view that was not saved again for so long is the last.
const LAST: Duration = Duration::from_secs(5);

pub(super) fn rows(cache: &Cache, runtime: &Runtime) -> Result<Vec<Row>, Anything> {
    let mut rows = Vec::new();
    for mix in [Mix::A, Mix::C] {
        rows.extend(runtime.block_on(session(cache, mix))?);
    }
    Ok(rows)
}

async fn session(cache: &Cache, mix: Mix) -> Result<Vec<Row>, Anything> {
    let corpus = cache.bytes(mix).map_err(|failure| failure.to_string())?;
    let mut lines = lines(&corpus);
    if lines.len() < EVENTS {
        let reason = format!("the corpus has {} lines: `--mb 200` has enough", lines.len());
        return Ok(vec![Row::skipped("attach, first frame", mix.name(), reason)]);
    }
    lines.truncate(EVENTS);
    let ground = Ground::new(cache)?;
    let session = write(&ground, &lines).await?;
    let views = ground.data().join("views");
    let (cold, _) = attach(&ground, session).await?;
    let saved = {
        let _serving = ground.serve()?;
        saved(&views, session).await?
    };
    let (mut longest, mut largest) = (Duration::ZERO, 0);
    for _ in 0..RESTARTS {
        let (time, size) = attach(&ground, session).await?;
        longest = longest.max(time);
        largest = largest.max(size);
    }
    #[expect(clippy::cast_precision_loss, reason = "an amount to one decimal")]
    let kilobytes = |bytes: u64| bytes as f64 / 1000.0;
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let name = mix.name();
    let restarts = format!("the longest of {RESTARTS} restarts");
    Ok(vec![
        Row::amount(
            "attach, first frame",
            name,
            restarts,
            (milliseconds(longest), " ms"),
            Some(Target::AtMost(50.0)),
        ),
        Row::amount(
            "attach, its size",
            name,
            format!("a saved view of {:.0} KB", kilobytes(saved)),
            (kilobytes(largest), " KB"),
            Some(Target::AtMost(200.0)),
        ),
        Row::amount("attach, no view", name, String::new(), (milliseconds(cold), " ms"), None),
    ])
}

/// Writes a session down, and settles it as when a turn is over.
async fn write(ground: &Ground, lines: &[&[u8]]) -> Result<Uuid, Anything> {
    let session = SessionId(Uuid::new_v4());
    let opening = Journal::open(&session::Home::journal(&ground.data()))?;
    let journal = opening.journal;
    let (directory, options) = (ground.project(), "{}".to_owned());
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
    journal.settle(session, last).await?;
    journal.close().await?;
    Ok(session.0)
}

/// Starts a server, and asks it for a session: how long the first frame took, and its size. The
/// server is killed.
async fn attach(ground: &Ground, session: Uuid) -> Result<(Duration, u64), Anything> {
    let serving = ground.serve()?;
    let asked = Instant::now();
    let mut socket = serving.follow(session).await?;
    let size = socket.next().await?.len() as u64;
    Ok((asked.elapsed(), size))
}

/// Waits until a view is saved and not made better any more, and gives its size.
async fn saved(views: &Path, session: Uuid) -> Result<u64, Anything> {
    let began = Instant::now();
    let view = views.join(format!("{session}.view"));
    while began.elapsed() < PATIENCE {
        let file = fs::metadata(&view).and_then(|file| Ok((file.len(), file.modified()?)));
        if let Ok((size, saved)) = file
            && saved.elapsed().is_ok_and(|age| age > LAST)
        {
            return Ok(size);
        }
        sleep(Duration::from_millis(100)).await;
    }
    Err("no view was saved".into())
}
