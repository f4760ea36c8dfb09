//! How often one may guess.
//!
//! Nobody guesses 256 bits; the limit keeps logs short and a runaway script cheap.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

const WRONG: u32 = 10;
const WINDOW: Duration = Duration::from_mins(1);

/// How many addresses are remembered. When it is full, the whole memory begins anew: somebody with
/// so many addresses is not held up by a count for each.
const ADDRESSES: usize = 4096;

/// Wrong attempts, by the address they came from.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl Attempts {
    /// Whether an address has guessed wrong too often of late.
    pub(crate) fn are_too_many(&self, from: IpAddr) -> bool {
        let attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        attempts
            .get(&from)
            .is_some_and(|(since, wrong)| *wrong >= WRONG && since.elapsed() < WINDOW)
    }

    /// An address guessed wrong.
    pub(crate) fn wrong(&self, from: IpAddr) {
        let mut attempts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if attempts.len() >= ADDRESSES {
            attempts.clear();
        }
        let attempt = attempts.entry(from).or_insert_with(|| (Instant::now(), 0));
        if attempt.0.elapsed() >= WINDOW {
            *attempt = (Instant::now(), 0);
        }
        attempt.1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempts, WINDOW, WRONG};

    #[tokio::test(start_paused = true)]
    async fn whoever_guesses_too_often_waits_and_nobody_else_does() {
        let attempts = Attempts::default();
        let (one, other) = ([127, 0, 0, 1].into(), [127, 0, 0, 2].into());
        for _ in 0..WRONG {
            assert!(!attempts.are_too_many(one));
            attempts.wrong(one);
        }
        assert!(attempts.are_too_many(one) && !attempts.are_too_many(other));
        tokio::time::advance(WINDOW).await;
        assert!(!attempts.are_too_many(one));
    }
}
