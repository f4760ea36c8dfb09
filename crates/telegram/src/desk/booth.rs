//! A place as the desk has it: its chat, what it wants to say, what is being done for it.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use journal::SessionId;
use tracing::error;

use super::aside::Asides;
use super::errand::Errand;
use crate::call::{Call, Failure, Reply};
use crate::chat::{Chat, Moment, Next, Urgency};
use crate::deed::Deed;
use crate::memory::PlaceMemory;
use crate::pace::{Weight, Wish};
use crate::place::{Kind, Place};

/// How many deeds may wait for their turn at a place. What comes beyond stays on the disk, and is
/// looked at in the next life.
pub(super) const MOST_ERRANDS: usize = 200;

/// A place as the desk has it.
#[derive(Debug)]
pub(super) struct Booth {
    pub(super) place: Place,
    pub(super) kind: Kind,
    /// The replica of the session it shows, where it shows one.
    chat: Option<Chat>,
    /// Whether the chat has seen the document.
    begun: bool,
    /// What came before it had, with the updates it came by.
    pub(super) early: Vec<(Deed, Vec<i64>)>,
    pub(super) asides: Asides,
    pub(super) errands: VecDeque<Errand>,
    /// Whether an errand is being done.
    pub(super) busy: bool,
    /// The call under way.
    calling: Option<Calling>,
    want: Want,
    /// Since when it wants to say something.
    since: Option<Moment>,
    /// What was last handed to the keeper.
    kept: Option<PlaceMemory>,
    /// Files of the agent's that are handed to the chat and not sent yet.
    pub(super) offered: HashSet<PathBuf>,
    /// How many chats there have been: an outcome may come when its chat is gone.
    generation: u64,
}

/// A call under way.
#[derive(Debug)]
pub(super) struct Calling {
    whose: Whose,
    pub(super) weight: Weight,
    /// The file it sends.
    pub(super) file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Aside,
    Chat(u64),
}

/// What the place wants, as of the last look.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Want {
    /// Something happened since.
    Unknown,
    Speak {
        weight: Weight,
        urgency: Urgency,
    },
    Wait(Moment),
    Rest,
}

/// What a place wants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    /// To say something.
    Speech(Wish<Place>),
    /// To be asked again at that moment.
    Look(Moment),
    /// Nothing.
    Nothing,
}

impl Booth {
    pub(super) fn new(place: Place, kind: Kind) -> Self {
        Self {
            place,
            kind,
            chat: None,
            begun: false,
            early: Vec::new(),
            asides: Asides::default(),
            errands: VecDeque::new(),
            busy: false,
            calling: None,
            want: Want::Rest,
            since: None,
            kept: None,
            offered: HashSet::new(),
            generation: 0,
        }
    }

    /// The session it shows.
    pub(super) fn session(&self) -> Option<SessionId> {
        self.chat.as_ref().map(|chat| chat.memory().session)
    }

    /// What is remembered of it.
    pub(super) fn memory(&self) -> Option<&PlaceMemory> {
        self.chat.as_ref().map(Chat::memory)
    }

    /// Whether what people want can be done: the chat knows what it shows, or shows nothing.
    pub(super) fn is_ready(&self) -> bool {
        self.begun || self.chat.is_none()
    }

    /// Shows a session, from what is remembered of it. Nothing of the one before is left that looks
    /// as if it were still going on here.
    pub(super) fn show(&mut self, memory: PlaceMemory) {
        self.part();
        self.chat = Some(Chat::new(memory));
        self.begun = false;
        self.generation += 1;
        self.offered.clear();
        self.want = Want::Unknown;
    }

    fn part(&mut self) {
        for call in self.with(|chat| chat.leave()).unwrap_or_default() {
            self.asides.add(call);
        }
    }

    /// Shows nothing any more.
    pub(super) fn clear(&mut self) {
        self.part();
        self.chat = None;
        self.begun = false;
        self.kept = None;
        self.generation += 1;
        self.offered.clear();
        self.want = Want::Unknown;
    }

    /// Does something with the chat. A chat that falls over is taken away; the place then shows
    /// nothing until somebody asks for the session again, and nobody else is harmed.
    pub(super) fn with<T>(&mut self, work: impl FnOnce(&mut Chat) -> T) -> Option<T> {
        self.want = Want::Unknown;
        let chat = self.chat.as_mut()?;
        let done = catch_unwind(AssertUnwindSafe(|| work(chat)));
        if done.is_err() {
            error!(chat = self.place.chat.0, "a chat fell over, and is left alone");
            self.chat = None;
            self.begun = false;
            self.generation += 1;
        }
        done.ok()
    }

    /// The chat has seen the document.
    pub(super) fn has_begun(&mut self) {
        self.begun = true;
        self.want = Want::Unknown;
    }

    /// Something happened that may change what it wants.
    pub(super) fn stir(&mut self) {
        self.want = Want::Unknown;
    }

    /// What the place wants. It is asked only if it may be spoken to from `earliest` on: what it
    /// wants matters once it may say it, and not before.
    pub(super) fn wish(&mut self, earliest: Option<Moment>, now: Moment) -> Wanted {
        let Some(earliest) = earliest.filter(|_| self.calling.is_none()) else {
            return Wanted::Nothing;
        };
        let due = match self.want {
            Want::Unknown => true,
            Want::Wait(until) => until <= now,
            Want::Speak { .. } | Want::Rest => false,
        };
        if due && earliest > now {
            return Wanted::Look(earliest);
        }
        if due {
            self.look(now);
        }
        match self.want {
            Want::Speak { weight, urgency } => {
                let since = self.since.unwrap_or(now);
                let (who, chat) = (self.place, self.place.chat);
                Wanted::Speech(Wish { who, chat, weight, urgency, since })
            }
            Want::Wait(until) => Wanted::Look(until),
            Want::Unknown | Want::Rest => Wanted::Nothing,
        }
    }

    fn look(&mut self, now: Moment) {
        let next = match self.asides.next() {
            Some(call) => Next::Do(call.clone(), Urgency::Awaited),
            None if self.begun => self.with(|chat| chat.next(now)).unwrap_or(Next::Rest),
            None => Next::Rest,
        };
        self.want = match next {
            Next::Do(call, urgency) => Want::Speak { weight: Weight::of(&call), urgency },
            Next::Wait(until) => Want::Wait(until),
            Next::Rest => Want::Rest,
        };
        self.since = match self.want {
            Want::Speak { .. } => Some(self.since.unwrap_or(now)),
            Want::Unknown | Want::Wait(_) | Want::Rest => None,
        };
    }

    /// The call to make, which is under way from here on. Decided anew: what is said is the newest.
    pub(super) fn go(&mut self, now: Moment) -> Option<Call> {
        let (call, whose) = if let Some(call) = self.asides.next() {
            (call.clone(), Whose::Aside)
        } else {
            let next = self.begun.then(|| self.with(|chat| chat.next(now))).flatten();
            let Some(Next::Do(call, _)) = next else {
                self.look(now);
                return None;
            };
            (call, Whose::Chat(self.generation))
        };
        if let Whose::Chat(_) = whose {
            self.with(|chat| chat.under_way(&call, now))?;
        }
        let file = match &call {
            Call::SendFile { path, .. } => Some(path.clone()),
            _ => None,
        };
        self.since = None;
        self.calling = Some(Calling { whose, weight: Weight::of(&call), file });
        Some(call)
    }

    /// What came of the call under way, which is returned.
    pub(super) fn came(
        &mut self,
        outcome: &Result<Reply, Failure>,
        now: Moment,
    ) -> Option<Calling> {
        let calling = self.calling.take()?;
        match calling.whose {
            Whose::Aside => {
                self.asides.came(outcome);
                if outcome.is_ok() {
                    self.with(Chat::spoken_below);
                }
            }
            Whose::Chat(generation) if generation == self.generation => {
                self.with(|chat| chat.came(outcome.clone(), now));
            }
            // The place shows something else by now.
            Whose::Chat(_) => {}
        }
        self.want = Want::Unknown;
        Some(calling)
    }

    /// Whether a call is under way.
    pub(super) fn is_calling(&self) -> bool {
        self.calling.is_some()
    }

    /// What is to be remembered, if it is not what was last handed to the keeper.
    pub(super) fn unkept(&mut self) -> Option<&PlaceMemory> {
        let memory = self.chat.as_ref()?.memory();
        if self.kept.as_ref() == Some(memory) {
            return None;
        }
        self.kept = Some(memory.clone());
        self.kept.as_ref()
    }

    /// Whether what is remembered is on the disk, as far as anybody knows.
    pub(super) fn is_kept(&mut self, kept: bool) {
        self.kept = self.chat.as_ref().filter(|_| kept).map(|chat| chat.memory().clone());
    }
}

#[cfg(test)]
mod tests {
    use journal::SessionId;
    use uuid::Uuid;

    use super::{Booth, Wanted};
    use crate::call::{Call, Reply};
    use crate::chat::Moment;
    use crate::memory::PlaceMemory;
    use crate::place::{ChatId, Kind, MessageId, Place};
    use crate::replies::Said;

    const HERE: Place = Place { chat: ChatId(1), thread: None };

    fn booth() -> Booth {
        let mut booth = Booth::new(HERE, Kind::Private);
        booth.show(PlaceMemory::new(HERE, Kind::Private, SessionId(Uuid::from_u128(1))));
        booth
    }

    #[test]
    fn a_chat_that_falls_over_takes_nothing_with_it() {
        let mut booth = booth();
        assert_eq!(booth.with(|_| -> u8 { panic!("as a test wants it") }), None);
        assert_eq!(booth.session(), None);
        assert!(booth.is_ready(), "what people want is still done");
        booth.asides.say(HERE, &Said::from("still here"), None);
        booth.stir();
        assert!(matches!(booth.wish(Some(Moment::ZERO), Moment::ZERO), Wanted::Speech(_)));
        assert!(matches!(booth.go(Moment::ZERO), Some(Call::Send(_))));
    }

    #[test]
    fn a_place_is_asked_what_it_wants_only_when_it_may_say_it_and_says_one_thing_at_a_time() {
        let mut booth = booth();
        booth.asides.say(HERE, &Said::from("one"), None);
        booth.asides.say(HERE, &Said::from("two"), None);
        let later = Moment::from_secs(5);
        assert!(matches!(booth.wish(Some(later), Moment::ZERO), Wanted::Look(at) if at == later));
        assert!(matches!(booth.wish(None, later), Wanted::Nothing));
        assert!(matches!(booth.wish(Some(later), later), Wanted::Speech(_)));
        assert!(booth.go(later).is_some() && booth.is_calling());
        assert!(matches!(booth.wish(Some(later), later), Wanted::Nothing), "one is under way");
        booth.came(&Ok(Reply::Sent(MessageId(1))), later);
        assert!(matches!(booth.go(later), Some(Call::Send(it)) if it.words.plain == "two"));
    }

    #[test]
    fn what_is_to_be_remembered_is_handed_on_once() {
        let mut booth = booth();
        assert!(booth.unkept().is_some());
        assert!(booth.unkept().is_none());
        booth.is_kept(false);
        assert!(booth.unkept().is_some(), "it was not written down after all");
        booth.with(|chat| chat.set_verbosity(2));
        assert!(booth.unkept().is_some());
    }
}
