//! The rate limits of the bot, and a record of every call that broke one.
//!
//! Each chat has a token bucket. A group also counts the messages of the last minute, and all chats
//! together those of the last second. A call over a limit is rejected with a number of seconds to
//! wait and uses up nothing, but the chat then accepts nothing until that time has passed, so a bot
//! that does not wait violates the limit again. A call that comes slightly early is accepted but
//! counted as if it had come on time, so that being early all the time does not raise the rate.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::state::BotApiChatId;

const MINUTE: Duration = Duration::from_mins(1);
const SECOND: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct BotApiLimiter {
    rates: BotApiRates,
    /// How early a call may come, on the API's clock.
    tolerance: Duration,
    chats: HashMap<BotApiChatId, BotApiChatUsage>,
    overall: BotApiWindow,
    /// No chat accepts anything until then.
    blocked_until: Duration,
    violations: Vec<BotApiViolation>,
}

/// How much the bot may send. An edit counts as a message, an album as its number of items.
#[derive(Clone, Debug)]
pub struct BotApiRates {
    /// How often a chat accepts a message.
    pub chat_interval: Duration,
    /// How many messages a chat accepts at once after a pause.
    pub chat_burst: u32,
    pub group_per_minute: usize,
    pub overall_per_second: usize,
    /// Whether drafts count towards the overall limit. Telegram does not document it; the strict
    /// reading is that they do.
    pub overall_counts_drafts: bool,
    /// How often a chat accepts a draft.
    pub draft_interval: Duration,
    /// How many drafts a chat accepts at once after a pause.
    pub draft_burst: u32,
    /// How early a call may come, in real time. It allows for the previous call having taken
    /// longer on its way to the server.
    pub tolerance: Duration,
}

/// A call that came too early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotApiViolation {
    /// When the call arrived, on the API's clock since the start.
    pub at: Duration,
    pub method: String,
    pub chat: BotApiChatId,
    pub limit: BotApiLimit,
    /// How many seconds the bot was asked to wait.
    pub retry_after: u64,
}

/// The limit that a call broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotApiLimit {
    /// Messages and edits in one chat.
    Chat,
    /// Messages and edits in a group, per minute.
    Group,
    /// Messages, edits and drafts in all chats, per second.
    Overall,
    /// Drafts in one chat.
    Drafts,
    /// The bot was asked to wait and did not.
    RetryAfter,
}

/// What a call sends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BotApiLoad {
    Messages(u32),
    Draft,
}

#[derive(Debug, Default)]
struct BotApiChatUsage {
    messages: BotApiBucket,
    drafts: BotApiBucket,
    last_minute: BotApiWindow,
    /// The chat accepts nothing until then.
    blocked_until: Duration,
}

/// A token bucket, as the time at which it will be full again.
#[derive(Debug, Default)]
struct BotApiBucket(Duration);

/// The times of the calls in a sliding window.
#[derive(Debug, Default)]
struct BotApiWindow(VecDeque<Duration>);

impl Default for BotApiRates {
    fn default() -> Self {
        Self {
            chat_interval: Duration::from_secs(1),
            chat_burst: 3,
            group_per_minute: 20,
            overall_per_second: 30,
            overall_counts_drafts: true,
            draft_interval: Duration::from_millis(250),
            draft_burst: 3,
            tolerance: Duration::from_millis(50),
        }
    }
}

impl BotApiRates {
    /// Limits that no test can reach.
    pub fn unlimited() -> Self {
        Self {
            chat_interval: Duration::ZERO,
            chat_burst: 1,
            group_per_minute: usize::MAX,
            overall_per_second: usize::MAX,
            overall_counts_drafts: false,
            draft_interval: Duration::ZERO,
            draft_burst: 1,
            tolerance: Duration::ZERO,
        }
    }
}

impl BotApiBucket {
    fn wait(&self, now: Duration, interval: Duration, burst: u32) -> Duration {
        self.0.saturating_sub(now).saturating_sub(interval * burst.saturating_sub(1))
    }

    fn take(&mut self, now: Duration, interval: Duration, count: u32) {
        self.0 = self.0.max(now) + interval * count;
    }
}

impl BotApiWindow {
    fn wait(&mut self, now: Duration, span: Duration, limit: usize, count: u32) -> Duration {
        if count == 0 {
            return Duration::ZERO;
        }
        while self.0.pop_front_if(|at| *at + span <= now).is_some() {}
        let excess = (self.0.len() + count as usize).saturating_sub(limit);
        // A call that alone exceeds the limit waits for an empty window.
        let last = excess.min(self.0.len()).checked_sub(1).and_then(|it| self.0.get(it));
        last.map_or(Duration::ZERO, |at| (*at + span).saturating_sub(now))
    }

    fn take(&mut self, now: Duration, count: u32) {
        self.0.extend((0..count).map(|_| now));
    }
}

impl BotApiLimiter {
    /// Creates a limiter. The tolerance is on the API's clock.
    pub(crate) fn new(rates: BotApiRates, tolerance: Duration) -> Self {
        Self {
            rates,
            tolerance,
            chats: HashMap::new(),
            overall: BotApiWindow::default(),
            blocked_until: Duration::ZERO,
            violations: Vec::new(),
        }
    }

    pub(crate) fn violations(&self) -> &[BotApiViolation] {
        &self.violations
    }

    /// Admits a call, or returns how many seconds the bot must wait.
    pub(crate) fn admit(
        &mut self,
        now: Duration,
        method: &str,
        (chat, group): (BotApiChatId, bool),
        load: BotApiLoad,
    ) -> Result<(), u64> {
        let rates = &self.rates;
        let usage = self.chats.entry(chat).or_default();
        let blocked = self.blocked_until.max(usage.blocked_until).saturating_sub(now);
        let (group_count, overall_count) = match load {
            BotApiLoad::Messages(count) => (if group { count } else { 0 }, count),
            BotApiLoad::Draft => (0, u32::from(rates.overall_counts_drafts)),
        };
        let in_chat = match load {
            BotApiLoad::Messages(_) => {
                let wait = usage.messages.wait(now, rates.chat_interval, rates.chat_burst);
                (wait, BotApiLimit::Chat)
            }
            BotApiLoad::Draft => {
                let wait = usage.drafts.wait(now, rates.draft_interval, rates.draft_burst);
                (wait, BotApiLimit::Drafts)
            }
        };
        let in_group = usage.last_minute.wait(now, MINUTE, rates.group_per_minute, group_count);
        let overall = self.overall.wait(now, SECOND, rates.overall_per_second, overall_count);
        let waits = [
            (blocked, BotApiLimit::RetryAfter),
            in_chat,
            (in_group, BotApiLimit::Group),
            (overall, BotApiLimit::Overall),
        ];
        // The first broken limit names the violation, the longest wait decides its duration.
        let first = waits.iter().find(|(wait, _)| *wait > self.tolerance).map(|(_, limit)| *limit);
        if let Some(limit) = first {
            let wait = waits.iter().map(|(wait, _)| *wait).max().unwrap_or_default();
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            let until = now + Duration::from_secs(seconds);
            match limit {
                // Not waiting makes the wait neither shorter nor longer.
                BotApiLimit::RetryAfter => {}
                BotApiLimit::Overall => self.blocked_until = until,
                BotApiLimit::Chat | BotApiLimit::Group | BotApiLimit::Drafts => {
                    usage.blocked_until = until;
                }
            }
            let (at, method) = (now, method.to_owned());
            let violation = BotApiViolation { at, method, chat, limit, retry_after: seconds };
            self.violations.push(violation);
            return Err(seconds);
        }
        match load {
            BotApiLoad::Messages(count) => usage.messages.take(now, rates.chat_interval, count),
            BotApiLoad::Draft => usage.drafts.take(now, rates.draft_interval, 1),
        }
        usage.last_minute.take(now + in_group, group_count);
        self.overall.take(now + overall, overall_count);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BotApiChatId, BotApiLimit, BotApiLimiter, BotApiLoad, BotApiRates};

    fn limiter() -> BotApiLimiter {
        BotApiLimiter::new(
            BotApiRates { chat_burst: 1, ..BotApiRates::default() },
            Duration::from_millis(50),
        )
    }

    /// Sends one message at each of these milliseconds; the seconds that each has to wait.
    fn waits(limiter: &mut BotApiLimiter, group: bool, times: &[u64]) -> Vec<Option<u64>> {
        let send = |at: &u64| {
            let now = Duration::from_millis(*at);
            limiter
                .admit(now, "sendMessage", (BotApiChatId(1), group), BotApiLoad::Messages(1))
                .err()
        };
        times.iter().map(send).collect()
    }

    #[test]
    fn a_chat_accepts_one_message_per_second() {
        let cases: [(&[u64], &[Option<u64>]); 4] = [
            (&[0, 1_000, 2_000], &[None, None, None]),
            // Jitter on the network is tolerated.
            (&[0, 960, 1_930], &[None, None, Some(1)]),
            (&[0, 500], &[None, Some(1)]),
            // The wait is in whole seconds from the violation on.
            (&[0, 500, 1_200, 1_500], &[None, Some(1), Some(1), None]),
        ];
        for (times, expected) in cases {
            assert_eq!(waits(&mut limiter(), false, times), expected, "{times:?}");
        }
    }

    #[test]
    fn a_group_accepts_twenty_messages_per_minute() {
        let mut limiter = limiter();
        let times: Vec<u64> = (0..21).map(|it| it * 1_000).collect();
        let waits = waits(&mut limiter, true, &times);
        assert!(waits[..20].iter().all(Option::is_none));
        assert_eq!(waits[20], Some(40));
        assert_eq!(limiter.violations().len(), 1);
        assert_eq!(limiter.violations()[0].limit, BotApiLimit::Group);
    }

    #[test]
    fn being_early_all_the_time_is_a_violation() {
        let mut limiter = limiter();
        let mut send = |number: u32| {
            let now = Duration::from_millis(32) * number;
            let chat = (BotApiChatId(number.into()), false);
            limiter.admit(now, "sendMessage", chat, BotApiLoad::Messages(1)).is_ok()
        };
        assert!((0..31).all(&mut send));
        assert!(!(31..120).all(send));
    }

    #[test]
    fn all_chats_together_accept_thirty_messages_per_second() {
        let mut limiter = limiter();
        let mut send = |at: u64, chat: i64| {
            let now = Duration::from_millis(at);
            limiter
                .admit(now, "sendMessage", (BotApiChatId(chat), false), BotApiLoad::Messages(1))
                .err()
        };
        assert!((0..30).all(|chat| send(10, chat).is_none()));
        assert_eq!(send(900, 30), Some(1));
        assert_eq!(send(2_000, 31), None);
        assert_eq!(limiter.violations()[0].limit, BotApiLimit::Overall);
    }
}
