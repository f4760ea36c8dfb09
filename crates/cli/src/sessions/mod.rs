//! `towpath sessions`: what there is in the journal.

mod arguments;
mod find;
mod list;
mod show;

use std::io::{self, IsTerminal as _, Write as _};

use anstream::{eprint, eprintln};
use journal::{Batch, Journal, NewEntry, Origin, Seq, SessionId, SessionRecord};
use session::machine::Limits;
use session::{AgentProgram, OpenError, Sessions};
use wire::note::Note;

use arguments::Deed;
pub(crate) use arguments::SessionsOptions;
pub(crate) use find::{NoSuch, find};

use crate::complaint::complain;
use crate::settings::{NoHome, Settings};
use crate::verdict::Verdict;

/// How many entries are read at once.
const PORTION: usize = 512;

/// The beginning of an id, long enough to tell sessions apart.
pub(crate) fn short(id: SessionId) -> String {
    id.to_string().chars().take(8).collect()
}

/// Runs the command.
pub(crate) fn run(options: &SessionsOptions) -> Verdict {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ran = runtime.map_err(Failure::Runtime).and_then(|it| it.block_on(carry_out(options)));
    match ran {
        Ok(verdict) => verdict,
        // Whoever reads our output has seen enough.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Verdict::Done,
        Err(failure) => {
            complain(&failure, failure.hint().as_deref());
            Verdict::CouldNotTry
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("could not set up what reads the journal")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    NoHome(#[from] NoHome),
    #[error("the journal cannot be used")]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    NoSuch(#[from] NoSuch),
    #[error("the session could not be deleted")]
    Delete(#[source] OpenError),
    #[error("a name needs some text")]
    NoName,
    #[error("nobody can be asked whether to delete it")]
    NobodyToAsk,
    #[error("could not write")]
    Write(#[from] io::Error),
}

impl Failure {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NoHome(no) => no.hint(),
            Self::NoSuch(no) => no.hint(),
            Self::Journal(_) => Some("`towpath doctor` says what is wrong with it".to_owned()),
            Self::NobodyToAsk => Some("say `--yes` if you mean it".to_owned()),
            Self::Delete(OpenError::Held(_)) => Some("leave it there first".to_owned()),
            _ => None,
        }
    }
}

async fn carry_out(options: &SessionsOptions) -> Result<Verdict, Failure> {
    let settings = Settings::read()?;
    settings.make_data()?;
    let journal = settings.journal()?;
    // Nothing here starts an agent; reading what a dead one left needs none.
    let nobody = AgentProgram { program: "claude".into(), arguments: Vec::new() };
    let sessions = Sessions::new(settings.home(nobody, Limits::default())?, journal);
    match sessions.gather().await {
        Ok(unread) => {
            for (id, problem) in unread {
                let id = short(id);
                eprintln!("note: what the agent of session {id} left cannot be read: {problem}");
            }
        }
        Err(OpenError::Journal(error)) => return Err(error.into()),
        Err(error) => eprintln!("note: {error}"),
    }
    let done = act(options.deed(), &sessions, &settings).await;
    // Whatever came of it, what was read is put in order before we go.
    let _ = sessions.journal().clone().close().await;
    done
}

async fn act(deed: Deed, sessions: &Sessions, settings: &Settings) -> Result<Verdict, Failure> {
    let journal = sessions.journal();
    match deed {
        Deed::List { json } => list::list(journal, settings, json).await?,
        Deed::Show(options) => {
            let record = find(journal, &options.id).await?;
            show::show(journal, settings, &record, &options).await?;
        }
        Deed::Export { id, all } => export(journal, &find(journal, &id).await?, all).await?,
        Deed::Rename { id, name } => {
            let record = find(journal, &id).await?;
            rename(journal, &record, name.trim()).await?;
        }
        Deed::Delete { ids, yes } => return delete(sessions, &ids, yes).await,
    }
    Ok(Verdict::Done)
}

/// The agent's lines as they came; with all, Towpath's notes between them.
async fn export(journal: &Journal, record: &SessionRecord, all: bool) -> Result<(), Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut after = Seq(0);
    loop {
        let entries = journal.read(record.id, after, PORTION).await?;
        let Some(last) = entries.last() else { break };
        after = last.seq;
        for entry in entries.iter().filter(|entry| all || entry.origin == Origin::Agent) {
            out.write_all(&entry.bytes)?;
            out.write_all(b"\n")?;
        }
    }
    Ok(out.flush()?)
}

async fn rename(journal: &Journal, record: &SessionRecord, name: &str) -> Result<(), Failure> {
    if name.is_empty() {
        return Err(Failure::NoName);
    }
    let note = Note::Named { title: name.to_owned() };
    let bytes = note.to_line().into();
    let entry = NewEntry { origin: Origin::Towpath, bytes, transient: false };
    let mut batch = Batch { at: crate::clock::now(), entries: vec![entry], ..Batch::default() };
    batch.change.title = Some(name.to_owned());
    journal.write(record.id, batch).await?;
    Ok(())
}

async fn delete(sessions: &Sessions, ids: &[String], yes: bool) -> Result<Verdict, Failure> {
    let mut records = Vec::new();
    for id in ids {
        records.push(find(sessions.journal(), id).await?);
    }
    for record in records {
        let title = record.title.as_deref().unwrap_or("without a name");
        let what = format!("{} ({title})", short(record.id));
        if !yes && !agrees(&what)? {
            return Ok(Verdict::No);
        }
        sessions.delete(record.id).await.map_err(Failure::Delete)?;
        eprintln!("deleted {what}");
    }
    Ok(Verdict::Done)
}

/// Whether the person agrees to a session being deleted.
fn agrees(what: &str) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::NobodyToAsk);
    }
    eprint!("Delete session {what} for good? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
