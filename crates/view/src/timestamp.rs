//! Times as the CLI writes them.

/// Milliseconds since 1970 of a time like `2026-11-15T09:34:49.873Z`; nothing where it is another
/// sort of text. Offsets other than `Z` do not occur.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<u64> {
        bytes.get(from..to)?.iter().try_fold(0, |sum, &digit| {
            digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let fraction = match bytes.get(19) {
        Some(b'.') => {
            let digits = bytes[20..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let given = digits.min(3);
            number(20, 20 + given)? * 10_u64.pow(3 - u32::try_from(given).ok()?)
        }
        _ => 0,
    };
    // Years that begin with March have their odd day at the end.
    let (shifted_year, shifted_month) =
        if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_in_year = (153 * shifted_month + 2) / 5 + day - 1;
    let leap_days = shifted_year / 4 - shifted_year / 100 + shifted_year / 400;
    let days = (365 * shifted_year + leap_days + days_in_year).checked_sub(719_468)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1000 + fraction)
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn a_time_is_counted_from_1970() {
        assert_eq!(milliseconds("1970-01-01T00:00:00.000Z"), Some(0));
        assert_eq!(milliseconds("1970-01-02T00:00:01Z"), Some(86_401_000));
        assert_eq!(milliseconds("2000-02-29T12:00:00.5Z"), Some(951_825_600_500));
        assert_eq!(milliseconds("2026-11-15T09:34:49.873Z"), Some(1_794_735_289_873));
        assert_eq!(milliseconds("2100-03-01T00:00:00.000Z"), Some(4_107_542_400_000));
    }

    #[test]
    fn what_is_no_time_is_nothing() {
        for text in ["", "today", "2026-13-01T00:00:00Z", "2026-11-15", "2026-11-15T09:34"] {
            assert_eq!(milliseconds(text), None, "{text}");
        }
    }
}
