//! When a chat may be sent something. Pure.
//!
//! Telegram accepts about one message per second in a chat, twenty per minute in a group and thirty
//! per second from one bot, edits included, and answers `retry after` beyond that. The exact limits
//! are not documented, so the limiter stays below them. What counts is when Telegram receives a call,
//! which is at the latest when its response arrives. So a chat's pause starts at the response, and a
//! chat has at most one call in flight.
//!
//! While the network fails, one call at a time is tried, with growing pauses. The chat whose call
//! failed last waits longest, so that a call which always fails does not block the other chats.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::address::{ChatId, ChatKind};
use crate::bot::{BotCall, BotCallError, BotResponse};
use crate::chat::{BridgeTime, CallUrgency};

/// The pause after a message or an edit in a private chat.
const PRIVATE_PAUSE: Duration = Duration::from_millis(1_050);

/// The shorter pause before something that a user waits for. Telegram tolerates a single message
/// that comes early, but not many of them.
const AWAITED_PAUSE: Duration = Duration::from_millis(250);

/// How often the shorter pause is used.
const AWAITED_INTERVAL: Duration = Duration::from_secs(5);

/// The pause in a group, which keeps it below twenty messages per minute.
const GROUP_PAUSE: Duration = Duration::from_millis(3_100);

/// A minute, plus a margin for clocks that differ.
const MINUTE: Duration = Duration::from_millis(60_500);

/// The messages and edits that a group accepts per minute.
const GROUP_LIMIT: usize = 19;

/// The number of messages in the last minute from which on the shorter pause is not used in a group.
const GROUP_RESERVE: usize = 15;

/// The pause between two drafts in a chat.
const DRAFT_PAUSE: Duration = Duration::from_millis(500);

/// The pause between any two calls, so that they are spread evenly.
const CALL_PAUSE: Duration = Duration::from_millis(36);

/// How many calls may be in flight or have finished within the last [`SECOND`].
const BOT_LIMIT: usize = 28;

/// A second, plus a margin for clocks that differ.
const SECOND: Duration = Duration::from_millis(1_050);

/// Added to the wait that Telegram asks for, because its clock is not ours.
const RETRY_MARGIN: Duration = Duration::from_millis(200);

/// If two chats are rate limited within this time, the limit is the whole bot's.
const BOT_LIMIT_WINDOW: Duration = Duration::from_secs(1);

/// The first wait after a network failure. It doubles up to [`MAX_BACKOFF`].
const MIN_BACKOFF: Duration = Duration::from_secs(1);

const MAX_BACKOFF: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct RateLimiter {
    chats: HashMap<ChatId, ChatLimit>,
    /// When the next call may start, in any chat.
    next: BridgeTime,
    /// The chat that was rate limited last, when, and until when.
    limited: Option<(ChatId, BridgeTime, BridgeTime)>,
    outage: Option<NetworkOutage>,
    in_flight: usize,
    /// When the last calls finished, oldest first.
    finished: VecDeque<BridgeTime>,
    random: u64,
}

/// The earliest times for the next calls of one chat.
#[derive(Clone, Debug, Default)]
struct ChatLimit {
    any: BridgeTime,
    message: BridgeTime,
    /// For a message that a user waits for.
    awaited: BridgeTime,
    /// When such a message last used the shorter pause.
    early: Option<BridgeTime>,
    /// The messages and edits of the last minute, in a group.
    minute: VecDeque<BridgeTime>,
    draft: BridgeTime,
    in_flight: bool,
    /// Consecutive network failures.
    failures: u32,
}

#[derive(Clone, Copy, Debug)]
struct NetworkOutage {
    failures: u32,
    /// When the next attempt starts.
    until: BridgeTime,
}

/// The limit that a call counts towards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallCost {
    /// A message, an edit, a file or a deletion.
    Message,
    /// A draft, which a chat accepts more often.
    Draft,
    /// A typing indicator or the answer to a tap: no limit of a chat.
    Free,
}

/// A call that a chat wants to make.
#[derive(Clone, Copy, Debug)]
pub struct CallRequest<K> {
    pub key: K,
    pub chat: ChatId,
    pub cost: CallCost,
    pub urgency: CallUrgency,
    pub since: BridgeTime,
}

/// Which call is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateDecision<K> {
    Now(K),
    /// None before this time.
    At(BridgeTime),
    /// None before a call in flight has finished.
    Blocked,
}

impl ChatLimit {
    fn message_finished(&mut self, kind: ChatKind, now: BridgeTime) {
        let may_be_early = self.early.is_none_or(|it| it + AWAITED_INTERVAL <= now);
        self.awaited = now + if may_be_early { AWAITED_PAUSE } else { PRIVATE_PAUSE };
        if kind == ChatKind::Private {
            self.message = now + PRIVATE_PAUSE;
            return;
        }
        self.message = now + GROUP_PAUSE;
        self.minute.push_back(now);
        while self.minute.pop_front_if(|it| *it + MINUTE <= now).is_some() {}
        if self.minute.len() >= GROUP_RESERVE {
            self.awaited = self.message;
        }
        if let Some(first) = self.minute.len().checked_sub(GROUP_LIMIT) {
            let free = self.minute[first] + MINUTE;
            self.message = self.message.max(free);
            self.awaited = self.awaited.max(free);
        }
    }
}

impl CallCost {
    pub fn of(call: &BotCall) -> Self {
        match call {
            BotCall::Send(_)
            | BotCall::Edit { .. }
            | BotCall::Delete { .. }
            | BotCall::SendFile { .. }
            | BotCall::SendText { .. } => Self::Message,
            BotCall::Draft { .. } => Self::Draft,
            BotCall::Typing(_) | BotCall::AnswerTap { .. } => Self::Free,
        }
    }
}

impl RateLimiter {
    /// The seed varies the waits, so that several bridges do not retry at the same time.
    pub fn new(seed: u64) -> Self {
        Self {
            chats: HashMap::new(),
            next: BridgeTime::ZERO,
            limited: None,
            outage: None,
            in_flight: 0,
            finished: VecDeque::new(),
            random: seed | 1,
        }
    }

    /// The earliest time for a call; none while it has to wait for a call in flight.
    pub fn earliest(
        &self,
        chat: ChatId,
        cost: CallCost,
        urgency: CallUrgency,
    ) -> Option<BridgeTime> {
        let own = match (self.chats.get(&chat), cost) {
            (None, _) => BridgeTime::ZERO,
            (Some(limit), _) if limit.in_flight => return None,
            (Some(limit), CallCost::Message) if urgency == CallUrgency::Awaited => {
                limit.awaited.max(limit.any)
            }
            (Some(limit), CallCost::Message) => limit.message.max(limit.any),
            (Some(limit), CallCost::Draft) => limit.draft.max(limit.any),
            (Some(limit), CallCost::Free) => limit.any,
        };
        let outage = self.outage.map_or(BridgeTime::ZERO, |it| it.until);
        if self.outage.is_some() && self.in_flight > 0 {
            return None;
        }
        Some(own.max(self.next).max(outage).max(self.earliest_for_bot()?))
    }

    /// When the bot's limit per second allows one more call. A call in flight may reach Telegram at
    /// any time until it has finished, so it counts until then.
    fn earliest_for_bot(&self) -> Option<BridgeTime> {
        let excess = (self.in_flight + self.finished.len() + 1).saturating_sub(BOT_LIMIT);
        match excess.checked_sub(1) {
            None => Some(BridgeTime::ZERO),
            Some(last) => self.finished.get(last).map(|finished| *finished + SECOND),
        }
    }

    /// The earliest time for any call that counts in a chat of this kind.
    pub fn earliest_any(&self, chat: ChatId, kind: ChatKind) -> Option<BridgeTime> {
        let message = self.earliest(chat, CallCost::Message, CallUrgency::Awaited)?;
        match kind {
            ChatKind::Private => {
                let draft = self.earliest(chat, CallCost::Draft, CallUrgency::Optional);
                draft.map(|draft| draft.min(message))
            }
            ChatKind::Group => Some(message),
        }
    }

    /// Chooses the most urgent of the calls that may start now, and among equals the one that has
    /// waited longest.
    pub fn choose<K: Copy>(
        &self,
        requests: impl Iterator<Item = CallRequest<K>>,
        now: BridgeTime,
    ) -> RateDecision<K> {
        let mut best: Option<CallRequest<K>> = None;
        let mut soonest: Option<BridgeTime> = None;
        for request in requests {
            match self.earliest(request.chat, request.cost, request.urgency) {
                Some(at) if at <= now => {
                    let better = best.is_none_or(|it| {
                        request.urgency > it.urgency
                            || request.urgency == it.urgency && request.since < it.since
                    });
                    if better {
                        best = Some(request);
                    }
                }
                Some(at) => soonest = Some(soonest.map_or(at, |it| it.min(at))),
                None => {}
            }
        }
        match (best, soonest) {
            (Some(request), _) => RateDecision::Now(request.key),
            (None, Some(at)) => RateDecision::At(at),
            (None, None) => RateDecision::Blocked,
        }
    }

    pub fn call_started(&mut self, chat: ChatId, cost: CallCost, now: BridgeTime) {
        self.next = now + CALL_PAUSE;
        self.in_flight += 1;
        let limit = self.chats.entry(chat).or_default();
        limit.in_flight = true;
        if cost == CallCost::Message && now < limit.message {
            limit.early = Some(now);
        }
    }

    pub fn call_finished(
        &mut self,
        (chat, kind): (ChatId, ChatKind),
        cost: CallCost,
        outcome: &Result<BotResponse, BotCallError>,
        now: BridgeTime,
    ) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.finished.push_back(now);
        while self.finished.pop_front_if(|it| *it + SECOND <= now).is_some() {}
        let failed =
            matches!(outcome, Err(BotCallError::Unreachable(_) | BotCallError::NoResponse(_)));
        let backoff = failed.then(|| {
            let failures = self.chats.get(&chat).map_or(0, |it| it.failures) + 1;
            self.backoff(failures)
        });
        let limit = self.chats.entry(chat).or_default();
        limit.in_flight = false;
        match cost {
            CallCost::Message => limit.message_finished(kind, now),
            CallCost::Draft => limit.draft = now + DRAFT_PAUSE,
            CallCost::Free => {}
        }
        match (backoff, outcome) {
            // A server that fails on drafts can still accept everything else.
            (Some(backoff), Err(BotCallError::NoResponse(_))) if cost == CallCost::Draft => {
                limit.failures += 1;
                limit.draft = now + backoff;
            }
            (Some(backoff), _) => {
                limit.failures += 1;
                limit.any = now + backoff;
                self.network_failed(now);
            }
            (None, Err(BotCallError::RateLimited(after))) => {
                limit.failures = 0;
                limit.any = now + *after + RETRY_MARGIN;
                let until = limit.any;
                self.outage = None;
                self.chat_limited(chat, until, now);
            }
            (None, _) => {
                limit.failures = 0;
                self.outage = None;
            }
        }
    }

    /// Delays all calls: Telegram rate limited a request that belongs to no chat.
    pub fn limit_all(&mut self, after: Duration, now: BridgeTime) {
        self.next = self.next.max(now + after + RETRY_MARGIN);
    }

    fn chat_limited(&mut self, chat: ChatId, until: BridgeTime, now: BridgeTime) {
        if let Some((other, at, others_until)) = self.limited
            && other != chat
            && now < at + BOT_LIMIT_WINDOW
        {
            self.next = self.next.max(until).max(others_until);
        }
        self.limited = Some((chat, now, until));
    }

    fn network_failed(&mut self, now: BridgeTime) {
        let failures = match self.outage {
            None => 1,
            // This call started before the outage was known.
            Some(outage) if now < outage.until => return,
            Some(outage) => outage.failures + 1,
        };
        let until = now + self.backoff(failures);
        self.outage = Some(NetworkOutage { failures, until });
    }

    /// A wait that doubles with each failure, with a jitter of a quarter.
    fn backoff(&mut self, failures: u32) -> Duration {
        let doubled = MIN_BACKOFF * 2_u32.saturating_pow(failures.saturating_sub(1).min(10));
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let percent = u32::try_from(self.random % 51).unwrap_or(0) + 75;
        doubled.min(MAX_BACKOFF) * percent / 100
    }
}

#[cfg(test)]
mod tests;
