//! What names a session, and a place in it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Our own name of a session. The agent's own ids of it change; this one does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub Uuid);

/// The number of an entry in its session. The first entry is 1; 0, the default, is before it.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for SessionId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number the database knows a session by. Never used again, even when the session is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(pub(crate) i64);

/// How many bits of a [`place`](Key::place) are the sequence number's.
const SEQ_BITS: u32 = 40;

impl Key {
    /// The row of an entry: sessions side by side, each in order, so that appending is cheap and
    /// a session's entries lie together. A session has room for 2⁴⁰ entries.
    pub(crate) fn place(self, seq: Seq) -> i64 {
        (self.0 << SEQ_BITS) | seq.0.min((1 << SEQ_BITS) - 1).cast_signed()
    }

    /// The last row a session could have.
    pub(crate) fn end(self) -> i64 {
        self.place(Seq(u64::MAX))
    }

    /// Which session a row belongs to, and which of its entries it is.
    pub(crate) fn at_place(place: i64) -> (Self, Seq) {
        (Self(place >> SEQ_BITS), Seq((place & ((1 << SEQ_BITS) - 1)).cast_unsigned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Seq};

    #[test]
    fn a_place_tells_its_session_and_number() {
        for (key, seq) in [(1, 1), (7, 0), (123_456, (1 << 40) - 1)] {
            assert_eq!(Key::at_place(Key(key).place(Seq(seq))), (Key(key), Seq(seq)));
        }
        assert!(Key(1).end() < Key(2).place(Seq(0)));
    }
}
