//! Dates as HTTP has them, of whatever a clock or a file system says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that such a date can tell: its year has four digits.
const LAST: u64 = 253_402_300_799;

/// The date of a second since 1970, cut to what a date can tell (the library panics beyond).
pub(crate) fn http_date(second: i64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(told(second)))
}

/// The second that the date of this one tells.
pub(crate) fn told(second: i64) -> u64 {
    u64::try_from(second).unwrap_or(0).min(LAST)
}

/// The second of a client's date; `None` if it is no date.
pub(crate) fn second_of(date: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(date).ok()?).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Second of the machine's clock, which may be anything.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_beyond_four_digits_and_before_1970_are_cut() {
        for (second, date) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (253_402_300_799, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (253_402_300_800, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (i64::MIN, "Thu, 01 Jan 1970 00:00:00 GMT"),
        ] {
            assert_eq!(http_date(second), date, "{second}");
        }
    }

    proptest! {
        #[test]
        fn each_second_has_a_date_that_reads_back(second: i64) {
            prop_assert_eq!(second_of(http_date(second).as_bytes()), Some(told(second)));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, text in "[ -~]{0,40}") {
            let _ = second_of(&bytes);
            let _ = second_of(text.as_bytes());
        }

        /// Near to dates: what a field of one may be.
        #[test]
        fn what_looks_like_a_date_is_read_without_a_panic(
            day in 0..100_u32, year in 0..100_000_u32, hour in 0..100_u32, second in 0..100_u32,
        ) {
            let date = format!("Sun, {day:02} Feb {year:04} {hour:02}:00:{second:02} GMT");
            let _ = second_of(date.as_bytes());
            let date = format!("Sunday, {day:02}-Feb-{:02} {hour:02}:00:{second:02} GMT", year % 100);
            let _ = second_of(date.as_bytes());
        }
    }
}
