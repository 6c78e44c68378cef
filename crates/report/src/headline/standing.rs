//! How a figure stands to a reference's.

use super::figures::Found;

/// At most so many times the reference's cost is good.
pub const GOOD: f64 = 1.0 / 1.5;

/// At least so many times the reference's cost is bad.
///
/// Two runs of one virtual machine differ by a third in what starts a process,
/// and a host's neighbours by as much; half as much again is more than that.
pub const BAD: f64 = 1.5;

/// How a figure is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// At most [`GOOD`] times the reference's cost, and the intervals apart.
    Good,
    /// Neither.
    Usual,
    /// At least [`BAD`] times the reference's cost, and the intervals apart.
    Bad,
}

impl Grade {
    /// `good`, `usual` or `bad`.
    pub fn word(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Usual => "usual",
            Grade::Bad => "bad",
        }
    }
}

/// A figure beside the nearest reference that has the like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// What to think of it.
    pub grade: Grade,
    /// The figure divided by the reference's. What takes a line from one cpu to
    /// the other and back is counted in round trips of the raw cache line on
    /// both sides, because that one moves by itself.
    pub ratio: f64,
    /// Whether `ratio` is one of round trips.
    pub in_round_trips: bool,
    /// The reference's name.
    pub reference: &'static str,
}

/// `None` where the two are not of the same kind or nothing can be divided.
pub(super) fn standing(own: &Found, other: &Found, name: &'static str) -> Option<Standing> {
    if own.unit != other.unit || own.like != other.like {
        return None;
    }
    let trips = own.trip_ns.zip(other.trip_ns);
    let (own_scale, other_scale) = trips.unwrap_or((1.0, 1.0));
    let ratio = own.value / own_scale / (other.value / other_scale);
    if !ratio.is_finite() || ratio <= 0.0 {
        return None;
    }
    let (a, b) = (own.interval.map(|v| v / own_scale), other.interval.map(|v| v / other_scale));
    let apart = a[0] > b[1] || b[0] > a[1];
    let cost = if own.unit.less_is_better() { ratio } else { 1.0 / ratio };
    let grade = match cost {
        _ if !apart => Grade::Usual,
        cost if cost <= GOOD => Grade::Good,
        cost if cost >= BAD => Grade::Bad,
        _ => Grade::Usual,
    };
    Some(Standing { grade, ratio, in_round_trips: trips.is_some(), reference: name })
}

#[cfg(test)]
mod tests {
    use kumiki_measure::schema::Unit;

    use super::*;

    fn found(value: f64, spread: f64) -> Found {
        Found {
            value,
            unit: Unit::Nanoseconds,
            interval: [value * (1.0 - spread), value * (1.0 + spread)],
            meaning: String::new(),
            disturbed: false,
            trip_ns: None,
            like: String::new(),
        }
    }

    fn grade(own: &Found, other: &Found) -> Grade {
        standing(own, other, "r").expect("the same kind").grade
    }

    #[test]
    fn the_grade_follows_the_thresholds() {
        let reference = found(100.0, 0.01);
        for (value, expected) in [
            (60.0, Grade::Good),
            (66.0, Grade::Good),
            (68.0, Grade::Usual),
            (100.0, Grade::Usual),
            (148.0, Grade::Usual),
            (152.0, Grade::Bad),
        ] {
            assert_eq!(grade(&found(value, 0.01), &reference), expected, "{value}");
        }
    }

    #[test]
    fn intervals_that_overlap_are_no_difference() {
        assert_eq!(grade(&found(200.0, 0.6), &found(100.0, 0.1)), Grade::Usual);
        assert_eq!(grade(&found(50.0, 0.9), &found(100.0, 0.1)), Grade::Usual);
    }

    #[test]
    fn of_a_rate_more_is_better() {
        let rate = |value| Found { unit: Unit::GigabytesPerSecond, ..found(value, 0.01) };
        assert_eq!(grade(&rate(20.0), &rate(10.0)), Grade::Good);
        assert_eq!(grade(&rate(5.0), &rate(10.0)), Grade::Bad);
        assert_eq!(standing(&rate(5.0), &found(10.0, 0.01), "r"), None);
    }

    #[test]
    fn what_crosses_is_counted_in_round_trips() {
        let crossing = |value, trip| Found { trip_ns: Some(trip), ..found(value, 0.01) };
        let far = standing(&crossing(600.0, 560.0), &crossing(150.0, 140.0), "r");
        assert_eq!(far.map(|s| (s.grade, s.in_round_trips)), Some((Grade::Usual, true)));
        // A reference whose round trip is not known is compared as it is.
        let far = standing(&crossing(600.0, 560.0), &found(150.0, 0.01), "r");
        assert_eq!(far.map(|s| (s.grade, s.in_round_trips)), Some((Grade::Bad, false)));
    }

    #[test]
    fn different_work_is_not_compared() {
        let three = Found { like: "3 threads".to_owned(), ..found(100.0, 0.1) };
        assert_eq!(standing(&three, &found(100.0, 0.1), "r"), None);
        assert_eq!(standing(&found(0.0, 0.1), &found(100.0, 0.1), "r"), None);
    }
}
