//! What is to be thought of a comparison.

use serde::{Deserialize, Serialize};

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// B is slower beyond doubt, by about the least difference that matters or more.
    Slower,
    /// B is faster beyond doubt.
    Faster,
    /// The difference is less than what matters, either way.
    Same,
    /// B is not slower by what matters; whether it is faster is not known.
    NotSlower,
    /// The pairs do not tell.
    CannotSay,
}

impl Verdict {
    /// The printed word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Slower => "slower",
            Verdict::Faster => "faster",
            Verdict::Same => "the same",
            Verdict::NotSlower => "not slower",
            Verdict::CannotSay => "cannot say",
        }
    }

    /// 0 no worse, 1 worse, 3 cannot say.
    pub fn exit_status(self) -> u8 {
        match self {
            Verdict::Slower => 1,
            Verdict::Faster | Verdict::Same | Verdict::NotSlower => 0,
            Verdict::CannotSay => 3,
        }
    }

    /// Verdict for an interval of ln(B ÷ A) around `estimate`, where `detect` matters.
    ///
    /// Slower is said only where the interval lies above zero; so where there is no
    /// difference it is said as rarely as the interval misses. Of a difference that is about
    /// as large as what matters it is said as soon as the interval lies above half of that,
    /// or no number of pairs would end the question.
    pub fn of(estimate: f64, [low, high]: [f64; 2], detect: f64) -> Self {
        let limit = detect.ln_1p();
        match () {
            () if low > 0.0 && estimate >= limit => Verdict::Slower,
            () if high < 0.0 && estimate <= -limit => Verdict::Faster,
            () if low >= limit / 2.0 && high > limit => Verdict::Slower,
            () if high <= -limit / 2.0 && low < -limit => Verdict::Faster,
            () if low >= -limit && high <= limit => Verdict::Same,
            () if high <= limit => Verdict::NotSlower,
            () => Verdict::CannotSay,
        }
    }
}

/// Pairs that would clear up a comparison that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clear {
    /// About so many further pairs, if the machine stays as it is.
    pub pairs: u64,
    /// Time that they take, about, seconds.
    pub seconds: f64,
    /// The least difference that the pairs until now can tell, as a share; nothing where
    /// there is no interval yet.
    pub tells: Option<f64>,
}

impl Clear {
    /// Estimate from the interval that `pairs` pairs in `seconds` left; nothing where there is no
    /// interval yet.
    pub fn up(
        estimate: f64,
        [low, high]: [f64; 2],
        detect: f64,
        pairs: usize,
        seconds: f64,
    ) -> Self {
        let limit = detect.ln_1p();
        // The interval must end before zero if it is to be slower, before the limit if not;
        // and begin above half of the limit where it reaches beyond it.
        let room = if estimate >= limit { estimate } else { limit - estimate };
        let room = room.max(estimate - limit / 2.0);
        let half = (high - estimate).max(estimate - low);
        let each = seconds / (pairs.max(1)) as f64;
        let pairs = pairs as f64;
        // Its length shrinks with the root of the pairs.
        let needed = match half.is_finite() {
            true => pairs * (half / room.max(limit / 10.0)).powi(2),
            false => 2.0 * pairs.max(5.0),
        };
        let more = (needed - pairs).max(1.0).ceil();
        Clear {
            pairs: more as u64,
            seconds: more * each,
            tells: half.is_finite().then(|| half.exp_m1()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_decides() {
        let of = |estimate: f64, interval| Verdict::of(estimate, interval, 0.02);
        assert_eq!(of(0.03, [0.01, 0.05]), Verdict::Slower);
        assert_eq!(of(0.03, [-0.01, 0.07]), Verdict::CannotSay);
        assert_eq!(of(-0.03, [-0.05, -0.01]), Verdict::Faster);
        assert_eq!(of(0.0, [-0.015, 0.015]), Verdict::Same);
        assert_eq!(of(-0.03, [-0.08, 0.01]), Verdict::NotSlower);
        // About what matters: narrow enough, it is slower.
        assert_eq!(of(0.019, [0.017, 0.021]), Verdict::Slower);
        assert_eq!(of(0.019, [0.008, 0.030]), Verdict::CannotSay);
        assert_eq!(of(-0.0205, [-0.022, -0.019]), Verdict::Faster);
        assert_eq!(of(-0.019, [-0.021, -0.017]), Verdict::Faster);
        // Slower beyond doubt, but by less than what matters.
        assert_eq!(of(0.005, [0.001, 0.009]), Verdict::Same);
        assert_eq!(of(0.0, [f64::NEG_INFINITY, f64::INFINITY]), Verdict::CannotSay);
        assert_eq!(
            [1, 0, 0, 0, 3],
            [
                Verdict::Slower,
                Verdict::Faster,
                Verdict::Same,
                Verdict::NotSlower,
                Verdict::CannotSay
            ]
            .map(Verdict::exit_status)
        );
    }

    #[test]
    fn what_would_clear_it_up_is_counted() {
        // Twice too wide: four times as many pairs.
        let clear = Clear::up(0.0, [-0.04, 0.04], 0.02_f64, 20, 10.0);
        assert!((58..=62).contains(&clear.pairs), "{clear:?}");
        assert!((29.0..32.0).contains(&clear.seconds), "{clear:?}");
        assert!(clear.tells.is_some_and(|tells| (0.040..0.042).contains(&tells)), "{clear:?}");
        // About what matters: when it lies above half of that.
        let about = Clear::up(0.0198, [0.0048, 0.0348], 0.02, 20, 10.0);
        assert!((40..=50).contains(&(about.pairs + 20)), "{about:?}");
        let early = Clear::up(0.0, [f64::NEG_INFINITY, f64::INFINITY], 0.02, 3, 3.0);
        assert!(early.pairs >= 7, "{early:?}");
    }
}
