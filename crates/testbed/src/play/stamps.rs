//! Ids and times as the protocol writes them.

pub(crate) use crate::timestamp::timestamp;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

/// A generator of ids. The same seed gives the same ids.
#[derive(Clone, Debug)]
pub(crate) struct IdGenerator {
    state: u64,
}

impl IdGenerator {
    pub(crate) fn random() -> Self {
        Self { state: Uuid::new_v4().as_u64_pair().0 }
    }

    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number of splitmix64.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A version 4 UUID.
    pub(crate) fn uuid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        let bits = (u128::from(high) << 64) | u128::from(low);
        uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string()
    }

    /// At most 16 hexadecimal digits.
    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let all = format!("{:016x}", self.next());
        all[..digits.min(16)].to_owned()
    }

    /// Lower-case letters and digits.
    pub(crate) fn word(&mut self, length: usize) -> String {
        const ALPHABET: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let mut word = String::new();
        for _ in 0..length {
            let index = usize::try_from(self.next() % 36).unwrap_or_default();
            word.push(char::from(ALPHABET[index]));
        }
        word
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// Milliseconds since 1970.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds between two times, or 0 if the clock went backwards.
pub(crate) fn millis_between(from: SystemTime, to: SystemTime) -> u64 {
    let elapsed = to.duration_since(from).unwrap_or(Duration::ZERO);
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}
