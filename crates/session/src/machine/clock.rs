//! The two clocks that a session uses.

/// The time of both clocks at one moment, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Since 1970, for what is stored and shown. A user or a time server may set this clock to any
    /// time, so nothing waits for it.
    pub wall: u64,
    /// Since any moment. It never goes back, and it stands still while the machine is suspended.
    /// All deadlines are on this clock.
    pub monotonic: u64,
}
