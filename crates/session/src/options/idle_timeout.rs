//! After what time an idle agent is stopped.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest time, in seconds: 30 days.
const MAX_SECONDS: u64 = 30 * DAY;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// After what time an idle agent is stopped. Written as `30m`, `1h30m` or `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleTimeout {
    Seconds(u64),
    Never,
}

impl IdleTimeout {
    /// The time in milliseconds; none for never.
    pub fn millis(self) -> Option<u64> {
        match self {
            Self::Seconds(seconds) => Some(seconds.saturating_mul(1000)),
            Self::Never => None,
        }
    }
}

impl FromStr for IdleTimeout {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "expected a time from `1s` to `30d`, as `30m` or `1h30m`, or `never`";
        let text = text.trim();
        if text == "never" {
            return Ok(Self::Never);
        }
        let (mut seconds, mut rest) = (0_u64, text);
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let number: u64 = rest[..digits].parse().map_err(|_| EXPECTED)?;
            rest = &rest[digits..];
            let unit = match rest.bytes().next() {
                Some(b's') => 1,
                Some(b'm') => MINUTE,
                Some(b'h') => HOUR,
                Some(b'd') => DAY,
                _ => return Err(EXPECTED),
            };
            rest = &rest[1..];
            seconds =
                number.checked_mul(unit).and_then(|it| seconds.checked_add(it)).ok_or(EXPECTED)?;
        }
        if (1..=MAX_SECONDS).contains(&seconds) {
            Ok(Self::Seconds(seconds))
        } else {
            Err(EXPECTED)
        }
    }
}

impl fmt::Display for IdleTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Seconds(mut rest) = *self else { return f.write_str("never") };
        for (unit, name) in [(DAY, 'd'), (HOUR, 'h'), (MINUTE, 'm'), (1, 's')] {
            if rest >= unit {
                write!(f, "{}{name}", rest / unit)?;
                rest %= unit;
            }
        }
        Ok(())
    }
}

impl Serialize for IdleTimeout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IdleTimeout {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::IdleTimeout;

    #[test]
    fn a_time_reads_back_as_it_is_written() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("1h30m", 5400), ("30d", 2_592_000)] {
            let timeout: IdleTimeout = text.parse().unwrap();
            assert_eq!(timeout, IdleTimeout::Seconds(seconds));
            assert_eq!(timeout.to_string().parse(), Ok(timeout));
        }
        assert_eq!("never".parse(), Ok(IdleTimeout::Never));
        for text in ["", "0s", "30", "m", "-1m", "31d", "1x", "99999999999999999999d", "1m é", "é"]
        {
            assert!(text.parse::<IdleTimeout>().is_err(), "{text}");
        }
    }
}
