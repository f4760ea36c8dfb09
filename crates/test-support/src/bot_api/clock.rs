//! The API's own time, which may run faster than ours.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Time since the server began, on the API's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Instant,
    epoch: u64,
    speed: f64,
}

impl Clock {
    pub(super) fn new(speed: f64) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let speed = if speed.is_finite() && speed > 0.0 { speed } else { 1.0 };
        Self { began: Instant::now(), epoch: since.as_secs(), speed }
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed().mul_f64(self.speed)
    }

    /// A moment as messages carry it, in whole seconds.
    pub(super) fn date(&self, at: Duration) -> u64 {
        self.epoch + at.as_secs()
    }

    /// How long this much of the API's time takes us.
    pub(super) fn ours(&self, time: Duration) -> Duration {
        time.div_f64(self.speed)
    }

    /// How much of the API's time passes in this much of ours.
    pub(super) fn theirs(&self, time: Duration) -> Duration {
        time.mul_f64(self.speed)
    }
}
