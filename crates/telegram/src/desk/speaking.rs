//! Saying what is to be said: who is next, and what came of it.

use tokio::sync::oneshot;
use tracing::{debug, warn};

use super::booth::Wanted;
use super::{Desk, Input, Outcome, drawer, outbox};
use crate::bot::Trouble;
use crate::call::Failure;
use crate::chat::Moment;
use crate::pace::{Choice, Weight};
use crate::place::{ChatId, Place};

impl Desk {
    /// Says whatever may be said now. Returns when there will be something to say.
    pub(super) async fn speak(&mut self) -> Option<Moment> {
        loop {
            let now = self.now();
            let mut wishes = Vec::new();
            let mut wakes: Option<Moment> = None;
            let mut wake_at = |at: Moment| wakes = Some(wakes.map_or(at, |it| it.min(at)));
            for booth in self.booths.values_mut() {
                let earliest = self.pace.soonest(booth.place.chat, booth.kind);
                match booth.wish(earliest, now) {
                    Wanted::Speech(wish) => wishes.push(wish),
                    Wanted::Look(at) => wake_at(at),
                    Wanted::Nothing => {}
                }
            }
            match self.pace.choose(wishes.into_iter(), now) {
                Choice::Now(place) => self.go(place, now).await,
                Choice::At(at) => {
                    wake_at(at);
                    return wakes;
                }
                Choice::Nobody => return wakes,
            }
        }
    }

    async fn go(&mut self, place: Place, now: Moment) {
        let Some(booth) = self.booths.get_mut(&place) else { return };
        let Some(call) = booth.go(now) else { return };
        self.pace.goes(place.chat, Weight::of(&call), now);
        // What the chat has been told so far is on the disk before it is told more.
        let keeping = match booth.unkept() {
            Some(memory) => Some(self.keeper.keep(vec![drawer::place(memory)]).await),
            None => None,
        };
        let (bot, tell) = (self.means.bot.clone(), self.tell.clone());
        self.work.spawn(async move {
            let kept = match keeping {
                Some(keeping) => keeping.done().await,
                None => true,
            };
            let outcome =
                if kept { Outcome::Made(bot.call(&call).await) } else { Outcome::NotKept };
            // The desk is gone only when everything is.
            let _ = tell.send(Input::Called { place, outcome }).await;
        });
    }

    pub(super) async fn called(&mut self, place: Place, outcome: Outcome) {
        let now = self.now();
        let mut moved = None;
        let outcome = match outcome {
            Outcome::NotKept => {
                if let Some(booth) = self.booths.get_mut(&self.now_at(place)) {
                    booth.is_kept(false);
                }
                Err(Failure::NotReached("the journal failed".to_owned()))
            }
            Outcome::Made(made) => made.map_err(|trouble| match trouble {
                Trouble::Failure(failure) => failure,
                Trouble::Moved(to) => {
                    moved = Some(to);
                    Failure::TooFast(std::time::Duration::ZERO)
                }
                // The poller hears the same, and ends the bridge; nothing is lost until then.
                Trouble::UnknownToken => Failure::NotReached("the token is not known".to_owned()),
                Trouble::Conflict(why) => Failure::Unknown(why),
            }),
        };
        let (spoke_to, place) = (place.chat, self.now_at(place));
        let Some(booth) = self.booths.get_mut(&place) else { return };
        let Some(calling) = booth.came(&outcome, now) else { return };
        self.pace.came((spoke_to, booth.kind), calling.weight, &outcome, now);
        if let Err(failure) = &outcome {
            match failure {
                Failure::NotModified | Failure::TooFast(_) => debug!(chat = place.chat.0, %failure),
                _ => warn!(chat = place.chat.0, %failure, "something could not be said"),
            }
        }
        if let Some(path) = calling.file {
            let sent = match &outcome {
                Ok(_) => Some(true),
                Err(
                    Failure::TooFast(_)
                    | Failure::NotReached(_)
                    | Failure::Unknown(_)
                    | Failure::NotWanted(_)
                    | Failure::NoSuchThread,
                ) => None,
                Err(_) => Some(false),
            };
            if let Some(sent) = sent {
                booth.offered.remove(&path);
                let others = self.booths.values().any(|it| it.offered.contains(&path));
                if !others {
                    put_aside(path, sent).await;
                }
            }
        }
        self.keep(place).await;
        if let Some(to) = moved {
            self.moved(place.chat, to).await;
        }
    }

    /// Writes down what a place was told, if that is news.
    pub(super) async fn keep(&mut self, place: Place) {
        let Some(booth) = self.booths.get_mut(&place) else { return };
        if let Some(memory) = booth.unkept() {
            let memory = drawer::place(memory);
            self.keeper.keep(vec![memory]).await;
        }
    }

    /// A group goes by another number.
    pub(super) async fn moved(&mut self, from: ChatId, to: ChatId) {
        if from == to {
            return;
        }
        self.renamed.insert(from, to);
        let places: Vec<Place> =
            self.booths.keys().copied().filter(|place| place.chat == from).collect();
        for old in places {
            let Some(mut booth) = self.booths.remove(&old) else { continue };
            let new = Place { chat: to, ..old };
            booth.place = new;
            booth.asides.moved(new);
            booth.with(|chat| chat.moved(new));
            let mut memories = vec![drawer::left(old)];
            memories.extend(booth.unkept().map(drawer::place));
            self.booths.entry(new).or_insert(booth);
            self.keeper.keep(memories).await;
        }
    }
}

async fn put_aside(path: std::path::PathBuf, sent: bool) {
    let (done, waits) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        if let Err(problem) = outbox::put_aside(&path, sent) {
            warn!(%problem, "a file that was sent could not be put aside");
        }
        let _ = done.send(());
    });
    // It takes a moment, and until then the file would be offered again.
    let _ = waits.await;
}
