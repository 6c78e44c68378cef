//! A scale below a strip that is as wide as the page: round values at their places.

use maud::{Markup, html};

/// Most marks that fit beside each other on a small screen, the zero beside them.
const MARKS: f64 = 6.0;

/// Marks: where, as a part of the width, and what is written there.
pub(super) fn ruler(marks: impl Iterator<Item = (f64, String)>) -> Markup {
    // The last one's text would leave the page.
    let class = |at: f64| if at > 0.95 { "at-end" } else { "" };
    html! {
        div.ruler {
            @for (at, text) in marks.filter(|(at, _)| at.is_finite()) {
                span class=(class(at)) style=(format!("left: {:.3}%", at * 100.0)) { (text) }
            }
        }
    }
}

/// Marks from zero in steps of 1, 2 or 5 and zeros.
pub(super) fn decimal(end: f64) -> Vec<f64> {
    let least = end / MARKS;
    let power = 10_f64.powf(least.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|step| *step >= least);
    marks(end, step.unwrap_or(end))
}

/// Marks from zero in steps of a power of two.
pub(super) fn binary(end: u64) -> Vec<u64> {
    let step = end.div_ceil(MARKS as u64).max(1).next_power_of_two();
    (0..=end / step).map(|n| n * step).collect()
}

fn marks(end: f64, step: f64) -> Vec<f64> {
    if !(end > 0.0 && step > 0.0) {
        return vec![0.0];
    }
    (0..=(end / step) as u32).map(|n| f64::from(n) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        assert_eq!(decimal(11_500.0), [0.0, 2000.0, 4000.0, 6000.0, 8000.0, 10_000.0]);
        assert_eq!(decimal(4.0), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!((decimal(0.0), binary(0)), (vec![0.0], vec![0]));
        assert_eq!(binary(8 << 30), [0, 2 << 30, 4 << 30, 6 << 30, 8 << 30]);
        assert_eq!(binary((2 << 30) - 4096).len(), 4);
        for end in 1..2000 {
            assert!((2..=7).contains(&decimal(f64::from(end)).len()), "{end}");
            assert!((2..=7).contains(&binary(u64::from(end as u32)).len()), "{end}");
        }
    }
}
