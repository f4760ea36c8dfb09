//! How much the bot may send, and a record of when it sent more.
//!
//! A chat has a bucket that fills with the interval; a group also counts the last minute, and all
//! chats together the last second. A call that is refused uses nothing up, but from then on the
//! chat takes nothing until the time that was named has passed: whoever does not wait breaches
//! again. A call that comes a little early is forgiven but counted as if it had come on time, so
//! that being early all the time is no way to send more.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::ids::ChatId;
use super::options::Rates;

const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

/// The limits of one bot.
#[derive(Debug)]
pub(super) struct Limiter {
    rates: Rates,
    leeway: Duration,
    chats: HashMap<ChatId, Flow>,
    overall: Window,
    /// Until when nothing at all is taken.
    closed: Duration,
    breaches: Vec<Breach>,
}

/// A call that came too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// When, on the API's clock since it began.
    pub at: Duration,
    /// The method.
    pub method: String,
    /// The chat.
    pub chat: ChatId,
    /// What was too much.
    pub excess: Excess,
    /// How many seconds the bot was told to wait.
    pub retry_after: u64,
}

/// What was too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Messages and edits in a chat, by the second.
    Chat,
    /// Messages and edits in a group, by the minute.
    Group,
    /// Messages, edits and drafts in all chats, by the second.
    Overall,
    /// Drafts in a chat.
    Drafts,
    /// The bot was told to wait and did not.
    DuringWait,
}

/// What a call sends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    Messages(u32),
    Draft,
}

#[derive(Debug, Default)]
struct Flow {
    messages: Bucket,
    drafts: Bucket,
    minute: Window,
    closed: Duration,
}

/// When the next one would be due if all came evenly.
#[derive(Debug, Default)]
struct Bucket(Duration);

#[derive(Debug, Default)]
struct Window(VecDeque<Duration>);

impl Bucket {
    fn wait(&self, now: Duration, interval: Duration, burst: u32) -> Duration {
        self.0.saturating_sub(now).saturating_sub(interval * burst.saturating_sub(1))
    }

    fn take(&mut self, now: Duration, interval: Duration, count: u32) {
        self.0 = self.0.max(now) + interval * count;
    }
}

impl Window {
    fn wait(&mut self, now: Duration, span: Duration, most: usize, count: u32) -> Duration {
        if count == 0 {
            return Duration::ZERO;
        }
        while self.0.pop_front_if(|at| *at + span <= now).is_some() {}
        let over = (self.0.len() + count as usize).saturating_sub(most);
        // More at once than would ever fit waits for an empty window.
        let last = over.min(self.0.len()).checked_sub(1).and_then(|it| self.0.get(it));
        last.map_or(Duration::ZERO, |at| (*at + span).saturating_sub(now))
    }

    fn take(&mut self, now: Duration, count: u32) {
        self.0.extend((0..count).map(|_| now));
    }
}

impl Limiter {
    /// The leeway is on the API's clock.
    pub(super) fn new(rates: Rates, leeway: Duration) -> Self {
        let (chats, overall) = (HashMap::new(), Window::default());
        Self { rates, leeway, chats, overall, closed: Duration::ZERO, breaches: Vec::new() }
    }

    pub(super) fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// Lets a call pass, or says for how many seconds it must wait.
    pub(super) fn admit(
        &mut self,
        now: Duration,
        method: &str,
        (chat, group): (ChatId, bool),
        load: Load,
    ) -> Result<(), u64> {
        let rates = &self.rates;
        let flow = self.chats.entry(chat).or_default();
        let closed = self.closed.max(flow.closed).saturating_sub(now);
        let (count, minute, second) = match load {
            Load::Messages(count) => (count, if group { count } else { 0 }, count),
            Load::Draft => (0, 0, u32::from(rates.overall_counts_drafts)),
        };
        let in_chat = match load {
            Load::Messages(_) => {
                (flow.messages.wait(now, rates.chat_interval, rates.chat_burst), Excess::Chat)
            }
            Load::Draft => {
                (flow.drafts.wait(now, rates.draft_interval, rates.draft_burst), Excess::Drafts)
            }
        };
        let in_minute = flow.minute.wait(now, MINUTE, rates.group_minute, minute);
        let in_second = self.overall.wait(now, SECOND, rates.overall_second, second);
        let waits = [
            (closed, Excess::DuringWait),
            in_chat,
            (in_minute, Excess::Group),
            (in_second, Excess::Overall),
        ];
        // A breach is named after the first limit it met, and lasts as long as the longest.
        let first = waits.iter().find(|(wait, _)| *wait > self.leeway).map(|(_, excess)| *excess);
        if let Some(excess) = first {
            let wait = waits.iter().map(|(wait, _)| *wait).max().unwrap_or_default();
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let until = now + Duration::from_secs(seconds);
            match excess {
                // Whoever does not wait makes it no shorter, and no longer either.
                Excess::DuringWait => {}
                Excess::Overall => self.closed = until,
                Excess::Chat | Excess::Group | Excess::Drafts => flow.closed = until,
            }
            let (at, method) = (now, method.to_owned());
            self.breaches.push(Breach { at, method, chat, excess, retry_after: seconds });
            return Err(seconds);
        }
        match load {
            Load::Messages(_) => flow.messages.take(now, rates.chat_interval, count),
            Load::Draft => flow.drafts.take(now, rates.draft_interval, 1),
        }
        flow.minute.take(now + in_minute, minute);
        self.overall.take(now + in_second, second);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{ChatId, Excess, Limiter, Load, Rates};

    fn limiter() -> Limiter {
        Limiter::new(Rates { chat_burst: 1, ..Rates::default() }, Duration::from_millis(50))
    }

    /// Sends one message at each of these milliseconds, and says what each was told.
    fn waits(limiter: &mut Limiter, group: bool, times: &[u64]) -> Vec<Option<u64>> {
        let send = |at: &u64| {
            let now = Duration::from_millis(*at);
            limiter.admit(now, "sendMessage", (ChatId(1), group), Load::Messages(1)).err()
        };
        times.iter().map(send).collect()
    }

    #[test]
    fn a_chat_takes_a_message_a_second() {
        let cases: [(&[u64], &[Option<u64>]); 4] = [
            (&[0, 1_000, 2_000], &[None, None, None]),
            // Jitter on the way is forgiven.
            (&[0, 960, 1_930], &[None, None, Some(1)]),
            (&[0, 500], &[None, Some(1)]),
            // Having to wait is for whole seconds, from then on.
            (&[0, 500, 1_200, 1_500], &[None, Some(1), Some(1), None]),
        ];
        for (times, expected) in cases {
            assert_eq!(waits(&mut limiter(), false, times), expected, "{times:?}");
        }
    }

    #[test]
    fn a_group_takes_twenty_a_minute() {
        let mut limiter = limiter();
        let times: Vec<u64> = (0..21).map(|it| it * 1_000).collect();
        let waits = waits(&mut limiter, true, &times);
        assert!(waits[..20].iter().all(Option::is_none));
        assert_eq!(waits[20], Some(40));
        assert_eq!(limiter.breaches().len(), 1);
        assert_eq!(limiter.breaches()[0].excess, Excess::Group);
    }

    #[test]
    fn being_early_all_the_time_is_found_out() {
        let mut limiter = limiter();
        let mut send = |number: u32| {
            let now = Duration::from_millis(32) * number;
            let chat = (ChatId(number.into()), false);
            limiter.admit(now, "sendMessage", chat, Load::Messages(1)).is_ok()
        };
        assert!((0..31).all(&mut send));
        assert!(!(31..120).all(send));
    }

    #[test]
    fn all_chats_together_take_thirty_a_second() {
        let mut limiter = limiter();
        let mut send = |at: u64, chat: i64| {
            let now = Duration::from_millis(at);
            limiter.admit(now, "sendMessage", (ChatId(chat), false), Load::Messages(1)).err()
        };
        assert!((0..30).all(|chat| send(10, chat).is_none()));
        assert_eq!(send(900, 30), Some(1));
        assert_eq!(send(2_000, 31), None);
        assert_eq!(limiter.breaches()[0].excess, Excess::Overall);
    }
}
