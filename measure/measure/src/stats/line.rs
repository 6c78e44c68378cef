//! How a cost grows with a size: a line, two lines that meet at a knee, or two that do not, with a
//! jump between them (a threshold beyond which another way is taken).
//!
//! Errors of timings are proportional to the timing: a row of 16 ms wanders by
//! more nanoseconds than a whole row of 60 µs. Unweighted, the largest size
//! alone would decide the line. So a row weighs 1/σ², where σ comes from its
//! confidence interval and from what a line may miss without being wrong.
//!
//! The interval of the slope comes from Student's t and the scatter of the
//! rows around the line, not from resampling visits: visits show how well each
//! row is known, but not that pages, caches or page tables bend the line, and
//! with a handful of sizes that is most of the error.

use statrs::distribution::{ContinuousCDF, FisherSnedecor, StudentsT};

use super::wls::{self, Observation};

/// Relative deviation from a straight line that no cost is without.
const MODEL_ERROR: f64 = 0.02;

/// Half the width of a 95 % interval, in standard deviations.
const HALF_WIDTH: f64 = 1.96;

/// Two lines must be this unlikely to fit better by chance.
const KNEE_P: f64 = 0.01;

/// The two slopes must differ by more than this share of the steeper one.
const KNEE_CHANGE: f64 = 0.25;

/// A jump must be more than this share of the cost beside it.
const JUMP_CHANGE: f64 = 0.2;

/// Places that are tried for a knee within each gap between two sizes.
const KNEE_STEPS: u32 = 16;

/// One row as a point: a size in pages and a cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Size, pages of 4 KiB.
    pub pages: f64,
    /// Median, nanoseconds.
    pub ns: f64,
    /// Its 95 % confidence interval.
    pub ci: [f64; 2],
}

/// A line, perhaps broken once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Cost at size zero, nanoseconds.
    pub base_ns: f64,
    /// Slope below the knee, nanoseconds a page.
    pub ns_per_page: f64,
    /// 95 % confidence interval of `ns_per_page`.
    pub ci: [f64; 2],
    /// Share of the weighted variance that the line (or both lines) explains.
    pub r2: f64,
    /// Break of the line.
    pub knee: Option<Knee>,
}

/// Break of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knee {
    /// Size at which the lines meet, or the last one before the jump, pages.
    pub pages: f64,
    /// Slope beyond, nanoseconds a page.
    pub ns_per_page: f64,
    /// Jump between this size and the next, if the lines do not meet.
    pub jump: Option<LineJump>,
}

/// Jump of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineJump {
    /// The next size, pages.
    pub until: f64,
    /// Second line less the first in the middle between both sizes, nanoseconds.
    pub ns: f64,
}

impl Point {
    /// 1/σ².
    fn weight(&self) -> f64 {
        let known = (self.ci[1] - self.ci[0]) / 2.0 / HALF_WIDTH;
        // A row of zero is known to no better than a fraction of a nanosecond.
        let straight = MODEL_ERROR * self.ns.abs().max(1.0);
        (known * known + straight * straight).recip()
    }
}

/// Fits a line; `None` for fewer than three points or a single size.
pub fn line(points: &[Point]) -> Option<Line> {
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.pages.total_cmp(&b.pages));
    if points.len() < 3 {
        return None;
    }
    let scale = points.last()?.pages;
    let straight = fit(&points, |x| [1.0, x / scale])?;
    let knee = knee(&points, scale, straight.residual);
    let before = knee.as_ref().map_or(straight.residual, |(_, bent)| bent.residual);
    let parameters = if knee.is_some() { 4 } else { 2 };
    let jump = jump(&points, scale, before, parameters);
    let (coefficients, variance, residual, freedom) = match (&jump, &knee) {
        // The place of a break was fitted too.
        (Some((_, broken)), _) => {
            let [base, slope, ..] = broken.coefficients;
            ([base, slope], broken.covariance[1][1], broken.residual, points.len() - 5)
        }
        (None, Some((_, bent))) => {
            let [base, slope, _] = bent.coefficients;
            ([base, slope], bent.covariance[1][1], bent.residual, points.len() - 4)
        }
        (None, None) => {
            let fit = &straight;
            (fit.coefficients, fit.covariance[1][1], fit.residual, points.len() - 2)
        }
    };
    // Where the points scatter more than their own errors say, believe the
    // scatter; where they scatter less, it is luck.
    let scatter = (residual / freedom as f64).max(1.0);
    let t = StudentsT::new(0.0, 1.0, freedom as f64).ok()?.inverse_cdf(0.975);
    let half = t * (variance * scatter).sqrt() / scale;
    let slope = coefficients[1] / scale;
    let jumped = jump.map(|([last, until], broken)| Knee {
        pages: last,
        ns_per_page: (broken.coefficients[1] + broken.coefficients[3]) / scale,
        jump: Some(LineJump { until, ns: step([last, until], &broken, scale) }),
    });
    Some(Line {
        base_ns: coefficients[0],
        ns_per_page: slope,
        ci: [slope - half, slope + half],
        r2: r2(&points, residual),
        knee: jumped.or(knee.map(|(pages, bent)| Knee {
            pages,
            ns_per_page: (bent.coefficients[1] + bent.coefficients[2]) / scale,
            jump: None,
        })),
    })
}

fn fit<const N: usize>(points: &[Point], terms: impl Fn(f64) -> [f64; N]) -> Option<wls::Fit<N>> {
    let observe = |p: &Point| Observation { terms: terms(p.pages), y: p.ns, weight: p.weight() };
    wls::fit(&points.iter().map(observe).collect::<Vec<_>>())
}

/// The two lines that meet and fit best, if that is clearly better than one.
///
/// "Clearly" is an F test of the two further parameters. It takes the best of
/// many knees as if it had been named beforehand, therefore p < 0.01 and the
/// further conditions: two sizes on each side, slopes that differ, and a single
/// line that misses the points by more than their errors.
fn knee(points: &[Point], scale: f64, straight: f64) -> Option<(f64, wls::Fit<3>)> {
    let freedom = points.len().checked_sub(4).filter(|&freedom| freedom > 0)? as f64;
    if straight <= freedom + 2.0 {
        return None;
    }
    let gaps = points[1..points.len() - 1].windows(2);
    let candidates = gaps.flat_map(|gap| {
        let step = (gap[1].pages - gap[0].pages) / f64::from(KNEE_STEPS);
        (0..=KNEE_STEPS).map(move |i| gap[0].pages + step * f64::from(i))
    });
    let bent = candidates.filter_map(|knee| {
        let bent = fit(points, |x| [1.0, x / scale, (x - knee).max(0.0) / scale])?;
        Some((knee, bent))
    });
    let (pages, bent) = bent.min_by(|a, b| a.1.residual.total_cmp(&b.1.residual))?;

    let [_, below, change] = bent.coefficients;
    let differ = change.abs() > KNEE_CHANGE * below.abs().max((below + change).abs());
    let f = (straight - bent.residual) / 2.0 / (bent.residual / freedom).max(f64::MIN_POSITIVE);
    let p = 1.0 - FisherSnedecor::new(2.0, freedom).ok()?.cdf(f);
    (differ && p < KNEE_P).then_some((pages, bent))
}

/// Second line less the first in the middle of the gap between two sizes, nanoseconds.
fn step([last, next]: [f64; 2], broken: &wls::Fit<4>, scale: f64) -> f64 {
    let [_, _, step, change] = broken.coefficients;
    step + change * (last + next) / 2.0 / scale
}

/// The two lines that fit best and need not meet, and the sizes between which one ends and the
/// other begins, if that is clearly better than what explains the points otherwise, with the
/// residual `before` by so many parameters.
fn jump(
    points: &[Point],
    scale: f64,
    before: f64,
    parameters: usize,
) -> Option<([f64; 2], wls::Fit<4>)> {
    let freedom = points.len().checked_sub(5).filter(|&freedom| freedom > 0)? as f64;
    let further = (5 - parameters.min(4)) as f64;
    if before <= freedom + further {
        return None;
    }
    // Two sizes on each side, or a line is through one point.
    let gaps =
        (1..points.len().saturating_sub(2)).map(|at| [points[at].pages, points[at + 1].pages]);
    let broken = gaps.filter(|[last, next]| last < next).filter_map(|gap| {
        let beyond = move |x: f64| if x > gap[0] { 1.0 } else { 0.0 };
        let broken = fit(points, |x| [1.0, x / scale, beyond(x), beyond(x) * x / scale])?;
        Some((gap, broken))
    });
    let (gap, broken) = broken.min_by(|a, b| a.1.residual.total_cmp(&b.1.residual))?;
    let f =
        (before - broken.residual) / further / (broken.residual / freedom).max(f64::MIN_POSITIVE);
    // The best of all gaps is taken: each of them is a test.
    let gaps = (points.len() - 3) as f64;
    let p = 1.0 - FisherSnedecor::new(further, freedom).ok()?.cdf(f);
    let [base, slope, ..] = broken.coefficients;
    let beside = base + slope * (gap[0] + gap[1]) / 2.0 / scale;
    let by = step(gap, &broken, scale);
    let matters = by.abs() > JUMP_CHANGE * beside.abs().max((beside + by).abs());
    (matters && p < KNEE_P / gaps).then_some((gap, broken))
}

fn r2(points: &[Point], residual: f64) -> f64 {
    let weights: f64 = points.iter().map(Point::weight).sum();
    let mean = points.iter().map(|p| p.weight() * p.ns).sum::<f64>() / weights;
    let total: f64 = points.iter().map(|p| p.weight() * (p.ns - mean).powi(2)).sum();
    // All rows alike: the line explains what there is.
    if total > 0.0 { (1.0 - residual / total).clamp(0.0, 1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::bootstrap::normal;

    /// 0, 1, 4, … 65536 pages, with a relative error.
    fn points(error: f64, rng: &mut fastrand::Rng, cost: impl Fn(f64) -> f64) -> Vec<Point> {
        let sizes = std::iter::once(0.0).chain((0..9).map(|i| 4f64.powi(i)));
        let point = |pages| {
            let ns = cost(pages) * (1.0 + error * normal(rng));
            let half = HALF_WIDTH * error * ns;
            Point { pages, ns, ci: [ns - half, ns + half] }
        };
        sizes.map(point).collect()
    }

    #[test]
    fn exact_line_is_found() {
        let mut rng = fastrand::Rng::with_seed(1);
        let line = line(&points(0.0, &mut rng, |pages| 60_000.0 + 45.0 * pages)).unwrap();
        assert!((line.ns_per_page - 45.0).abs() < 1e-6, "{line:?}");
        assert!((line.base_ns - 60_000.0).abs() < 1e-3);
        assert!(line.r2 > 0.999_999);
        assert_eq!(line.knee, None);
    }

    #[test]
    fn interval_covers_the_slope_and_straight_lines_rarely_break() {
        let mut rng = fastrand::Rng::with_seed(2);
        let lines: Vec<Line> = (0..200)
            .map(|_| line(&points(0.05, &mut rng, |pages| 60_000.0 + 45.0 * pages)).unwrap())
            .collect();
        let covered = lines.iter().filter(|l| l.ci[0] <= 45.0 && 45.0 <= l.ci[1]).count();
        let broken = lines.iter().filter(|l| l.knee.is_some()).count();
        assert!(covered >= 180, "{covered}");
        assert!(broken <= 6, "{broken}");
    }

    #[test]
    fn knee_is_found_where_it_is() {
        let mut rng = fastrand::Rng::with_seed(3);
        let cost = |pages: f64| 30_000.0 + 20.0 * pages + 60.0 * (pages - 6000.0).max(0.0);
        let line = line(&points(0.01, &mut rng, cost)).unwrap();
        let knee = line.knee.expect("a knee");
        assert!((4096.0..=9000.0).contains(&knee.pages), "{line:?}");
        assert!((line.ns_per_page - 20.0).abs() < 2.0, "{line:?}");
        assert!((knee.ns_per_page - 80.0).abs() < 4.0, "{line:?}");
    }

    /// SunOS 3.2 loaded programs below some size whole, larger ones page by page.
    #[test]
    fn a_threshold_is_a_jump_and_no_knee() {
        let sizes = [0.0, 16.0, 32.0, 64.0, 96.0, 128.0, 192.0, 256.0, 512.0, 1024.0];
        let mut rng = fastrand::Rng::with_seed(6);
        let mut of = |cost: &dyn Fn(f64) -> f64| {
            let point = |pages| {
                let ns = cost(pages) * (1.0 + 0.01 * normal(&mut rng));
                Point { pages, ns, ci: [ns * 0.98, ns * 1.02] }
            };
            line(&sizes.map(point)).unwrap()
        };
        let falls = of(&|pages| if pages > 128.0 { 62e3 } else { 60e3 + 700.0 * pages });
        let knee = falls.knee.expect("a break");
        let jump = knee.jump.expect("a jump");
        assert_eq!((knee.pages, jump.until), (128.0, 192.0), "{falls:?}");
        assert!((falls.ns_per_page - 700.0).abs() < 70.0, "{falls:?}");
        // 60 + 0.7 × 160 µs and 62 µs beyond.
        assert!((jump.ns + 110e3).abs() < 15e3 && knee.ns_per_page.abs() < 20.0, "{falls:?}");
        let rises = of(&|pages| if pages > 64.0 { 200e3 } else { 100e3 });
        let jump = rises.knee.and_then(|knee| knee.jump).expect("a jump");
        assert!((jump.ns - 100e3).abs() < 1e4, "{rises:?}");
        let bends = of(&|pages| 100e3 + 50.0 * pages + 400.0 * (pages - 150.0).max(0.0));
        assert_eq!(bends.knee.map(|knee| knee.jump), Some(None), "{bends:?}");
    }

    #[test]
    fn lines_and_knees_rarely_jump() {
        let mut rng = fastrand::Rng::with_seed(7);
        let costs: [&dyn Fn(f64) -> f64; 3] =
            [&|pages| 60_000.0 + 45.0 * pages, &|_| 60_000.0, &|pages| {
                30_000.0 + 20.0 * pages + 60.0 * (pages - 6000.0).max(0.0)
            }];
        for (at, cost) in costs.iter().enumerate() {
            let jumps = (0..100).filter(|_| {
                let line = line(&points(0.05, &mut rng, cost)).unwrap();
                line.knee.is_some_and(|knee| knee.jump.is_some())
            });
            let jumps = jumps.count();
            assert!(jumps <= 3, "{at}: {jumps}");
        }
    }

    #[test]
    fn small_sizes_are_heard_beside_large_ones() {
        // One large row that is 5 % off must not push the base below zero.
        let mut rng = fastrand::Rng::with_seed(4);
        let mut points = points(0.0, &mut rng, |pages| 1000.0 + 10.0 * pages);
        points.last_mut().unwrap().ns *= 1.05;
        let line = line(&points).unwrap();
        assert!((line.base_ns - 1000.0).abs() < 50.0, "{line:?}");
    }

    #[test]
    fn flat_cost_has_slope_zero() {
        let mut rng = fastrand::Rng::with_seed(5);
        let line = line(&points(0.02, &mut rng, |_| 500.0)).unwrap();
        assert!(line.ci[0] <= 0.0 && 0.0 <= line.ci[1], "{line:?}");
        assert!(line.r2 < 0.6, "{line:?}");
    }

    #[test]
    fn too_few_points_make_no_line() {
        let point = |pages| Point { pages, ns: 1.0, ci: [1.0, 1.0] };
        assert_eq!(line(&[point(0.0), point(9.0)]), None);
        assert_eq!(line(&[point(3.0); 4]), None);
    }
}
