//! Selects the session of a run: a new one, one of the journal, or a conversation of the CLI.

use std::io;
use std::path::PathBuf;

use journal::{SessionId, SessionRecord};
use session::{OpenError, Session, SessionOptions, SessionSpec, Sessions};
use uuid::Uuid;
use wire::note::{Actor, Setting};

use super::arguments::{AgentOptionArgs, RunArgs};
use crate::sessions::{SessionLookupError, find_session};

/// The opened session, and its record before the run.
pub(super) struct SelectedSession {
    pub(super) session: Session,
    pub(super) record: SessionRecord,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionSelectionError {
    #[error(transparent)]
    Lookup(#[from] SessionLookupError),
    #[error("the session cannot be opened")]
    Open(#[from] OpenError),
    #[error("the journal could not be read")]
    Journal(#[from] journal::Error),
    #[error("the current directory cannot be determined")]
    CurrentDirectory(#[source] io::Error),
    #[error("the session belongs to another directory, `{}`", .0.display())]
    DirectoryMismatch(PathBuf),
    #[error("could not change `{what}`")]
    Setting { what: &'static str, source: session::Error },
}

impl SessionSelectionError {
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::Lookup(error) => error.hint(),
            Self::Open(OpenError::Owned(_)) => {
                Some("leave the session there first, or copy it with `--fork`".to_owned())
            }
            Self::Open(OpenError::Directory { .. }) => {
                Some("choose another directory with `--cwd`".to_owned())
            }
            Self::DirectoryMismatch(_) => Some("omit `--cwd`, or start a new session".to_owned()),
            _ => None,
        }
    }
}

/// Opens or creates the session that the arguments name.
pub(super) async fn select_session(
    options: &RunArgs,
    sessions: &Sessions,
    by: &Actor,
) -> Result<SelectedSession, SessionSelectionError> {
    let given = &options.agent_options;
    let session = match &options.resume {
        None => sessions.create(new_session(given, None)?).await?,
        Some(name) => match find_session(sessions.journal(), name).await {
            Ok(record) if options.fork => sessions.create(branch_of(&record, given)?).await?,
            Ok(record) => reopen(sessions, &record, given, by).await?,
            // The CLI may have a conversation with this id that the journal does not have.
            Err(SessionLookupError::NotFound(_)) if name.parse::<Uuid>().is_ok() => {
                let mut creation = new_session(given, Some(name.clone()))?;
                creation.options.fork = options.fork;
                sessions.create(creation).await?
            }
            Err(error) => return Err(error.into()),
        },
    };
    let id = session.id();
    let record = sessions.journal().session(id).await?;
    let record = record.ok_or(OpenError::NoSuchSession(id))?;
    Ok(SelectedSession { session, record })
}

fn new_session(
    given: &AgentOptionArgs,
    resume: Option<String>,
) -> Result<SessionSpec, SessionSelectionError> {
    let directory = match &given.cwd {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().map_err(SessionSelectionError::CurrentDirectory)?,
    };
    let mut options = SessionOptions { directory, ..SessionOptions::default() };
    given.apply(&mut options);
    Ok(SessionSpec { options, resume, ..SessionSpec::default() })
}

fn branch_of(
    record: &SessionRecord,
    given: &AgentOptionArgs,
) -> Result<SessionSpec, SessionSelectionError> {
    let mut options: SessionOptions = serde_json::from_str(&record.options).unwrap_or_default();
    options.directory.clone_from(&record.directory);
    check_directory(record, given)?;
    given.apply(&mut options);
    // Without any output of the agent there is no conversation to branch from.
    let resume = record.agent_ids.last().cloned();
    options.fork = resume.is_some();
    Ok(SessionSpec { options, resume, title: record.title.clone(), ..SessionSpec::default() })
}

async fn reopen(
    sessions: &Sessions,
    record: &SessionRecord,
    given: &AgentOptionArgs,
    by: &Actor,
) -> Result<Session, SessionSelectionError> {
    check_directory(record, given)?;
    let before: SessionOptions = serde_json::from_str(&record.options).unwrap_or_default();
    let mut after = before.clone();
    given.apply(&mut after);
    store_options(sessions, record.id, &before, &after).await?;
    let session = sessions.open(record.id).await?;
    let mut settings = Vec::new();
    if after.model != before.model {
        settings.push(("model", Setting::Model(after.model)));
    }
    if let Some(effort) = after.effort.filter(|it| Some(it) != before.effort.as_ref()) {
        settings.push(("effort", Setting::Effort(effort)));
    }
    if let Some(mode) = after.permission_mode.filter(|it| Some(*it) != before.permission_mode) {
        settings.push(("mode", Setting::PermissionMode(mode.name().to_owned())));
    }
    for (what, setting) in settings {
        let set = session.set(setting, by.clone()).await;
        set.map_err(|source| SessionSelectionError::Setting { what, source })?;
    }
    Ok(session)
}

/// Stores the options that only a new agent process can take. The session's owner reads them when it
/// opens the session, so this comes first.
async fn store_options(
    sessions: &Sessions,
    id: SessionId,
    before: &SessionOptions,
    after: &SessionOptions,
) -> Result<(), SessionSelectionError> {
    let SessionOptions { model, effort, permission_mode, .. } = before.clone();
    let lasting = SessionOptions { model, effort, permission_mode, ..after.clone() };
    if lasting == *before {
        return Ok(());
    }
    let mut batch = journal::Batch { at: crate::clock::now(), ..journal::Batch::default() };
    batch.change.options = serde_json::to_string(&lasting).ok();
    sessions.journal().write(id, batch).await?;
    Ok(())
}

fn check_directory(
    record: &SessionRecord,
    given: &AgentOptionArgs,
) -> Result<(), SessionSelectionError> {
    let given = given.cwd.as_deref().map(|it| it.canonicalize().unwrap_or_else(|_| it.to_owned()));
    match given {
        Some(given) if given != record.directory => {
            Err(SessionSelectionError::DirectoryMismatch(record.directory.clone()))
        }
        _ => Ok(()),
    }
}
