//! What a fold is shown, and what it says to that.

use wire::Line;
use wire::note::Note;

/// An entry of a session's record.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its number, from 1 on, growing. Numbers may be left out; all parts of a line share one.
    pub seq: u64,
    /// When it came, in milliseconds since 1970. Where nothing is said, the line's own timestamp
    /// counts, if it has one.
    pub at: Option<u64>,
    /// What it is.
    pub source: Source<'a>,
}

/// What an entry is.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A line of the agent's. A note this version cannot read is handed on as one, and shown raw.
    Agent(&'a Line<'a>),
    /// A note of Towpath's.
    Note(&'a Note),
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is part of the document: an item, a turn, the status, the queue, the usage or the head.
    Shown,
    /// It tells a person nothing: it was counted, and is still in the record.
    Housekeeping,
}
