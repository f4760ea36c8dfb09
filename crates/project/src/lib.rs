//! The directory that a session works in: its files, and its git repository.
//!
//! ```text
//!  gateway ── a path of the page ──┬── files: list, read, save, receive     (cap-std)
//!                                  └── git: status, diff, commit, worktrees (the git command)
//! ```
//!
//! Paths of clients are relative to the directory, and nothing outside of it can be reached through
//! them: [`files`] resolves every component below an open directory, so neither `..` nor a link
//! that is exchanged meanwhile leads out. [`git`] runs the user's git, with the user's
//! configuration and hooks; operations that only read start none of the programs that a
//! repository can name.
//!
//! Deliberately absent: HTTP, roles, and which directories may be used at all. The caller decides.

pub mod files;
pub mod git;
