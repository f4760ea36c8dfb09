//! The last of what an agent wrote to stderr.

use std::collections::VecDeque;

/// How much is kept.
const KEPT: usize = 16 << 10;

/// The last 16 KiB.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    tail: VecDeque<u8>,
}

impl Complaints {
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT)..];
        let excess = (self.tail.len() + bytes.len()).saturating_sub(KEPT);
        self.tail.drain(..excess);
        self.tail.extend(bytes);
    }

    pub(super) fn tail(&mut self) -> &[u8] {
        self.tail.make_contiguous()
    }
}

#[cfg(test)]
mod tests {
    use super::{Complaints, KEPT};

    #[test]
    fn only_the_last_is_kept() {
        let mut complaints = Complaints::default();
        let all: Vec<u8> = (0..50_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        for chunk in all.chunks(777) {
            complaints.add(chunk);
        }
        assert!(complaints.tail() == &all[all.len() - KEPT..]);
        complaints.add(&all);
        assert!(complaints.tail() == &all[all.len() - KEPT..]);
    }
}
