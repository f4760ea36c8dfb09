//! `towpath sessions`: lists, searches, shows, imports, exports, renames, moves and deletes sessions.

mod all;
mod find;
mod import;
mod move_session;
mod report;

use std::io::{self, IsTerminal as _, Write as _};

use anstream::{eprint, eprintln};
use clap::{Args, Subcommand};
use journal::{Batch, Journal, NewEntry, Origin, Seq, SessionId, SessionRecord};
use session::{AgentProgram, OpenError, SessionLimits, Sessions};
use wire::note::Note;

use crate::exit::{CommandStatus, report_error};
use crate::settings::{CliSettings, SettingsError};

/// How many entries are read at once.
const READ_LIMIT: usize = 512;

/// How many bytes are exported at once.
const PART_BYTES: usize = 4 << 20;

/// List, search, show, import, export, rename and delete sessions
///
/// ID is `last`, or the beginning of a session's id or of the id that the CLI gave it.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Exit codes: 0 done; 1 cancelled by the user, or nothing found; 2 failed.

Examples:
  towpath sessions
  towpath sessions --all                          # also those that the CLI ran alone
  towpath sessions --json | jq -r '.[] | select(.status == \"waiting\").id'
  towpath sessions search retry timeout           # also in sessions of the CLI
  towpath sessions show last --full | less -R
  towpath sessions export 1f0c | towpath inspect
  towpath sessions move 1f0c --to w2 --nats nats://n1:4222 --creds admin.nk
  towpath sessions delete 1f0c 77ab --yes"
)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    action: Option<SessionsAction>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Include sessions that the CLI ran without Towpath
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum SessionsAction {
    /// List all sessions, the most recently active first
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
        /// Include sessions that the CLI ran without Towpath
        #[arg(long)]
        all: bool,
    },
    /// Find what was said in any session, also in those that the CLI ran without Towpath
    Search(find::FindArgs),
    /// Make sessions of the CLI sessions of Towpath, with what was said in them
    Import(import::ImportArgs),
    /// Show the status, prompts, requests and usage of a session
    Show(ShowArgs),
    /// Print the agent's lines byte for byte, without the deltas of finished messages
    ///
    /// A finished message repeats what its streaming deltas said, so these are not stored for long;
    /// everything else is included.
    Export {
        /// The session
        id: String,
        /// Include the notes that Towpath recorded between the agent's lines
        #[arg(long)]
        all: bool,
    },
    /// Rename a session
    Rename {
        /// The session
        id: String,
        /// The new name
        name: String,
    },
    Move(move_session::MoveArgs),
    /// Delete sessions permanently and stop their agents
    Delete {
        /// The sessions
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

#[derive(Args, Clone, Debug)]
struct ShowArgs {
    /// The session
    id: String,
    /// Print the whole conversation as well, unshortened
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum SessionsError {
    #[error("could not start the runtime")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("the journal cannot be used")]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Lookup(#[from] SessionLookupError),
    #[error("the session could not be deleted")]
    Delete(#[source] OpenError),
    #[error("could not search")]
    Search(#[from] search::Error),
    #[error("no session file of the CLI matches `{0}`")]
    NoTranscript(String),
    #[error("several session files of the CLI match `{0}`")]
    AmbiguousTranscript(String),
    #[error("session `{id}` of the CLI could not be imported")]
    Import { id: uuid::Uuid, source: OpenError },
    #[error("the session was not moved")]
    Move(#[from] move_session::MoveError),
    #[error("the new name is empty")]
    EmptyName,
    #[error("cannot ask for confirmation: stdin is not a terminal")]
    NoConfirmation,
    #[error("could not write the output")]
    Write(#[from] io::Error),
}

impl SessionsError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.hint(),
            Self::Lookup(error) => error.hint(),
            Self::Move(error) => error.hint(),
            Self::Journal(journal::Error::DamagedSession { session, .. }) => {
                Some(damage_hint(*session))
            }
            Self::Journal(_) => Some("`towpath doctor` shows what is wrong".to_owned()),
            Self::NoTranscript(_) => Some(
                "`towpath sessions --all` lists them; a file must be where the CLI keeps it"
                    .to_owned(),
            ),
            Self::AmbiguousTranscript(_) => Some("give more characters of the id".to_owned()),
            Self::NoConfirmation => Some("add `--yes` to delete without asking".to_owned()),
            Self::Delete(OpenError::Owned(_)) => {
                Some("leave the session in the other towpath first".to_owned())
            }
            _ => None,
        }
    }
}

/// No session matches a name, or several do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionLookupError {
    #[error("no session matches `{0}`")]
    NotFound(String),
    #[error("there are no sessions yet")]
    NoSessions,
    #[error("`{0}` matches {1} sessions")]
    Ambiguous(String, usize),
    #[error("the journal could not be read")]
    Journal(#[from] journal::Error),
}

impl SessionLookupError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound(_) => Some("`towpath sessions` lists all sessions".to_owned()),
            Self::NoSessions => Some("start one with `towpath run`".to_owned()),
            Self::Ambiguous(..) => Some("give more characters of the id".to_owned()),
            Self::Journal(_) => None,
        }
    }
}

pub(crate) fn run(options: &SessionsArgs) -> CommandStatus {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result =
        runtime.map_err(SessionsError::Runtime).and_then(|it| it.block_on(open_and_act(options)));
    match result {
        Ok(status) => status,
        // The reader of our output closed the pipe, as `head` does.
        Err(SessionsError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            CommandStatus::Success
        }
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            CommandStatus::Error
        }
    }
}

async fn open_and_act(options: &SessionsArgs) -> Result<CommandStatus, SessionsError> {
    if let Some(SessionsAction::Move(args)) = &options.action {
        move_session::run(args).await?;
        return Ok(CommandStatus::Success);
    }
    let settings = CliSettings::from_environment()?;
    settings.create_data_directory()?;
    let journal = settings.open_journal()?;
    // No subcommand starts an agent, and reading the output of one that died needs none.
    let unused = AgentProgram { program: "claude".into(), arguments: Vec::new() };
    let sessions =
        Sessions::new(settings.session_config(unused, SessionLimits::default())?, journal);
    match sessions.collect().await {
        Ok(unread) => {
            for (id, problem) in unread {
                eprintln!("{}", unread_output_note(id, &problem));
            }
        }
        Err(OpenError::Journal(error)) => return Err(error.into()),
        Err(error) => eprintln!("note: {error}"),
    }
    let action = options
        .action
        .clone()
        .unwrap_or(SessionsAction::List { json: options.json, all: options.all });
    let result = act(action, &sessions, &settings).await;
    // Closing compacts what was read, whatever the result is.
    let _ = sessions.journal().clone().close().await;
    result
}

async fn act(
    action: SessionsAction,
    sessions: &Sessions,
    settings: &CliSettings,
) -> Result<CommandStatus, SessionsError> {
    let journal = sessions.journal();
    match action {
        SessionsAction::List { json, all: true } => {
            all::list_all(sessions, settings, json).await?;
        }
        SessionsAction::List { json, .. } => report::list(journal, settings, json).await?,
        SessionsAction::Search(args) => return find::find(sessions, settings, args).await,
        SessionsAction::Import(args) => return import::import(sessions, args).await,
        SessionsAction::Show(options) => {
            let record = find_session(journal, &options.id).await?;
            report::show(journal, settings, &record, &options).await?;
        }
        SessionsAction::Export { id, all } => {
            export(journal, &find_session(journal, &id).await?, all).await?;
        }
        SessionsAction::Rename { id, name } => {
            let record = find_session(journal, &id).await?;
            rename(journal, &record, name.trim()).await?;
        }
        // It needs no journal, so it was done before.
        SessionsAction::Move(_) => {}
        SessionsAction::Delete { ids, yes } => return delete(sessions, &ids, yes).await,
    }
    Ok(CommandStatus::Success)
}

/// The beginning of an id, long enough to tell sessions apart.
pub(crate) fn short_id(id: SessionId) -> String {
    id.to_string().chars().take(8).collect()
}

/// What to do about a session that is damaged.
fn damage_hint(id: SessionId) -> String {
    format!(
        "`towpath sessions export {id}` saves its lines, and `towpath sessions delete {id}` removes it"
    )
}

/// A note that the last output of a session's agent could not be read.
pub(crate) fn unread_output_note(id: SessionId, problem: &dyn std::fmt::Display) -> String {
    let id = short_id(id);
    format!("note: the last output of the agent of session {id} could not be read: {problem}")
}

/// Says which sessions could not store their last changes when they were released.
pub(crate) fn report_unstored(sessions: &[SessionId]) {
    for id in sessions {
        let id = short_id(*id);
        eprintln!(
            "warning: the last changes of session {id} were not stored, because the disk is full or \
             the journal does not answer\n\n\
             hint: make room on the disk; the next command that opens the session stores what its \
             agent has printed"
        );
    }
}

/// Finds a session: `last`, or the beginning of our id or of the CLI's.
pub(crate) async fn find_session(
    journal: &Journal,
    name: &str,
) -> Result<SessionRecord, SessionLookupError> {
    if name == "last" {
        let latest = journal.sessions().await?.into_iter().next();
        return latest.ok_or(SessionLookupError::NoSessions);
    }
    let not_found = || SessionLookupError::NotFound(name.to_owned());
    if name.is_empty() {
        return Err(not_found());
    }
    let prefix = name.to_lowercase();
    let mut found = journal.find(&prefix).await?;
    // A branch shares the CLI's id of its origin until it gets its own.
    let own = |id: &SessionId| id.to_string().starts_with(&prefix);
    if found.len() > 1 && found.iter().filter(|id| own(id)).count() == 1 {
        found.retain(own);
    }
    match found.as_slice() {
        [] => Err(not_found()),
        [id] => journal.session(*id).await?.ok_or_else(not_found),
        several => Err(SessionLookupError::Ambiguous(name.to_owned(), several.len())),
    }
}

/// Prints the agent's lines unchanged; with `all`, Towpath's notes between them too. A line of any
/// length is written in parts.
async fn export(journal: &Journal, record: &SessionRecord, all: bool) -> Result<(), SessionsError> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut after = Seq(0);
    loop {
        let entries =
            journal.read_within(record.id, after, READ_LIMIT, PART_BYTES, PART_BYTES).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in entries.iter().filter(|entry| all || entry.origin == Origin::Agent) {
            out.write_all(&entry.bytes)?;
            let mut written = entry.bytes.len();
            while written < entry.bytes.len() + entry.omitted {
                let part = journal.read_part(record.id, entry.seq, written, PART_BYTES).await?;
                let Some(part) = part.filter(|part| !part.is_empty()) else { break };
                out.write_all(&part)?;
                written += part.len();
            }
            end_line(&mut out, entry.continues)?;
        }
    }
    Ok(out.flush()?)
}

/// Ends a line, unless it goes on in the next entry.
fn end_line(out: &mut impl io::Write, continues: bool) -> io::Result<()> {
    if continues { Ok(()) } else { out.write_all(b"\n") }
}

async fn rename(
    journal: &Journal,
    record: &SessionRecord,
    name: &str,
) -> Result<(), SessionsError> {
    if name.is_empty() {
        return Err(SessionsError::EmptyName);
    }
    let note = Note::TitleChanged { title: name.to_owned() };
    let bytes = note.to_line().into();
    let entry = NewEntry { origin: Origin::Towpath, bytes, transient: false };
    let mut batch = Batch { at: crate::clock::now(), entries: vec![entry], ..Batch::default() };
    batch.change.title = Some(name.to_owned());
    journal.write(record.id, batch).await?;
    Ok(())
}

async fn delete(
    sessions: &Sessions,
    ids: &[String],
    yes: bool,
) -> Result<CommandStatus, SessionsError> {
    let mut records = Vec::new();
    for id in ids {
        records.push(find_session(sessions.journal(), id).await?);
    }
    for record in records {
        let title = record.title.as_deref().unwrap_or("untitled");
        let description = format!("{} ({title})", short_id(record.id));
        if !yes && !confirm_deletion(&description)? {
            return Ok(CommandStatus::Negative);
        }
        sessions.delete(record.id).await.map_err(SessionsError::Delete)?;
        eprintln!("deleted {description}");
    }
    // A server that runs does the same, but there may be none.
    search::Search::new(sessions.clone()).forget_deleted().await?;
    Ok(CommandStatus::Success)
}

/// Asks the user whether to delete a session.
fn confirm_deletion(description: &str) -> Result<bool, SessionsError> {
    if !io::stdin().is_terminal() {
        return Err(SessionsError::NoConfirmation);
    }
    eprint!("Delete session {description} permanently? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
