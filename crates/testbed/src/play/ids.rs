//! Ids, made in a row from a seed, so that a run can be repeated.

use uuid::Uuid;

/// A source of ids.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    state: u64,
}

impl Ids {
    /// Ids nobody else has.
    pub(crate) fn random() -> Self {
        Self { state: Uuid::new_v4().as_u64_pair().0 }
    }

    /// The same ids every time.
    #[cfg(test)]
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number, by splitmix64.
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

    /// So many hexadecimal digits, at most 16.
    pub(crate) fn hex(&mut self, digits: usize) -> String {
        let all = format!("{:016x}", self.next());
        all[..digits.min(16)].to_owned()
    }

    /// So many letters and digits.
    pub(crate) fn word(&mut self, letters: usize) -> String {
        const ALPHABET: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let mut word = String::new();
        for _ in 0..letters {
            let place = usize::try_from(self.next() % 36).unwrap_or_default();
            word.push(char::from(ALPHABET[place]));
        }
        word
    }

    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}
