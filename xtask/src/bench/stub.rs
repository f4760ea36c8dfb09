//! `towpath stub` against aimock: streaming replies of the same words in as many pieces.
//!
//! Both keep what they were asked, as tests want it: aimock in memory, the stub in a file.

use std::fs;
use std::io;
use std::num::NonZero;
use std::process::Command;
use std::time::Duration;

use super::aimock::Aimock;
use super::cache::Cache;
use super::load::{self, REQUESTS};
use super::program;
use super::reply::Reply;
use super::server::Server;
use super::table::{Row, Target};
use crate::failure::Failure;

const JOB: &str = "stub";
const CPU: &str = "stub, CPU per request";

/// What a round took.
struct Cost {
    wall: Duration,
    /// Nothing where the system does not tell.
    cpu: Option<Duration>,
}

/// Requests per second, and the CPU time of one.
pub(super) fn requests(cache: &Cache, rounds: NonZero<u32>) -> Result<Vec<Row>, Failure> {
    let towpath = cache.program("towpath");
    if let Err(reason) = program::prints(&towpath, &["stub", "--help"], "--requests") {
        return Ok(vec![Row::skipped(JOB, "", reason)]);
    }
    let aimock = match Aimock::installed_in(&cache.place("aimock")) {
        Ok(aimock) => aimock,
        Err(reason) => return Ok(vec![Row::skipped(JOB, "", reason)]),
    };
    let kept = cache.place("stub-requests.jsonl");
    let mut stub = Command::new(&towpath);
    let stub = stub.args(["stub", "--json", "--requests"]).arg(&kept);
    let measured = race(&aimock, stub, rounds);
    // Some 50 MB that nobody will read; without it there is nothing to remove.
    let _ = fs::remove_file(&kept);
    let [theirs, ours] = measured?;

    let per_second = |cost: &Cost| f64::from(REQUESTS) / cost.wall.as_secs_f64();
    let (rate, baseline) = (per_second(&ours), ("aimock", per_second(&theirs)));
    let cpu = match (theirs.cpu, ours.cpu) {
        (Some(theirs), Some(ours)) => {
            Row::speedup(CPU, "", ("aimock", theirs / REQUESTS), ours / REQUESTS, None)
        }
        _ => Row::skipped(CPU, "", "there is no `/proc/PID/stat`".to_owned()),
    };
    Ok(vec![Row::rate(JOB, baseline, rate, Target::AtLeast(10.0)), cpu])
}

/// Lets both answer in turn, and gives the least cost of each: aimock's, then the stub's.
fn race(aimock: &Aimock, stub: &mut Command, rounds: NonZero<u32>) -> Result<[Cost; 2], Failure> {
    let of_stub = |error: io::Error| Failure::could_not("measure `towpath stub`", &error);
    let of_aimock = |error: io::Error| Failure::could_not("measure aimock", &error);
    let stub = Server::start(stub).map_err(of_stub)?;
    let reply = said(&stub).map_err(of_stub)?;
    // The stub is not scripted, so its own words are what aimock has to say.
    let aimock = aimock.serve(&reply).map_err(of_aimock)?;
    if said(&aimock).map_err(of_aimock)?.text != reply.text {
        return Err(of_aimock(io::Error::other("it does not say what the stub says")));
    }
    let mut least = [Cost::MOST; 2];
    for _ in 0..rounds.get() {
        least[0].lower_to(&Cost::of_round(&aimock).map_err(of_aimock)?);
        least[1].lower_to(&Cost::of_round(&stub).map_err(of_stub)?);
    }
    Ok(least)
}

fn said(server: &Server) -> io::Result<Reply> {
    load::sample(server.address).map(|events| Reply::of_stream(&events))
}

impl Cost {
    const MOST: Self = Self { wall: Duration::MAX, cpu: Some(Duration::MAX) };

    fn of_round(server: &Server) -> io::Result<Self> {
        let before = server.cpu().ok();
        let wall = load::round(server.address)?;
        let cpu =
            server.cpu().ok().zip(before).and_then(|(after, before)| after.checked_sub(before));
        Ok(Self { wall, cpu })
    }

    /// Takes over what is less in the other, each for itself.
    fn lower_to(&mut self, other: &Self) {
        self.wall = self.wall.min(other.wall);
        self.cpu = self.cpu.zip(other.cpu).map(|(one, other)| one.min(other));
    }
}
