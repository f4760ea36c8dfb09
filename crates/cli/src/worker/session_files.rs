//! The files of sessions for other machines of a fleet: the CLI's transcript and the working tree.

use std::path::{Path, PathBuf};

use fleet::files::{FileParts, FilesFuture, RestoredFiles, SavedFiles, SessionFiles};
use journal::SessionRecord;
use session::{Roots, SessionOptions, SessionsConfig};

use super::tree_part::TreeRemote;
use super::{transcript_part, tree_part};

/// Saves and restores the files of sessions on this machine.
#[derive(Debug)]
pub(super) struct LocalSessionFiles {
    config: SessionsConfig,
    roots: Roots,
    /// Where working trees are pushed; nowhere if there is none.
    tree_remote: Option<TreeRemote>,
}

impl LocalSessionFiles {
    pub(super) fn new(
        config: SessionsConfig,
        roots: Roots,
        tree_remote: Option<TreeRemote>,
    ) -> Self {
        Self { config, roots, tree_remote }
    }

    async fn save_parts(&self, session: SessionRecord, stored_tree: Option<String>) -> SavedFiles {
        let mut saved = SavedFiles::default();
        let config = self.config.clone();
        let record = session.clone();
        let transcript = tokio::task::spawn_blocking(move || transcript(&config, &record)).await;
        match transcript {
            Ok(Ok(transcript)) => saved.parts.transcript = transcript.map(Into::into),
            Ok(Err(error)) => saved.problems.push(format!(
                "The agent's record of the conversation could not be saved for another machine: {error}"
            )),
            Err(error) => saved.problems.push(error.to_string()),
        }
        match tree_part::save(&session, stored_tree.as_deref(), self.tree_remote.as_ref()).await {
            Ok(Some(tree)) => {
                saved.tree_version = Some(tree.version);
                saved.parts.tree = tree.part.map(Into::into);
            }
            Ok(None) => {}
            Err(error) => saved
                .problems
                .push(format!("The working tree could not be saved for another machine: {error}")),
        }
        saved
    }

    async fn restore_parts(&self, session: SessionRecord, saved: FileParts) -> RestoredFiles {
        let mut restored = RestoredFiles::default();
        let (tree, remote) = (saved.tree.as_deref(), self.tree_remote.as_ref());
        let directory = match tree_part::restore(&session, tree, &self.roots, remote).await {
            Ok((directory, words)) => {
                restored.problems.extend(words);
                directory
            }
            Err(error) => {
                restored.problems.push(format!("The working tree could not be restored: {error}"));
                match tree_part::empty_directory(&session, &self.roots).await {
                    Ok(directory) => directory,
                    Err(error) => {
                        restored.problems.push(format!("There is no directory for it: {error}"));
                        session.directory.clone()
                    }
                }
            }
        };
        if !session.agent_ids.is_empty() {
            let config = self.config.clone();
            let to = directory.clone();
            let written = tokio::task::spawn_blocking(move || {
                write_transcript(&config, &session, saved.transcript.as_deref(), &to)
            });
            let problem = match written.await {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            restored.problems.extend(
                problem.map(|error| {
                    format!("The agent may not remember what was said before: {error}")
                }),
            );
        }
        restored.directory = directory;
        restored
    }
}

impl SessionFiles for LocalSessionFiles {
    fn save(
        &self,
        session: SessionRecord,
        stored_tree: Option<String>,
    ) -> FilesFuture<'_, SavedFiles> {
        Box::pin(self.save_parts(session, stored_tree))
    }

    fn restore(&self, session: SessionRecord, saved: FileParts) -> FilesFuture<'_, RestoredFiles> {
        Box::pin(self.restore_parts(session, saved))
    }
}

/// The options of a session. What they say decides where its files are, so there are no others that
/// would do.
fn options(session: &SessionRecord) -> std::io::Result<SessionOptions> {
    let directory = session.directory.clone();
    SessionOptions::from_json(&session.options, directory)
        .map_err(|it| std::io::Error::other(it.reason))
}

/// The transcript of the last conversation of a session; none if there is none.
fn transcript(
    config: &SessionsConfig,
    session: &SessionRecord,
) -> std::io::Result<Option<Vec<u8>>> {
    let Some(id) = session.agent_ids.last().and_then(|id| id.parse().ok()) else { return Ok(None) };
    let Some(store) = config.transcripts(&options(session)?) else { return Ok(None) };
    transcript_part::read(&store, id)
}

fn write_transcript(
    config: &SessionsConfig,
    session: &SessionRecord,
    transcript: Option<&[u8]>,
    directory: &Path,
) -> std::io::Result<()> {
    let options = SessionOptions { directory: directory.to_owned(), ..options(session)? };
    let Some(transcript) = transcript else {
        let reason = match &options.agent {
            Some(agent) => format!("what `{agent}` has recorded itself is on the other machine"),
            None => "no record of the conversation was saved".to_owned(),
        };
        return Err(std::io::Error::other(reason));
    };
    let store = config.transcripts(&options);
    let store = store.ok_or_else(|| std::io::Error::other("this machine has no home directory"))?;
    transcript_part::write(&store.folder_of(directory), transcript)
}

/// The name of a directory for a session: that of the directory before, and the beginning of its id.
pub(super) fn directory_name(session: &SessionRecord, of: &Path) -> PathBuf {
    let name = of.file_name().map(|name| name.to_string_lossy().into_owned());
    let id = session.id.to_string();
    let name = name.filter(|it| !it.is_empty()).unwrap_or_else(|| "session".to_owned());
    PathBuf::from(format!("{name}-{}", &id[..8]))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use journal::{Journal, NewSession, SessionId, SessionRecord};
    use uuid::Uuid;

    use super::options;

    async fn record(options: &str) -> SessionRecord {
        let files = tempfile::tempdir().unwrap();
        let journal = Journal::open(&files.path().join("journal.db")).unwrap().journal;
        let (id, directory) = (SessionId(Uuid::from_u128(1)), Path::new("/project").to_owned());
        let options = options.to_owned();
        journal.create(NewSession { id, directory, title: None, options, at: 1 }).await.unwrap();
        journal.session(id).await.unwrap().unwrap()
    }

    #[tokio::test]
    async fn options_that_cannot_be_read_are_an_error_and_never_the_defaults() {
        let read = options(&record(r#"{"disallowed_tools":["Bash"]}"#).await).unwrap();
        assert_eq!(read.disallowed_tools, ["Bash"]);
        let unreadable = options(&record(r#"{"disallowed_tools":["Ba"#).await);
        assert!(unreadable.is_err(), "{unreadable:?}");
    }
}
