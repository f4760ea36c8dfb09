//! The desk: where everything that is pure meets everything that is not.
//!
//! One task owns the front, the chats and the pace, and decides. What takes time is done by others,
//! who report back: the poller brings what people sent, a following per session brings what became
//! of it, errands do what people want, calls say what is to be said, and the keeper writes down what
//! must not be forgotten. There are no locks, and nobody waits for anybody who waits for the desk.
//!
//! What is on the disk when: an update before it is acted on, until what it asked for is done; what a
//! chat was told before the next thing is told, and before whoever asked is answered.

mod aside;
mod booth;
mod bridge;
mod changes;
mod clock;
mod command;
mod deeds;
mod drawer;
mod errand;
mod errands;
mod following;
mod keeper;
mod news;
mod outbox;
mod poller;
mod prompting;
mod speaking;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Duration;

use journal::SessionId;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::debug;

use crate::bot::Trouble;
use crate::call::Reply;
use crate::chat::Moment;
use crate::front::{Front, Taken};
use crate::pace::Pace;
use crate::place::{ChatId, Kind, Place};
use crate::settings::Error;
use booth::Booth;
pub use bridge::Bridge;
use drawer::{Arrival, Kept};
use errand::{Came, Means};
use following::News;
use keeper::Keeper;
use outbox::Offer;
use poller::Poller;

/// How many reports may wait for the desk. When it is full, whoever reports waits.
const WAITING: usize = 256;

/// The shortest wait between two looks at what there is to say, where nothing happens.
const SHORTEST: Duration = Duration::from_millis(5);

/// How long calls and errands under way may take when the bridge ends.
const ENDING: Duration = Duration::from_secs(2);

/// The desk.
#[derive(Debug)]
struct Desk {
    means: Means,
    front: Front,
    pace: Pace,
    keeper: Keeper,
    booths: HashMap<Place, Booth>,
    /// Who follows the sessions that are shown.
    followings: HashMap<SessionId, Followed>,
    /// How many followings there have been.
    number: u64,
    /// Groups that go by another number, by the one they had: calls and errands may still be under
    /// way under it.
    renamed: HashMap<ChatId, ChatId>,
    tell: mpsc::Sender<Input>,
    work: JoinSet<()>,
}

/// A session that is followed.
#[derive(Debug)]
struct Followed {
    /// Which following it is.
    number: u64,
    task: AbortHandle,
}

/// Something that is reported to the desk.
#[derive(Debug)]
enum Input {
    /// What people sent. It is on the disk.
    Updates(Vec<Arrival>),
    /// What became of a session's document.
    News { session: SessionId, following: u64, news: News },
    /// What came of a place's call.
    Called { place: Place, outcome: Outcome },
    /// What came of an errand of a place.
    Came { place: Place, errand: Done, came: Box<Came> },
    /// Files that a session's agent wants sent.
    Offers { session: SessionId, offers: Vec<Offer> },
    /// Telegram wants to be left alone for a while, by everybody.
    AllTooFast(Duration),
    /// The bridge cannot go on.
    Ended(Error),
}

/// What came of a call.
#[derive(Debug)]
enum Outcome {
    /// It was made.
    Made(Result<Reply, Trouble>),
    /// It was not, for what had to be written down first was not.
    NotKept,
}

/// An errand that is done.
#[derive(Debug)]
struct Done {
    /// Whether it was the place's one errand at a time; a tap is answered at once.
    queued: bool,
    message: Option<crate::place::MessageId>,
    updates: Vec<i64>,
}

impl Desk {
    async fn run(
        means: Means,
        front: Front,
        kept: Kept,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let journal = means.sessions.journal().clone();
        let (tell, mut told) = mpsc::channel(WAITING);
        let (keeper, keeping) = Keeper::new(journal.clone());
        let keeping = tokio::spawn(keeping);
        let pace = Pace::new(means.clock.world());
        let poller = Poller {
            bot: means.bot.clone(),
            journal,
            clock: means.clock,
            offset: kept.offset,
            tell: tell.clone(),
        };
        let mut desk = Self {
            means,
            front,
            pace,
            keeper,
            booths: HashMap::new(),
            followings: HashMap::new(),
            number: 0,
            renamed: HashMap::new(),
            tell,
            work: JoinSet::new(),
        };
        desk.remember(kept).await;
        let polling = tokio::spawn(poller.run());
        let ended = desk.serve(&mut told, shutdown).await;
        // What it has written down by now comes again, what it has not comes from Telegram.
        polling.abort();
        desk.finish(&mut told).await;
        for followed in desk.followings.values() {
            followed.task.abort();
        }
        desk.work.abort_all();
        // With the desk the last hold on the keeper goes, so it ends once everything is kept.
        drop(desk);
        let _ = timeout(ENDING, keeping).await;
        ended
    }

    /// Takes up what an earlier life left.
    async fn remember(&mut self, kept: Kept) {
        let Kept { updates, places, .. } = kept;
        for memory in places {
            let mut booth = Booth::new(memory.place, memory.kind);
            booth.show(memory);
            booth.is_kept(true);
            self.booths.insert(booth.place, booth);
        }
        let shown: Vec<SessionId> = self.booths.values().filter_map(Booth::session).collect();
        for session in shown {
            if !self.followings.contains_key(&session) {
                self.follow(session);
            }
        }
        self.take(updates).await;
    }

    async fn serve(
        &mut self,
        told: &mut mpsc::Receiver<Input>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        tokio::pin!(shutdown);
        loop {
            let wakes = self.speak().await;
            let gathered = self.front.wakes().map(|it| self.means.clock.instant_since_1970(it));
            // Whoever wants to be asked at once has just been asked.
            let soon = self.now() + SHORTEST;
            let wakes = wakes.map(|it| self.means.clock.instant(it.max(soon)));
            let next = [wakes, gathered].into_iter().flatten().min();
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                Some(input) = told.recv() => self.on(input).await?,
                Some(done) = self.work.join_next() => {
                    if let Err(problem) = done {
                        debug!(%problem, "something under way was dropped");
                    }
                }
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
            // What is there is taken before anything is said: an edit is the newest then.
            while let Ok(input) = told.try_recv() {
                self.on(input).await?;
            }
            let now = self.means.clock.since_1970(self.means.clock.world());
            let due = self.front.due(now);
            self.do_all(due).await;
        }
    }

    /// Lets calls and errands under way finish, for a moment.
    async fn finish(&mut self, told: &mut mpsc::Receiver<Input>) {
        let until = Instant::now() + ENDING;
        while self.booths.values().any(|booth| booth.is_calling() || booth.busy) {
            let Ok(Some(input)) = tokio::time::timeout_at(until, told.recv()).await else { break };
            match input {
                Input::Called { place, outcome } => self.called(place, outcome).await,
                Input::Came { place, errand, came } => self.came(place, errand, *came).await,
                _ => {}
            }
        }
    }

    async fn on(&mut self, input: Input) -> Result<(), Error> {
        match input {
            Input::Updates(updates) => self.take(updates).await,
            Input::News { session, following, news } => {
                let known = self.followings.get(&session).map(|it| it.number);
                if known == Some(following) {
                    self.news(session, news).await;
                }
            }
            Input::Called { place, outcome } => self.called(place, outcome).await,
            Input::Came { place, errand, came } => self.came(place, errand, *came).await,
            Input::Offers { session, offers } => self.offers(session, &offers).await,
            Input::AllTooFast(after) => self.pace.all_too_fast(after, self.now()),
            Input::Ended(error) => return Err(error),
        }
        Ok(())
    }

    async fn take(&mut self, updates: Vec<Arrival>) {
        for Arrival { at, update } in updates {
            let at = self.means.clock.since_1970(at);
            let taken = self.front.take(&update, at);
            self.do_all(taken).await;
        }
    }

    async fn do_all(&mut self, taken: Vec<Taken>) {
        for Taken { deeds, updates } in taken {
            // They are done in order, so whoever is last has the updates forgotten.
            let mut updates = Some(updates);
            let mut deeds = deeds.into_iter().peekable();
            if deeds.peek().is_none() {
                self.forget(updates.take().unwrap_or_default()).await;
            }
            while let Some(deed) = deeds.next() {
                let last = deeds.peek().is_none();
                let with = if last { updates.take() } else { None };
                self.deed(deed, with.unwrap_or_default()).await;
            }
        }
    }

    /// Forgets updates that are carried out.
    async fn forget(&self, updates: Vec<i64>) {
        if !updates.is_empty() {
            self.keeper.keep(updates.into_iter().map(drawer::done).collect()).await;
        }
    }

    /// What a place is called by now.
    fn now_at(&self, place: Place) -> Place {
        let chat = self.renamed.get(&place.chat).copied().unwrap_or(place.chat);
        Place { chat, ..place }
    }

    fn booth(&mut self, place: Place, kind: Kind) -> &mut Booth {
        self.booths.entry(place).or_insert_with(|| Booth::new(place, kind))
    }

    fn now(&self) -> Moment {
        self.means.clock.now()
    }
}
