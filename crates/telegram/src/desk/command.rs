//! Commands.

use std::path::{Path, PathBuf};

use journal::SessionId;
use session::machine::NewPrompt;
use session::{OpenError, Session};
use uuid::Uuid;
use wire::note::{Actor, Delivery, Setting};

use super::errand::{Came, Means};
use super::following::folded;
use crate::front::Command;
use crate::place::{MessageId, Place};
use crate::replies;

/// A command that somebody gave.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) command: Command,
    pub(super) place: Place,
    pub(super) message: Option<MessageId>,
    pub(super) by: Actor,
    pub(super) shown: Option<SessionId>,
}

impl Asked {
    /// Does it.
    pub(super) async fn run(self, means: &Means) -> Came {
        let here = self.shown;
        match &self.command {
            Command::Help => return Came::saying(replies::help()),
            Command::Unknown(name) => return Came::saying(replies::unknown(name)),
            Command::New(directory) => return self.new_session(means, directory.as_deref()).await,
            Command::Sessions | Command::Resume(None) => return list(means, here).await,
            Command::Resume(Some(beginning)) => return resume(means, beginning).await,
            _ => {}
        }
        let Some(shown) = here else { return Came::saying(replies::no_session()) };
        match self.command {
            Command::Stop => means.stop(here, self.by).await,
            Command::Status | Command::Cost | Command::Queue => {
                look(means, shown, &self.command).await
            }
            Command::Model(None) => models(means, shown).await,
            Command::Model(Some(name)) => {
                let model = (name != "default").then_some(name);
                let said = replies::model_set(model.as_deref());
                set(means, shown, Setting::Model(model), self.by, said).await
            }
            Command::Mode(None) => match folded(means.sessions.journal(), shown).await {
                Ok(document) => Came::saying(replies::modes(document.head.mode.as_deref())),
                Err(error) => Came::saying(replies::not_opened(&error.into())),
            },
            Command::Mode(Some(name)) => match replies::named_mode(&name) {
                Some(mode) => {
                    let setting = Setting::PermissionMode(mode.name().to_owned());
                    set(means, shown, setting, self.by, replies::mode_set(mode)).await
                }
                None => Came::saying(replies::modes(None)),
            },
            Command::Compact(ref words) => {
                let words = words.as_deref().map(|it| format!(" {it}")).unwrap_or_default();
                self.prompt(means, shown, format!("/compact{words}")).await
            }
            Command::Verbose(Some(level)) => Came {
                verbosity: Some(level.min(2)),
                ..Came::saying(replies::verbosity_set(level))
            },
            Command::Diff => super::changes::of(means, self.place, here, None).await,
            // The desk answers this one itself: it knows.
            Command::Verbose(None) => Came::saying(replies::verbosity(1)),
            Command::Help
            | Command::Unknown(_)
            | Command::New(_)
            | Command::Sessions
            | Command::Resume(_) => Came::default(),
        }
    }

    /// An id that is the same if the same message comes again.
    fn id(&self, means: &Means) -> Uuid {
        let Place { chat, thread } = self.place;
        let thread = thread.map_or(0, |it| it.0);
        let message = self.message.map_or(0, |it| it.0);
        Uuid::new_v5(&means.namespace, format!("{}/{thread}/{message}", chat.0).as_bytes())
    }

    async fn new_session(&self, means: &Means, named: Option<&str>) -> Came {
        let directory = match named {
            None => Some(means.first_root().to_owned()),
            Some(named) => {
                let (roots, path) = (means.roots.clone(), PathBuf::from(named));
                let resolved = move || resolved(&roots, &path);
                tokio::task::spawn_blocking(resolved).await.unwrap_or_default()
            }
        };
        let Some(directory) = directory else {
            return Came::saying(replies::not_a_root(named.unwrap_or_default(), &means.roots));
        };
        let said = replies::begun(&directory, &means.roots);
        match means.begin(SessionId(self.id(means)), directory, None).await {
            Ok(showing) => Came { shows: Some(showing), ..Came::saying(said) },
            Err(error) => Came::saying(replies::not_opened(&error)),
        }
    }

    async fn prompt(&self, means: &Means, shown: SessionId, text: String) -> Came {
        let (id, by) = (self.id(means), self.by.clone());
        let new = NewPrompt { id, text, images: Vec::new(), delivery: Delivery::Queue, by };
        match means.with(shown, async |session: Session| session.prompt(new).await).await {
            Ok(_) => Came::saying(replies::compacting()),
            Err(undone) => undone.into(),
        }
    }
}

/// A directory as a person names it: below any of the roots, or from the top.
fn resolved(roots: &session::Roots, path: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return roots.resolve(path);
    }
    roots.directories().iter().find_map(|root| roots.resolve(&root.join(path)))
}

async fn list(means: &Means, here: Option<SessionId>) -> Came {
    match means.sessions.journal().sessions().await {
        Ok(mut records) => {
            records.retain(|it| means.roots.have(&it.directory));
            let now = means.clock.world();
            Came::saying(replies::sessions(&records, here, &means.roots, now))
        }
        Err(error) => Came::saying(replies::not_opened(&error.into())),
    }
}

async fn resume(means: &Means, beginning: &str) -> Came {
    match means.sessions.journal().find(beginning).await.as_deref() {
        Ok([only]) => means.resume(*only).await,
        Ok([]) => Came::saying(replies::no_such_session(beginning)),
        Ok(_) => Came::saying(replies::ambiguous(beginning)),
        Err(error) => Came::saying(replies::not_opened(&OpenError::Journal(error.clone()))),
    }
}

async fn look(means: &Means, shown: SessionId, command: &Command) -> Came {
    let document = match folded(means.sessions.journal(), shown).await {
        Ok(document) => document,
        Err(error) => return Came::saying(replies::not_opened(&error.into())),
    };
    Came::saying(match command {
        Command::Queue => replies::queue(&document.queue),
        Command::Cost => {
            let last = document.turns.last().map_or(0, |it| it.number);
            replies::cost(&document.usage, last)
        }
        _ => replies::status(&document, &means.roots, means.clock.world()),
    })
}

async fn models(means: &Means, shown: SessionId) -> Came {
    let abilities = async |session: Session| match session.abilities().await? {
        Some(abilities) => Ok(Some(abilities)),
        None => session.wake().await,
    };
    match means.with(shown, abilities).await {
        Ok(abilities) => {
            let document = folded(means.sessions.journal(), shown).await.unwrap_or_default();
            let choices = replies::models_offered(abilities.as_deref().unwrap_or_default());
            Came::saying(replies::models(&choices, document.head.model.as_deref()))
        }
        Err(undone) => undone.into(),
    }
}

async fn set(
    means: &Means,
    shown: SessionId,
    setting: Setting,
    by: Actor,
    said: replies::Said,
) -> Came {
    match means.with(shown, async |session: Session| session.set(setting, by).await).await {
        Ok(()) => Came::saying(said),
        Err(undone) => undone.into(),
    }
}
