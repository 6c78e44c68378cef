//! Weighted least squares of two or three coefficients.

use std::array::from_fn;

/// A fit of `y ≈ Σ coefficients[k] · terms[k](x)`.
#[derive(Clone, Debug)]
pub(super) struct Fit<const N: usize> {
    /// The coefficients.
    pub(super) coefficients: [f64; N],
    /// Inverse of XᵀWX: the coefficients' covariance if the weights are the
    /// inverse variances of the observations.
    pub(super) covariance: [[f64; N]; N],
    /// Weighted sum of squared residuals.
    pub(super) residual: f64,
}

/// One observation: its terms, value and weight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observation<const N: usize> {
    pub(super) terms: [f64; N],
    pub(super) y: f64,
    pub(super) weight: f64,
}

/// Fits by the normal equations; `None` if the terms are not independent.
/// Callers scale their terms to about 1, so that this is accurate enough.
pub(super) fn fit<const N: usize>(observations: &[Observation<N>]) -> Option<Fit<N>> {
    let sum = |of: &dyn Fn(&Observation<N>) -> f64| -> f64 {
        observations.iter().map(|o| o.weight * of(o)).sum()
    };
    let normal = from_fn(|i| from_fn(|j| sum(&|o| o.terms[i] * o.terms[j])));
    let right = from_fn(|i| sum(&|o| o.terms[i] * o.y));
    let covariance = inverse(normal)?;
    let coefficients = covariance.map(|row| dot(&row, &right));
    let residual = sum(&|o| (o.y - dot(&coefficients, &o.terms)).powi(2));
    Some(Fit { coefficients, covariance, residual })
}

fn dot<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Inverse of a symmetric positive definite matrix by Gauss and Jordan: such
/// a matrix needs no pivoting. `None` if a pivot has lost its digits.
fn inverse<const N: usize>(mut m: [[f64; N]; N]) -> Option<[[f64; N]; N]> {
    let diagonal: [f64; N] = from_fn(|i| m[i][i]);
    let mut inverse: [[f64; N]; N] = from_fn(|i| from_fn(|j| if i == j { 1.0 } else { 0.0 }));
    for pivot in 0..N {
        let scale = m[pivot][pivot];
        // NaN must not pass either.
        if scale.is_nan() || scale <= 1e-12 * diagonal[pivot] {
            return None;
        }
        m[pivot] = m[pivot].map(|v| v / scale);
        inverse[pivot] = inverse[pivot].map(|v| v / scale);
        for row in (0..N).filter(|&row| row != pivot) {
            let factor = m[row][pivot];
            let (above, right) = (m[pivot], inverse[pivot]);
            m[row] = from_fn(|k| m[row][k] - factor * above[k]);
            inverse[row] = from_fn(|k| inverse[row][k] - factor * right[k]);
        }
    }
    Some(inverse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_fit_by_hand() {
        // (x, y, weight); Σw 10, Σwx 30, Σwx² 100, Σwy 59.7, Σwxy 198.3.
        let data = [(1.0, 2.1, 1.0), (2.0, 3.9, 2.0), (3.0, 6.2, 3.0), (4.0, 7.8, 4.0)];
        let fit = fit(&data.map(|(x, y, weight)| Observation { terms: [1.0, x], y, weight }));
        let fit = fit.unwrap();
        // Slope (10 · 198.3 − 30 · 59.7) / (10 · 100 − 30²), residuals −0.03,
        // −0.15, 0.23, −0.09.
        assert!((fit.coefficients[1] - 1.92).abs() < 1e-9);
        assert!((fit.coefficients[0] - 0.21).abs() < 1e-9);
        assert!((fit.covariance[1][1] - 0.1).abs() < 1e-9);
        assert!((fit.residual - 0.237).abs() < 1e-9);
    }

    #[test]
    fn one_size_makes_no_line() {
        let same = [Observation { terms: [1.0, 0.5], y: 1.0, weight: 1.0 }; 5];
        assert!(fit(&same).is_none());
    }
}
