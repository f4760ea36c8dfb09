//! Messages that an agent sends in pieces of a few words, each in an entry of its own.
//!
//! Agents of the Agent Client Protocol do that, and never send the whole message. The pieces are joined
//! when they are indexed and when a result is read, so that a phrase or a word that goes on in the next
//! piece is found.

use journal::{Entry, Origin};
use memchr::memmem;
use wire::json::Raw;

/// A longer message is indexed in several parts.
const MAX_BYTES: usize = 32 << 10;

/// And so is one of more pieces.
pub(crate) const MAX_PIECES: usize = 1024;

/// Which message a piece belongs to, with those before and behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkKind {
    Message,
    Thought,
}

/// Pieces that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinedMessage {
    pub(crate) text: String,
    /// How many entries it has.
    pub(crate) pieces: usize,
    /// Whether another entry may still go on with it.
    pub(crate) is_open: bool,
}

impl JoinedMessage {
    /// Joins the pieces at the beginning of some entries; none if the first one is no piece.
    pub(crate) fn read(entries: &[Entry]) -> Option<Self> {
        let (kind, text) = read_chunk(entries.first()?)?;
        let mut this = Self { text, pieces: 1, is_open: true };
        for entry in &entries[1..] {
            let is_full = this.text.len() >= MAX_BYTES || this.pieces == MAX_PIECES;
            match read_chunk(entry) {
                Some((next, text)) if next == kind && !is_full => {
                    this.text.push_str(&text);
                    this.pieces += 1;
                }
                _ => {
                    this.is_open = false;
                    break;
                }
            }
        }
        Some(this)
    }
}

fn read_chunk(entry: &Entry) -> Option<(ChunkKind, String)> {
    let is_whole = entry.omitted == 0 && !entry.continues;
    // Most entries are something else, and this is quicker than parsing them.
    let may_be = entry.origin == Origin::Agent && memmem::find(&entry.bytes, b"_chunk").is_some();
    if !is_whole || !may_be {
        return None;
    }
    let line = Raw::parse(std::str::from_utf8(&entry.bytes).ok()?)?;
    line.get("jsonrpc")?;
    let update = line.get("params")?.get("update")?;
    let kind = match &*update.get("sessionUpdate")?.text()?.decode() {
        "agent_message_chunk" => ChunkKind::Message,
        "agent_thought_chunk" => ChunkKind::Thought,
        _ => return None,
    };
    let text = update.get("content")?.get("text")?.text()?.decode();
    Some((kind, text.into_owned()))
}
