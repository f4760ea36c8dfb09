//! `towpath stub` compared with `@copilotkit/aimock`, the mock of the Messages API that people use
//! today: both stream the same text in equally many deltas.
//!
//! Both record the requests, as a test needs it: aimock in memory, the stub in a file.

mod load;

use std::fs;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::cache::{BenchCache, install_with_npm};
use crate::error::BenchError;
use crate::measure::{BenchServer, check_prints};
use crate::table::{BenchRow, BenchTarget};

use load::{PROMPT, REQUESTS};

/// The release of aimock that is measured.
const AIMOCK_VERSION: &str = "1.43.0";

const JOB: &str = "stub";
const CPU: &str = "stub, CPU per request";

/// The cost of one round.
struct RoundCost {
    wall: Duration,
    /// `None` where the system does not report it.
    cpu: Option<Duration>,
}

/// Requests per second, and the CPU time of a request.
pub(crate) fn rows(cache: &BenchCache, rounds: NonZero<u32>) -> Result<Vec<BenchRow>, BenchError> {
    let towpath = cache.program("towpath");
    if let Err(reason) = check_prints(&towpath, &["stub", "--help"], "--requests") {
        return Ok(vec![BenchRow::skipped(JOB, "", reason)]);
    }
    let aimock = match Aimock::installed_in(&cache.path("aimock")) {
        Ok(aimock) => aimock,
        Err(reason) => return Ok(vec![BenchRow::skipped(JOB, "", reason)]),
    };
    let recorded = cache.path("stub-requests.jsonl");
    let mut stub = Command::new(&towpath);
    let stub = stub.args(["stub", "--json", "--requests"]).arg(&recorded);
    let measured = least_costs(&aimock, stub, rounds);
    // About 50 MB. It may be missing if the stub did not start.
    let _ = fs::remove_file(&recorded);
    let [theirs, ours] = measured?;

    let per_second = |cost: &RoundCost| f64::from(REQUESTS) / cost.wall.as_secs_f64();
    let (rate, baseline) = (per_second(&ours), ("aimock", per_second(&theirs)));
    let cpu = match (theirs.cpu, ours.cpu) {
        (Some(theirs), Some(ours)) => {
            BenchRow::speedup(CPU, "", ("aimock", theirs / REQUESTS), ours / REQUESTS, None)
        }
        _ => BenchRow::skipped(CPU, "", "the system has no `/proc/PID/stat`".to_owned()),
    };
    Ok(vec![BenchRow::rate(JOB, baseline, rate, BenchTarget::AtLeast(10.0)), cpu])
}

/// Runs both in turn and returns the least cost of each: of aimock, then of the stub.
fn least_costs(
    aimock: &Aimock,
    stub: &mut Command,
    rounds: NonZero<u32>,
) -> Result<[RoundCost; 2], BenchError> {
    let of_stub = |error: io::Error| BenchError::new("measure `towpath stub`", &error);
    let of_aimock = |error: io::Error| BenchError::new("measure aimock", &error);
    let stub = BenchServer::start(stub).map_err(of_stub)?;
    let reply = reply_of(&stub).map_err(of_stub)?;
    // The stub has no script, so aimock is given the text of the stub.
    let aimock = aimock.serve(&reply).map_err(of_aimock)?;
    if reply_of(&aimock).map_err(of_aimock)?.text != reply.text {
        return Err(of_aimock(io::Error::other("its reply differs from that of the stub")));
    }
    let mut least = [RoundCost::MOST; 2];
    for _ in 0..rounds.get() {
        least[0].keep_least(&RoundCost::of_round(&aimock).map_err(of_aimock)?);
        least[1].keep_least(&RoundCost::of_round(&stub).map_err(of_stub)?);
    }
    Ok(least)
}

fn reply_of(server: &BenchServer) -> io::Result<StreamedReply> {
    load::sample(server.address).map(|events| StreamedReply::parse(&events))
}

impl RoundCost {
    const MOST: Self = Self { wall: Duration::MAX, cpu: Some(Duration::MAX) };

    fn of_round(server: &BenchServer) -> io::Result<Self> {
        let before = server.cpu().ok();
        let wall = load::round(server.address)?;
        let cpu =
            server.cpu().ok().zip(before).and_then(|(after, before)| after.checked_sub(before));
        Ok(Self { wall, cpu })
    }

    /// Keeps the lesser of each figure.
    fn keep_least(&mut self, other: &Self) {
        self.wall = self.wall.min(other.wall);
        self.cpu = self.cpu.zip(other.cpu).map(|(one, other)| one.min(other));
    }
}

/// An installed aimock.
pub(crate) struct Aimock {
    directory: PathBuf,
}

impl Aimock {
    /// Installs aimock into this directory unless it is there. The error says why it could not.
    fn installed_in(directory: &Path) -> Result<Self, String> {
        let aimock = Self { directory: directory.join(AIMOCK_VERSION) };
        // Linking the program is the last thing npm does.
        if !aimock.program().exists() {
            install_with_npm(&aimock.directory, &format!("@copilotkit/aimock@{AIMOCK_VERSION}"))?;
        }
        Ok(aimock)
    }

    /// Starts a server that streams this reply in as many deltas, or one less.
    fn serve(&self, reply: &StreamedReply) -> io::Result<BenchServer> {
        let fixtures = self.directory.join("fixtures");
        let fixture =
            json!({"match": {"userMessage": PROMPT}, "response": {"content": reply.text}});
        fs::create_dir_all(&fixtures)?;
        fs::write(fixtures.join("reply.json"), json!({"fixtures": [fixture]}).to_string())?;
        let size = reply.text.encode_utf16().count().div_ceil(reply.deltas.max(1));
        let mut llmock = Command::new(self.program());
        llmock.args(["-p", "0", "-c", &size.to_string(), "-f"]).arg(fixtures);
        BenchServer::start(&mut llmock)
    }

    fn program(&self) -> PathBuf {
        self.directory.join("node_modules/.bin/llmock")
    }
}

/// The text of a streamed reply, and the number of its deltas.
struct StreamedReply {
    text: String,
    deltas: usize,
}

impl StreamedReply {
    fn parse(events: &[u8]) -> Self {
        let events = String::from_utf8_lossy(events);
        let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut reply = Self { text: String::new(), deltas: 0 };
        for event in data.filter_map(|data| serde_json::from_str::<Value>(data).ok()) {
            if let Some(text) = event["delta"]["text"].as_str() {
                reply.text.push_str(text);
                reply.deltas += 1;
            }
        }
        reply
    }
}
