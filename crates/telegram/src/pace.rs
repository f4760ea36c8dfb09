//! When Telegram may be spoken to.
//!
//! Pure. Telegram takes about one message a second in a chat, twenty a minute in a group, thirty a
//! second from one bot, edits included, and says `retry after` when that is exceeded. Exact figures
//! are nobody's to know, so the pace stays below them. What counts is when Telegram gets something,
//! which is at the latest when its answer comes; so a chat is silent from then on, and has one call
//! under way at most.
//!
//! A network that fails is tried by one call at a time, less and less often. Whoever failed last
//! waits longest, so that a call which Telegram chokes on does not silence the others.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::call::{Call, Failure, Reply};
use crate::chat::{Moment, Urgency};
use crate::place::{ChatId, Kind};

/// Silence in a private chat after a message or an edit.
const PRIVATE: Duration = Duration::from_millis(1_050);

/// Silence before what somebody waits for,
const EAGER: Duration = Duration::from_millis(250);

/// once in so long: Telegram lets a single message out of step pass, a habit it does not.
const SELDOM: Duration = Duration::from_secs(5);

/// Silence in a group: below twenty a minute.
const GROUP: Duration = Duration::from_millis(3_100);

/// A minute, and what our clock may be off by.
const MINUTE: Duration = Duration::from_millis(60_500);

/// How many messages and edits a group takes in a minute,
const A_MINUTE: usize = 19;

/// and after how many of them also what somebody waits for has to wait like everything else.
const SPARE: usize = 15;

/// Silence in a chat between two drafts.
const DRAFTS: Duration = Duration::from_millis(500);

/// Between any two calls, so that they come evenly.
const ANY: Duration = Duration::from_millis(36);

/// How many calls may be under way, or have come to something within [`SECOND`].
const AT_ONCE: usize = 28;

/// A second, and what our clock may be off by.
const SECOND: Duration = Duration::from_millis(1_050);

/// What is added to the time Telegram asks for, whose clock is not ours.
const MARGIN: Duration = Duration::from_millis(200);

/// Two chats that are refused within this time are refused because of the whole bot.
const TOGETHER: Duration = Duration::from_secs(1);

/// The first wait after a failure of the network; it doubles,
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// When whom may be spoken to.
#[derive(Debug)]
pub struct Pace {
    chats: HashMap<ChatId, Pulse>,
    /// When the next call may go, to anybody.
    next: Moment,
    /// The chat that was refused last, when, and until when.
    refused: Option<(ChatId, Moment, Moment)>,
    outage: Option<Outage>,
    under_way: usize,
    /// When the last calls came to something, oldest first.
    ended: VecDeque<Moment>,
    dice: u64,
}

/// How a chat is spoken to.
#[derive(Clone, Debug, Default)]
struct Pulse {
    /// Nothing before.
    any: Moment,
    /// No message and no edit before.
    message: Moment,
    /// The same for what somebody waits for.
    awaited: Moment,
    /// When such a thing last went earlier than others may.
    eager: Option<Moment>,
    /// The messages and edits of the last minute, where a group counts them.
    minute: VecDeque<Moment>,
    /// No draft before.
    draft: Moment,
    under_way: bool,
    /// Failures of the network in a row.
    failures: u32,
}

/// The network fails.
#[derive(Clone, Copy, Debug)]
struct Outage {
    failures: u32,
    /// When it is tried again.
    until: Moment,
}

/// What a call counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// A message, an edit, a file, a deletion.
    Message,
    /// A draft, which a chat takes more often.
    Draft,
    /// What no chat counts: that somebody types, the answer to a tap.
    Free,
}

/// Somebody who wants to speak.
#[derive(Clone, Copy, Debug)]
pub struct Wish<K> {
    /// Who.
    pub who: K,
    /// To which chat.
    pub chat: ChatId,
    /// What.
    pub weight: Weight,
    /// How much it matters.
    pub urgency: Urgency,
    /// Since when.
    pub since: Moment,
}

/// Who is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<K> {
    /// This one, at once.
    Now(K),
    /// Somebody, at that moment.
    At(Moment),
    /// Nobody, before a call that is under way has come to something.
    Nobody,
}

impl Pulse {
    /// A message or an edit came to something.
    fn spoken(&mut self, kind: Kind, now: Moment) {
        let seldom = self.eager.is_none_or(|it| it + SELDOM <= now);
        self.awaited = now + if seldom { EAGER } else { PRIVATE };
        if kind == Kind::Private {
            self.message = now + PRIVATE;
            return;
        }
        self.message = now + GROUP;
        self.minute.push_back(now);
        while self.minute.pop_front_if(|it| *it + MINUTE <= now).is_some() {}
        if self.minute.len() >= SPARE {
            self.awaited = self.message;
        }
        if let Some(first) = self.minute.len().checked_sub(A_MINUTE) {
            let room = self.minute[first] + MINUTE;
            self.message = self.message.max(room);
            self.awaited = self.awaited.max(room);
        }
    }
}

impl Weight {
    /// What a call counts as.
    pub fn of(call: &Call) -> Self {
        match call {
            Call::Send(_)
            | Call::Edit { .. }
            | Call::Delete { .. }
            | Call::SendFile { .. }
            | Call::SendText { .. } => Self::Message,
            Call::Draft { .. } => Self::Draft,
            Call::Typing(_) | Call::Answer { .. } => Self::Free,
        }
    }
}

impl Pace {
    /// A pace at rest. The seed spreads what would otherwise happen at the same moment to all bots.
    pub fn new(seed: u64) -> Self {
        Self {
            chats: HashMap::new(),
            next: Moment::ZERO,
            refused: None,
            outage: None,
            under_way: 0,
            ended: VecDeque::new(),
            dice: seed | 1,
        }
    }

    /// The earliest moment for such a call; none while one is under way that has to end first.
    pub fn earliest(&self, chat: ChatId, weight: Weight, urgency: Urgency) -> Option<Moment> {
        let own = match (self.chats.get(&chat), weight) {
            (None, _) => Moment::ZERO,
            (Some(pulse), _) if pulse.under_way => return None,
            (Some(pulse), Weight::Message) if urgency == Urgency::Awaited => {
                pulse.awaited.max(pulse.any)
            }
            (Some(pulse), Weight::Message) => pulse.message.max(pulse.any),
            (Some(pulse), Weight::Draft) => pulse.draft.max(pulse.any),
            (Some(pulse), Weight::Free) => pulse.any,
        };
        let outage = self.outage.map_or(Moment::ZERO, |it| it.until);
        if self.outage.is_some() && self.under_way > 0 {
            return None;
        }
        Some(own.max(self.next).max(outage).max(self.room()?))
    }

    /// When there is room for one more call among those of a second. A call that is under way may
    /// be with Telegram at any moment until it has come to something.
    fn room(&self) -> Option<Moment> {
        let over = (self.under_way + self.ended.len() + 1).saturating_sub(AT_ONCE);
        match over.checked_sub(1) {
            None => Some(Moment::ZERO),
            Some(last) => self.ended.get(last).map(|ended| *ended + SECOND),
        }
    }

    /// The earliest moment for any call that a chat of that sort counts.
    pub fn soonest(&self, chat: ChatId, kind: Kind) -> Option<Moment> {
        let message = self.earliest(chat, Weight::Message, Urgency::Awaited)?;
        match kind {
            Kind::Private => {
                let draft = self.earliest(chat, Weight::Draft, Urgency::Passing);
                draft.map(|draft| draft.min(message))
            }
            Kind::Group => Some(message),
        }
    }

    /// Who is next: what matters most, and of that who waited longest.
    pub fn choose<K: Copy>(&self, wishes: impl Iterator<Item = Wish<K>>, now: Moment) -> Choice<K> {
        let mut best: Option<Wish<K>> = None;
        let mut soonest: Option<Moment> = None;
        for wish in wishes {
            match self.earliest(wish.chat, wish.weight, wish.urgency) {
                Some(at) if at <= now => {
                    let better = best.is_none_or(|it| {
                        wish.urgency > it.urgency
                            || wish.urgency == it.urgency && wish.since < it.since
                    });
                    if better {
                        best = Some(wish);
                    }
                }
                Some(at) => soonest = Some(soonest.map_or(at, |it| it.min(at))),
                None => {}
            }
        }
        match (best, soonest) {
            (Some(wish), _) => Choice::Now(wish.who),
            (None, Some(at)) => Choice::At(at),
            (None, None) => Choice::Nobody,
        }
    }

    /// A call goes.
    pub fn goes(&mut self, chat: ChatId, weight: Weight, now: Moment) {
        self.next = now + ANY;
        self.under_way += 1;
        let pulse = self.chats.entry(chat).or_default();
        pulse.under_way = true;
        if weight == Weight::Message && now < pulse.message {
            pulse.eager = Some(now);
        }
    }

    /// What came of it.
    pub fn came(
        &mut self,
        (chat, kind): (ChatId, Kind),
        weight: Weight,
        outcome: &Result<Reply, Failure>,
        now: Moment,
    ) {
        self.under_way = self.under_way.saturating_sub(1);
        self.ended.push_back(now);
        while self.ended.pop_front_if(|it| *it + SECOND <= now).is_some() {}
        let lost = matches!(outcome, Err(Failure::NotReached(_) | Failure::Unknown(_)));
        let wait = lost.then(|| {
            let failures = self.chats.get(&chat).map_or(0, |it| it.failures) + 1;
            self.wait(failures)
        });
        let pulse = self.chats.entry(chat).or_default();
        pulse.under_way = false;
        match weight {
            Weight::Message => pulse.spoken(kind, now),
            Weight::Draft => pulse.draft = now + DRAFTS,
            Weight::Free => {}
        }
        match (wait, outcome) {
            // A server that chokes on drafts is no reason to send nothing else.
            (Some(wait), Err(Failure::Unknown(_))) if weight == Weight::Draft => {
                pulse.failures += 1;
                pulse.draft = now + wait;
            }
            (Some(wait), _) => {
                pulse.failures += 1;
                pulse.any = now + wait;
                self.network_failed(now);
            }
            (None, Err(Failure::TooFast(after))) => {
                pulse.failures = 0;
                pulse.any = now + *after + MARGIN;
                let until = pulse.any;
                self.outage = None;
                self.too_fast(chat, until, now);
            }
            (None, _) => {
                pulse.failures = 0;
                self.outage = None;
            }
        }
    }

    /// Something that belongs to no chat was too fast, so all have to wait.
    pub fn all_too_fast(&mut self, after: Duration, now: Moment) {
        self.next = self.next.max(now + after + MARGIN);
    }

    fn too_fast(&mut self, chat: ChatId, until: Moment, now: Moment) {
        if let Some((other, at, theirs)) = self.refused
            && other != chat
            && now < at + TOGETHER
        {
            self.next = self.next.max(until).max(theirs);
        }
        self.refused = Some((chat, now, until));
    }

    fn network_failed(&mut self, now: Moment) {
        let failures = match self.outage {
            None => 1,
            // One that went before anybody knew.
            Some(outage) if now < outage.until => return,
            Some(outage) => outage.failures + 1,
        };
        let until = now + self.wait(failures);
        self.outage = Some(Outage { failures, until });
    }

    /// A wait that doubles with each failure, by up to a quarter longer or shorter.
    fn wait(&mut self, failures: u32) -> Duration {
        let doubled = FIRST_WAIT * 2_u32.saturating_pow(failures.saturating_sub(1).min(10));
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        let percent = u32::try_from(self.dice % 51).unwrap_or(0) + 75;
        doubled.min(LONGEST_WAIT) * percent / 100
    }
}

#[cfg(test)]
mod tests;
