//! The rate limiter against a model of Telegram's limits.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proptest::prelude::*;

use super::{CallCost, CallRequest, RateDecision, RateLimiter};
use crate::address::{ChatId, ChatKind};
use crate::bot::{BotCallError, BotResponse};
use crate::chat::{BridgeTime, CallUrgency};

const ANN: ChatId = ChatId(1);
const BOB: ChatId = ChatId(2);
const DONE: Result<BotResponse, BotCallError> = Ok(BotResponse::Done);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn lost() -> Result<BotResponse, BotCallError> {
    Err(BotCallError::Unreachable("cable".to_owned()))
}

fn request(key: u32, chat: ChatId, urgency: CallUrgency, since: u64) -> CallRequest<u32> {
    CallRequest { key, chat, cost: CallCost::Message, urgency, since: ms(since) }
}

/// The earliest time for a required call.
fn earliest(limiter: &RateLimiter, chat: ChatId, cost: CallCost) -> Option<BridgeTime> {
    limiter.earliest(chat, cost, CallUrgency::Required)
}

/// Makes a call that finishes at once.
fn call(
    limiter: &mut RateLimiter,
    chat: ChatId,
    outcome: &Result<BotResponse, BotCallError>,
    now: BridgeTime,
) {
    limiter.call_started(chat, CallCost::Message, now);
    limiter.call_finished((chat, ChatKind::Private), CallCost::Message, outcome, now);
}

#[test]
fn the_most_urgent_call_goes_first_and_then_the_one_that_waited_longest() {
    let limiter = RateLimiter::new(1);
    let requests = [
        request(1, ANN, CallUrgency::Optional, 0),
        request(2, BOB, CallUrgency::Required, 5),
        request(3, ChatId(3), CallUrgency::Required, 4),
    ];
    assert_eq!(limiter.choose(requests.into_iter(), ms(10)), RateDecision::Now(3));
    assert_eq!(
        limiter.choose(std::iter::empty::<CallRequest<u32>>(), ms(10)),
        RateDecision::Blocked
    );
}

#[test]
fn a_pause_starts_at_the_response_and_a_draft_does_not_delay_a_message() {
    let mut limiter = RateLimiter::new(1);
    limiter.call_started(ANN, CallCost::Message, ms(0));
    assert_eq!(earliest(&limiter, ANN, CallCost::Message), None, "a call is in flight");
    assert_eq!(earliest(&limiter, BOB, CallCost::Message), Some(ms(36)));
    limiter.call_finished((ANN, ChatKind::Private), CallCost::Message, &DONE, ms(300));
    assert_eq!(earliest(&limiter, ANN, CallCost::Message), Some(ms(1_350)));
    assert_eq!(earliest(&limiter, ANN, CallCost::Draft), Some(ms(36)));
    limiter.call_started(ANN, CallCost::Draft, ms(1_400));
    limiter.call_finished((ANN, ChatKind::Private), CallCost::Draft, &DONE, ms(1_450));
    assert_eq!(earliest(&limiter, ANN, CallCost::Draft), Some(ms(1_950)));
    assert_eq!(earliest(&limiter, ANN, CallCost::Message), Some(ms(1_436)));
    limiter.call_started(BOB, CallCost::Message, ms(2_000));
    limiter.call_finished((BOB, ChatKind::Group), CallCost::Message, &DONE, ms(2_000));
    assert_eq!(earliest(&limiter, BOB, CallCost::Message), Some(ms(5_100)));
}

#[test]
fn an_awaited_message_comes_early_in_a_group_that_was_sent_little() {
    let mut limiter = RateLimiter::new(1);
    let mut now = ms(0);
    for sent in 1..=19 {
        limiter.call_started(BOB, CallCost::Message, now);
        limiter.call_finished((BOB, ChatKind::Group), CallCost::Message, &DONE, now);
        let awaited = limiter.earliest(BOB, CallCost::Message, CallUrgency::Awaited);
        assert_eq!(awaited < earliest(&limiter, BOB, CallCost::Message), sent < 15, "{sent}");
        now = awaited.expect("no call is in flight");
    }
    assert!(now >= ms(60_000), "twenty in a minute are one too many: {now:?}");
}

#[test]
fn a_rate_limited_chat_waits_alone_and_two_of_them_delay_all() {
    let mut limiter = RateLimiter::new(1);
    let too_fast = Err(BotCallError::RateLimited(ms(7_000)));
    call(&mut limiter, ANN, &too_fast, ms(0));
    assert_eq!(earliest(&limiter, ANN, CallCost::Draft), Some(ms(7_200)));
    assert_eq!(earliest(&limiter, BOB, CallCost::Message), Some(ms(36)));
    call(&mut limiter, BOB, &Err(BotCallError::RateLimited(ms(3_000))), ms(900));
    assert_eq!(earliest(&limiter, ChatId(3), CallCost::Message), Some(ms(7_200)));
    limiter.limit_all(ms(60_000), ms(1_000));
    assert_eq!(earliest(&limiter, ChatId(3), CallCost::Message), Some(ms(61_200)));
}

#[test]
fn a_dead_network_is_tried_less_and_less_often_by_one_call_at_a_time() {
    let mut limiter = RateLimiter::new(7);
    let chats: Vec<ChatId> = (0..100).map(ChatId).collect();
    let (mut now, mut calls) = (ms(0), 0);
    while now < Duration::from_hours(1) {
        let requests = chats.iter().map(|&chat| request(0, chat, CallUrgency::Required, 0));
        let requests: Vec<_> =
            requests.zip(0..).map(|(it, key)| CallRequest { key, ..it }).collect();
        match limiter.choose(requests.into_iter(), now) {
            RateDecision::Now(key) => {
                call(&mut limiter, chats[key as usize], &lost(), now);
                calls += 1;
            }
            RateDecision::At(at) => now = at,
            RateDecision::Blocked => panic!("no call is in flight"),
        }
    }
    assert!((100..200).contains(&calls), "{calls} calls in an hour");
    limiter.call_started(ANN, CallCost::Message, now + ms(60_000));
    assert_eq!(earliest(&limiter, BOB, CallCost::Message), None, "only one call is tried");
    limiter.call_finished((ANN, ChatKind::Private), CallCost::Message, &DONE, now + ms(60_100));
    assert!(earliest(&limiter, ChatId(1_000), CallCost::Message).unwrap() <= now + ms(60_100));
}

#[test]
fn a_call_that_always_fails_does_not_block_the_other_chats() {
    let mut limiter = RateLimiter::new(3);
    let (mut now, mut finished) = (ms(0), 0);
    while now < Duration::from_mins(10) {
        let requests =
            [request(1, ANN, CallUrgency::Awaited, 0), request(2, BOB, CallUrgency::Optional, 0)];
        match limiter.choose(requests.into_iter(), now) {
            RateDecision::Now(1) => {
                call(&mut limiter, ANN, &Err(BotCallError::NoResponse("500".into())), now);
            }
            RateDecision::Now(_) => {
                call(&mut limiter, BOB, &DONE, now);
                finished += 1;
            }
            RateDecision::At(at) => now = at,
            RateDecision::Blocked => panic!("no call is in flight"),
        }
    }
    assert!(finished > 500, "{finished} in 600 seconds");
}

#[test]
fn a_server_that_fails_on_drafts_is_sent_messages() {
    let mut limiter = RateLimiter::new(3);
    limiter.call_started(ANN, CallCost::Message, ms(0));
    let failed = Err(BotCallError::NoResponse("500".to_owned()));
    limiter.call_finished((ANN, ChatKind::Private), CallCost::Draft, &failed, ms(10));
    assert_eq!(earliest(&limiter, ANN, CallCost::Message), Some(ms(36)));
    assert!(earliest(&limiter, ANN, CallCost::Draft).unwrap() > ms(700));
}

/// A call in flight and its outcome.
type InFlight = (ChatId, CallCost, Result<BotResponse, BotCallError>);

/// When Telegram received the calls.
#[derive(Default)]
struct TelegramModel {
    messages: HashMap<ChatId, Vec<BridgeTime>>,
    drafts: HashMap<ChatId, Vec<BridgeTime>>,
    all: Vec<BridgeTime>,
}

impl TelegramModel {
    fn check(mut self) -> Result<(), TestCaseError> {
        for (chat, times) in &mut self.messages {
            times.sort();
            if chat.0 < 0 {
                prop_assert!(most_within(times, Duration::from_mins(1)) <= 20, "group {}", chat.0);
            } else {
                prop_assert!(most_within(times, ms(1_000)) <= 2, "chat {}", chat.0);
                prop_assert!(most_within(times, ms(10_000)) <= 12, "chat {}", chat.0);
            }
        }
        for times in self.drafts.values_mut() {
            times.sort();
            prop_assert!(times.is_sorted_by(|a, b| *a + ms(490) <= *b));
        }
        self.all.sort();
        let most = most_within(&self.all, Duration::from_secs(1));
        prop_assert!(most <= 30, "{most} within a second");
        Ok(())
    }
}

/// The largest number of these times within any period of that length.
fn most_within(times: &[BridgeTime], period: Duration) -> usize {
    let count = |at: usize| times[at..].iter().take_while(|it| **it < times[at] + period).count();
    (0..times.len()).map(count).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Chats that always request calls, over a network of changing speed, with calls that fail or
    /// are rate limited now and then.
    #[test]
    fn no_limit_is_exceeded(
        seed in 1_u64..,
        private in 0_i64..60,
        groups in 0_i64..20,
        steps in proptest::collection::vec((0_u64..3_000, 0_u8..40, any::<bool>(), 0_u64..100, any::<bool>()), 400..1200),
    ) {
        let chats: Vec<ChatId> = (1..=private).chain((1..=groups).map(|it| -it)).map(ChatId).collect();
        prop_assume!(!chats.is_empty());
        let kind = |chat: ChatId| if chat.0 < 0 { ChatKind::Group } else { ChatKind::Private };
        let mut limiter = RateLimiter::new(seed);
        let mut telegram = TelegramModel::default();
        let mut now = BridgeTime::ZERO;
        let mut in_flight: BTreeMap<(BridgeTime, usize), InFlight> = BTreeMap::new();
        for (number, (latency, fate, draft, arrival, awaited)) in steps.into_iter().enumerate() {
            let cost = if draft { CallCost::Draft } else { CallCost::Message };
            let urgency = if awaited { CallUrgency::Awaited } else { CallUrgency::Required };
            let requests = chats.iter().zip(0..).map(|(&chat, key)| CallRequest {
                key, chat, cost, urgency, since: ms(key as u64),
            });
            let soonest = in_flight.keys().next().map(|(at, _)| *at);
            match limiter.choose(requests, now) {
                RateDecision::Now(key) => {
                    let chat = chats[key];
                    limiter.call_started(chat, cost, now);
                    let got = now + ms(latency) * u32::try_from(arrival).unwrap() / 100;
                    let outcome = match fate {
                        0 => lost(),
                        1 => Err(BotCallError::RateLimited(ms(2_000))),
                        _ => DONE,
                    };
                    telegram.all.push(got);
                    let by_chat = if draft { &mut telegram.drafts } else { &mut telegram.messages };
                    by_chat.entry(chat).or_default().push(got);
                    in_flight.insert((now + ms(latency), number), (chat, cost, outcome));
                }
                choice => {
                    let at = match choice { RateDecision::At(at) => Some(at), _ => None };
                    let next = [at, soonest].into_iter().flatten().min();
                    now = now.max(next.expect("a call is requested"));
                }
            }
            while let Some(entry) = in_flight.first_entry()
                && entry.key().0 <= now
            {
                let (chat, cost, outcome) = entry.remove();
                limiter.call_finished((chat, kind(chat)), cost, &outcome, now);
            }
        }
        telegram.check()?;
    }
}
