//! Selects the session of a run: a new one, one of the journal, or a conversation of the CLI.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use journal::{Seq, SessionRecord};
use session::{
    OpenError, OptionChanges, OptionError, Session, SessionOptions, SessionSpec, Sessions,
};
use transcripts::TranscriptFile;
use uuid::Uuid;
use view::Fold;
use wire::note::Actor;

use super::arguments::{RunArgs, SessionOptionArgs};
use super::profile::{ProfileSelectionError, select_profile};
use crate::sessions::{SessionLookupError, find_session, short_id};

/// How much of a conversation is kept in memory for its summary, and how long the summary may be.
const FOLD_BYTES: usize = 8 << 20;
const SUMMARY_BYTES: usize = 8 << 10;

/// How many entries are read at a time.
const READ_LIMIT: usize = 1000;

/// The opened session, and its record before the run.
pub(super) struct SelectedSession {
    pub(super) session: Session,
    pub(super) record: SessionRecord,
    /// What was selected, if the arguments do not say exactly.
    pub(super) note: Option<String>,
    /// What the agent must be told before the prompt.
    pub(super) summary: Option<String>,
}

/// A session that the arguments name.
enum NamedSession {
    /// One of the journal.
    Known(Box<SessionRecord>),
    /// One that the CLI ran without Towpath.
    OfCli(TranscriptFile),
    /// A conversation that the CLI may know and that has no session file.
    Conversation(Uuid),
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
    #[error("there is no session of the directory `{}`", .0.display())]
    NoneHere(PathBuf),
    #[error("the session's directory `{}` does not exist any more", .0.display())]
    DirectoryGone(PathBuf),
    #[error("the session belongs to another directory, `{}`", .0.display())]
    DirectoryMismatch(PathBuf),
    #[error("could not change the options of the session")]
    Options(#[source] session::Error),
    #[error(transparent)]
    InvalidOption(#[from] OptionError),
    #[error(transparent)]
    Profile(#[from] ProfileSelectionError),
    #[error("the stored options of the session cannot be read: {0}")]
    UnreadableOptions(String),
    #[error("{0}")]
    NoBranch(&'static str),
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
            Self::Open(OpenError::OpenElsewhere { .. }) => Some(
                "leave the session there first, or continue in a copy with `--fork`".to_owned(),
            ),
            Self::NoneHere(_) => Some(
                "start one with `towpath run`; `towpath sessions` lists those of all directories"
                    .to_owned(),
            ),
            Self::DirectoryGone(_) => Some("choose another directory with `--cwd`".to_owned()),
            Self::Profile(error) => error.hint(),
            Self::UnreadableOptions(_) => {
                Some("a copy could run without its limits; start a new session".to_owned())
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
    let given = &options.options;
    let (mut note, mut summary) = (None, None);
    let session = match options.resumed_session() {
        None if options.continue_from.is_some() => {
            let (session, text) = continue_from(options, sessions).await?;
            summary = Some(text);
            session
        }
        None => {
            sessions.create(new_session(sessions, given_directory(given)?, given, None)?).await?
        }
        Some(name) => {
            let named = if name == "last" {
                let named = newest_here(sessions, &given_directory(given)?).await?;
                note = Some(describe(&named));
                named
            } else {
                find_named(sessions, name).await?
            };
            match named {
                NamedSession::Known(record) if options.fork => {
                    sessions.create(branch_of(sessions, &record, given)?).await?
                }
                NamedSession::Known(record) => reopen(sessions, &record, given, by).await?,
                NamedSession::OfCli(file) => {
                    let directory = directory_of(&file, given)?;
                    note.get_or_insert_with(|| describe_imported(&file, &directory));
                    let conversation = Some(file.id.to_string());
                    let mut creation = new_session(sessions, directory, given, conversation)?;
                    creation.options.fork = options.fork;
                    sessions.create(creation).await?
                }
                NamedSession::Conversation(id) => {
                    let conversation = Some(id.to_string());
                    let mut creation =
                        new_session(sessions, given_directory(given)?, given, conversation)?;
                    creation.options.fork = options.fork;
                    sessions.create(creation).await?
                }
            }
        }
    };
    let id = session.id();
    let record = sessions.journal().session(id).await?;
    let record = record.ok_or(OpenError::NoSuchSession(id))?;
    Ok(SelectedSession { session, record, note, summary })
}

/// Creates a session in which another agent continues a conversation, and the summary for it.
async fn continue_from(
    options: &RunArgs,
    sessions: &Sessions,
) -> Result<(Session, String), SessionSelectionError> {
    let name = options.continue_from.as_deref().unwrap_or_default();
    let record = find_session(sessions.journal(), name).await?;
    let agent = options.options.agent().unwrap_or_default();
    let mut fold = Fold::with_budget(FOLD_BYTES);
    let mut after = Seq(0);
    loop {
        let entries = sessions.journal().read(record.id, after, READ_LIMIT).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in &entries {
            fold.push_recorded(entry.line());
        }
    }
    let before = stored_options(&record).ok().and_then(|it| it.agent);
    let before = sessions.config().agents.title(before.as_deref());
    let summary = view::handover::summarize(&fold.conversation(usize::MAX), before, SUMMARY_BYTES);
    let first = sessions.journal().first_prompt_text(record.id, 4 << 10).await?;
    let title = first.and_then(|it| view::wording::title(&it));
    let session = sessions.hand_over(&record, title.as_deref(), agent).await?;
    Ok((session, summary))
}

/// Finds a session by the beginning of its id or of the CLI's id: one of the journal, or else one of the
/// CLI's session files.
async fn find_named(
    sessions: &Sessions,
    name: &str,
) -> Result<NamedSession, SessionSelectionError> {
    let lookup = match find_session(sessions.journal(), name).await {
        Ok(record) => return Ok(NamedSession::Known(Box::new(record))),
        Err(error @ SessionLookupError::NotFound(_)) => error,
        Err(error) => return Err(error.into()),
    };
    let mut files = sessions.transcripts().map(|store| store.find(name)).unwrap_or_default();
    match (files.len(), name.parse()) {
        (0, Ok(id)) => Ok(NamedSession::Conversation(id)),
        (0, Err(_)) => Err(lookup.into()),
        (1, _) => Ok(NamedSession::OfCli(files.remove(0))),
        (several, _) => Err(SessionLookupError::Ambiguous(name.to_owned(), several).into()),
    }
}

/// The session of a directory that was active last: one of the journal, or one that the CLI ran without
/// Towpath.
async fn newest_here(
    sessions: &Sessions,
    directory: &Path,
) -> Result<NamedSession, SessionSelectionError> {
    let records = sessions.journal().sessions().await?;
    // The CLI writes session files for Towpath's sessions too.
    // A session that was just created gives the CLI its own id, which the CLI has not confirmed yet.
    let known: HashSet<String> = records
        .iter()
        .flat_map(|record| record.agent_ids.iter().cloned().chain([record.id.to_string()]))
        .collect();
    let of_cli = sessions
        .transcripts()
        .and_then(|store| store.newest_in(directory, |file| !known.contains(&file.id.to_string())));
    let any = !records.is_empty();
    let mut here = records.into_iter().filter(|record| record.directory == directory);
    match (here.next(), of_cli) {
        (Some(record), Some(file)) if file.modified > record.active => {
            Ok(NamedSession::OfCli(file))
        }
        (Some(record), _) => Ok(NamedSession::Known(Box::new(record))),
        (None, Some(file)) => Ok(NamedSession::OfCli(file)),
        (None, None) if !any => Err(SessionLookupError::NoSessions.into()),
        (None, None) => Err(SessionSelectionError::NoneHere(directory.to_owned())),
    }
}

fn describe(named: &NamedSession) -> String {
    match named {
        NamedSession::Known(record) => {
            let title = record.title.as_deref().unwrap_or("untitled");
            format!("continuing session {}: {title}", short_id(record.id))
        }
        NamedSession::OfCli(file) => {
            format!("continuing session {} of the CLI, which began without Towpath", file.id)
        }
        NamedSession::Conversation(id) => format!("continuing session {id} of the CLI"),
    }
}

fn describe_imported(file: &TranscriptFile, directory: &Path) -> String {
    let directory = directory.display();
    format!("continuing session {} of the CLI in `{directory}`", file.id)
}

/// The directory in which a session of the CLI is continued: its own, unless another one is given.
fn directory_of(
    file: &TranscriptFile,
    given: &SessionOptionArgs,
) -> Result<PathBuf, SessionSelectionError> {
    match file.working_directory() {
        Some(directory) if given.cwd.is_none() => {
            let gone = || SessionSelectionError::DirectoryGone(directory.clone());
            directory.canonicalize().map_err(|_| gone())
        }
        _ => given_directory(given),
    }
}

/// The given directory, or the current one.
fn given_directory(given: &SessionOptionArgs) -> Result<PathBuf, SessionSelectionError> {
    let directory = match &given.cwd {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().map_err(SessionSelectionError::CurrentDirectory)?,
    };
    // Creating the session says what is wrong with a directory that cannot be used.
    Ok(directory.canonicalize().unwrap_or(directory))
}

fn new_session(
    sessions: &Sessions,
    directory: PathBuf,
    given: &SessionOptionArgs,
    resume: Option<String>,
) -> Result<SessionSpec, SessionSelectionError> {
    let profile = select_profile(&sessions.profiles(), &directory, given)?;
    let mut options = SessionOptions { directory, ..SessionOptions::default() };
    if let Some(profile) = profile {
        profile.options.apply(&mut options)?;
    }
    given.changes(&options)?.apply(&mut options)?;
    Ok(SessionSpec { options, resume, ..SessionSpec::default() })
}

fn branch_of(
    sessions: &Sessions,
    record: &SessionRecord,
    given: &SessionOptionArgs,
) -> Result<SessionSpec, SessionSelectionError> {
    check_directory(record, given)?;
    let options = stored_options(record)?;
    // Without any output of the agent there is no conversation to branch from.
    let resume = record.agent_ids.last().cloned();
    let mut options = options.for_fork().map_err(SessionSelectionError::NoBranch)?;
    options.fork = resume.is_some();
    changes(sessions, given, &options)?.apply(&mut options)?;
    Ok(SessionSpec { options, resume, title: record.title.clone(), ..SessionSpec::default() })
}

async fn reopen(
    sessions: &Sessions,
    record: &SessionRecord,
    given: &SessionOptionArgs,
    by: &Actor,
) -> Result<Session, SessionSelectionError> {
    check_directory(record, given)?;
    let changes = match stored_options(record) {
        Ok(options) => changes(sessions, given, &options)?,
        // The session itself says what is wrong when it is used.
        Err(_) => OptionChanges::default(),
    };
    let session = sessions.open(record.id).await?;
    session.change_options(&changes, by).await.map_err(SessionSelectionError::Options)?;
    Ok(session)
}

/// What the arguments change in a session that exists. A default profile is for new sessions only.
fn changes(
    sessions: &Sessions,
    given: &SessionOptionArgs,
    options: &SessionOptions,
) -> Result<OptionChanges, SessionSelectionError> {
    let mut changes = OptionChanges::default();
    if given.profile.is_some() {
        let profile = select_profile(&sessions.profiles(), &options.directory, given)?;
        changes = profile.map(|it| it.options).unwrap_or_default();
    }
    let mut base = options.clone();
    changes.apply(&mut base)?;
    changes.extend(given.changes(&base)?);
    Ok(changes)
}

fn stored_options(record: &SessionRecord) -> Result<SessionOptions, SessionSelectionError> {
    SessionOptions::from_json(&record.options, record.directory.clone())
        .map_err(|it| SessionSelectionError::UnreadableOptions(it.reason))
}

fn check_directory(
    record: &SessionRecord,
    given: &SessionOptionArgs,
) -> Result<(), SessionSelectionError> {
    let given = given.cwd.as_deref().map(|it| it.canonicalize().unwrap_or_else(|_| it.to_owned()));
    match given {
        Some(given) if given != record.directory => {
            Err(SessionSelectionError::DirectoryMismatch(record.directory.clone()))
        }
        _ => Ok(()),
    }
}
