//! Resuming a conversation that began outside Towpath: what was said before is imported.
//!
//! The journal of such a session begins with a note about the session file and the lines of it that the
//! CLI resumes with, byte for byte. They are read and written in batches, and no client sees the session
//! before the last one.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use journal::{Batch, NewEntry, NewSession, Origin, SessionImport};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use transcripts::{ActiveBranch, BranchLine, RunningClis, TranscriptFile};
use uuid::Uuid;
use wire::note::Note;

use super::{OpenError, Sessions};
use crate::options::SessionOptions;
use crate::owner::now;
use crate::roots::Roots;

/// The size of a batch: more lines or bytes are not read ahead.
const BATCH_BYTES: usize = 1 << 20;
const BATCH_LINES: usize = 1024;

/// How many batches may wait for the journal. The reader waits if there are more.
const WAITING_BATCHES: usize = 2;

impl Sessions {
    /// The CLI's session file of a conversation. None for a conversation that it does not have.
    pub(super) async fn find_transcript(
        &self,
        conversation: &str,
        options: &SessionOptions,
    ) -> Option<TranscriptFile> {
        let id: Uuid = conversation.parse().ok()?;
        let store = self.config().transcripts(options)?;
        let found = spawn_blocking(move || store.find(&id.to_string()).into_iter().next()).await;
        found.ok().flatten()
    }

    /// Creates a session that begins with the lines of a session file. False if there is nothing to
    /// resume in it.
    pub(super) async fn import(
        &self,
        new: &NewSession,
        conversation: &str,
        transcript: TranscriptFile,
        options: &SessionOptions,
    ) -> Result<bool, OpenError> {
        let path = transcript.path.clone();
        let unreadable =
            |source| OpenError::Transcript { path: path.clone(), source: Arc::new(source) };
        let may_be_open = options.fork;
        let scanned = run_blocking(move || scan(&transcript, may_be_open)).await;
        let (file, branch) = match scanned.map_err(unreadable)? {
            Scanned::Branch(file, branch) => (file, branch),
            Scanned::OpenElsewhere(error) => return Err(error),
        };
        if branch.lines.is_empty() {
            return Ok(false);
        }
        let title = new.title.clone().or_else(|| branch.title.clone());
        let import = self.journal().begin_import(new.clone(), Uuid::new_v4()).await?;
        match write(&import, &path, conversation, file, &branch).await {
            Ok(()) => {}
            Err(failure) => {
                // If this fails too, the rest of the import is removed later.
                let _ = import.discard().await;
                return Err(match failure {
                    ImportFailure::Read(error) => unreadable(error),
                    ImportFailure::Journal(error) => error.into(),
                });
            }
        }
        let mut last = Batch { at: now(), ..Batch::default() };
        last.change.title = title;
        last.change.agent_id = Some(conversation.to_owned());
        (last.change.turn, last.change.turn_ended) = (Some(branch.turns), Some(branch.turns));
        import.finish(last, branch.turns).await?;
        Ok(true)
    }
}

/// What was found about a session file.
enum Scanned {
    Branch(File, ActiveBranch),
    OpenElsewhere(OpenError),
}

/// Why an import failed.
enum ImportFailure {
    Read(io::Error),
    Journal(journal::Error),
}

fn scan(transcript: &TranscriptFile, may_be_open: bool) -> io::Result<Scanned> {
    let mut file = transcript.open()?;
    let branch = ActiveBranch::scan(&mut file)?;
    let writer = branch
        .directory
        .as_deref()
        .filter(|_| !may_be_open)
        .and_then(|directory| RunningClis::find().writer_of(transcript, directory));
    if let Some(writer) = writer {
        let (conversation, process) = (transcript.id, writer.process);
        return Ok(Scanned::OpenElsewhere(OpenError::OpenElsewhere { conversation, process }));
    }
    Ok(Scanned::Branch(file, branch))
}

/// Writes the note about the import, and the lines.
async fn write(
    import: &SessionImport,
    path: &std::path::Path,
    conversation: &str,
    file: File,
    branch: &ActiveBranch,
) -> Result<(), ImportFailure> {
    let note = Note::Imported {
        file: path.display().to_string(),
        conversation: conversation.to_owned(),
        entries: branch.lines.len() as u64,
        turns: branch.turns,
    };
    let note = NewEntry { origin: Origin::Towpath, bytes: note.to_line().into(), transient: false };
    let first = Batch { at: now(), entries: vec![note], ..Batch::default() };
    import.write(first).await.map_err(ImportFailure::Journal)?;
    let (batches, mut received) = mpsc::channel(WAITING_BATCHES);
    let lines = branch.lines.clone();
    let reader = spawn_blocking(move || read_batches(file, &lines, &batches));
    while let Some(batch) = received.recv().await {
        import.write(batch).await.map_err(ImportFailure::Journal)?;
    }
    let read = reader.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    read.map_err(ImportFailure::Read)
}

/// Reads the lines and sends them in batches. Stops if they are not received any more.
fn read_batches(
    mut file: File,
    lines: &[BranchLine],
    batches: &mpsc::Sender<Batch>,
) -> io::Result<()> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for (number, line) in lines.iter().enumerate() {
        let mut line_bytes = vec![0; line.length];
        file.seek(SeekFrom::Start(line.offset))?;
        file.read_exact(&mut line_bytes)?;
        bytes += line_bytes.len();
        let entry =
            NewEntry { origin: Origin::Transcript, bytes: line_bytes.into(), transient: false };
        entries.push(entry);
        let is_last = number + 1 == lines.len();
        if bytes >= BATCH_BYTES || entries.len() >= BATCH_LINES || is_last {
            let full = std::mem::take(&mut entries);
            bytes = 0;
            let batch = Batch { at: now(), entries: full, ..Batch::default() };
            if batches.blocking_send(batch).is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// The CLI's session files, for those who choose one.
impl Sessions {
    /// The session files that agents of this process have. Each session may have another directory, if
    /// its environment says so.
    pub fn transcripts(&self) -> Option<transcripts::TranscriptDirectory> {
        if self.is_relayed() {
            return None;
        }
        self.config().transcripts(&SessionOptions::default())
    }

    /// The session files whose ids start with `prefix`, the newest first, with the directories in which
    /// their sessions began. Only sessions of existing directories below the roots are given.
    pub async fn find_transcripts(
        &self,
        prefix: &str,
        roots: &Roots,
    ) -> Vec<(TranscriptFile, PathBuf)> {
        let Some(store) = self.transcripts() else { return Vec::new() };
        let (prefix, roots) = (prefix.to_owned(), roots.clone());
        let find = move || {
            let files = store.find(&prefix).into_iter();
            let allowed = files.filter_map(|file| {
                let directory = roots.resolve(&file.working_directory()?)?;
                Some((file, directory))
            });
            allowed.collect()
        };
        spawn_blocking(find).await.unwrap_or_default()
    }

    /// Whether a client that may work below the roots may resume a conversation. What it says would be
    /// shown, so the session must have begun there. A conversation without a session file has nothing to
    /// show.
    pub async fn may_resume(&self, conversation: &str, roots: &Roots) -> bool {
        let is_known =
            self.find_transcript(conversation, &SessionOptions::default()).await.is_some();
        !is_known || !self.find_transcripts(conversation, roots).await.is_empty()
    }
}
