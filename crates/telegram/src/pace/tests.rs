//! The pace against a model of Telegram's limits.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use proptest::prelude::*;

use super::{Choice, Pace, Weight, Wish};
use crate::call::{Failure, Reply};
use crate::chat::{Moment, Urgency};
use crate::place::{ChatId, Kind};

const ANN: ChatId = ChatId(1);
const BOB: ChatId = ChatId(2);
const DONE: Result<Reply, Failure> = Ok(Reply::Done);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn lost() -> Result<Reply, Failure> {
    Err(Failure::NotReached("cable".to_owned()))
}

fn wish(who: u32, chat: ChatId, urgency: Urgency, since: u64) -> Wish<u32> {
    Wish { who, chat, weight: Weight::Message, urgency, since: ms(since) }
}

/// The earliest moment for what must come.
fn earliest(pace: &Pace, chat: ChatId, weight: Weight) -> Option<Moment> {
    pace.earliest(chat, weight, Urgency::Due)
}

/// Speaks once and hears the outcome at the same moment.
fn speak(pace: &mut Pace, chat: ChatId, outcome: &Result<Reply, Failure>, now: Moment) {
    pace.goes(chat, Weight::Message, now);
    pace.came((chat, Kind::Private), Weight::Message, outcome, now);
}

#[test]
fn what_matters_goes_first_and_then_who_waited_longest() {
    let pace = Pace::new(1);
    let wishes = [
        wish(1, ANN, Urgency::Passing, 0),
        wish(2, BOB, Urgency::Due, 5),
        wish(3, ChatId(3), Urgency::Due, 4),
    ];
    assert_eq!(pace.choose(wishes.into_iter(), ms(10)), Choice::Now(3));
    assert_eq!(pace.choose(std::iter::empty::<Wish<u32>>(), ms(10)), Choice::Nobody);
}

#[test]
fn a_chat_is_silent_after_the_answer_and_a_draft_does_not_hold_up_a_message() {
    let mut pace = Pace::new(1);
    pace.goes(ANN, Weight::Message, ms(0));
    assert_eq!(earliest(&pace, ANN, Weight::Message), None, "one is under way");
    assert_eq!(earliest(&pace, BOB, Weight::Message), Some(ms(36)));
    pace.came((ANN, Kind::Private), Weight::Message, &DONE, ms(300));
    assert_eq!(earliest(&pace, ANN, Weight::Message), Some(ms(1_350)));
    assert_eq!(earliest(&pace, ANN, Weight::Draft), Some(ms(36)));
    pace.goes(ANN, Weight::Draft, ms(1_400));
    pace.came((ANN, Kind::Private), Weight::Draft, &DONE, ms(1_450));
    assert_eq!(earliest(&pace, ANN, Weight::Draft), Some(ms(1_950)));
    assert_eq!(earliest(&pace, ANN, Weight::Message), Some(ms(1_436)));
    pace.goes(BOB, Weight::Message, ms(2_000));
    pace.came((BOB, Kind::Group), Weight::Message, &DONE, ms(2_000));
    assert_eq!(earliest(&pace, BOB, Weight::Message), Some(ms(5_100)));
}

#[test]
fn what_somebody_waits_for_comes_sooner_in_a_group_unless_it_has_been_told_much() {
    let mut pace = Pace::new(1);
    let mut now = ms(0);
    for told in 1..=19 {
        pace.goes(BOB, Weight::Message, now);
        pace.came((BOB, Kind::Group), Weight::Message, &DONE, now);
        let awaited = pace.earliest(BOB, Weight::Message, Urgency::Awaited);
        assert_eq!(awaited < earliest(&pace, BOB, Weight::Message), told < 15, "{told}");
        now = awaited.expect("nothing is under way");
    }
    assert!(now >= ms(60_000), "twenty in a minute are one too many: {now:?}");
}

#[test]
fn a_chat_that_is_refused_waits_alone_and_two_at_once_mean_all() {
    let mut pace = Pace::new(1);
    let refused = Err(Failure::TooFast(ms(7_000)));
    speak(&mut pace, ANN, &refused, ms(0));
    assert_eq!(earliest(&pace, ANN, Weight::Draft), Some(ms(7_200)));
    assert_eq!(earliest(&pace, BOB, Weight::Message), Some(ms(36)));
    speak(&mut pace, BOB, &Err(Failure::TooFast(ms(3_000))), ms(900));
    assert_eq!(earliest(&pace, ChatId(3), Weight::Message), Some(ms(7_200)));
    pace.all_too_fast(ms(60_000), ms(1_000));
    assert_eq!(earliest(&pace, ChatId(3), Weight::Message), Some(ms(61_200)));
}

#[test]
fn a_dead_network_is_tried_ever_less_often_by_one_call_at_a_time() {
    let mut pace = Pace::new(7);
    let chats: Vec<ChatId> = (0..100).map(ChatId).collect();
    let (mut now, mut calls) = (ms(0), 0);
    while now < Duration::from_hours(1) {
        let wishes = chats.iter().map(|&chat| wish(0, chat, Urgency::Due, 0));
        let wishes: Vec<_> = wishes.zip(0..).map(|(it, who)| Wish { who, ..it }).collect();
        match pace.choose(wishes.into_iter(), now) {
            Choice::Now(who) => {
                speak(&mut pace, chats[who as usize], &lost(), now);
                calls += 1;
            }
            Choice::At(at) => now = at,
            Choice::Nobody => panic!("nothing is under way"),
        }
    }
    assert!((100..200).contains(&calls), "{calls} calls in an hour");
    pace.goes(ANN, Weight::Message, now + ms(60_000));
    assert_eq!(earliest(&pace, BOB, Weight::Message), None, "one tries for all");
    pace.came((ANN, Kind::Private), Weight::Message, &DONE, now + ms(60_100));
    assert!(earliest(&pace, ChatId(1_000), Weight::Message).unwrap() <= now + ms(60_100));
}

#[test]
fn a_call_that_always_fails_does_not_silence_the_others() {
    let mut pace = Pace::new(3);
    let (mut now, mut heard) = (ms(0), 0);
    while now < Duration::from_mins(10) {
        let wishes = [wish(1, ANN, Urgency::Awaited, 0), wish(2, BOB, Urgency::Passing, 0)];
        match pace.choose(wishes.into_iter(), now) {
            Choice::Now(1) => speak(&mut pace, ANN, &Err(Failure::Unknown("500".into())), now),
            Choice::Now(_) => {
                speak(&mut pace, BOB, &DONE, now);
                heard += 1;
            }
            Choice::At(at) => now = at,
            Choice::Nobody => panic!("nothing is under way"),
        }
    }
    assert!(heard > 500, "{heard} in 600 seconds");
}

#[test]
fn a_server_that_chokes_on_drafts_is_sent_messages() {
    let mut pace = Pace::new(3);
    pace.goes(ANN, Weight::Message, ms(0));
    let failed = Err(Failure::Unknown("500".to_owned()));
    pace.came((ANN, Kind::Private), Weight::Draft, &failed, ms(10));
    assert_eq!(earliest(&pace, ANN, Weight::Message), Some(ms(36)));
    assert!(earliest(&pace, ANN, Weight::Draft).unwrap() > ms(700));
}

/// A call under way, and what will come of it.
type Under = (ChatId, Weight, Result<Reply, Failure>);

/// What Telegram got, and when.
#[derive(Default)]
struct Telegram {
    messages: HashMap<ChatId, Vec<Moment>>,
    drafts: HashMap<ChatId, Vec<Moment>>,
    all: Vec<Moment>,
}

impl Telegram {
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

/// The most of these that lie in any stretch of that length.
fn most_within(times: &[Moment], stretch: Duration) -> usize {
    let count = |at: usize| times[at..].iter().take_while(|it| **it < times[at] + stretch).count();
    (0..times.len()).map(count).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Chats that always want something, a network of changing speed, calls that fail or are
    /// refused now and then: no limit is ever exceeded.
    #[test]
    fn no_limit_is_exceeded(
        seed in 1_u64..,
        private in 0_i64..60,
        groups in 0_i64..20,
        steps in proptest::collection::vec((0_u64..3_000, 0_u8..40, any::<bool>(), 0_u64..100, any::<bool>()), 400..1200),
    ) {
        let chats: Vec<ChatId> = (1..=private).chain((1..=groups).map(|it| -it)).map(ChatId).collect();
        prop_assume!(!chats.is_empty());
        let kind = |chat: ChatId| if chat.0 < 0 { Kind::Group } else { Kind::Private };
        let mut pace = Pace::new(seed);
        let mut telegram = Telegram::default();
        let mut now = Moment::ZERO;
        let mut under_way: BTreeMap<(Moment, usize), Under> = BTreeMap::new();
        for (number, (latency, fate, draft, arrival, awaited)) in steps.into_iter().enumerate() {
            let weight = if draft { Weight::Draft } else { Weight::Message };
            let urgency = if awaited { Urgency::Awaited } else { Urgency::Due };
            let wishes = chats.iter().zip(0..).map(|(&chat, who)| Wish {
                who, chat, weight, urgency, since: ms(who as u64),
            });
            let soonest = under_way.keys().next().map(|(at, _)| *at);
            match pace.choose(wishes, now) {
                Choice::Now(who) => {
                    let chat = chats[who];
                    pace.goes(chat, weight, now);
                    let got = now + ms(latency) * u32::try_from(arrival).unwrap() / 100;
                    let outcome = match fate {
                        0 => lost(),
                        1 => Err(Failure::TooFast(ms(2_000))),
                        _ => DONE,
                    };
                    telegram.all.push(got);
                    let by_chat = if draft { &mut telegram.drafts } else { &mut telegram.messages };
                    by_chat.entry(chat).or_default().push(got);
                    under_way.insert((now + ms(latency), number), (chat, weight, outcome));
                }
                choice => {
                    let at = match choice { Choice::At(at) => Some(at), _ => None };
                    let next = [at, soonest].into_iter().flatten().min();
                    now = now.max(next.expect("somebody wants to speak"));
                }
            }
            while let Some(entry) = under_way.first_entry()
                && entry.key().0 <= now
            {
                let (chat, weight, outcome) = entry.remove();
                pace.came((chat, kind(chat)), weight, &outcome, now);
            }
        }
        telegram.check()?;
    }
}
