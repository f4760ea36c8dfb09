//! Continuing a conversation with another agent, in a session of its own.

use bytes::Bytes;
use journal::{Batch, NewEntry, Origin, SessionId, SessionRecord};
use wire::note::Note;

use super::{OpenError, SessionSpec, Sessions};
use crate::options::SessionOptions;
use crate::owner::now;
use crate::session::Session;

/// The longest title, in characters.
const MAX_TITLE: usize = 200;

impl Sessions {
    /// Creates a session of another agent in the directory of a session. Both say which session the
    /// other one is. What was said is not known to the agent: the caller tells it with the first prompt.
    ///
    /// Of the options only the directories are kept. The others are about the agent before.
    pub async fn hand_over(
        &self,
        from: &SessionRecord,
        title: Option<&str>,
        agent: &str,
    ) -> Result<Session, OpenError> {
        if self.is_relayed() {
            let text =
                "a session of a fleet cannot be continued with another agent yet; create a new one";
            return Err(OpenError::Relayed(text.to_owned()));
        }
        let agents = &self.config().agents;
        let title_of_agent = agents.get(agent)?.title.clone();
        let before = SessionOptions::from_json(&from.options, from.directory.clone());
        let before = before.unwrap_or_else(|it| SessionOptions {
            directory: it.directory,
            ..SessionOptions::default()
        });
        let earlier_agent = agents.title(before.agent.as_deref()).to_owned();
        let options = SessionOptions {
            agent: Some(agent.to_owned()),
            directory: before.directory,
            extra_directories: before.extra_directories,
            ..SessionOptions::default()
        };
        let title = title.or(from.title.as_deref());
        let title = title.map(|it| {
            let room = MAX_TITLE.saturating_sub(title_of_agent.chars().count() + 3);
            format!("{} ({title_of_agent})", it.chars().take(room).collect::<String>())
        });
        let spec = SessionSpec { title, options, ..SessionSpec::default() };
        let id = self.store(spec).await?;
        let note = Note::ContinuesFrom { session: from.id.0, agent: earlier_agent };
        self.write_note(id, &note).await?;
        let note = Note::ContinuedIn { session: id.0, agent: title_of_agent };
        self.write_note(from.id, &note).await?;
        self.open(id).await
    }

    async fn write_note(&self, session: SessionId, note: &Note) -> Result<(), OpenError> {
        let mut batch = Batch { at: now(), ..Batch::default() };
        let bytes = Bytes::from(note.to_line());
        batch.entries = vec![NewEntry { origin: Origin::Towpath, bytes, transient: false }];
        self.journal().write(session, batch).await?;
        Ok(())
    }
}
