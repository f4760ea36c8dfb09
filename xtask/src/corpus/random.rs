//! Seeded randomness, the same on every machine and in every release of Rust.

/// A `SplitMix64` generator.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn half(&mut self) -> u32 {
        u32::try_from(self.bits() >> 32).unwrap_or_default()
    }

    /// From 0 up to, not including, 1.
    pub(super) fn unit(&mut self) -> f64 {
        f64::from(self.half()) / 4_294_967_296.0
    }

    /// From `low` up to, not including, `high`.
    pub(super) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.half() as usize % (high - low)
    }

    /// From `low` to `low` × `times`, each order of magnitude as likely as the next.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "sizes of lines are far below the limits and never negative"
    )]
    pub(super) fn magnitude(&mut self, low: f64, times: f64) -> usize {
        (low * times.powf(self.unit())) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len())]
    }

    /// A random UUID as text.
    pub(super) fn uuid(&mut self) -> String {
        let (high, low) = (self.bits(), self.bits());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            high >> 16 & 0xffff,
            high & 0xfff,
            low >> 48 & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }
}
