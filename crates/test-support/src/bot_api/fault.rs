//! Calls that go wrong on command.

use std::time::Duration;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is reset before the call is carried out.
    Refuse,
    /// The call is not carried out and never answered.
    Hang,
    /// The call is carried out, and the connection reset before the answer.
    LoseAnswer,
    /// The call is not carried out; the answer is an error in JSON with this code.
    Error(u16),
    /// The call is not carried out; the answer is a page of a proxy with this status.
    Html(u16),
    /// The call is not carried out; its tags are to blame, whatever they are.
    Tags,
    /// The call is not carried out; the bot is told to wait this many seconds.
    RetryAfter(u64),
}

/// For how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// For the next so many calls.
    Calls(u32),
    /// For so long, on the API's clock.
    Time(Duration),
}

/// The faults that are yet to happen.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Rule>);

#[derive(Debug)]
struct Rule {
    method: Option<String>,
    fault: Fault,
    end: End,
}

#[derive(Debug)]
enum End {
    After(u32),
    At(Duration),
}

impl Faults {
    pub(super) fn add(&mut self, now: Duration, method: Option<&str>, fault: Fault, span: Span) {
        let end = match span {
            Span::Calls(count) => End::After(count),
            Span::Time(time) => End::At(now + time),
        };
        self.0.push(Rule { method: method.map(ToOwned::to_owned), fault, end });
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// What goes wrong with this call, where something does.
    pub(super) fn strike(&mut self, now: Duration, method: &str) -> Option<Fault> {
        self.0.retain(|rule| match rule.end {
            End::After(left) => left > 0,
            End::At(end) => now < end,
        });
        let meant = |rule: &&mut Rule| {
            rule.method.as_ref().is_none_or(|it| it.eq_ignore_ascii_case(method))
        };
        let rule = self.0.iter_mut().find(meant)?;
        if let End::After(left) = &mut rule.end {
            *left -= 1;
        }
        Some(rule.fault)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Fault, Faults, Span};

    #[test]
    fn faults_end_after_their_calls_or_their_time() {
        let mut faults = Faults::default();
        let at = Duration::from_secs;
        faults.add(at(0), Some("sendMessage"), Fault::Hang, Span::Calls(2));
        faults.add(at(0), None, Fault::Refuse, Span::Time(at(5)));
        let cases = [
            (0, "sendmessage", Some(Fault::Hang)),
            (1, "getMe", Some(Fault::Refuse)),
            (2, "sendMessage", Some(Fault::Hang)),
            (3, "sendMessage", Some(Fault::Refuse)),
            (5, "sendMessage", None),
        ];
        for (now, method, fault) in cases {
            assert_eq!(faults.strike(at(now), method), fault, "{method} at {now}");
        }
    }
}
