//! Many tests at once.

/// Adjusts p-values by Benjamini and Hochberg (1995): among the tests whose
/// adjusted value is below q, no more than the share q is expected to be false.
/// In the order of the given values.
pub fn adjust(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| p[j].total_cmp(&p[i]));
    let mut adjusted = vec![1.0; p.len()];
    let mut smallest = 1.0f64;
    for (larger, i) in order.into_iter().enumerate() {
        let rank = (p.len() - larger) as f64;
        smallest = smallest.min(p[i] * p.len() as f64 / rank);
        adjusted[i] = smallest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_r() {
        // R: p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.9), "BH")
        let adjusted = adjust(&[0.01, 0.04, 0.03, 0.005, 0.9]);
        for (found, expected) in adjusted.iter().zip([0.025, 0.05, 0.05, 0.025, 0.9]) {
            assert!((found - expected).abs() < 1e-12, "{adjusted:?}");
        }
        assert_eq!(adjust(&[]), Vec::<f64>::new());
    }
}
