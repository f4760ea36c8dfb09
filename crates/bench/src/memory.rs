//! The peak memory of Towpath's processes when sessions are large: a server whose clients do not
//! read, requests for huge lines, many sessions that are followed at once, and a run of a long session.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use journal::{Batch, Journal, NewEntry, NewSession, Origin, SessionId};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::sleep;
use uuid::Uuid;

use crate::cache::{BenchCache, lines};
use crate::corpus::Corpus;
use crate::error::BenchError;
use crate::followers::AnyError;
use crate::followers::server::{ServeSetup, TowpathServer};
use crate::measure::{memory_field, peak_memory};
use crate::table::{BenchRow, BenchTarget};

/// What `docs/api.md` promises for everything that clients can do to a server, in MB.
const MOST: BenchTarget = BenchTarget::AtMost(256.0);

/// Followers that read nothing while the agent prints a huge line.
const STALLED: usize = 30;

/// The bytes of text in that line.
const HUGE_LINE: usize = 100_000_000;

/// The lines of a session that is requested as lines, and the bytes of each.
const LINES: usize = 60;
const LINE: usize = 5_000_000;

/// The sessions that are followed at once, and the lines of each.
const SESSIONS: usize = 30;
const SESSION_LINES: usize = 40;
const SESSION_LINE: usize = 60_000;

/// The events of a long session.
const EVENTS: usize = 100_000;

/// How many lines are written at once.
const BATCH: usize = 1_000;

/// A session that is idle for this long has stored everything.
const QUIET: Duration = Duration::from_secs(3);

/// How long the server may take for the huge line.
const TIMEOUT: Duration = Duration::from_mins(5);

pub(crate) fn rows(cache: &BenchCache) -> Result<Vec<BenchRow>, BenchError> {
    if memory_field(std::process::id(), "VmHWM:").ok().flatten().is_none() {
        let reason = "this system does not report the memory of a process".to_owned();
        return Ok(vec![BenchRow::skipped("memory", "", reason)]);
    }
    let failed = |error: AnyError| BenchError::new("measure memory", &error);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.into()))?;
    runtime
        .block_on(async {
            Ok(vec![
                huge_line(cache).await?,
                huge_lines(cache).await?,
                many_sessions(cache).await?,
                long_run(cache).await?,
            ])
        })
        .map_err(failed)
}

fn row(
    job: &'static str,
    what: String,
    kilobytes: f64,
    target: impl Into<Option<BenchTarget>>,
) -> BenchRow {
    eprintln!("bench: {job}: {:.0} MB", kilobytes / 1000.0);
    BenchRow::amount(job, "", what, (kilobytes / 1000.0, " MB"), target.into())
}

async fn huge_line(cache: &BenchCache) -> Result<BenchRow, AnyError> {
    let setup = ServeSetup::new(cache)?;
    let server = setup.serve()?;
    let session = server.create_session(&setup).await?;
    let mut stalled = Vec::new();
    for _ in 0..STALLED {
        let mut socket = server.follow(session).await?;
        socket.next().await?;
        stalled.push(socket);
    }
    server.prompt_text(session, &format!("line {HUGE_LINE}")).await?;
    wait_until_quiet(&server, session).await?;
    let what = format!("{STALLED} stalled followers, a line of {} MB", HUGE_LINE / 1_000_000);
    Ok(row("memory, server, huge line", what, server.process.peak_memory()?, MOST))
}

async fn wait_until_quiet(server: &TowpathServer, session: Uuid) -> Result<(), AnyError> {
    let start = Instant::now();
    let mut idle_since = Instant::now();
    while idle_since.elapsed() < QUIET {
        if !server.is_idle(session).await? {
            idle_since = Instant::now();
        }
        if start.elapsed() > TIMEOUT {
            return Err("the agent did not finish".into());
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn huge_lines(cache: &BenchCache) -> Result<BenchRow, AnyError> {
    let setup = ServeSetup::new(cache)?;
    let session = write(&setup, (0..LINES).map(|number| answer(number, LINE)), 1).await?;
    let server = setup.serve()?;
    let mut stalled = Vec::new();
    for _ in 0..STALLED {
        for path in ["lines?limit=1000", "events"] {
            let path = format!("/api/v1/sessions/{session}/{path}");
            stalled.push(stalled_request(&server, &path).await?);
        }
    }
    // The server may answer with fewer lines than there are.
    let (mut received, mut after) = (0, 0);
    loop {
        let path = format!("/api/v1/sessions/{session}/lines?limit=1000&after={after}");
        let page = server.get(&path).await?;
        received += page.len();
        let page: serde_json::Value = serde_json::from_str(&page)?;
        let last = page["lines"].as_array().and_then(|lines| lines.last());
        let Some(seq) = last.and_then(|line| line["seq"].as_u64()) else { break };
        after = seq;
    }
    if received < LINES * LINE {
        return Err(format!("only {received} bytes of the lines arrived").into());
    }
    drop(stalled);
    let megabytes = LINE / 1_000_000;
    let what =
        format!("`/lines?limit=1000` of {LINES} × {megabytes} MB, {STALLED} stalled clients");
    Ok(row("memory, server, huge lines", what, server.process.peak_memory()?, MOST))
}

/// A line of the agent with a text of so many bytes.
fn answer(number: usize, bytes: usize) -> Vec<u8> {
    let text = format!("{number:08} {}", "0123456789abcdef".repeat(bytes / 16));
    let content = serde_json::json!([{"type": "text", "text": text}]);
    let message = serde_json::json!({"id": format!("m{number}"), "type": "message",
        "role": "assistant", "model": "claude-bench", "content": content});
    serde_json::json!({"type": "assistant", "message": message}).to_string().into_bytes()
}

/// Sends a request and reads nothing of the response.
async fn stalled_request(server: &TowpathServer, path: &str) -> Result<TcpStream, AnyError> {
    let mut stream = TcpStream::connect(server.address()).await?;
    let (address, token) = (server.address(), server.token());
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

async fn many_sessions(cache: &BenchCache) -> Result<BenchRow, AnyError> {
    let setup = ServeSetup::new(cache)?;
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        let lines = (0..SESSION_LINES).map(|number| answer(number, SESSION_LINE));
        let lines = lines.chain([answer(SESSION_LINES, LINE)]);
        sessions.push(write(&setup, lines, SESSION_LINES).await?);
    }
    let server = setup.serve()?;
    let mut followers = Vec::new();
    for session in sessions {
        let mut socket = server.follow(session).await?;
        socket.next().await?;
        followers.push(socket);
    }
    let what = format!(
        "{SESSIONS} sessions of {} MB, each followed",
        (SESSION_LINES * SESSION_LINE + LINE) / 1_000_000
    );
    Ok(row("memory, server, many sessions", what, server.process.peak_memory()?, MOST))
}

async fn long_run(cache: &BenchCache) -> Result<BenchRow, AnyError> {
    let setup = ServeSetup::new(cache)?;
    let bytes = cache.bytes(Corpus::C).map_err(|error| error.to_string())?;
    let mut events = lines(&bytes);
    events.truncate(EVENTS);
    let count = events.len();
    let session = write(&setup, events.iter().map(|line| line.to_vec()), BATCH).await?;
    let mut command = Command::new(cache.program("towpath"));
    command.args(["run", "--resume", &session.to_string(), "1 0", "--claude"]);
    command.arg(cache.program("towpath-bench-agent")).env("TOWPATH_DATA", setup.data());
    command.env("HOME", setup.project()).env("XDG_RUNTIME_DIR", setup.project());
    command.current_dir(setup.project()).stdin(Stdio::null());
    let megabytes = peak_memory(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let what = format!("`run --resume` of {count} events");
    // It is not a server; the figure shows whether the run keeps the session in memory.
    Ok(row("memory, run, long session", what, megabytes * 1000.0, None))
}

/// Writes a session to the journal, some lines at once.
async fn write(
    setup: &ServeSetup,
    lines: impl Iterator<Item = Vec<u8>>,
    batch: usize,
) -> Result<Uuid, AnyError> {
    let session = SessionId(Uuid::new_v4());
    let path = session::SessionsConfig::journal_path(&setup.data());
    let journal = Journal::open(&path)?.journal;
    let (directory, options) = (setup.project().canonicalize()?, "{}".to_owned());
    journal.create(NewSession { id: session, directory, title: None, options, at: 1 }).await?;
    let mut lines = lines.peekable();
    while lines.peek().is_some() {
        let entry = |line: Vec<u8>| NewEntry {
            origin: Origin::Agent,
            bytes: Bytes::from(line),
            transient: false,
        };
        let entries = lines.by_ref().take(batch).map(entry).collect();
        journal.write(session, Batch { at: 1, entries, ..Batch::default() }).await?;
    }
    journal.close().await?;
    Ok(session.0)
}
