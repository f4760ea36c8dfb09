//! Identifiers of sessions and entries.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Towpath's id of a session. The agent's own id of a session can change; this one does not.
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

/// The database's own number of a session. It is never reused, even after the session is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SessionKey(pub(crate) i64);

/// How many bits of a [row id](SessionKey::row) hold the sequence number.
const SEQ_BITS: u32 = 40;

impl SessionKey {
    /// The row id of an entry. Sessions lie side by side and each is in order, so appending is cheap
    /// and the entries of a session are close together. A session can have 2⁴⁰ entries.
    pub(crate) fn row(self, seq: Seq) -> i64 {
        (self.0 << SEQ_BITS) | seq.0.min((1 << SEQ_BITS) - 1).cast_signed()
    }

    /// The largest row id a session can have.
    pub(crate) fn end(self) -> i64 {
        self.row(Seq(u64::MAX))
    }

    /// The session and the entry a row id stands for.
    pub(crate) fn from_row(row: i64) -> (Self, Seq) {
        (Self(row >> SEQ_BITS), Seq((row & ((1 << SEQ_BITS) - 1)).cast_unsigned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Seq, SessionKey};

    #[test]
    fn a_row_id_gives_back_its_session_and_number() {
        for (key, seq) in [(1, 1), (7, 0), (123_456, (1 << 40) - 1)] {
            let row = SessionKey(key).row(Seq(seq));
            assert_eq!(SessionKey::from_row(row), (SessionKey(key), Seq(seq)));
        }
        assert!(SessionKey(1).end() < SessionKey(2).row(Seq(0)));
    }
}
