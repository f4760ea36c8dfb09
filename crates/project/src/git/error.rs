//! Why something with git failed.

use std::io;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error(
        "there is no `git` on this machine; install it, and make sure that it is on the `PATH`"
    )]
    Missing,
    #[error("this directory is in no git repository; `git init` makes one")]
    NoRepository,
    /// Git's own words.
    #[error("{0}")]
    Refused(String),
    #[error("`git {what}` took longer than {} s and was stopped", limit.as_secs())]
    Timeout { what: String, limit: Duration },
    #[error("`git {what}` printed more than {limit} bytes, which is too much to show")]
    TooLong { what: String, limit: usize },
    #[error("`{0}` is not a path in this repository")]
    InvalidPath(String),
    #[error("`{0}` cannot be the name of a branch")]
    InvalidBranch(String),
    #[error("`{0}` is not the id of a commit")]
    InvalidCommit(String),
    #[error("this has changed in the meantime; look at it again, and repeat what you wanted to do")]
    Changed,
    #[error("`git {what}` could not be run: {source}")]
    Run { what: String, source: io::Error },
    #[error("`{path}` could not be read: {source}")]
    File { path: String, source: io::Error },
}
