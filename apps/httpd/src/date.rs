//! Dates as HTTP has them, of whatever a clock or a file system says.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last second that such a date can tell: its year has four digits.
const LAST: u64 = 253_402_300_799;

/// The date of a second since 1970, cut to what a date can tell (the library panics beyond).
pub(crate) fn http_date(second: i64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(shown_second(second)))
}

/// The second that the date of this one tells.
pub(crate) fn shown_second(second: i64) -> u64 {
    u64::try_from(second).unwrap_or(0).min(LAST)
}

/// The second of a client's date; `None` if it is no date.
pub(crate) fn second_of(date: &[u8]) -> Option<u64> {
    let date = std::str::from_utf8(date).ok()?;
    let of_this_century = this_century(date);
    let date = httpdate::parse_http_date(of_this_century.as_deref().unwrap_or(date)).ok()?;
    date.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// The date in today's form if it is of the one with two digits of the year (RFC 850): the year is
/// the one that is at most fifty years ahead (RFC 9110, section 5.6.7).
fn this_century(date: &str) -> Option<String> {
    // "Sunday, 06-Nov-94 08:49:37 GMT"
    let (weekday, rest) = date.split_once("day, ")?;
    let (day, rest) = rest.split_once('-')?;
    let (month, rest) = rest.split_once('-')?;
    let (year, time) = rest.split_once(' ')?;
    let last: i64 = year.parse().ok().filter(|_| year.len() == 2)?;
    // Of 400 years each 146,097 days.
    let now = 1970 + now() / (146_097 * 86_400 / 400);
    let year = (now + 50 - last).div_euclid(100) * 100 + last;
    Some(format!("{}, {day} {month} {year:04} {time}", weekday.get(..3)?))
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

    #[test]
    fn a_year_of_two_digits_is_at_most_fifty_years_ahead() {
        let days = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        for ahead in -49..=49 {
            let second = now() + ahead * 146_097 * 216;
            let date = http_date(second);
            let words: Vec<_> = date.split([' ', ',']).collect();
            let [weekday, _, day, month, year, time, _] = words[..] else { panic!("{date}") };
            let weekday = days.iter().find(|day| day.starts_with(weekday)).unwrap();
            let short = format!("{weekday}, {day}-{month}-{} {time} GMT", &year[2..]);
            assert_eq!(second_of(short.as_bytes()), Some(shown_second(second)), "{short}");
        }
        assert_eq!(second_of(b"Sun Nov  6 08:49:37 1994"), Some(784_111_777));
    }

    proptest! {
        #[test]
        fn each_second_has_a_date_that_reads_back(second: i64) {
            prop_assert_eq!(second_of(http_date(second).as_bytes()), Some(shown_second(second)));
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
