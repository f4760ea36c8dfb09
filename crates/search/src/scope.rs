//! Which sessions are searched.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use journal::SessionRecord;
use session::Roots;
use transcripts::CatalogEntry;

use crate::search::FoundSession;

/// Which sessions are searched.
#[derive(Clone, Debug, Default)]
pub struct SearchScope {
    /// Only sessions below these directories.
    pub roots: Option<Roots>,
    /// Only sessions in this directory or below it.
    pub directory: Option<PathBuf>,
}

/// A session that may be searched.
#[derive(Clone, Debug)]
pub(crate) struct SearchedSession {
    pub(crate) session: FoundSession,
    pub(crate) title: Option<String>,
    pub(crate) directory: PathBuf,
    /// The session file.
    pub(crate) file: Option<PathBuf>,
}

/// Decides which directories are searched, each one once.
#[derive(Debug)]
pub(crate) struct ScopeFilter {
    roots: Option<Roots>,
    directory: Option<PathBuf>,
    resolved: HashMap<PathBuf, Option<PathBuf>>,
}

impl ScopeFilter {
    pub(crate) fn new(scope: SearchScope) -> Self {
        let SearchScope { roots, directory } = scope;
        let directory = directory.map(|path| path.canonicalize().unwrap_or(path));
        Self { roots, directory, resolved: HashMap::new() }
    }

    /// A session of Towpath, if it is searched. Its directory was resolved when it was created, and need
    /// not exist any more.
    pub(crate) fn own_session(&self, record: &SessionRecord) -> Option<SearchedSession> {
        let directory = record.directory.clone();
        let is_allowed = self.roots.as_ref().is_none_or(|roots| roots.contains(&directory));
        let (session, title) = (FoundSession::Own(record.id), record.title.clone());
        (is_allowed && self.is_wanted(&directory)).then_some(SearchedSession {
            session,
            title,
            directory,
            file: None,
        })
    }

    /// The session of a session file, if it is searched.
    pub(crate) fn session_file(&mut self, entry: &CatalogEntry) -> Option<SearchedSession> {
        let CatalogEntry { file, summary } = entry;
        let directory = self.resolve(summary.directory.as_deref()?)?;
        let (session, title) = (FoundSession::OfCli(file.id), summary.title.clone());
        Some(SearchedSession { session, title, directory, file: Some(file.path.clone()) })
    }

    /// The directory of a session file.
    fn resolve(&mut self, directory: &Path) -> Option<PathBuf> {
        if let Some(known) = self.resolved.get(directory) {
            return known.clone();
        }
        let resolved = match &self.roots {
            Some(roots) => roots.resolve(directory),
            None => Some(directory.canonicalize().unwrap_or_else(|_| directory.to_owned())),
        };
        let resolved = resolved.filter(|it| self.is_wanted(it));
        self.resolved.insert(directory.to_owned(), resolved.clone());
        resolved
    }

    fn is_wanted(&self, directory: &Path) -> bool {
        self.directory.as_deref().is_none_or(|wanted| directory.starts_with(wanted))
    }
}
