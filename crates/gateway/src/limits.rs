//! How much memory clients can make the server use. `docs/api.md` states these bounds.
//!
//! What a client costs while it waits is small and fixed: its connection's buffers and a position in a
//! session. Everything larger is taken from one [pool](crate::memory_pool), which all clients
//! share.

use std::time::Duration;

/// The size of the pool: all bodies, frames and lines larger than [`SMALL_BYTES`] that are being
/// received, made or sent.
pub(crate) const POOL_BYTES: usize = 64 << 20;

/// How much of the pool the bodies of requests may take together, so that there is always something
/// left for responses.
pub(crate) const MAX_RECEIVED_BYTES: usize = 40 << 20;

/// The largest body of a request: a prompt with several images.
pub(crate) const MAX_BODY_BYTES: usize = 32 << 20;

/// Requests with a larger body are handled one after the other: a prompt is copied several times
/// until it is in the journal.
pub(crate) const LARGE_REQUEST_BYTES: usize = 1 << 20;

/// How long a large request may wait for others.
pub(crate) const REQUEST_WAIT: Duration = Duration::from_secs(20);

/// A client that sends less of a body than this in [`STALLED_AFTER`] loses its part of the pool if
/// another one needs it.
pub(crate) const MIN_RECEIVED_BYTES: usize = 64 << 10;

/// How many bytes of text may wait in the queue of a session. Each snapshot has all of it.
pub(crate) const MAX_QUEUED_TEXT_BYTES: usize = 8 << 20;

/// How many bytes of images, in base64.
pub(crate) const MAX_QUEUED_IMAGE_BYTES: usize = 32 << 20;

/// How many entries of a to-do list are shown, and how many bytes of each.
pub(crate) const MAX_TODOS: usize = 300;
pub(crate) const MAX_TODO_BYTES: usize = 2 << 10;

/// The largest file that a client may store in a project.
pub(crate) const MAX_UPLOAD_BYTES: u64 = 1 << 30;

/// How many files are received at the same time.
pub(crate) const MAX_UPLOADS: usize = 8;

/// A file of which nothing came for this long is given up.
pub(crate) const UPLOAD_STALLED_AFTER: Duration = Duration::from_secs(30);

/// How many operations on files run at the same time; others wait.
pub(crate) const MAX_FILE_OPERATIONS: usize = 4;

/// How many requests about files and git may be on their way to other machines at the same time. Each has a
/// quarter of a megabyte of a body in memory in each direction.
pub(crate) const MAX_RELAYED_REQUESTS: usize = 24;

/// How many clients may look at terminals of other machines at the same time. They have a limit of their own, because
/// they stay.
pub(crate) const MAX_RELAYED_TERMINALS: usize = 24;

/// What is smaller is not taken from the pool.
pub(crate) const SMALL_BYTES: usize = 32 << 10;

/// The size of the pieces in which long bodies are sent.
pub(crate) const PIECE_BYTES: usize = 16 << 10;

/// The largest message of a client of the Agent Client Protocol: a prompt with an image.
pub(crate) const MAX_ACP_MESSAGE_BYTES: usize = 4 << 20;

/// How many such clients there may be. Each may send a message of the largest size, and a WebSocket
/// has the whole of it in memory, so together they take no more than the pool.
pub(crate) const MAX_ACP_CLIENTS: usize = 16;

/// How much memory the documents of all sessions that clients have open may take together, with what
/// was made of them for clients. Above it, those that no client has open any more are dropped, then
/// old and long parts of the others, which are read again when they are needed; and if that is not
/// enough, no further session is opened.
pub(crate) const LIVE_BYTES: usize = 32 << 20;

/// How many sessions are loaded at the same time, each some lines at a time; others wait in turn.
pub(crate) const MAX_LOADS: usize = 2;

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

/// How many sessions are exported at the same time; others wait. A long line takes many times its size
/// while it becomes a part of a page.
pub(crate) const MAX_EXPORTS: usize = 1;

/// How many git commands that read run at the same time; others wait.
pub(crate) const MAX_GIT_READS: usize = 4;

/// How many git commands that change something run at the same time.
pub(crate) const MAX_GIT_CHANGES: usize = 4;

/// A client that takes nothing for this long loses what it has from the pool if another one waits.
pub(crate) const STALLED_AFTER: Duration = Duration::from_secs(2);

/// A connection over which nothing could be sent for this long is closed; its client may reconnect.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_mins(1);
