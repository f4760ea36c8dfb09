//! Many who follow one stream, and what they saw of it.
//!
//! What they look for are the numbered words of `xtask-agent`, in whatever they are sent: lines of the
//! agent, or frames of a conversation in which several words came together and some come again.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Anything;
use super::socket::Socket;

/// Whoever has not seen the last word after so long will not.
const PATIENCE: Duration = Duration::from_mins(3);

/// The width of a bucket of latencies.
const BUCKET: Duration = Duration::from_micros(50);
const BUCKETS: usize = 200_000;

/// What a crowd saw.
pub(super) struct Sight {
    /// Words, each counted for everybody who saw it.
    pub(super) words: u64,
    /// Words that a follower never saw: it was so far behind that it began anew with the newest
    /// part of the conversation.
    pub(super) skipped: u64,
    pub(super) frames: u64,
    pub(super) p99: Duration,
    /// From the beginning until the last had seen the last word.
    pub(super) took: Duration,
}

struct Tally {
    words: u64,
    skipped: u64,
    frames: u64,
    latencies: Vec<u32>,
}

/// Lets everybody look until they have seen the word `count`, whatever `begin` sets off.
pub(super) async fn watch(
    sockets: Vec<Socket>,
    count: u32,
    begin: impl Future<Output = io::Result<()>>,
) -> Result<(Vec<Socket>, Sight), Anything> {
    let tally = Tally { words: 0, skipped: 0, frames: 0, latencies: vec![0; BUCKETS] };
    let tally = Arc::new(Mutex::new(tally));
    let mut crowd = JoinSet::new();
    for socket in sockets {
        crowd.spawn(timeout(PATIENCE, look(socket, count, Arc::clone(&tally))));
    }
    let start = Instant::now();
    begin.await?;
    let mut sockets = Vec::new();
    while let Some(looked) = crowd.join_next().await {
        sockets.push(looked???);
    }
    let took = start.elapsed();
    let tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
    let Tally { words, skipped, frames, .. } = *tally;
    Ok((sockets, Sight { words, skipped, frames, p99: p99(&tally.latencies), took }))
}

async fn look(mut socket: Socket, count: u32, tally: Arc<Mutex<Tally>>) -> io::Result<Socket> {
    let mut last = 0;
    let mut seen = Vec::new();
    while last < count {
        let frame = socket.next().await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        seen.clear();
        words(frame, last, &mut seen);
        let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.frames += 1;
        let Some(&(newest, _)) = seen.first() else { continue };
        tally.words += seen.len() as u64;
        tally.skipped += u64::from(newest - last) - seen.len() as u64;
        for (_, said) in &seen {
            let late = now.saturating_sub(Duration::from_micros(*said));
            let bucket = (late.as_micros() / BUCKET.as_micros()) as usize;
            tally.latencies[bucket.min(BUCKETS - 1)] += 1;
        }
        last = newest;
    }
    Ok(socket)
}

/// The words after the last one known, newest first, with the time each was said.
fn words(frame: &[u8], known: u32, found: &mut Vec<(u32, u64)>) {
    let mut expected = u32::MAX;
    for z in memchr::memrchr_iter(b'z', frame) {
        let number = frame.get(z.wrapping_sub(8)..z).and_then(|it| it.strip_prefix(b"q"));
        let said = frame.get(z + 1..z + 17);
        let (Some(number), Some(said)) = (number.and_then(digits), said.and_then(digits)) else {
            continue;
        };
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        if number <= known {
            return;
        }
        // What comes a second time in one frame counts once.
        if number < expected {
            found.push((number, said));
            expected = number;
        }
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn p99(latencies: &[u32]) -> Duration {
    let all: u64 = latencies.iter().map(|it| u64::from(*it)).sum();
    let mut beyond = all / 100;
    for (bucket, count) in latencies.iter().enumerate().rev() {
        match beyond.checked_sub(u64::from(*count)) {
            Some(left) => beyond = left,
            None => return BUCKET * u32::try_from(bucket + 1).unwrap_or(u32::MAX),
        }
    }
    BUCKET
}

#[cfg(test)]
mod tests {
    use super::{p99, words};
    use std::time::Duration;

    #[test]
    fn each_word_is_seen_once_and_only_if_it_is_new() {
        let word = |number: u32| format!("q{number:07}z{:016}", 1_000_000 + u64::from(number));
        let frame = format!("zz <p>{} {}</p> {} z1 {}", word(3), word(4), word(5), word(5));
        let mut found = Vec::new();
        words(frame.as_bytes(), 3, &mut found);
        assert_eq!(found, [(5, 1_000_005), (4, 1_000_004)]);
        found.clear();
        words(frame.as_bytes(), 5, &mut found);
        assert!(found.is_empty());
    }

    #[test]
    fn one_in_a_hundred_may_be_later() {
        let mut latencies = vec![0; 10];
        (latencies[1], latencies[7]) = (990, 10);
        assert_eq!(p99(&latencies), Duration::from_micros(100));
        latencies[7] = 11;
        assert_eq!(p99(&latencies), Duration::from_micros(400));
    }
}
