//! Times as people write them.

use std::time::Duration;

use jiff::SignedDuration;

/// No clock of this machine goes wrong by an addition of it.
const MOST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Reads a time of 0 or more: a number is of seconds, and a unit says another one.
///
/// # Errors
/// It is none, in a sentence for the person.
pub fn duration(text: &str) -> Result<Duration, String> {
    let wrong =
        || format!("{text:?} is not a time: write seconds, or a unit, as 30, 90s, 1.5m, 1h 30m");
    let time = match text.trim().parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?,
        Err(_) => {
            let time: SignedDuration = text.trim().parse().map_err(|_| wrong())?;
            Duration::try_from(time).map_err(|_| wrong())?
        }
    };
    match time <= MOST {
        true => Ok(time),
        false => Err(format!("{text:?} is longer than a hundred years, which is the most")),
    }
}

/// Reads a time that is not 0.
///
/// # Errors
/// As [`duration`].
pub fn positive(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a time of more than 0, such as 2s or 5m".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_of_seconds_and_units_are_those_of_the_field() {
        let seconds = |text| duration(text).map(|time| time.as_secs_f64());
        for (text, wanted) in [
            ("30", 30.0),
            ("0", 0.0),
            ("0.1", 0.1),
            ("90s", 90.0),
            ("5m", 300.0),
            ("1.5m", 90.0),
            ("2min", 120.0),
            ("1h", 3600.0),
            ("1h 30m", 5400.0),
            ("1h30m", 5400.0),
            ("250ms", 0.25),
            (" 2s ", 2.0),
        ] {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_a_time_that_is() {
        for text in ["", "soon", "-1", "-5m", "5x", "NaN", "inf", "1s ago"] {
            let said = duration(text).expect_err(text);
            assert!(said.contains("90s"), "{text}: {said}");
        }
        assert!(duration("9999999999999").unwrap_err().contains("hundred years"));
        assert!(positive("0").is_err() && positive("0s").is_err());
        assert_eq!(positive("2"), Ok(Duration::from_secs(2)));
    }
}
