//! Jobs that send a prompt to the agent: files are downloaded, and a session is created if needed.

use std::path::PathBuf;
use std::time::Duration;

use journal::{SessionId, SessionRecord, SessionStatus};
use session::{NewPrompt, OptionRole, Session, SessionOptions, append_file_paths, store_upload};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use uuid::Uuid;
use view::wording;
use wire::note::{Delivery, PromptState};
use wire::outgoing::Image;

use super::job::{ChatJob, JobContext, JobResult, title};
use super::worker_files::WorkerFiles;
use crate::bot::{BotCallError, BotError, DownloadError};
use crate::inbound::{DOWNLOAD_LIMIT, InboundFile, PromptDraft, RejectedContent};
use crate::replies::{self, BotReply};

/// Pictures up to this size are part of the prompt: the API accepts 5 MB in base64. The agent can
/// open larger ones as files.
const PICTURE_LIMIT: usize = 3_700_000;

/// How long a download is retried. The prompt waits for it, and so do the chat's later jobs.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(10);

/// The attachments of a prompt.
#[derive(Debug, Default)]
struct PromptFiles {
    images: Vec<Image>,
    saved: Vec<PathBuf>,
    /// What the user is told about files that are missing.
    failures: Vec<BotReply>,
}

/// What a spent budget asks before the session goes on.
fn budget_question(record: &SessionRecord) -> Option<String> {
    let options = SessionOptions::from_json(&record.options, record.directory.clone()).ok()?;
    wording::budget_question(&options.queue_hold?)
}

impl JobContext {
    /// Sends a prompt to the agent of a session. `again` creates the job anew if something else has
    /// to happen first.
    pub(super) async fn prompt(
        &self,
        draft: Box<PromptDraft>,
        session: Option<SessionId>,
        again: impl FnOnce(Box<PromptDraft>) -> ChatJob,
    ) -> JobResult {
        let Some(id) = session else { return self.create_for(draft, again).await };
        let record = match self.sessions.journal().session(id).await {
            Ok(Some(record)) => record,
            Ok(None) => {
                let next = Some(again(draft));
                return JobResult { session_deleted: true, next, ..JobResult::default() };
            }
            Err(error) => return JobResult::reply(replies::open_failed(&error.into())),
        };
        let mut files = PromptFiles::default();
        for file in &draft.attachments {
            self.fetch(file, &record, &draft.by.name, &mut files).await;
        }
        let PromptFiles { images, saved, failures } = files;
        let mut result = JobResult { replies: failures, ..JobResult::default() };
        let text = append_file_paths(&draft.prompt_text(), &saved);
        if text.trim().is_empty() && images.is_empty() {
            return result;
        }
        let PromptDraft { id: prompt, by, .. } = *draft;
        let busy = matches!(record.status, SessionStatus::Running | SessionStatus::Waiting);
        let new = NewPrompt { id: prompt, text, images, delivery: Delivery::Queue, by };
        let send = async |session: Session| {
            let state = session.prompt(new).await?;
            let record = session.journal().session(id).await?;
            let question = record.as_ref().and_then(budget_question);
            let question = question.filter(|_| state == PromptState::Queued);
            Ok((state, session.journal().open_prompts(id).await?, question))
        };
        match self.with_session(id, send).await {
            Ok((_, _, Some(question))) => {
                result.replies.push(replies::waits_for_budget(&question));
            }
            Ok((state, open, None)) => {
                let queued = open.iter().filter(|it| it.state == PromptState::Queued);
                let before = queued.take_while(|it| it.id != prompt).count();
                if busy && state == PromptState::Queued {
                    result.replies.push(replies::prompt_queued(before));
                }
            }
            Err(error) => result.replies.extend(JobResult::from(error).replies),
        }
        result
    }

    /// Creates a session for a chat's first prompt. The prompt is the next job.
    async fn create_for(
        &self,
        draft: Box<PromptDraft>,
        again: impl FnOnce(Box<PromptDraft>) -> ChatJob,
    ) -> JobResult {
        let id = SessionId(Uuid::new_v5(&self.namespace, draft.id.as_bytes()));
        let directory = self.default_directory().await;
        // A profile is the server's own, so it may set everything.
        let new = match self.new_options(directory, None, &[], OptionRole::Drive).await {
            Ok(new) => new,
            Err(refused) => return JobResult::reply(refused),
        };
        let title = title(&draft.text);
        match self.create_session(id, new.options, title, None, draft.by.clone()).await {
            Ok(switch) => {
                info!(session = %id, "created a session");
                let (switch, next) = (Some(switch), Some(again(draft)));
                let replies = new.question.into_iter().collect();
                JobResult { replies, switch, next, ..JobResult::default() }
            }
            Err(error) => JobResult::reply(replies::open_failed(&error)),
        }
    }

    async fn fetch(
        &self,
        file: &InboundFile,
        record: &SessionRecord,
        user: &str,
        files: &mut PromptFiles,
    ) {
        let bytes = match self.download(file).await {
            Ok(bytes) => bytes,
            Err(failure) => return files.failures.push(failure),
        };
        if file.picture
            && bytes.len() <= PICTURE_LIMIT
            && let Ok(image) = Image::new(&bytes)
        {
            return files.images.push(image);
        }
        let saved = if self.sessions.is_relayed() {
            let files = WorkerFiles::new(self.sessions.clone(), record.id, user.to_owned());
            let stored = files.upload(&file.name, bytes).await;
            stored.map(|path| record.directory.join(path)).map_err(|error| error.to_string())
        } else {
            let (directory, name) = (record.directory.clone(), file.name.clone());
            let store = move || store_upload(&directory, &name, &bytes);
            let saved = tokio::task::spawn_blocking(store).await;
            saved.map_err(|it| it.to_string()).and_then(|it| it.map_err(|it| it.to_string()))
        };
        match saved {
            Ok(path) => files.saved.push(path),
            Err(error) => {
                warn!(error, "could not save a file");
                files.failures.push(replies::download_failed(&file.name));
            }
        }
    }

    /// Downloads a file, and retries while Telegram cannot be reached.
    async fn download(&self, file: &InboundFile) -> Result<Vec<u8>, BotReply> {
        let limit = usize::try_from(DOWNLOAD_LIMIT).unwrap_or(usize::MAX);
        let deadline = Instant::now() + self.clock.real_span(DOWNLOAD_TIMEOUT);
        let mut backoff = Duration::from_secs(1);
        loop {
            let error = match self.bot.download(&file.file_id, limit).await {
                Ok(bytes) => return Ok(bytes),
                Err(DownloadError::TooLarge) => {
                    let name = file.name.clone();
                    let size = file.size.unwrap_or(DOWNLOAD_LIMIT + 1);
                    let content = RejectedContent::TooLarge { name, size, limit: DOWNLOAD_LIMIT };
                    return Err(replies::rejected(&content));
                }
                Err(DownloadError::Failed(error)) => error,
            };
            let pause = match &error {
                BotError::Call(BotCallError::RateLimited(after)) => Some(*after),
                BotError::Call(BotCallError::Unreachable(_) | BotCallError::NoResponse(_)) => {
                    Some(backoff)
                }
                _ => None,
            };
            let pause = pause.map(|it| self.clock.real_span(it));
            let Some(pause) = pause.filter(|it| Instant::now() + *it <= deadline) else {
                warn!(%error, "could not download a file");
                return Err(replies::download_failed(&file.name));
            };
            sleep(pause).await;
            backoff = (backoff * 2).min(Duration::from_secs(30));
        }
    }
}
