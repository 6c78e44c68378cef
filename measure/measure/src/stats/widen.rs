//! Adds errors that are independent of one another.

/// Widens an interval around `middle` by relative errors (0.02 is 2 %) that are
/// independent of it and of one another: as squares, on a scale of ratios, so
/// that an end never passes zero.
pub fn widen([low, high]: [f64; 2], middle: f64, errors: &[f64]) -> [f64; 2] {
    let further: f64 = errors.iter().map(|error| error.ln_1p().powi(2)).sum();
    let apart = |ratio: f64| (ratio.ln().powi(2) + further).sqrt().exp();
    let positive = |value: f64| value > 0.0 && value.is_finite();
    let end = |value: f64, ratio: f64, widened: f64| if positive(ratio) { widened } else { value };
    [
        end(low, middle / low, middle / apart(middle / low)),
        end(high, high / middle, middle * apart(high / middle)),
    ]
}

/// Never beyond what was seen: on a busy cpu a chain of the cycle's measurement is
/// interrupted as often as not, its error is then many times the median, and an interval
/// that is widened by it reaches where no sample ever was.
pub fn within([low, high]: [f64; 2], [min, max]: [f64; 2]) -> [f64; 2] {
    [low.max(min), high.min(max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squares_add() {
        let close = |a: [f64; 2], b: [f64; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close(widen([99.0, 102.0], 100.0, &[]), [99.0, 102.0]));
        assert!(close(widen([100.0, 100.0], 100.0, &[0.25]), [80.0, 125.0]));
        let [low, high] = widen([97.0, 103.0], 100.0, &[0.04]);
        assert!((94.9..95.3).contains(&low) && (104.9..105.2).contains(&high), "{low} {high}");
        // Nothing is known beyond zero and infinity.
        assert_eq!(widen([0.0, f64::INFINITY], 1.0, &[0.1]), [0.0, f64::INFINITY]);
        assert_eq!(widen([0.0, 0.0], 0.0, &[0.1]), [0.0, 0.0]);
    }
}
