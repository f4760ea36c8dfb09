//! Which session is meant: a new one, one of ours, or a conversation only the CLI knows.

use std::io;
use std::path::PathBuf;

use journal::{SessionId, SessionRecord};
use session::{Creation, OpenError, Options, Session, Sessions};
use uuid::Uuid;
use wire::note::{Actor, Setting};

use super::arguments::{RunOptions, Wanted};
use crate::sessions::{NoSuch, find};

/// A session, opened.
pub(super) struct Chosen {
    pub(super) session: Session,
    pub(super) record: SessionRecord,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unchosen {
    #[error(transparent)]
    NoSuch(#[from] NoSuch),
    #[error("the session cannot be had")]
    Open(#[from] OpenError),
    #[error("the journal could not be read")]
    Journal(#[from] journal::Error),
    #[error("there is no working directory")]
    NoDirectory(#[source] io::Error),
    #[error("a session keeps its directory; this one works in `{}`", .0.display())]
    OtherDirectory(PathBuf),
    #[error("`{what}` could not be changed")]
    Unset { what: &'static str, source: session::Error },
}

impl Unchosen {
    pub(super) fn hint(&self) -> Option<String> {
        match self {
            Self::NoSuch(no) => no.hint(),
            Self::Open(OpenError::Held(_)) => {
                Some("leave it there first, or branch off with `--fork`".to_owned())
            }
            Self::Open(OpenError::Directory { .. }) => Some("name another with `--cwd`".to_owned()),
            Self::OtherDirectory(_) => Some("leave `--cwd` out, or begin a new session".to_owned()),
            _ => None,
        }
    }
}

/// Opens the session that is meant.
pub(super) async fn choose(
    options: &RunOptions,
    sessions: &Sessions,
    by: &Actor,
) -> Result<Chosen, Unchosen> {
    let wanted = &options.wanted;
    let session = match &options.resume {
        None => sessions.create(new(wanted, None)?).await?,
        Some(name) => match find(sessions.journal(), name).await {
            Ok(record) if options.fork => sessions.create(branch_of(&record, wanted)?).await?,
            Ok(record) => again(sessions, &record, wanted, by).await?,
            // The CLI may know it, though we do not.
            Err(NoSuch::Session(_)) if name.parse::<Uuid>().is_ok() => {
                let mut creation = new(wanted, Some(name.clone()))?;
                creation.options.fork = options.fork;
                sessions.create(creation).await?
            }
            Err(error) => return Err(error.into()),
        },
    };
    let id = session.id();
    let record = sessions.journal().session(id).await?;
    let record = record.ok_or(OpenError::NoSuchSession(id))?;
    Ok(Chosen { session, record })
}

fn new(wanted: &Wanted, resume: Option<String>) -> Result<Creation, Unchosen> {
    let directory = match &wanted.cwd {
        Some(directory) => directory.clone(),
        None => std::env::current_dir().map_err(Unchosen::NoDirectory)?,
    };
    let mut options = Options { directory, ..Options::default() };
    wanted.apply(&mut options);
    Ok(Creation { options, resume, ..Creation::default() })
}

fn branch_of(record: &SessionRecord, wanted: &Wanted) -> Result<Creation, Unchosen> {
    let mut options: Options = serde_json::from_str(&record.options).unwrap_or_default();
    options.directory.clone_from(&record.directory);
    check_directory(record, wanted)?;
    wanted.apply(&mut options);
    // A session whose agent never spoke goes by our id, if the CLI knows it at all.
    let resume = record.agent_ids.last().cloned();
    options.fork = resume.is_some();
    Ok(Creation { options, resume, title: record.title.clone(), ..Creation::default() })
}

async fn again(
    sessions: &Sessions,
    record: &SessionRecord,
    wanted: &Wanted,
    by: &Actor,
) -> Result<Session, Unchosen> {
    check_directory(record, wanted)?;
    let before: Options = serde_json::from_str(&record.options).unwrap_or_default();
    let mut after = before.clone();
    wanted.apply(&mut after);
    keep(sessions, record.id, &before, &after).await?;
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
        set.map_err(|source| Unchosen::Unset { what, source })?;
    }
    Ok(session)
}

/// Writes down what can only be said to an agent's next process, before the session is opened: its
/// owner reads it then.
async fn keep(
    sessions: &Sessions,
    id: SessionId,
    before: &Options,
    after: &Options,
) -> Result<(), Unchosen> {
    let Options { model, effort, permission_mode, .. } = before.clone();
    let lasting = Options { model, effort, permission_mode, ..after.clone() };
    if lasting == *before {
        return Ok(());
    }
    let mut batch = journal::Batch { at: crate::clock::now(), ..journal::Batch::default() };
    batch.change.options = serde_json::to_string(&lasting).ok();
    sessions.journal().write(id, batch).await?;
    Ok(())
}

fn check_directory(record: &SessionRecord, wanted: &Wanted) -> Result<(), Unchosen> {
    let given = wanted.cwd.as_deref().map(|it| it.canonicalize().unwrap_or_else(|_| it.to_owned()));
    match given {
        Some(given) if given != record.directory => {
            Err(Unchosen::OtherDirectory(record.directory.clone()))
        }
        _ => Ok(()),
    }
}
