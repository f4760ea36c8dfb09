//! What buttons carry.
//!
//! A button must say what it is for in 64 bytes, for as long as its message exists, and without
//! telling anybody else. So it carries a name made of the session and the thing it belongs to, which
//! only somebody who knows both can make, and a verb. Names are compared, never read back.

use journal::SessionId;
use uuid::Uuid;

/// Where names of buttons come from; any number would do, as long as it is always this one.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d1d_54c3_8a0e_4f7b_9c55_0b9e_7f1c_2ad8);

/// Letters of a name: 60 bits, so that two things of one place never share one.
const LETTERS: usize = 15;

/// The name of something that buttons belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nonce(String);

impl Nonce {
    /// That of a request.
    pub(super) fn of_request(session: SessionId, request: &str) -> Self {
        Self::of(session, &format!("request {request}"))
    }

    /// That of a turn.
    pub(super) fn of_turn(session: SessionId, turn: u64) -> Self {
        Self::of(session, &format!("turn {turn}"))
    }

    fn of(session: SessionId, thing: &str) -> Self {
        let name = Uuid::new_v5(&NAMESPACE, format!("{} {thing}", session.0).as_bytes());
        let mut letters = name.simple().to_string();
        letters.truncate(LETTERS);
        Self(letters)
    }

    /// What a button of it carries.
    pub(super) fn with(&self, verb: &str) -> String {
        format!("{}.{verb}", self.0)
    }

    /// The verb, where a button is one of its.
    pub(super) fn verb<'a>(&self, data: &'a str) -> Option<&'a str> {
        data.strip_prefix(self.0.as_str())?.strip_prefix('.')
    }
}

#[cfg(test)]
mod tests {
    use super::{Nonce, SessionId, Uuid};

    #[test]
    fn a_button_belongs_to_one_thing_of_one_session() {
        let session = SessionId(Uuid::from_u128(1));
        let nonce = Nonce::of_request(session, "r1");
        let data = nonce.with("q3.11");
        assert!(data.len() <= 64 && !data.contains("r1"), "{data}");
        assert_eq!(nonce.verb(&data), Some("q3.11"));
        assert_eq!(Nonce::of_request(session, "r2").verb(&data), None);
        assert_eq!(Nonce::of_request(SessionId(Uuid::from_u128(2)), "r1").verb(&data), None);
        assert_eq!(Nonce::of_turn(session, 1), Nonce::of_turn(session, 1));
        assert_ne!(Nonce::of_turn(session, 1), Nonce::of_turn(session, 2));
    }
}
