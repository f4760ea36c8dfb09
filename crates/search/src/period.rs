//! Periods: the index is divided by time, so that a search that finds enough in the last days does not
//! look at what is older.
//!
//! SQLite finds the beginning of a word by joining the rows of all words that begin so. For a year of
//! sessions that takes a second, and the newest results are needed, not all of them. Therefore each word
//! is stored with the period of its line before it, and the periods are searched one after the other.

/// How many rows a period has: those of six days. Shorter ones make words that are rare slower, because
/// each period is looked at.
const ROWS: i64 = 1 << 21;

/// The end of the first period is in 2020. Nothing is older, or it is in the first period.
const FIRST_ROW: i64 = 1203 * ROWS;

/// Digits of a period in a word. There are enough for the years until 2041; later lines are in the last
/// period.
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const LAST: i64 = 36 * 36 - 1;

/// A period of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexPeriod(i64);

impl IndexPeriod {
    /// The length of the digits of a period.
    pub(crate) const CODE_LENGTH: usize = 2;

    pub(crate) fn of_row(row: i64) -> Self {
        Self(((row.max(0) - FIRST_ROW) / ROWS).clamp(0, LAST))
    }

    /// The first row of the period. Every row of an earlier one is before it.
    pub(crate) fn start(self) -> i64 {
        if self.0 == 0 { i64::MIN } else { FIRST_ROW + self.0 * ROWS }
    }

    /// Appends what is before the words of the period.
    pub(crate) fn push_code(self, text: &mut String) {
        for digit in [self.0 / 36, self.0 % 36] {
            let digit = usize::try_from(digit).ok().and_then(|it| DIGITS.get(it));
            text.push(char::from(digit.copied().unwrap_or(b'0')));
        }
    }

    /// Terms, which spaces separate, as they are indexed for this period.
    pub(crate) fn encode(self, terms: &str) -> String {
        let count = terms.bytes().filter(|byte| *byte == b' ').count() + 1;
        let mut encoded = String::with_capacity(terms.len() + count * Self::CODE_LENGTH);
        for term in terms.split_ascii_whitespace() {
            self.push_code(&mut encoded);
            encoded.push_str(term);
            encoded.push(' ');
        }
        encoded
    }
}

#[cfg(test)]
mod tests {
    use super::{FIRST_ROW, IndexPeriod, LAST, ROWS};

    #[test]
    fn every_row_is_in_one_period_and_later_rows_are_in_later_ones() {
        let mut before = IndexPeriod::of_row(i64::MIN);
        assert_eq!(before.encode("a bc "), "00a 00bc ");
        for rows in [-9, 0, 1, ROWS - 1, ROWS, 36 * ROWS, 36 * ROWS + 1, LAST * ROWS, i64::MAX / 2]
        {
            let row = FIRST_ROW + rows;
            let period = IndexPeriod::of_row(row);
            assert!(period.start() <= row && before.0 <= period.0, "{row}");
            assert_eq!(IndexPeriod::of_row(period.start()), period);
            assert!(period.0 == 0 || IndexPeriod::of_row(period.start() - 1).0 == period.0 - 1);
            before = period;
        }
        assert_eq!(before.encode("語"), "zz語 ");
        assert_eq!(IndexPeriod::of_row(FIRST_ROW + 37 * ROWS).encode("x"), "11x ");
    }
}
