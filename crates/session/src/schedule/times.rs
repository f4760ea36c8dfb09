//! The times at which a prompt is sent, and the grammar in which people write them.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use thiserror::Error;

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// The furthest away that a schedule may be: a mistyped year is not a plan.
const MAX_DELAY: u64 = 5 * 366 * DAY;

/// The most words in which a time is looked for: `in 1d 2h 30m 10s` has five.
const MAX_WORDS: usize = 6;

/// More occurrences than that were missed are not counted.
const MAX_MISSED: u64 = 1000;

/// The days of the week by name, from Monday.
const DAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

const WEEKDAYS: u8 = 0b001_1111;
const EVERY_DAY: u8 = 0b111_1111;

/// When a prompt is sent.
///
/// | text | meaning |
/// |---|---|
/// | `at 2026-11-17 09:00`, `at 09:00` | once; without a date, the next time the clock shows it |
/// | `in 2h`, `in 1h30m`, `in 3d` | once |
/// | `every 30m`, `every 12h` | again and again |
/// | `every day 09:00`, `weekdays 09:00`, `every monday 09:00` | on these days |
/// | `tomorrow 09:00` | once |
///
/// Behind a day people also write `at`, and then the hour alone is enough: `every weekday at 9`. `9am` and
/// `9:30pm` are times too.
///
/// A time that the clock skips in spring is moved forward by as much as the clock is; one that it shows
/// twice in autumn is the first of the two. So every day has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleTimes {
    /// At this time, in milliseconds since 1970.
    Once(u64),
    /// With this many milliseconds in between.
    Every(u64),
    /// On some days of the week, one bit for each from Monday.
    Days { days: u8, time: Time },
}

/// Why a text does not say when a prompt is to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    #[error(
        "`{0}` is no time: write `at 2026-11-17 09:00`, `at 09:00`, `in 2h`, `every 30m`, \
         `tomorrow 09:00`, `every day 09:00`, `weekdays 09:00` or `every monday 09:00`"
    )]
    NotATime(String),
    #[error("there is no time zone `{0}`: write its name like `Europe/Berlin` or `UTC`")]
    NoSuchZone(String),
    #[error("`{0}` has passed")]
    Passed(String),
    #[error("`{0}` is more than five years away")]
    TooFar(String),
    #[error("`{0}` is too often: a prompt can be sent every minute at most")]
    TooOften(String),
}

impl ScheduleTimes {
    /// The time zone with an IANA name.
    pub fn zone(name: &str) -> Result<TimeZone, ScheduleError> {
        let unknown = || ScheduleError::NoSuchZone(shorten(name));
        TimeZone::get(name).map_err(|_| unknown())
    }

    /// Reads what a person wrote at `now`, in milliseconds since 1970.
    pub fn parse(text: &str, zone: &TimeZone, now: u64) -> Result<Self, ScheduleError> {
        let lower = text.trim().to_lowercase();
        let words: Vec<&str> = lower.split_whitespace().collect();
        let not_a_time = || ScheduleError::NotATime(shorten(text));
        let times = match words.as_slice() {
            ["at", time] if parse_time(time).is_some() => {
                let time = parse_time(time).ok_or_else(not_a_time)?;
                let next = Self::Days { days: EVERY_DAY, time }.after(now, zone);
                Self::Once(next.ok_or_else(not_a_time)?)
            }
            ["at", both] => {
                let (date, time) = both.split_once('t').ok_or_else(not_a_time)?;
                Self::Once(instant(date, time, zone).ok_or_else(not_a_time)?)
            }
            ["at", date, time] => Self::Once(instant(date, time, zone).ok_or_else(not_a_time)?),
            ["in", lengths @ ..] if !lengths.is_empty() => {
                let length = parse_length(&lengths.concat()).ok_or_else(not_a_time)?;
                Self::Once(now.saturating_add(length))
            }
            ["every", length] if length.starts_with(|it: char| it.is_ascii_digit()) => {
                Self::Every(parse_length(length).ok_or_else(not_a_time)?)
            }
            ["every", day, time] | [day @ ("weekdays" | "daily"), time] => {
                let days = parse_days(day).ok_or_else(not_a_time)?;
                Self::Days { days, time: parse_time(time).ok_or_else(not_a_time)? }
            }
            ["every", day, "at", time] | [day @ ("weekdays" | "daily"), "at", time] => {
                let days = parse_days(day).ok_or_else(not_a_time)?;
                Self::Days { days, time: parse_hour(time).ok_or_else(not_a_time)? }
            }
            ["tomorrow", time] => {
                let time = parse_time(time).ok_or_else(not_a_time)?;
                Self::Once(tomorrow(now, time, zone).ok_or_else(not_a_time)?)
            }
            ["tomorrow", "at", time] => {
                let time = parse_hour(time).ok_or_else(not_a_time)?;
                Self::Once(tomorrow(now, time, zone).ok_or_else(not_a_time)?)
            }
            _ => return Err(not_a_time()),
        };
        match times {
            Self::Once(at) if at <= now => Err(ScheduleError::Passed(shorten(text))),
            Self::Once(at) if at - now > MAX_DELAY => Err(ScheduleError::TooFar(shorten(text))),
            Self::Every(length) if length > MAX_DELAY => Err(ScheduleError::TooFar(shorten(text))),
            Self::Every(length) if length < MINUTE => Err(ScheduleError::TooOften(shorten(text))),
            times => Ok(times),
        }
    }

    /// Divides what a person wrote into when and what: the longest beginning that is a time, even one
    /// that has passed, and the rest. None if it does not begin with a time.
    pub fn split(text: &str) -> Option<(&str, &str)> {
        let text = text.trim_start();
        let mut ends = Vec::new();
        let mut in_word = false;
        for (at, character) in text.char_indices() {
            if in_word && character.is_whitespace() {
                ends.push(at);
                if ends.len() == MAX_WORDS {
                    break;
                }
            }
            in_word = !character.is_whitespace();
        }
        if in_word && ends.len() < MAX_WORDS {
            ends.push(text.len());
        }
        let is_time = |end: &&usize| {
            let times = Self::parse(&text[..**end], &TimeZone::UTC, 0);
            !matches!(times, Err(ScheduleError::NotATime(_)))
        };
        let end = *ends.iter().rev().find(is_time)?;
        Some((&text[..end], text[end..].trim()))
    }

    /// The text that means the same at any later time.
    pub fn text(&self, zone: &TimeZone) -> String {
        match self {
            Self::Once(at) => match civil(*at, zone) {
                Some(time) if time.second() == 0 => {
                    format!("at {}", time.strftime("%Y-%m-%d %H:%M"))
                }
                Some(time) => format!("at {}", time.strftime("%Y-%m-%d %H:%M:%S")),
                None => "at an unknown time".to_owned(),
            },
            Self::Every(length) => format!("every {}", length_text(*length)),
            Self::Days { days, time } => {
                let time = time.strftime("%H:%M");
                match *days {
                    WEEKDAYS => format!("weekdays {time}"),
                    EVERY_DAY => format!("every day {time}"),
                    days => {
                        let day = DAYS.iter().enumerate().find(|(day, _)| days & (1 << day) != 0);
                        format!("every {} {time}", day.map_or("day", |(_, name)| name))
                    }
                }
            }
        }
    }

    /// The first time after `at`.
    pub fn after(&self, at: u64, zone: &TimeZone) -> Option<u64> {
        match self {
            Self::Once(once) => Some(*once).filter(|once| *once > at),
            Self::Every(length) => at.checked_add(*length),
            Self::Days { days, time } => {
                let mut date = civil(at, zone)?.date();
                // The last of them is the same day of the next week, if today's time has passed.
                for _ in 0..=7 {
                    if days & (1 << date.weekday().to_monday_zero_offset()) != 0 {
                        let then = millis(date.to_datetime(*time), zone)?;
                        if then > at {
                            return Some(then);
                        }
                    }
                    date = date.tomorrow().ok()?;
                }
                None
            }
        }
    }

    /// The first time after `now`, for a schedule that was due at `due`, and how many times between them
    /// were missed.
    pub fn advance(&self, due: u64, now: u64, zone: &TimeZone) -> (Option<u64>, u64) {
        let now = now.max(due);
        match self {
            Self::Once(_) => (None, 0),
            Self::Every(length) => {
                let missed = (now - due) / length;
                (due.checked_add((missed + 1).saturating_mul(*length)), missed.min(MAX_MISSED))
            }
            Self::Days { .. } => {
                let (mut next, mut missed) = (self.after(due, zone), 0);
                while let Some(at) = next.filter(|at| *at <= now) {
                    missed += 1;
                    next = self.after(if missed < MAX_MISSED { at } else { now }, zone);
                }
                (next, missed)
            }
        }
    }
}

fn civil(at: u64, zone: &TimeZone) -> Option<DateTime> {
    let at = Timestamp::from_millisecond(i64::try_from(at).ok()?).ok()?;
    Some(zone.to_datetime(at))
}

fn millis(time: DateTime, zone: &TimeZone) -> Option<u64> {
    let at = zone.to_timestamp(time).ok()?;
    u64::try_from(at.as_millisecond()).ok()
}

fn instant(date: &str, time: &str, zone: &TimeZone) -> Option<u64> {
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || year.len() != 4 {
        return None;
    }
    let date = Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()?;
    millis(date.to_datetime(parse_time(time)?), zone)
}

fn tomorrow(now: u64, time: Time, zone: &TimeZone) -> Option<u64> {
    let date = civil(now, zone)?.date().tomorrow().ok()?;
    millis(date.to_datetime(time), zone)
}

/// A time, or only its hour: `9`.
fn parse_hour(text: &str) -> Option<Time> {
    parse_time(text).or_else(|| parse_time(&format!("{text}:00")))
}

/// `9:00`, `09:00`, `09:00:30`, `9am` or `9:30pm`.
fn parse_time(text: &str) -> Option<Time> {
    let half = text.strip_suffix("am").map(|it| (it, 0));
    let half = half.or_else(|| text.strip_suffix("pm").map(|it| (it, 12)));
    if let Some((clock, after)) = half {
        let time = if clock.contains(':') {
            parse_time(clock)?
        } else {
            parse_time(&format!("{clock}:00"))?
        };
        if !(1..=12).contains(&time.hour()) {
            return None;
        }
        return Time::new(time.hour() % 12 + after, time.minute(), time.second(), 0).ok();
    }
    let mut parts = text.split(':').map(|part| {
        let digits = matches!(part.len(), 1 | 2) && part.bytes().all(|it| it.is_ascii_digit());
        digits.then(|| part.parse::<i8>().ok()).flatten()
    });
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if parts.next().is_some() {
        return None;
    }
    Time::new(hour, minute, second, 0).ok()
}

/// `2h`, `90m`, `1h30m` or `3d`, in milliseconds.
fn parse_length(text: &str) -> Option<u64> {
    let (mut rest, mut length) = (text, 0_u64);
    while !rest.is_empty() {
        let end = rest.find(|it: char| !it.is_ascii_digit())?;
        let number: u64 = rest[..end].parse().ok()?;
        let unit = match rest[end..].chars().next()? {
            's' => 1000,
            'm' => MINUTE,
            'h' => 60 * MINUTE,
            'd' => DAY,
            _ => return None,
        };
        length = length.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[end + 1..];
    }
    Some(length).filter(|length| *length > 0)
}

fn length_text(length: u64) -> String {
    let mut text = String::new();
    let mut rest = length / 1000;
    for (seconds, unit) in [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')] {
        if rest >= seconds {
            // Writing into a string does not fail.
            let _ = write!(text, "{}{unit}", rest / seconds);
            rest %= seconds;
        }
    }
    text
}

fn parse_days(word: &str) -> Option<u8> {
    match word {
        "day" | "daily" => Some(EVERY_DAY),
        "weekday" | "weekdays" => Some(WEEKDAYS),
        _ if word.len() < 3 => None,
        // `mon` and `mondays` are days too.
        _ => {
            let day = DAYS.iter().position(|day| {
                day.starts_with(word) || word.strip_suffix('s').is_some_and(|it| it == *day)
            })?;
            Some(1 << day)
        }
    }
}

/// What a person wrote, for an error.
fn shorten(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::{DAY, MINUTE, ScheduleError, ScheduleTimes, civil, instant};

    fn berlin() -> TimeZone {
        ScheduleTimes::zone("Europe/Berlin").unwrap()
    }

    /// A time in Berlin, in milliseconds since 1970.
    fn at(date: &str, time: &str) -> u64 {
        instant(date, time, &berlin()).unwrap()
    }

    /// Monday, 16 November 2026, 16:15.
    fn now() -> u64 {
        at("2026-11-16", "16:15")
    }

    fn parse(text: &str) -> Result<ScheduleTimes, ScheduleError> {
        ScheduleTimes::parse(text, &berlin(), now())
    }

    #[test]
    fn times_are_read_and_written_in_a_small_grammar() {
        for (text, written, first) in [
            ("at 2026-11-17 09:00", "at 2026-11-17 09:00", at("2026-11-17", "09:00")),
            ("at 2026-11-17T09:00", "at 2026-11-17 09:00", at("2026-11-17", "09:00")),
            ("AT 9:00", "at 2026-11-17 09:00", at("2026-11-17", "09:00")),
            ("at 16:16", "at 2026-11-16 16:16", at("2026-11-16", "16:16")),
            ("in 2h", "at 2026-11-16 18:15", now() + 120 * MINUTE),
            ("in 1h 30m", "at 2026-11-16 17:45", now() + 90 * MINUTE),
            ("in 30s", "at 2026-11-16 16:15:30", now() + MINUTE / 2),
            ("every 90m", "every 1h30m", now() + 90 * MINUTE),
            ("every day 09:00", "every day 09:00", at("2026-11-17", "09:00")),
            ("daily 17:00", "every day 17:00", at("2026-11-16", "17:00")),
            ("weekdays 9:00", "weekdays 09:00", at("2026-11-17", "09:00")),
            ("every weekday 09:00", "weekdays 09:00", at("2026-11-17", "09:00")),
            ("every Monday 09:00", "every monday 09:00", at("2026-11-23", "09:00")),
            ("every sun 23:59", "every sunday 23:59", at("2026-11-22", "23:59")),
            ("tomorrow 9:00", "at 2026-11-17 09:00", at("2026-11-17", "09:00")),
            ("Tomorrow at 17", "at 2026-11-17 17:00", at("2026-11-17", "17:00")),
            ("tomorrow at 12am", "at 2026-11-17 00:00", at("2026-11-17", "00:00")),
            ("every weekday at 9", "weekdays 09:00", at("2026-11-17", "09:00")),
            ("weekdays at 9:30pm", "weekdays 21:30", at("2026-11-16", "21:30")),
            ("every day 12pm", "every day 12:00", at("2026-11-17", "12:00")),
            ("at 9am", "at 2026-11-17 09:00", at("2026-11-17", "09:00")),
        ] {
            let times = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(times.text(&berlin()), written, "{text}");
            assert_eq!(times.after(now(), &berlin()), Some(first), "{text}");
            assert_eq!(parse(written), Ok(times), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_the_reason() {
        for text in [
            "",
            "at",
            "9",
            "at 25:00",
            "at 9",
            "at 2026-02-30 09:00",
            "in",
            "in h",
            "in 5",
            "in 99999999999999999999d",
            "every",
            "every 09:00",
            "every blue 09:00",
            "weekdays",
            "weekdays 24:00",
            "at 2026-11-17 09:00 CET",
            "at -1:00",
            "every day 9:0x",
            "in 0m",
            "tomorrow",
            "tomorrow 9",
            "tomorrow at 24",
            "every day at 13pm",
            "every day at 0am",
            "every day at 9ampm",
            "every weekday at -1",
            "at am",
        ] {
            assert!(matches!(parse(text), Err(ScheduleError::NotATime(_))), "{text}");
        }
        assert!(matches!(parse("at 2026-11-16 16:15"), Err(ScheduleError::Passed(_))));
        assert!(matches!(parse("at 2046-11-16 16:15"), Err(ScheduleError::TooFar(_))));
        assert!(matches!(parse("in 9999999d"), Err(ScheduleError::TooFar(_))));
        assert!(matches!(parse("every 59s"), Err(ScheduleError::TooOften(_))));
        for zone in ["", "Mars/Olympus", "../../etc/passwd", "Europe/Berlin\0"] {
            assert!(ScheduleTimes::zone(zone).is_err(), "{zone}");
        }
        let huge = "x ".repeat(100_000);
        assert!(parse(&huge).unwrap_err().to_string().len() < 400);
    }

    #[test]
    fn a_message_is_divided_into_when_and_what() {
        for (text, when, what) in [
            ("tomorrow 9:00 run the tests", "tomorrow 9:00", "run the tests"),
            ("every weekday at 9  look\nand fix", "every weekday at 9", "look\nand fix"),
            (" in 1h 30m\n3 things", "in 1h 30m", "3 things"),
            ("in 2h", "in 2h", ""),
            ("at 2020-01-01 09:00 too late", "at 2020-01-01 09:00", "too late"),
            ("every 30m at the station", "every 30m", "at the station"),
            ("every 5s x", "every 5s", "x"),
        ] {
            assert_eq!(ScheduleTimes::split(text), Some((when, what)), "{text}");
        }
        let huge = format!("in 2h {}", "x ".repeat(1_000_000));
        assert_eq!(ScheduleTimes::split(&huge).unwrap().0, "in 2h");
        for text in ["", " ", "run it at 9:00", "in two hours x", &"tomorrow ".repeat(100_000)] {
            assert_eq!(ScheduleTimes::split(text), None);
        }
    }

    #[test]
    fn nine_o_clock_stays_nine_o_clock_when_the_clock_changes() {
        let times = parse("every day 09:00").unwrap();
        for (day, next) in [("2026-10-24", "2026-10-25"), ("2027-03-27", "2027-03-28")] {
            assert_eq!(times.after(at(day, "09:00"), &berlin()), Some(at(next, "09:00")));
        }
        let autumn = at("2026-10-25", "09:00") - at("2026-10-24", "09:00");
        assert_eq!(autumn, DAY + 60 * MINUTE);
    }

    #[test]
    fn a_time_that_the_clock_skips_or_repeats_comes_once() {
        let times = parse("every day 02:30").unwrap();
        let spring = times.after(at("2027-03-27", "12:00"), &berlin()).unwrap();
        assert_eq!(civil(spring, &berlin()).unwrap().to_string(), "2027-03-28T03:30:00");
        let next = times.after(spring, &berlin()).unwrap();
        assert_eq!(civil(next, &berlin()).unwrap().to_string(), "2027-03-29T02:30:00");
        let autumn = times.after(at("2026-10-24", "12:00"), &berlin()).unwrap();
        let next = times.after(autumn, &berlin()).unwrap();
        assert_eq!(civil(next, &berlin()).unwrap().to_string(), "2026-10-26T02:30:00");
    }

    #[test]
    fn missed_times_are_counted_and_the_next_one_is_in_the_future() {
        let due = at("2026-11-16", "09:00");
        let weekdays = parse("weekdays 09:00").unwrap();
        let (next, missed) = weekdays.advance(due, at("2026-11-23", "08:00"), &berlin());
        assert_eq!((next, missed), (Some(at("2026-11-23", "09:00")), 4));
        let every = parse("every 30m").unwrap();
        let (next, missed) = every.advance(due, due + 95 * MINUTE, &berlin());
        assert_eq!((next, missed), (Some(due + 120 * MINUTE), 3));
        let (next, missed) = every.advance(due, due + 9_000 * DAY, &berlin());
        assert!(next > Some(due + 9_000 * DAY) && missed == 1000, "{missed}");
        let (next, missed) = weekdays.advance(due, due + 9_000 * DAY, &berlin());
        assert!(next > Some(due + 9_000 * DAY) && missed >= 1000, "{missed}");
        let once = parse("in 5m").unwrap();
        assert_eq!(once.advance(due, due + DAY, &berlin()), (None, 0));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,80}") {
            let _ = parse(&text);
            if let Some((when, what)) = ScheduleTimes::split(&text) {
                prop_assert!(text.contains(when) && text.contains(what));
            }
        }

        #[test]
        fn the_next_time_is_always_later(at in 0_u64..4_000_000_000_000, day in 0..7_u8, hour in 0..24_i8) {
            let time = jiff::civil::Time::new(hour, 30, 0, 0).unwrap();
            for zone in ["Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia"] {
                let zone = ScheduleTimes::zone(zone).unwrap();
                let times = ScheduleTimes::Days { days: 1 << day, time };
                let next = times.after(at, &zone).unwrap();
                // Samoa once skipped a whole day.
                prop_assert!(next > at && next - at <= 8 * DAY, "{next}");
            }
        }
    }
}
