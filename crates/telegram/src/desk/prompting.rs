//! A prompt goes to the agent: its files are fetched, a session is begun where there is none.

use std::time::Duration;

use journal::{SessionId, Status};
use session::machine::NewPrompt;
use session::{Session, keep_file, with_files};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use uuid::Uuid;
use wire::note::{Delivery, PromptState};
use wire::say::Image;

use super::errand::{Came, Errand, Means, title};
use crate::bot::{NotFetched, Trouble};
use crate::call::Failure;
use crate::deed::{Attachment, Draft, Left};
use crate::front::DOWNLOAD;
use crate::replies::{self, Said};

/// Pictures up to this size go with the prompt: in base64 the API takes 5 MB. The agent can look at
/// larger ones as files.
const PICTURE: usize = 3_700_000;

/// For how long a file is tried to be fetched. The prompt waits for it, and so do those after it.
const FETCHING: Duration = Duration::from_mins(10);

/// What goes with a prompt.
#[derive(Debug, Default)]
struct Enclosures {
    images: Vec<Image>,
    files: Vec<std::path::PathBuf>,
    left: Vec<Said>,
}

impl Means {
    /// A prompt goes to the agent of the session shown. `again` makes the errand anew, for when
    /// something has to happen first.
    pub(super) async fn prompt(
        &self,
        draft: Box<Draft>,
        shown: Option<SessionId>,
        again: impl FnOnce(Box<Draft>) -> Errand,
    ) -> Came {
        let Some(id) = shown else { return self.begin_with(draft, again).await };
        let record = match self.sessions.journal().session(id).await {
            Ok(Some(record)) => record,
            Ok(None) => {
                let next = Some(again(draft));
                return Came { cleared: true, next, ..Came::default() };
            }
            Err(error) => return Came::saying(replies::not_opened(&error.into())),
        };
        let mut enclosures = Enclosures::default();
        for attachment in &draft.attachments {
            self.enclose(attachment, &record.directory, &mut enclosures).await;
        }
        let Enclosures { images, files, left } = enclosures;
        let mut came = Came { says: left, ..Came::default() };
        let text = with_files(&draft.words(), &files);
        if text.trim().is_empty() && images.is_empty() {
            return came;
        }
        let Draft { id: prompt, by, .. } = *draft;
        let busy = matches!(record.status, Status::Running | Status::Waiting);
        let new = NewPrompt { id: prompt, text, images, delivery: Delivery::Queue, by };
        let sent = async |session: Session| {
            let state = session.prompt(new).await?;
            Ok((state, session.journal().open_prompts(id).await?))
        };
        match self.with(id, sent).await {
            Ok((state, open)) => {
                let others = open.iter().filter(|it| it.state == PromptState::Queued);
                let before = others.take_while(|it| it.id != prompt).count();
                if busy && state == PromptState::Queued {
                    came.says.push(replies::queued(before));
                }
            }
            Err(undone) => came.says.extend(Came::from(undone).says),
        }
        came
    }

    /// Begins a session for a first prompt, which then goes to it.
    async fn begin_with(
        &self,
        draft: Box<Draft>,
        again: impl FnOnce(Box<Draft>) -> Errand,
    ) -> Came {
        let id = SessionId(Uuid::new_v5(&self.namespace, draft.id.as_bytes()));
        match self.begin(id, self.first_root().to_owned(), title(&draft.text)).await {
            Ok(showing) => {
                info!(session = %id, "a session begins");
                Came { shows: Some(showing), next: Some(again(draft)), ..Came::default() }
            }
            Err(error) => Came::saying(replies::not_opened(&error)),
        }
    }

    async fn enclose(
        &self,
        attachment: &Attachment,
        directory: &std::path::Path,
        enclosures: &mut Enclosures,
    ) {
        let bytes = match self.fetched(attachment).await {
            Ok(bytes) => bytes,
            Err(said) => return enclosures.left.push(said),
        };
        if attachment.picture
            && bytes.len() <= PICTURE
            && let Ok(image) = Image::new(&bytes)
        {
            return enclosures.images.push(image);
        }
        let (directory, name) = (directory.to_owned(), attachment.name.clone());
        let kept = tokio::task::spawn_blocking(move || keep_file(&directory, &name, &bytes)).await;
        match kept {
            Ok(Ok(path)) => enclosures.files.push(path),
            failed => {
                let problem = failed.map(|it| it.map(drop));
                warn!(?problem, "a file could not be kept");
                enclosures.left.push(replies::not_fetched(&attachment.name));
            }
        }
    }

    /// The bytes of a file. While Telegram is not to be had it is tried again.
    async fn fetched(&self, attachment: &Attachment) -> Result<Vec<u8>, Said> {
        let most = usize::try_from(DOWNLOAD).unwrap_or(usize::MAX);
        let give_up = Instant::now() + self.clock.span(FETCHING);
        let mut wait = Duration::from_secs(1);
        loop {
            let trouble = match self.bot.fetch(&attachment.file, most).await {
                Ok(bytes) => return Ok(bytes),
                Err(NotFetched::TooLarge) => {
                    let (name, size) = (attachment.name.clone(), attachment.size);
                    let size = size.unwrap_or(DOWNLOAD + 1);
                    return Err(replies::left(&Left::TooLarge { name, size, most: DOWNLOAD }));
                }
                Err(NotFetched::Failed(trouble)) => trouble,
            };
            let pause = match &trouble {
                Trouble::Failure(Failure::TooFast(after)) => *after,
                Trouble::Failure(Failure::NotReached(_) | Failure::Unknown(_)) => wait,
                _ => Duration::MAX,
            };
            if pause == Duration::MAX || Instant::now() + self.clock.span(pause) > give_up {
                warn!(%trouble, "a file could not be fetched");
                return Err(replies::not_fetched(&attachment.name));
            }
            sleep(self.clock.span(pause)).await;
            wait = (wait * 2).min(Duration::from_secs(30));
        }
    }
}
