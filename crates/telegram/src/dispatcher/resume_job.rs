//! Jobs that list sessions and show another one in the chat, including those that the CLI ran without
//! Towpath.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use journal::{SessionId, SessionRecord};
use session::{OpenError, OptionRole, Roots, Sessions};
use uuid::Uuid;
use wire::note::Actor;

use super::follower::fold_session;
use super::job::{JobContext, JobResult, SessionSwitch};
use crate::replies::{self, CliSessionSummary};

/// Session files of the CLI that are looked at, the newest first.
const FILES: usize = 40;

/// Those of them that are listed.
const LISTED: usize = 8;

impl JobContext {
    /// All sessions.
    pub(super) async fn list_sessions(&self, current: Option<SessionId>) -> JobResult {
        match self.allowed_records().await {
            Ok(records) => {
                let (agents, now) = (&self.sessions.config().agents, self.clock.unix_millis());
                JobResult::reply(replies::sessions(&records, current, &self.roots, agents, now))
            }
            Err(error) => JobResult::reply(replies::open_failed(&error.into())),
        }
    }

    /// The sessions of the chat's directory: Towpath's own, and those that the CLI ran by itself.
    pub(super) async fn list_resumable(&self, current: Option<SessionId>) -> JobResult {
        let records = match self.allowed_records().await {
            Ok(records) => records,
            Err(error) => return JobResult::reply(replies::open_failed(&error.into())),
        };
        let shown = records.iter().find(|it| Some(it.id) == current);
        let directory = match shown {
            Some(shown) => shown.directory.clone(),
            None => self.default_directory().await,
        };
        let known: BTreeSet<String> =
            records.iter().flat_map(|it| it.agent_ids.iter().cloned()).collect();
        let (sessions, roots, place) =
            (self.sessions.clone(), self.roots.clone(), directory.clone());
        let find = move || terminal_sessions(&sessions, &roots, &place, &known);
        let terminal = tokio::task::spawn_blocking(find).await.unwrap_or_default();
        let here: Vec<SessionRecord> =
            records.into_iter().filter(|it| it.directory == directory).collect();
        let (agents, now) = (&self.sessions.config().agents, self.clock.unix_millis());
        JobResult::reply(replies::resumable(&here, &terminal, current, &self.roots, agents, now))
    }

    async fn allowed_records(&self) -> Result<Vec<SessionRecord>, journal::Error> {
        let mut records = self.sessions.journal().sessions().await?;
        records.retain(|it| self.roots.contains(&it.directory));
        Ok(records)
    }

    /// Shows the session whose id begins like this.
    pub(super) async fn resume_by_id(
        &self,
        prefix: &str,
        by: Actor,
        role: OptionRole,
    ) -> JobResult {
        match self.sessions.journal().find(prefix).await.as_deref() {
            Ok([only]) => self.resume(*only, by).await,
            Ok([]) => self.resume_of_cli(prefix, by, role).await,
            Ok(_) => JobResult::reply(replies::session_ambiguous(prefix)),
            Err(error) => {
                JobResult::reply(replies::open_failed(&OpenError::Journal(error.clone())))
            }
        }
    }

    /// Continues a session that the CLI ran without Towpath.
    async fn resume_of_cli(&self, prefix: &str, by: Actor, role: OptionRole) -> JobResult {
        let found = self.sessions.find_transcripts(prefix, &self.roots).await;
        let (file, directory) = match found.as_slice() {
            [] => return JobResult::reply(replies::session_not_found(prefix)),
            [(file, directory)] => (file, directory.clone()),
            _ => return JobResult::reply(replies::session_ambiguous(prefix)),
        };
        let new = match self.new_options(directory, None, &[], role).await {
            Ok(new) => new,
            Err(refused) => return JobResult::reply(refused),
        };
        // The same id if it is resumed again: what was said is imported once.
        let id = SessionId(Uuid::new_v5(&self.namespace, format!("cli/{}", file.id).as_bytes()));
        let resume = Some(file.id.to_string());
        match self.create_session(id, new.options, None, resume, by.clone()).await {
            Ok(_) => {
                let mut result = self.resume(id, by).await;
                result.replies.extend(new.question);
                result
            }
            Err(error) => JobResult::reply(replies::open_failed(&error)),
        }
    }

    /// Shows another session in the chat, from now on.
    pub(super) async fn resume(&self, id: SessionId, by: Actor) -> JobResult {
        let journal = self.sessions.journal();
        let record = match journal.session(id).await {
            Ok(Some(record)) if self.roots.contains(&record.directory) => record,
            Ok(_) => return JobResult::reply(replies::open_failed(&OpenError::NoSuchSession(id))),
            Err(error) => return JobResult::reply(replies::open_failed(&error.into())),
        };
        let document = match fold_session(journal, id).await {
            Ok(document) => document,
            Err(error) => return JobResult::reply(replies::open_failed(&error.into())),
        };
        if let Err(error) = self.allow_outbox(id, by).await {
            return JobResult::reply(replies::open_failed(&error.into()));
        }
        let switch = Some(SessionSwitch::FromNow(id, Box::new(document)));
        let agents = &self.sessions.config().agents;
        let reply = replies::session_resumed(&record, &self.roots, agents);
        JobResult { switch, ..JobResult::reply(reply) }
    }
}

/// The newest sessions that the CLI ran by itself in a directory. Blocks.
fn terminal_sessions(
    sessions: &Sessions,
    roots: &Roots,
    directory: &Path,
    known: &BTreeSet<String>,
) -> Vec<CliSessionSummary> {
    let Some(store) = sessions.transcripts() else { return Vec::new() };
    let files = store.files_of(directory).into_iter();
    let unknown = files.filter(|file| !known.contains(&file.id.to_string())).take(FILES);
    let here = unknown.filter(|file| {
        let began: Option<PathBuf> = file.working_directory();
        began.and_then(|it| roots.resolve(&it)).is_some_and(|it| it == directory)
    });
    let summarized = here.filter_map(|file| {
        let summary = file.summarize().ok()?;
        Some(CliSessionSummary { id: file.id, title: summary.title, active: file.modified })
    });
    summarized.take(LISTED).collect()
}
