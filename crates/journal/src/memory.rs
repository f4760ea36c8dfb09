//! What a follower remembers from one life to the next.
//!
//! How far it got, whom it told, what it was about to do: every follower has a drawer of its own and
//! knows alone what the values mean. It is in the same file as the sessions, so that it is as
//! durable, and saved with them.

/// Something to remember, or to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What it is called; the newest of a name counts.
    pub name: String,
    /// What is remembered; with nothing the name is forgotten.
    pub value: Option<Vec<u8>>,
}
