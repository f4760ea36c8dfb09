//! The bridge's clock.
//!
//! It runs as the world's does, or a whole number of times faster where a test has a Telegram whose
//! clock runs so too. Everything that is about Telegram's time goes by it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

use crate::chat::Moment;

/// The bridge's clock. Clones are the same clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    began: Instant,
    /// What the world's clock said then.
    wall: Duration,
    hurry: u32,
}

impl Clock {
    pub(super) fn new(hurry: u32) -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { began: Instant::now(), wall, hurry: hurry.max(1) }
    }

    /// How long the bridge has lived.
    pub(super) fn now(&self) -> Moment {
        self.began.elapsed() * self.hurry
    }

    /// The instant of a moment.
    pub(super) fn instant(&self, moment: Moment) -> Instant {
        self.began + moment / self.hurry
    }

    /// A time span as the world counts it.
    pub(super) fn span(&self, span: Duration) -> Duration {
        span / self.hurry
    }

    /// Milliseconds since 1970, as the world counts.
    pub(super) fn world(&self) -> u64 {
        let since = self.wall + self.began.elapsed();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// The moment of such a time, counted from 1970: the same in every life of the bridge.
    pub(super) fn since_1970(&self, world: u64) -> Moment {
        Duration::from_millis(world) * self.hurry
    }

    /// The instant of such a moment.
    pub(super) fn instant_since_1970(&self, moment: Moment) -> Instant {
        self.began + (moment / self.hurry).saturating_sub(self.wall)
    }
}
