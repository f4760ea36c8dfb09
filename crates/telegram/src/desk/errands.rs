//! Errands, set going and come to something.

use tracing::{error, warn};

use super::booth::{Booth, MOST_ERRANDS};
use super::deeds::answer_tap;
use super::errand::{Came, Errand, Showing, What};
use super::keeper::Keeping;
use super::{Desk, Done, Input, drawer};
use crate::memory::PlaceMemory;
use crate::place::Place;
use crate::replies;

impl Desk {
    /// Has an errand done after those that the place waits for already.
    pub(super) async fn errand(&mut self, errand: Errand) {
        let place = errand.place;
        let Some(booth) = self.booths.get_mut(&place) else { return };
        if booth.errands.len() >= MOST_ERRANDS {
            warn!(chat = place.chat.0, "too much waits for this chat");
            return;
        }
        booth.errands.push_back(errand);
        self.start_errand(place).await;
    }

    /// Begins with the place's next errand, if none is being done.
    pub(super) async fn start_errand(&mut self, place: Place) {
        let Some(booth) = self.booths.get_mut(&place) else { return };
        if booth.busy || !booth.is_ready() {
            return;
        }
        let Some(mut errand) = booth.errands.pop_front() else { return };
        booth.busy = true;
        let mut memories: Vec<_> = once_only(&mut errand);
        if let What::Prompt(draft) = &errand.what {
            // Before the agent has it, or the chat would take it for somebody else's.
            booth.with(|chat| chat.prompted(&draft.messages, draft.id));
            memories.extend(booth.unkept().map(drawer::place));
        }
        let keeping =
            if memories.is_empty() { None } else { Some(self.keeper.keep(memories).await) };
        self.spawn(errand, keeping, true, None);
    }

    /// Has an errand done at once, and a tap answered with what came of it.
    pub(super) async fn do_now(&mut self, mut errand: Errand, tap: Option<String>) {
        let memories = once_only(&mut errand);
        let keeping =
            if memories.is_empty() { None } else { Some(self.keeper.keep(memories).await) };
        self.spawn(errand, keeping, false, tap);
    }

    fn spawn(
        &mut self,
        errand: Errand,
        keeping: Option<Keeping>,
        queued: bool,
        tap: Option<String>,
    ) {
        let (means, tell, place) = (self.means.clone(), self.tell.clone(), errand.place);
        let shown = self.booths.get(&place).and_then(Booth::session);
        let done = Done { queued, message: errand.message, updates: errand.updates.clone() };
        self.work.spawn(async move {
            if let Some(keeping) = keeping {
                keeping.done().await;
            }
            let bot = means.bot.clone();
            let run = tokio::spawn(async move { errand.run(&means, shown).await });
            let mut came = run.await.unwrap_or_else(|problem| {
                error!(%problem, "an errand fell over");
                Came::saying(replies::fell_over())
            });
            if let Some(tap) = tap {
                let word = came.word();
                came.says.clear();
                answer_tap(&bot, tap, word).await;
            }
            // The desk is gone only when everything is.
            let _ = tell.send(Input::Came { place, errand: done, came: Box::new(came) }).await;
        });
    }

    /// What came of an errand.
    pub(super) async fn came(&mut self, place: Place, errand: Done, came: Came) {
        let place = self.now_at(place);
        let Came { says, sends, shows, cleared, verbosity, mut next } = came;
        let updates = match &mut next {
            // It still needs them.
            Some(next) => {
                next.updates = errand.updates;
                Vec::new()
            }
            None => errand.updates,
        };
        if cleared {
            self.clear(place).await;
        }
        if let Some(showing) = shows {
            self.show(place, showing);
        }
        let Some(booth) = self.booths.get_mut(&place) else { return };
        if errand.queued {
            booth.busy = false;
        }
        if let Some(verbosity) = verbosity {
            booth.with(|chat| chat.set_verbosity(verbosity));
        }
        let mut memories: Vec<_> = booth.unkept().map(drawer::place).into_iter().collect();
        memories.extend(updates.into_iter().map(drawer::done));
        if !memories.is_empty() {
            let keeping = self.keeper.keep(memories).await;
            if !keeping.done().await
                && let Some(booth) = self.booths.get_mut(&place)
            {
                booth.is_kept(false);
            }
        }
        let Some(booth) = self.booths.get_mut(&place) else { return };
        for said in says {
            booth.asides.say(place, &said, errand.message);
        }
        for call in sends {
            booth.asides.add(call);
        }
        booth.stir();
        if let Some(next) = next {
            booth.errands.push_front(next);
        }
        self.start_errand(place).await;
    }

    /// A place shows a session from here on.
    fn show(&mut self, place: Place, showing: Showing) {
        let Some(booth) = self.booths.get_mut(&place) else { return };
        let mut memory = match showing {
            Showing::Whole(session) => PlaceMemory::new(place, booth.kind, session),
            Showing::FromHere(session, document) => {
                PlaceMemory::from_here(place, booth.kind, session, &document)
            }
        };
        let (session, before) = (memory.session, booth.session());
        if before == Some(session) {
            return;
        }
        if let Some(before) = booth.memory() {
            memory.verbosity = before.verbosity;
        }
        booth.show(memory);
        self.follow(session);
        if let Some(before) = before {
            self.unfollow(before);
        }
    }
}

/// What is forgotten before an errand is done, because it must not be done twice.
fn once_only(errand: &mut Errand) -> Vec<journal::Memory> {
    if errand.is_repeatable() {
        return Vec::new();
    }
    std::mem::take(&mut errand.updates).into_iter().map(drawer::done).collect()
}
