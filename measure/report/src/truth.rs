//! How often what the page says is false, counted on simulated runs whose truth is known.

use std::collections::BTreeMap;

use kumiki_measure::schema::{Machine, Params, Results, Row, Run, Trend, Unit, Value, Visit};
use kumiki_measure::stats::bootstrap::Rng;

use crate::headline::{BAD, GOOD, Grade, against};
use crate::parasc;
use crate::steps;

/// Visits that a default run makes on a machine that has little time.
const VISITS: usize = 5;
const SAMPLES: usize = 15;
const TRIALS: usize = 50;

/// Share of false statements that the interval promises.
const FALSE: f64 = 0.05;

/// Way in which visits of one row differ.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Quiet,
    /// Moves from visit to visit by a tenth.
    Wild,
    /// Three visits of ten lie on slower pages.
    Bimodal,
    /// Two visits of five lose time to others, and say so.
    Disturbed,
}

const KINDS: [Kind; 4] = [Kind::Quiet, Kind::Wild, Kind::Bimodal, Kind::Disturbed];

fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

fn visit(rng: &mut Rng, kind: Kind, truth: f64) -> Visit {
    let (between, within) = if let Kind::Wild = kind { (0.1, 0.05) } else { (0.02, 0.03) };
    let mut center = truth * (between * normal(rng)).exp();
    let mut disturbances = Vec::new();
    match kind {
        Kind::Bimodal if rng.f64() < 0.3 => center *= 1.35,
        Kind::Disturbed if rng.f64() < 0.4 => {
            center *= 1.0 + rng.f64();
            disturbances.push("another task held the cpu".to_owned());
        }
        _ => {}
    }
    let samples = (0..SAMPLES).map(|_| center * (within * normal(rng)).exp()).collect();
    Visit { batch: 1, samples, disturbances, ..Visit::default() }
}

fn row(rng: &mut Rng, kind: Kind, case: &str, params: &[(&str, Value)], truth: f64) -> Row {
    let params: Params = params.iter().map(|(n, v)| ((*n).to_owned(), v.clone())).collect();
    let visits = (0..VISITS).map(|_| visit(rng, kind, truth)).collect();
    Row::summarise(case, params, Unit::Nanoseconds, vec![0], visits)
}

fn results(rows: Vec<Row>) -> Results {
    Results::new(Run::default(), Machine::default(), rows, Vec::new())
}

/// Upper bound of a share, with 97.5 % confidence (Wilson, 1927).
fn at_most(said: usize, of: usize) -> f64 {
    const Z: f64 = 1.96;
    let (n, share) = (of as f64, said as f64 / of as f64);
    let half = Z * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).sqrt();
    (share + Z * Z / (2.0 * n) + half) / (1.0 + Z * Z / n)
}

/// Counts what is said, and what of it is false.
#[derive(Default)]
struct Tally(BTreeMap<String, (usize, usize)>);

impl Tally {
    fn said(&mut self, what: String, is_false: bool) {
        let (said, wrong) = self.0.entry(what).or_default();
        *said += 1;
        *wrong += usize::from(is_false);
    }

    /// Checks the share of all trials, because a reader who is told nothing is not misled.
    fn check(&self, trials: usize) {
        let lines: Vec<String> =
            self.0.iter().map(|(what, (n, wrong))| format!("{what}: {wrong} of {n}")).collect();
        println!("{} trials each\n{}", trials, lines.join("\n"));
        // A sentence over all truths: trials enough that luck does not make five of a hundred.
        let all: usize = self.0.values().map(|(said, _)| said).sum();
        let mut sentences: BTreeMap<&str, usize> = BTreeMap::new();
        for (what, (_, wrong)) in &self.0 {
            let sentence = what.rsplit(": ").next().unwrap_or(what);
            *sentences.entry(sentence).or_default() += wrong;
        }
        for (sentence, wrong) in sentences {
            let share = at_most(wrong, all);
            println!("{sentence}: {wrong} of {all} false, surely at most {share:.3}");
            assert!(share <= FALSE, "{sentence}: {wrong} of {all} false\n{lines:#?}");
        }
        // Of one truth: of fifty trials five are within luck.
        let most = FALSE * trials as f64 + 2.0 * (FALSE * trials as f64).sqrt();
        for (what, (_, wrong)) in &self.0 {
            assert!((*wrong as f64) < most, "{what}: {wrong} of {trials} false\n{lines:#?}");
        }
    }
}

#[test]
fn what_is_said_of_growth_is_rarely_false() {
    const MIB: u64 = 1 << 20;
    const SIZES: [u64; 6] = [0, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB];
    const BASE: f64 = 40_000.0;
    let pages = |bytes: u64| bytes as f64 / 4096.0;
    let mut rng = Rng::with_seed(1);
    let mut tally = Tally::default();
    for kind in KINDS {
        // None, less than a tenth over all sizes, three tenths, and a page table's cost.
        for slope in [0.0, 0.05, 0.2, 57.0] {
            for _ in 0..TRIALS {
                let rows = SIZES.map(|bytes| {
                    let params = [("bytes", bytes.into())];
                    row(&mut rng, kind, "memory.x", &params, BASE + slope * pages(bytes))
                });
                let r = results(rows.into());
                let found = &r.slopes[0];
                let change = slope * pages(SIZES[5]) / BASE;
                let is_false = match found.trend {
                    Trend::Grows => slope <= 0.0,
                    Trend::Falls => true,
                    Trend::Flat => change > 0.1,
                    Trend::Unclear => slope > found.ci[1],
                };
                let how = if found.is_graded() { "" } else { ", no slope" };
                let said = format!("{kind:?}, {slope} ns a page: {:?}{how}", found.trend);
                tally.said(said, is_false);
            }
        }
    }
    tally.check(TRIALS);
    let of = |what: &str| tally.0.get(what).map_or(0, |(said, _)| *said);
    // It is no feat to say nothing.
    assert!(of("Quiet, 57 ns a page: Grows") > 45 && of("Quiet, 0 ns a page: Flat, no slope") > 25);
}

#[test]
fn a_grade_is_rarely_false() {
    let mut rng = Rng::with_seed(2);
    let mut tally = Tally::default();
    let getppid = |rng: &mut Rng, kind, ns| results(vec![row(rng, kind, "entry.getppid", &[], ns)]);
    for kind in KINDS {
        for truth in [0.5, 0.64, 0.7, 1.0, 1.4, 1.6, 2.0] {
            for _ in 0..TRIALS {
                let other = getppid(&mut rng, Kind::Quiet, 100.0);
                let own = getppid(&mut rng, kind, 100.0 * truth);
                let (figures, _) = against(&own, &[("r", &other)]);
                let figure = figures.iter().find(|figure| figure.key == "system-call");
                let grade = figure.and_then(|figure| figure.standing).expect("a standing").grade;
                let is_false = match grade {
                    Grade::Good => truth > GOOD,
                    Grade::Bad => truth < BAD,
                    Grade::Usual => !(GOOD..BAD).contains(&truth),
                    Grade::Unclear => false,
                };
                tally.said(format!("{kind:?}, {truth} ×: {}", grade.word()), is_false);
            }
        }
    }
    tally.check(TRIALS);
    let of = |what: &str| tally.0.get(what).map_or(0, |(said, _)| *said);
    assert!(of("Quiet, 1 ×: usual") > 45 && of("Quiet, 2 ×: bad") > 45);
}

#[test]
fn where_batches_begin_to_pay_is_rarely_false() {
    const REQUESTS: [u64; 5] = [1, 10, 50, 100, 300];
    let mut rng = Rng::with_seed(3);
    let mut tally = Tally::default();
    for kind in KINDS {
        for (name, ratios) in [
            ("never", [1.0; 5]),
            ("slower", [2.0, 1.3, 1.1, 1.05, 1.02]),
            ("from 50", [2.0, 1.2, 0.8, 0.7, 0.6]),
        ] {
            for _ in 0..TRIALS {
                let rows = REQUESTS.iter().zip(ratios).flat_map(|(&n, ratio)| {
                    [(0_u64, 1.0), (1, ratio)].map(|(threads, ratio)| {
                        let params = [
                            ("files", "own".into()),
                            ("processing_threads", threads.into()),
                            ("requests", n.into()),
                        ];
                        let truth = 100.0 * n as f64 * ratio;
                        row(&mut rng, kind, "parasc.requests", &params, truth)
                    })
                });
                let r = results(rows.collect());
                let against = parasc::against(&r, "own").pop().expect("requests");
                let from = against.faster_from();
                let truth = |n: u64| ratios[REQUESTS.iter().position(|m| *m == n).unwrap()];
                let said = if from.is_some() { "faster" } else { "not faster" };
                let is_false = from.is_some_and(|n| truth(n) >= 1.0);
                assert_eq!(steps::batches_pay(&r), from.is_some(), "advice reads the sentence");
                tally.said(format!("{kind:?}, {name}: {said}"), is_false);
            }
        }
    }
    tally.check(TRIALS);
    assert!(tally.0["Quiet, from 50: faster"].0 > 45);
}

#[test]
fn advice_is_rarely_given_for_what_is_not_so() {
    let mut rng = Rng::with_seed(4);
    let mut tally = Tally::default();
    for kind in KINDS {
        for (name, ratio) in [("alike", 1.0), ("dearer", 1.2), ("cheaper", 0.5)] {
            for _ in 0..TRIALS {
                let on = |rng: &mut Rng, cpu: &str, ns| {
                    row(rng, kind, "thread.wake.round_trip", &[("cpu", cpu.into())], ns)
                };
                let r = results(vec![
                    on(&mut rng, "same", 4000.0 * ratio),
                    on(&mut rng, "other", 4000.0),
                ]);
                let said = steps::same_cpu_wakes_cheaper(&r);
                let word = if said { "given" } else { "not given" };
                tally.said(format!("{kind:?}, {name}: {word}"), said && ratio >= 1.0);
            }
        }
    }
    tally.check(TRIALS);
    assert!(tally.0["Quiet, cheaper: given"].0 > 45);
}
