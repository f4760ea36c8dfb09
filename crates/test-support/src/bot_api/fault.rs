//! Failures that a test injects: into single calls, or into the whole network.

use std::time::Duration;

/// The network between the bot and the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BotApiNetwork {
    #[default]
    Up,
    /// Every connection, old or new, is reset at once.
    Reset,
    /// Connections are accepted but never answered. When the network leaves this state, the calls
    /// that hang are reset, so the bot cannot know which of them were carried out.
    Blackhole,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotApiFault {
    /// The connection is reset before the call is carried out.
    Reset,
    /// The call is not carried out and never answered.
    Hang,
    /// The call is carried out, and the connection is reset before the response.
    LoseResponse,
    /// The call is carried out, and the response is held back until the faults are cleared.
    HoldResponse,
    /// The call is not carried out. The response is a JSON error with this code.
    Error(u16),
    /// The call is not carried out. The response is a proxy's HTML page with this status.
    HtmlPage(u16),
    /// The call is not carried out. The error blames the formatting, whatever was sent.
    EntityError,
    /// The call is not carried out. The error asks the bot to wait this many seconds.
    RetryAfter(u64),
}

/// How long a fault stays active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BotApiFaultSpan {
    /// For this many matching calls.
    Calls(u32),
    /// For this long on the API's clock.
    Time(Duration),
}

/// The active faults. Of several that match a call, the oldest applies.
#[derive(Debug, Default)]
pub(crate) struct BotApiFaultRules(Vec<BotApiFaultRule>);

#[derive(Debug)]
struct BotApiFaultRule {
    /// `None` matches every method.
    method: Option<String>,
    /// Only calls whose text has these words; all calls if they are empty.
    words: String,
    fault: BotApiFault,
    expiry: BotApiFaultExpiry,
}

#[derive(Debug)]
enum BotApiFaultExpiry {
    AfterCalls(u32),
    At(Duration),
}

impl BotApiFaultRules {
    pub(crate) fn add(
        &mut self,
        now: Duration,
        (method, words): (Option<&str>, &str),
        fault: BotApiFault,
        span: BotApiFaultSpan,
    ) {
        let expiry = match span {
            BotApiFaultSpan::Calls(count) => BotApiFaultExpiry::AfterCalls(count),
            BotApiFaultSpan::Time(time) => BotApiFaultExpiry::At(now + time),
        };
        let (method, words) = (method.map(ToOwned::to_owned), words.to_owned());
        self.0.push(BotApiFaultRule { method, words, fault, expiry });
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fault that applies to a call, if any. The call counts against the fault's span.
    pub(crate) fn take(&mut self, now: Duration, method: &str, text: &str) -> Option<BotApiFault> {
        self.0.retain(|rule| match rule.expiry {
            BotApiFaultExpiry::AfterCalls(left) => left > 0,
            BotApiFaultExpiry::At(end) => now < end,
        });
        let rule = self.0.iter_mut().find(|rule| {
            let is_method = rule.method.as_ref().is_none_or(|it| it.eq_ignore_ascii_case(method));
            is_method && text.contains(&rule.words)
        })?;
        if let BotApiFaultExpiry::AfterCalls(left) = &mut rule.expiry {
            *left -= 1;
        }
        Some(rule.fault)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{BotApiFault, BotApiFaultRules, BotApiFaultSpan};

    #[test]
    fn faults_expire_after_their_calls_or_their_time() {
        let mut faults = BotApiFaultRules::default();
        let at = Duration::from_secs;
        faults.add(at(0), (Some("sendMessage"), ""), BotApiFault::Hang, BotApiFaultSpan::Calls(2));
        faults.add(at(0), (None, ""), BotApiFault::Reset, BotApiFaultSpan::Time(at(5)));
        let cases = [
            (0, "sendmessage", Some(BotApiFault::Hang)),
            (1, "getMe", Some(BotApiFault::Reset)),
            (2, "sendMessage", Some(BotApiFault::Hang)),
            (3, "sendMessage", Some(BotApiFault::Reset)),
            (5, "sendMessage", None),
        ];
        for (now, method, fault) in cases {
            assert_eq!(faults.take(at(now), method, ""), fault, "{method} at {now}");
        }
    }

    #[test]
    fn a_fault_of_a_text_leaves_other_texts_alone() {
        let mut faults = BotApiFaultRules::default();
        let (now, span) = (Duration::ZERO, BotApiFaultSpan::Calls(1));
        faults.add(now, (Some("sendMessage"), "two"), BotApiFault::Hang, span);
        assert_eq!(faults.take(now, "sendMessage", "one"), None);
        assert_eq!(faults.take(now, "sendMessage", "and two"), Some(BotApiFault::Hang));
        assert_eq!(faults.take(now, "sendMessage", "and two"), None);
    }
}
