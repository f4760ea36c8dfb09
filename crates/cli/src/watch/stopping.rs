//! Being asked to stop, by a signal.
//!
//! Whoever ends a pipeline ends the agent as well, so the stream is given a moment to end by itself;
//! what is under way is finished. Whoever asks twice is obeyed at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask: Ctrl-C, `kill`, a terminal that is gone.
const KINDS: [fn() -> SignalKind; 3] =
    [SignalKind::interrupt, SignalKind::terminate, SignalKind::hangup];

/// Whether somebody asked, and how.
#[derive(Clone, Debug, Default)]
pub(super) struct Stopping {
    signal: Arc<AtomicI32>,
}

impl Stopping {
    /// Comes back when somebody wants us to stop.
    pub(super) async fn asked(self) {
        let ignored = ignored();
        let kinds = KINDS.map(|kind| kind()).into_iter();
        let kinds = kinds.filter(|kind| ignored >> (kind.as_raw_value() - 1) & 1 == 0);
        let mut signals: Vec<(i32, Signal)> =
            kinds.filter_map(|kind| Some((kind.as_raw_value(), signal(kind).ok()?))).collect();
        self.signal.store(next(&mut signals).await, Ordering::Relaxed);
        tokio::spawn(async move {
            let again = next(&mut signals).await;
            std::process::exit(128 + again);
        });
    }

    /// The signal by which somebody asked.
    pub(super) fn by(&self) -> Option<u8> {
        u8::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|it| *it > 0)
    }
}

/// The number of the next signal that comes.
async fn next(signals: &mut [(i32, Signal)]) -> i32 {
    std::future::poll_fn(|context| {
        for (number, signal) in &mut *signals {
            if signal.poll_recv(context).is_ready() {
                return std::task::Poll::Ready(*number);
            }
        }
        std::task::Poll::Pending
    })
    .await
}

/// The signals this process was started to ignore, a bit each: `nohup` does that, and a shell for what
/// it runs in the background. Listening would undo it.
#[cfg(target_os = "linux")]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Elsewhere nobody can tell without calls that are not safe.
#[cfg(not(target_os = "linux"))]
fn ignored() -> u64 {
    0
}
