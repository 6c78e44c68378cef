//! How a figure stands to a reference's.

use super::figures::Found;
use crate::format::{THIN, times};

/// Multiple of the reference's cost up to which it is good.
pub const GOOD: f64 = 1.0 / 1.5;

/// Multiple of the reference's cost from which on it is bad.
///
/// Two runs of one virtual machine differ by a third in what starts a process,
/// and a host's neighbours by as much; half as much again is more than that.
pub const BAD: f64 = 1.5;

/// Grade of a figure. A grade holds for the whole interval of the ratio, or it is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    /// Cost of at most [`GOOD`] times the reference's.
    Good,
    /// Cost between the two.
    Usual,
    /// Cost of at least [`BAD`] times the reference's.
    Bad,
    /// The interval of the ratio reaches over a threshold, or most rows of the run were
    /// disturbed.
    Unclear,
}

impl Grade {
    /// `good`, `usual` or `bad`.
    pub fn word(self) -> &'static str {
        match self {
            Grade::Good => "good",
            Grade::Usual => "usual",
            Grade::Bad => "bad",
            Grade::Unclear => "unclear",
        }
    }
}

/// A figure beside the nearest reference that has the like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Grade.
    pub grade: Grade,
    /// The figure divided by the reference's. What takes a line from one cpu to
    /// the other and back is counted in round trips of the raw cache line on
    /// both sides, because that one moves by itself.
    pub ratio: f64,
    /// 95 % interval of `ratio`, from those of both figures.
    pub interval: [f64; 2],
    /// True if `ratio` is one of round trips.
    pub in_round_trips: bool,
    /// The reference's name.
    pub reference: &'static str,
    /// The next reference by which the grade is another, and that grade; neither unclear.
    pub otherwise: Option<(&'static str, Grade)>,
}

impl Standing {
    /// Multiple of the reference, to the hundredth: `1.05 ×`.
    pub fn times(&self) -> String {
        match self.ratio {
            ratio if ratio < 9.995 => format!("{ratio:.2}{THIN}×"),
            ratio => times(ratio),
        }
    }
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
    let interval = interval(ratio, own, other);
    let [least, most] =
        if own.unit.less_is_better() { interval } else { [1.0 / interval[1], 1.0 / interval[0]] };
    let grade = match () {
        () if most <= GOOD => Grade::Good,
        () if least >= BAD => Grade::Bad,
        () if least > GOOD && most < BAD => Grade::Usual,
        () => Grade::Unclear,
    };
    let in_round_trips = trips.is_some();
    Some(Standing { grade, ratio, interval, in_round_trips, reference: name, otherwise: None })
}

/// Standing by the first of them, the nearest reference, with another that disagrees.
pub(super) fn beside(all: impl IntoIterator<Item = Standing>) -> Option<Standing> {
    let mut all = all.into_iter();
    let mut first = all.next()?;
    let clear = |grade| grade != Grade::Unclear;
    let mut others = all.filter(|other| clear(other.grade) && other.grade != first.grade);
    let other = others.next().filter(|_| clear(first.grade));
    first.otherwise = other.map(|other| (other.reference, other.grade));
    Some(first)
}

/// The two errors are independent: squares add, on a scale of ratios.
fn interval(ratio: f64, own: &Found, other: &Found) -> [f64; 2] {
    let below = |found: &Found| (found.value / found.interval[0].max(0.0)).ln();
    let above = |found: &Found| (found.interval[1] / found.value).ln();
    [ratio / below(own).hypot(above(other)).exp(), ratio * above(own).hypot(below(other)).exp()]
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
            extrapolated: false,
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
            (65.0, Grade::Good),
            (66.6, Grade::Unclear),
            (68.0, Grade::Usual),
            (100.0, Grade::Usual),
            (147.0, Grade::Usual),
            (151.0, Grade::Unclear),
            (153.0, Grade::Bad),
        ] {
            assert_eq!(grade(&found(value, 0.01), &reference), expected, "{value}");
        }
    }

    #[test]
    fn what_reaches_over_a_threshold_is_unclear() {
        assert_eq!(grade(&found(200.0, 0.6), &found(100.0, 0.1)), Grade::Unclear);
        assert_eq!(grade(&found(50.0, 0.9), &found(100.0, 0.1)), Grade::Unclear);
        // Four times as much, and in the next run again, of a line that moves by itself.
        assert_eq!(grade(&found(400.0, 0.8), &found(100.0, 0.8)), Grade::Unclear);
        assert_eq!(grade(&found(100.0, 1.0), &found(100.0, 0.01)), Grade::Unclear);
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
    fn a_reference_that_disagrees_is_named_if_both_are_clear() {
        let own = found(100.0, 0.01);
        let beside = |values: &[(&'static str, f64, f64)]| {
            let all = values.iter().map(|(name, value, spread)| {
                standing(&own, &found(*value, *spread), name).expect("the same kind")
            });
            let found = super::beside(all).expect("a reference");
            (found.reference, found.otherwise)
        };
        let usual = ("usual", 100.0, 0.01);
        let (good, bad, wide) = (("good", 200.0, 0.01), ("bad", 50.0, 0.01), ("wide", 50.0, 0.9));
        assert_eq!(beside(&[usual]), ("usual", None));
        assert_eq!(beside(&[usual, usual, good, bad]), ("usual", Some(("good", Grade::Good))));
        assert_eq!(beside(&[bad, wide, good]), ("bad", Some(("good", Grade::Good))));
        assert_eq!(beside(&[good, wide]), ("good", None));
        assert_eq!(beside(&[wide, good]), ("wide", None));
        assert_eq!(super::beside([]), None);
    }

    #[test]
    fn different_work_is_not_compared() {
        let three = Found { like: "3 threads".to_owned(), ..found(100.0, 0.1) };
        assert_eq!(standing(&three, &found(100.0, 0.1), "r"), None);
        assert_eq!(standing(&found(0.0, 0.1), &found(100.0, 0.1), "r"), None);
    }
}
