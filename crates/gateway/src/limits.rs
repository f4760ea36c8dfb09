//! How much memory clients can make the server use. `docs/api.md` states these bounds.
//!
//! What a client costs while it waits is small and fixed: its connection's buffers and a position in a
//! session. Everything larger is taken from one [pool](crate::memory_pool), which all clients
//! share.

use std::time::Duration;

/// The size of the pool: all bodies, frames and lines larger than [`SMALL_BYTES`] that are being
/// made or sent.
pub(crate) const POOL_BYTES: usize = 64 << 20;

/// What is smaller is not taken from the pool.
pub(crate) const SMALL_BYTES: usize = 32 << 10;

/// The size of the pieces in which long bodies are sent.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

/// How much of a session is read at once, unless a single line is longer.
pub(crate) const READ_BYTES: usize = 1 << 20;

/// A longer line is left out of pages and streams, which say so, and is shown as an excerpt. It can
/// be downloaded by itself.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;

/// How many bytes of items a page of older items may have, unless the first one is larger.
pub(crate) const MAX_PAGE_BYTES: usize = 512 << 10;

/// A longer item is not given as a whole.
pub(crate) const MAX_ITEM_SOURCE_BYTES: usize = 4 << 20;

/// How many bytes of diffs are returned for a turn.
pub(crate) const MAX_DIFF_BYTES: usize = 2 << 20;

/// How many bytes of inputs a list of requests may have.
pub(crate) const MAX_REQUESTS_BYTES: usize = 4 << 20;

/// How many operations that fold a part of a session again run at the same time; others wait.
pub(crate) const MAX_FOLDS: usize = 2;

/// A client that takes nothing for this long loses what it has from the pool if another one waits.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(2);

/// A connection over which nothing could be sent for this long is closed; its client may reconnect.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
