//! What becomes of sessions, told to the places that show them.

use std::time::Duration;

use journal::{Seq, SessionId};
use tracing::info;

use super::following::{Following, News};
use super::outbox::{self, Offer};
use super::{Desk, Followed, Input, drawer};
use crate::place::Place;
use crate::replies;

/// How long what happens in a session gathers before it is told.
const GATHER: Duration = Duration::from_millis(100);

impl Desk {
    /// Follows a session, from where the first of the places that show it has to be told. Whoever
    /// followed it before is dropped, and all of them get the document anew.
    pub(super) fn follow(&mut self, session: SessionId) {
        let shown = self.booths.values().filter_map(|it| it.memory());
        let from = shown.filter(|it| it.session == session).map(|it| (it.from, it.turn)).min();
        let Some((from, turn)) = from else { return self.unfollow(session) };
        self.number += 1;
        let following = Following {
            journal: self.means.sessions.journal().clone(),
            session,
            from: Seq(from),
            turn,
            number: self.number,
            gather: self.means.clock.span(GATHER),
            tell: self.tell.clone(),
        };
        let task = self.work.spawn(following.run());
        let followed = Followed { number: self.number, task };
        if let Some(before) = self.followings.insert(session, followed) {
            before.task.abort();
        }
    }

    /// Follows a session no more, unless another place shows it.
    pub(super) fn unfollow(&mut self, session: SessionId) {
        let shown = self.booths.values().any(|it| it.session() == Some(session));
        if !shown && let Some(followed) = self.followings.remove(&session) {
            followed.task.abort();
        }
    }

    pub(super) async fn news(&mut self, session: SessionId, news: News) {
        let places: Vec<Place> = self.showing(session);
        let now = self.now();
        match news {
            News::Whole(document) => {
                let idle = !document.status.phase.is_busy();
                for place in places {
                    let Some(booth) = self.booths.get_mut(&place) else { continue };
                    booth.with(|chat| chat.begin((*document).clone(), now));
                    booth.has_begun();
                    let early = std::mem::take(&mut booth.early);
                    for (deed, updates) in early {
                        Box::pin(self.deed(deed, updates)).await;
                    }
                    self.start_errand(place).await;
                }
                if idle {
                    // An earlier life may have ended before it sent what lies there.
                    self.look_into_outbox(session);
                }
            }
            News::Changed(update) => {
                let mut gap = false;
                for place in places {
                    let Some(booth) = self.booths.get_mut(&place) else { continue };
                    gap |= matches!(booth.with(|chat| chat.take(&update, now)), Some(Err(_)));
                }
                if gap {
                    self.follow(session);
                }
            }
            News::TurnOver => self.look_into_outbox(session),
            News::Gone => {
                info!(%session, "a session is deleted");
                self.followings.remove(&session);
                for place in places {
                    self.clear(place).await;
                    if let Some(booth) = self.booths.get_mut(&place) {
                        booth.asides.say(place, &replies::deleted(), None);
                        booth.stir();
                        let early = std::mem::take(&mut booth.early);
                        for (deed, updates) in early {
                            Box::pin(self.deed(deed, updates)).await;
                        }
                        self.start_errand(place).await;
                    }
                }
            }
        }
    }

    /// The place shows nothing any more.
    pub(super) async fn clear(&mut self, place: Place) {
        let Some(booth) = self.booths.get_mut(&place) else { return };
        let session = booth.session();
        booth.clear();
        self.keeper.keep(vec![drawer::left(place)]).await;
        if let Some(session) = session {
            self.unfollow(session);
        }
    }

    pub(super) async fn offers(&mut self, session: SessionId, offers: &[Offer]) {
        for place in self.showing(session) {
            let Some(booth) = self.booths.get_mut(&place) else { continue };
            for offer in offers {
                if !booth.offered.insert(offer.path.clone()) {
                    continue;
                }
                if offer.is_too_large() {
                    let said = replies::not_sent(&offer.name(), offer.size, outbox::MOST);
                    booth.asides.say(place, &said, None);
                    booth.stir();
                } else {
                    booth.with(|chat| chat.attach(offer.path.clone(), offer.picture));
                }
            }
            self.keep(place).await;
        }
    }

    fn look_into_outbox(&mut self, session: SessionId) {
        let (sessions, tell) = (self.means.sessions.clone(), self.tell.clone());
        self.work.spawn(async move {
            let Ok(Some(record)) = sessions.journal().session(session).await else { return };
            let offers = outbox::look(record.directory).await;
            if !offers.is_empty() {
                // The desk is gone only when everything is.
                let _ = tell.send(Input::Offers { session, offers }).await;
            }
        });
    }

    fn showing(&self, session: SessionId) -> Vec<Place> {
        let mut places: Vec<Place> = self
            .booths
            .values()
            .filter(|booth| booth.session() == Some(session))
            .map(|booth| booth.place)
            .collect();
        places.sort_unstable();
        places
    }
}
