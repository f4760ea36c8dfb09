//! Numbers and states in the words that every rendering uses.

use wire::note::{Cause, TurnEnding};

use crate::turn::{Turn, TurnEnd};
use crate::usage::Tokens;

/// A time span: `0.4 s`, `12 s`, `3 min 20 s`, `1 h 05 min`.
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

/// A number of things, in short: `950`, `12.3k`, `1.2M`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn count(number: u64) -> String {
    match number {
        0..1000 => number.to_string(),
        1000..9_950 => format!("{:.1}k", number as f64 / 1e3),
        9_950..999_500 => format!("{:.0}k", number as f64 / 1e3),
        _ => format!("{:.1}M", number as f64 / 1e6),
    }
}

/// A size: `512 B`, `12 KB`, `3.4 MB`.
#[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{} KB", bytes / 1000),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Dollars; small sums with the digits that matter.
pub fn dollars(sum: f64) -> String {
    if sum > 0.0 && sum < 0.095 { format!("${sum:.4}") } else { format!("${sum:.2}") }
}

/// One or many: `1 file`, `3 files`.
pub fn several(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Tokens as a person asks for them: what went in, from wherever, and what came out.
pub fn tokens(tokens: Tokens) -> String {
    let read = tokens.input.saturating_add(tokens.cache_read).saturating_add(tokens.cache_write);
    format!("{} tokens in, {} out", count(read), count(tokens.output))
}

/// A name for what begins with these words: the first line that says something, up to 80 characters.
pub fn title(words: &str) -> Option<String> {
    let line = words.lines().map(str::trim).find(|line| !line.is_empty())?;
    Some(match line.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    })
}

/// What a turn took, and what became of it since, part by part.
pub(crate) fn account(turn: &Turn, end: &TurnEnd) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(turn.forgotten.then(|| "no longer remembered".to_owned()));
    parts.extend(end.duration_ms.filter(|&it| it >= 50).map(duration));
    parts.extend((turn.tokens.total() > 0).then(|| tokens(turn.tokens)));
    parts.extend(turn.cost.map(dollars));
    parts
}

/// How a turn ended, where that is worth a word.
pub fn ending(end: &TurnEnd) -> Option<String> {
    match end.how.as_ref()? {
        TurnEnding::Completed => None,
        TurnEnding::Failed { message } if message.is_empty() => Some(match &end.reason {
            Some(reason) => format!("failed: {reason}"),
            None => "failed".to_owned(),
        }),
        TurnEnding::Failed { message } => Some(match message.as_str() {
            "error_max_turns" => "stopped: as many steps as were allowed".to_owned(),
            "error_max_budget_usd" => "stopped: the money that was allowed is spent".to_owned(),
            message => format!("failed: {message}"),
        }),
        TurnEnding::Interrupted => Some("interrupted".to_owned()),
        TurnEnding::Cut { cause } => Some(format!("cut short: {}", self::cause(cause))),
    }
}

/// Why an agent process is gone.
pub fn cause(cause: &Cause) -> String {
    match cause {
        Cause::NotStarted { message } => format!("the agent could not be started: {message}"),
        Cause::NotReady => "the agent did not answer in time".to_owned(),
        Cause::Exited { code, stderr } if stderr.trim().is_empty() => {
            format!("the agent exited with code {code}")
        }
        Cause::Exited { code, stderr } => {
            format!("the agent exited with code {code}: {}", stderr.trim())
        }
        Cause::Killed { signal } => format!("the agent was ended by signal {signal}"),
        Cause::Disobeyed => "the agent was ended because it did not stop when asked".to_owned(),
        Cause::Parked => "the agent rests; the next prompt wakes it".to_owned(),
        Cause::Closed => "the session was closed".to_owned(),
        Cause::Lost => "the agent was lost with its machine".to_owned(),
    }
}

/// A time of day and a date, in UTC: `2026-11-15 09:30`.
pub fn moment(milliseconds: u64) -> String {
    let minutes = milliseconds / 60_000;
    let days = minutes / 1440;
    // Days to a date of the Gregorian calendar, in years that begin with March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::{count, dollars, duration, moment, size, title};

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
    fn a_title_is_the_first_line_that_says_something() {
        assert_eq!(title("\n  fix it \nplease").as_deref(), Some("fix it"));
        assert_eq!(title(" \n"), None);
        assert_eq!(title(&"é".repeat(200)).unwrap().chars().count(), 81);
    }

    #[test]
    fn moments_are_dates() {
        assert_eq!(moment(0), "1970-01-01 00:00");
        assert_eq!(moment(951_782_400_000), "2000-02-29 00:00");
        assert_eq!(moment(1_794_735_000_000), "2026-11-15 09:30");
    }
}
