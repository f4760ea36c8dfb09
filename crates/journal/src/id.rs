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

/// A stand-in id is this number and the session's key. It is a version 8 UUID, which no random id is.
const STAND_IN: u128 = 0xdaca_6ed0_0000_8000_8000_0000_0000_0000;

/// The bits of a stand-in id that hold the key.
const STAND_IN_KEY: u64 = (1 << 48) - 1;

impl SessionKey {
    /// The row id of an entry. Sessions lie side by side and each is in order, so appending is cheap
    /// and the entries of a session are close together. A session can have 2⁴⁰ entries.
    pub(crate) fn row(self, seq: Seq) -> i64 {
        (self.0 << SEQ_BITS) | seq.0.min((1 << SEQ_BITS) - 1).cast_signed()
    }

    /// The id by which a session is listed whose stored id cannot be read.
    pub(crate) fn stand_in(self) -> SessionId {
        SessionId(Uuid::from_u128(STAND_IN | u128::from(self.0.cast_unsigned() & STAND_IN_KEY)))
    }

    /// The session that a stand-in id means.
    pub(crate) fn from_stand_in(session: SessionId) -> Option<Self> {
        let key = u64::try_from(session.0.as_u128() ^ STAND_IN).ok()?;
        (key <= STAND_IN_KEY).then_some(Self(key.cast_signed()))
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
    use uuid::Uuid;

    use super::{Seq, SessionId, SessionKey};

    #[test]
    fn a_stand_in_id_gives_back_its_session_and_no_other_id_does() {
        for key in [1, 7, 123_456] {
            assert_eq!(
                SessionKey::from_stand_in(SessionKey(key).stand_in()),
                Some(SessionKey(key))
            );
        }
        assert_eq!(SessionKey::from_stand_in(SessionId(Uuid::from_u128(7))), None);
    }

    #[test]
    fn a_row_id_gives_back_its_session_and_number() {
        for (key, seq) in [(1, 1), (7, 0), (123_456, (1 << 40) - 1)] {
            let row = SessionKey(key).row(Seq(seq));
            assert_eq!(SessionKey::from_row(row), (SessionKey(key), Seq(seq)));
        }
        assert!(SessionKey(1).end() < SessionKey(2).row(Seq(0)));
    }
}
