//! What followers conclude from events.
//!
//! Each is a small fold: it is shown every event in order and remembers what it must. They live
//! here so that the browser, Telegram, the pipe and the reports cannot come to different
//! conclusions from the same stream.

mod calls;
mod change;
mod identity;
mod tally;

pub use calls::{Call, CallNews, Calls};
pub use change::{FileChange, file_changed_by};
pub use identity::{Identity, SessionChange};
pub use tally::{Tally, Tokens};
