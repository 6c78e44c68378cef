//! Days and years, for any second that a file system can hold.

use super::Moment;
use super::zone::{Local, Zone};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A moment by calendar and clock of a place.
#[derive(Debug)]
pub(crate) struct Date {
    pub(crate) moment: Moment,
    pub(crate) local: Local,
    pub(crate) year: i64,
    /// Month, from 0.
    pub(crate) month: usize,
    /// Day of the month, from 1.
    pub(crate) day: i64,
    /// Day of the year, from 0.
    pub(crate) day_of_year: i64,
    /// 0 is Sunday.
    pub(crate) weekday: usize,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

impl Date {
    /// `None` if the year is beyond what `struct tm` of the C library can hold.
    pub(crate) fn new(moment: Moment, zone: &Zone) -> Option<Self> {
        let local = zone.at(moment.seconds);
        let seconds = i128::from(moment.seconds) + i128::from(local.offset_seconds);
        let days = i64::try_from(seconds.div_euclid(DAY_SECONDS.into())).ok()?;
        let clock = seconds.rem_euclid(DAY_SECONDS.into()) as i64;
        let (year, month, day) = civil(days);
        let within = i64::from(i32::MIN) + 1900..=i64::from(i32::MAX) + 1900;
        let date = Date {
            moment,
            local,
            year,
            month,
            day,
            day_of_year: days - days_to(year),
            weekday: (days + 4).rem_euclid(7) as usize,
            hour: clock / 3600,
            minute: clock / 60 % 60,
            second: clock % 60,
        };
        within.contains(&year).then_some(date)
    }

    /// Year and week by ISO 8601: weeks begin on Monday, and the first one has the
    /// year's first Thursday.
    pub(crate) fn week(&self) -> (i64, i64) {
        let thursday = self.day_of_year - (self.weekday as i64 + 6) % 7 + 3;
        let length = |year| days_to(year + 1) - days_to(year);
        match thursday {
            ..0 => (self.year - 1, (thursday + length(self.year - 1)) / 7 + 1),
            _ if thursday >= length(self.year) => {
                (self.year + 1, (thursday - length(self.year)) / 7 + 1)
            }
            _ => (self.year, thursday / 7 + 1),
        }
    }
}

/// Days from 1970 to the first one of a year.
fn days_to(year: i64) -> i64 {
    let before = year - 1;
    before * 365 + before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400) - 719_162
}

/// Year, month from 0, and day from 1 of a day since 1970.
fn civil(days: i64) -> (i64, usize, i64) {
    // A year begins in March here: the day that some have is its last one.
    let since_march_0 = days + 719_468;
    let era = since_march_0.div_euclid(146_097);
    let day_of_era = since_march_0.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = (from_march + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    (year, month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        assert_eq!(civil(0), (1970, 0, 1));
        assert_eq!(civil(-1), (1969, 11, 31));
        assert_eq!(civil(19_782), (2024, 1, 29));
        assert_eq!(civil(-719_528), (0, 0, 1));
        for year in -800..2500 {
            assert_eq!(civil(days_to(year)), (year, 0, 1));
            assert_eq!(civil(days_to(year) - 1), (year - 1, 11, 31));
        }
    }

    #[test]
    fn weeks() {
        let week = |days: i64| {
            let moment = Moment { seconds: days * DAY_SECONDS, nanoseconds: 0 };
            Date::new(moment, &Zone::utc()).unwrap().week()
        };
        // Friday, the first of January 2021; Monday, the last of December 2018.
        assert_eq!(week(18_628), (2020, 53));
        assert_eq!(week(17_896), (2019, 1));
        assert_eq!(week(18_631), (2021, 1));
    }
}
