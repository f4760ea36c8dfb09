//! What a connection needs from its surroundings.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use journal::SessionId;
use session::{OpenError, Roots, Session, SessionOptions, Sessions};

/// A future that a trait object returns.
pub type BoxedFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How connections use sessions.
#[derive(Clone)]
pub struct AcpConfig {
    pub sessions: Sessions,
    pub opener: Arc<dyn SessionOpener>,
    /// The directories below which sessions may work.
    pub roots: Roots,
    /// The options of new sessions.
    pub defaults: Arc<dyn SessionDefaults>,
    /// The name of the user, in the record of prompts and answers.
    pub user: String,
    pub role: AcpRole,
    /// Whether a client hears only of turns that it started.
    pub own_turns_only: bool,
    /// The version of Towpath.
    pub version: &'static str,
}

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AcpRole {
    /// Only look at sessions.
    Watch,
    Drive,
    /// Also what can run programs on the machine, or lets the agent do so without asking.
    Admin,
}

/// Opens sessions for connections.
pub trait SessionOpener: Send + Sync {
    fn open(&self, id: SessionId) -> BoxedFuture<'_, Result<Session, OpenError>>;
}

/// Opens sessions in this process.
#[derive(Clone, Debug)]
pub struct LocalOpener(pub Sessions);

impl SessionOpener for LocalOpener {
    fn open(&self, id: SessionId) -> BoxedFuture<'_, Result<Session, OpenError>> {
        Box::pin(self.0.open(id))
    }
}

/// The options of new sessions.
pub trait SessionDefaults: Send + Sync {
    /// The options of a session in a directory, or why there can be none. Blocks.
    fn options(&self, directory: &Path) -> Result<SessionOptions, String>;
}

/// Sessions without any options.
#[derive(Clone, Copy, Debug)]
pub struct PlainDefaults;

impl SessionDefaults for PlainDefaults {
    fn options(&self, directory: &Path) -> Result<SessionOptions, String> {
        let directory: PathBuf = directory.to_owned();
        Ok(SessionOptions { directory, ..SessionOptions::default() })
    }
}
