//! Gunther's universal scalability law: what so many cores do that one core does once,
//! `C(N) = N ÷ (1 + σ(N − 1) + κN(N − 1))`. σ is what they queue for, κ what each has to
//! hear from each other. Fitted to what was measured, for more cores than there are.

/// σ and κ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Law {
    /// σ
    pub contention: f64,
    /// κ
    pub coherence: f64,
}

impl Law {
    /// Capacity of so many cores, as a multiple of one core's.
    pub fn capacity(self, cores: u64) -> f64 {
        let (n, others) = (cores as f64, cores as f64 - 1.0);
        n / (1.0 + self.contention * others + self.coherence * n * others)
    }

    /// Number of cores from which on more do less; `None` if each further one helps.
    pub fn bend(self) -> Option<f64> {
        let bend = ((1.0 - self.contention) / self.coherence).max(0.0).sqrt();
        bend.is_finite().then_some(bend.max(1.0))
    }
}

/// Counts of cores from which on a law is fitted.
const LEAST: usize = 4;

/// The law that is nearest to these points of cores and throughput, of which the first is
/// one core's; none of fewer than four, which do not tell σ from κ surely enough to say
/// anything of more cores.
pub fn fit(points: &[(u64, f64)]) -> Option<Law> {
    let [(1, alone), more @ ..] = points else { return None };
    if points.len() < LEAST {
        return None;
    }
    // y = σx + κz
    let line = |&(cores, throughput): &(u64, f64)| {
        let (n, others) = (cores as f64, cores as f64 - 1.0);
        (others, n * others, (n * alone / throughput - 1.0).max(0.0))
    };
    let lines: Vec<(f64, f64, f64)> = more.iter().map(line).collect();
    let sum = |f: fn(&(f64, f64, f64)) -> f64| lines.iter().map(f).sum::<f64>();
    let (xx, zz, xz) = (sum(|l| l.0 * l.0), sum(|l| l.1 * l.1), sum(|l| l.0 * l.1));
    let (xy, zy) = (sum(|l| l.0 * l.2), sum(|l| l.1 * l.2));
    let determinant = xx * zz - xz * xz;
    let contention = (xy * zz - zy * xz) / determinant;
    let coherence = (zy * xx - xy * xz) / determinant;
    // Neither is ever below nothing: then the other one alone is nearest.
    Some(match (contention >= 0.0, coherence >= 0.0) {
        (true, true) => Law { contention, coherence },
        (true, false) => Law { contention: xy / xx, coherence: 0.0 },
        _ => Law { contention: 0.0, coherence: zy / zz },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(law: Law, cores: &[u64]) -> Vec<(u64, f64)> {
        cores.iter().map(|&n| (n, 250.0 * law.capacity(n))).collect()
    }

    #[test]
    fn a_law_is_found_in_its_own_points() {
        let law = Law { contention: 0.03, coherence: 0.002 };
        let found = fit(&points(law, &[1, 2, 4, 8])).unwrap();
        assert!((found.contention - 0.03).abs() < 1e-9, "{found:?}");
        assert!((found.coherence - 0.002).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn what_scales_better_than_it_can_scales_fully() {
        let points = [(1, 100.0), (2, 210.0), (3, 310.0), (4, 430.0)];
        assert_eq!(fit(&points).unwrap().capacity(8), 8.0);
    }

    #[test]
    fn three_counts_tell_nothing_of_more() {
        let law = Law { contention: 0.1, coherence: 0.05 };
        assert_eq!(fit(&points(law, &[1, 2, 4])), None);
        assert_eq!(
            fit(&points(law, &[2, 4, 6, 8])),
            None,
            "and without one core nothing can be said"
        );
    }
}
