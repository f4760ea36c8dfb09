//! Full-text search over all sessions: Towpath's own, and those that the CLI ran without it.
//!
//! The index is a file of its own beside the journal, because it can be made again at any time. It holds
//! which words are in which line and no text: the lines themselves are read from the journal or from the
//! CLI's session file when a result is shown. That keeps it small, and what is shown is what is there.
//!
//! [`Search::run`] keeps the index up to date in the background, in a thread of low priority.
//! [`Search::find`] searches what is indexed so far.

mod document;
mod error;
mod index_file;
mod index_reader;
mod index_writer;
mod indexed_sources;
mod indexing;
mod low_priority;
mod message_chunks;
mod period;
mod query;
mod ranking;
mod scope;
mod search;
mod snippet;
mod source;
mod time_limit;
mod words;

#[cfg(test)]
mod tests;

pub use document::SearchRole;
pub use error::Error;
pub use indexing::IndexProgress;
pub use scope::SearchScope;
pub use search::{
    FoundSession, InvalidCursor, Search, SearchCursor, SearchPage, SearchRequest, SearchResult,
};
pub use snippet::SnippetPart;
