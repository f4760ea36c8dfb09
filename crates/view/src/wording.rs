//! The texts and number formats that all renderings share.

use jiff::Timestamp;
use wire::note::{ExitCause, HoldReason, Outcome, TurnEnding};

use crate::conversation::{Turn, TurnEnd};
use crate::item::{AgentProcessEvent, HookRun, ItemBody, NoticeLevel, RawReason, RetryItem};
use crate::usage::{PlanLimit, TokenCounts};

/// An item that is not part of the dialogue, such as a notice or an error, as one line of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemMessage {
    pub level: NoticeLevel,
    pub text: String,
    /// Text that is shown on demand, such as a hook's output; may be empty.
    pub details: String,
}

impl SystemMessage {
    /// `None` for prompts, answers, thinking and calls.
    pub fn of(body: &ItemBody) -> Option<Self> {
        let line = |level, text: String| Self { level, text, details: String::new() };
        let info = |text: &str| line(NoticeLevel::Info, text.to_owned());
        Some(match body {
            ItemBody::Prompt(_)
            | ItemBody::Text { .. }
            | ItemBody::Thinking { .. }
            | ItemBody::Call(_) => return None,
            ItemBody::Hook(hook) => {
                let level =
                    if hook_failed(hook) { NoticeLevel::Warning } else { NoticeLevel::Info };
                Self { details: hook.output.clone(), ..line(level, hook_text(hook)) }
            }
            ItemBody::Compaction(compaction) => {
                let numbers = match (compaction.before, compaction.after) {
                    (Some(before), Some(after)) => {
                        format!(": {} → {} tokens", count(before), count(after))
                    }
                    (Some(before), None) => format!(" ({} tokens before)", count(before)),
                    _ => String::new(),
                };
                let text = format!("Conversation compacted{numbers}");
                Self { details: compaction.summary.clone(), ..info(&text) }
            }
            ItemBody::Retry(retry) => line(NoticeLevel::Warning, retry_text(retry)),
            ItemBody::Failure { name, text } => {
                let name = name.as_deref().map(|name| format!("{name}: ")).unwrap_or_default();
                line(NoticeLevel::Error, format!("{name}{text}"))
            }
            ItemBody::Interruption => line(NoticeLevel::Warning, "Interrupted".to_owned()),
            ItemBody::Notice(notice) => line(notice.level, notice.text.clone()),
            ItemBody::Agent(AgentProcessEvent::Started { resumed: false }) => info("Agent started"),
            ItemBody::Agent(AgentProcessEvent::Started { resumed: true }) => info("Agent resumed"),
            ItemBody::Agent(AgentProcessEvent::Stopped { cause }) => {
                let level = match cause {
                    ExitCause::Parked | ExitCause::Closed | ExitCause::Restarted => {
                        NoticeLevel::Info
                    }
                    _ => NoticeLevel::Error,
                };
                line(level, stop_cause(cause))
            }
            ItemBody::Reset => info("Conversation cleared"),
            ItemBody::Media { name } => info(&format!("[{name}]")),
            ItemBody::Raw(raw) => {
                let (level, text) = match &raw.reason {
                    RawReason::Unknown => {
                        (NoticeLevel::Info, format!("Unknown event {}", raw.name))
                    }
                    RawReason::Mismatch { detail } => (
                        NoticeLevel::Warning,
                        format!("Unexpected format of event {}: {detail}", raw.name),
                    ),
                    RawReason::Noise => (NoticeLevel::Info, "Unrecognized output".to_owned()),
                };
                Self { details: raw.text.clone(), ..line(level, text) }
            }
        })
    }

    /// Whether an item is hidden unless everything is shown.
    pub fn is_housekeeping(body: &ItemBody) -> bool {
        match body {
            ItemBody::Agent(AgentProcessEvent::Started { .. }) => true,
            ItemBody::Hook(hook) => {
                hook.outcome.as_deref() == Some("success") && hook.output.is_empty()
            }
            _ => false,
        }
    }
}

fn hook_failed(hook: &HookRun) -> bool {
    hook.outcome.as_deref().is_some_and(|outcome| outcome != "success")
}

fn hook_text(hook: &HookRun) -> String {
    let state = match (&hook.outcome, hook.exit_code) {
        (None, _) => "running".to_owned(),
        (Some(outcome), Some(code)) if hook_failed(hook) => format!("{outcome}, exit code {code}"),
        (Some(outcome), _) => outcome.clone(),
    };
    let name = if hook.name.is_empty() { &hook.event } else { &hook.name };
    format!("Hook {name}: {state}")
}

fn retry_text(retry: &RetryItem) -> String {
    let status = retry.status.map(|status| format!(" {status}")).unwrap_or_default();
    let error = if retry.error.is_empty() { String::new() } else { format!(" ({})", retry.error) };
    let attempt = match (retry.attempt, retry.max_attempts) {
        (Some(attempt), Some(max)) => format!(", attempt {attempt} of {max}"),
        (Some(attempt), None) => format!(", attempt {attempt}"),
        _ => String::new(),
    };
    format!("API error{status}{error}{attempt}")
}

/// The outcome of a permission request; `None` is a request that is still open.
pub(crate) fn permission_outcome(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "Waiting for your answer",
        Some(Outcome::Allowed) => "Allowed",
        Some(Outcome::AllowedAndRemembered) => "Always allowed",
        Some(Outcome::Denied) => "Denied",
        Some(Outcome::Expired) => "Denied: no answer in time",
        Some(Outcome::Withdrawn) => "Cancelled",
    }
}

/// How a turn ended; `None` if it simply completed.
pub fn turn_ending(end: &TurnEnd) -> Option<String> {
    match end.ending.as_ref()? {
        TurnEnding::Completed => None,
        TurnEnding::Failed { message } if message.is_empty() => Some(match &end.reason {
            Some(reason) => format!("Failed: {reason}"),
            None => "Failed".to_owned(),
        }),
        TurnEnding::Failed { message } => Some(match message.as_str() {
            "error_max_turns" => "Turn limit reached".to_owned(),
            "error_max_budget_usd" => "Budget limit reached".to_owned(),
            message => format!("Failed: {message}"),
        }),
        TurnEnding::Interrupted => Some("Interrupted".to_owned()),
        TurnEnding::Aborted { cause } => {
            let mut cause = stop_cause(cause);
            if let Some(first) = cause.get_mut(..1) {
                first.make_ascii_lowercase();
            }
            Some(format!("Stopped: {cause}"))
        }
    }
}

/// Why an agent process stopped.
pub fn stop_cause(cause: &ExitCause) -> String {
    match cause {
        ExitCause::NotStarted { message } => format!("Could not start the agent: {message}"),
        ExitCause::NotReady => "The agent did not respond in time".to_owned(),
        ExitCause::Exited { code, stderr } if stderr.trim().is_empty() => {
            format!("The agent exited with code {code}")
        }
        ExitCause::Exited { code, stderr } => {
            format!("The agent exited with code {code}: {}", stderr.trim())
        }
        ExitCause::Killed { signal } => format!("The agent was killed by signal {signal}"),
        ExitCause::Unresponsive => {
            "The agent was killed because it did not stop when asked".to_owned()
        }
        ExitCause::Parked => "The agent is paused and resumes with the next message".to_owned(),
        ExitCause::Closed => "The session was closed".to_owned(),
        ExitCause::Restarted => {
            "The agent was stopped and starts with the changed options at the next message"
                .to_owned()
        }
        ExitCause::Lost => "The agent was lost when the machine stopped".to_owned(),
    }
}

/// What a turn used, part by part.
pub(crate) fn turn_totals(turn: &Turn, end: &TurnEnd) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(turn.rewound.then(|| "rewound".to_owned()));
    parts.extend(end.duration_ms.filter(|&it| it >= 50).map(duration));
    parts.extend((turn.tokens.total() > 0).then(|| tokens(turn.tokens)));
    parts.extend(turn.cost.map(dollars));
    parts
}

/// `0.4 s`, `12 s`, `3 min 20 s`, `1 h 05 min`.
#[expect(clippy::cast_precision_loss, reason = "only a few milliseconds are divided")]
pub fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        _ if milliseconds < 50 => "0 s".to_owned(),
        0..10 => format!("{:.1} s", milliseconds as f64 / 1000.0),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `950`, `12k`, `1.2M`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        1000..9_950 => format!("{:.1}k", number as f64 / 1e3),
        9_950..999_500 => format!("{:.0}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// Digits in groups of three: `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `512 B`, `12 KB`, `3.4 MB`.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} KB", bytes / 1000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Dollars, with four decimals for small sums.
pub fn dollars(sum: f64) -> String {
    if sum > 0.0 && sum < 0.095 { format!("${sum:.4}") } else { format!("${sum:.2}") }
}

/// A window of a plan: `five hours: 92 % used, resets 2026-01-31 14:00`.
pub fn plan_window(limit: &PlanLimit) -> String {
    let name = match limit.window.as_deref() {
        Some("five_hour") => "five hours".to_owned(),
        Some("seven_day") => "seven days".to_owned(),
        other => other.unwrap_or("limit").replace('_', " "),
    };
    let used = match (limit.used.filter(|it| it.is_finite()), limit.status.as_deref()) {
        (_, Some("rejected")) => "used up".to_owned(),
        (Some(used), _) => format!("{:.0} % used", (used * 100.0).clamp(0.0, 100.0)),
        (None, _) => "not used up".to_owned(),
    };
    let resets = limit.resets_at.filter(|it| (0.0..1e11).contains(it));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked"
    )]
    let resets = resets.map(|it| format!(", resets {}", date_time((it * 1000.0) as u64)));
    format!("{name}: {used}{}", resets.unwrap_or_default())
}

/// What a spent budget asks: `$5.02 of $5.00 spent. Go on?`. None if something else holds the queue.
pub fn budget_question(hold: &HoldReason) -> Option<String> {
    budget_spent(hold).map(|spent| format!("{spent}. Go on?"))
}

/// `$5.02 of $5.00 spent`. None if something else than a budget holds the queue.
pub fn budget_spent(hold: &HoldReason) -> Option<String> {
    let HoldReason::Budget { spent, limit, day } = hold else { return None };
    let (spent, limit) = (dollars(*spent), dollars(*limit));
    Some(match day {
        None => format!("{spent} of {limit} spent"),
        Some(_) => format!("{spent} of the day's {limit} spent"),
    })
}

/// `1 file`, `3 files`.
pub fn plural(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `12k tokens in, 900 out`; input includes the prompt cache.
pub fn tokens(tokens: TokenCounts) -> String {
    format!("{} tokens in, {} out", count(tokens.total_input()), count(tokens.output))
}

/// A title for a text: its first line that is not blank, up to 80 characters.
pub fn title(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    })
}

/// Date and time in UTC, from milliseconds since 1970: `2026-11-15 09:30`.
pub fn date_time(milliseconds: u64) -> String {
    let time = i64::try_from(milliseconds).ok().and_then(|it| Timestamp::from_millisecond(it).ok());
    time.unwrap_or(Timestamp::MAX).strftime("%Y-%m-%d %H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::{count, date_time, dollars, duration, size, title};

    #[test]
    fn digits_are_grouped() {
        let numbers = [0, 999, 1_000, 12_345, 1_234_567].map(super::grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "12,345", "1,234,567"]);
    }

    #[test]
    fn numbers_are_short() {
        let spans = [0, 49, 50, 340, 9_999, 12_000, 200_000, 3_900_000].map(duration);
        assert_eq!(
            spans,
            ["0 s", "0 s", "0.1 s", "0.3 s", "10.0 s", "12 s", "3 min 20 s", "1 h 05 min"]
        );
        let counts = [0, 999, 1000, 9_949, 9_950, 12_345, 999_499, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1.0k", "9.9k", "10k", "12k", "999k", "1.2M"]);
        assert_eq!([999, 1000, 3_400_000].map(size), ["999 B", "1 KB", "3.4 MB"]);
        assert_eq!([0.0, 0.0034, 0.12, 12.0].map(dollars), ["$0.00", "$0.0034", "$0.12", "$12.00"]);
    }

    #[test]
    fn a_title_is_the_first_line_that_is_not_blank() {
        assert_eq!(title("\n  fix it \nplease").as_deref(), Some("fix it"));
        assert_eq!(title(" \n"), None);
        assert_eq!(title(&"é".repeat(200)).unwrap().chars().count(), 81);
    }

    #[test]
    fn times_are_shown_in_utc() {
        assert_eq!(date_time(0), "1970-01-01 00:00");
        assert_eq!(date_time(951_782_400_000), "2000-02-29 00:00");
        assert_eq!(date_time(1_794_735_000_000), "2026-11-15 09:30");
        assert_eq!(date_time(u64::MAX), "9999-12-30 22:00");
    }
}
