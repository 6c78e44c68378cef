use proptest::prelude::*;

use super::*;
use crate::schema::{Value, Visit};
use crate::stats::simulate;

fn row(case: &str, unit: Unit, cpus: usize, round_trip: f64, visits: Vec<Vec<f64>>) -> Row {
    let visit =
        |samples| Visit { samples, round_trip_before_ns: Some(round_trip), ..Visit::default() };
    let visits = visits.into_iter().map(visit).collect();
    Row::summarise(case, Params::new(), unit, (0..cpus).collect(), visits)
}

fn results(rows: Vec<Row>) -> Results {
    Results::new(Run::default(), Machine::default(), rows, Vec::new())
}

/// Compares single rows of these visits, at 5 %.
fn one(unit: Unit, a: Vec<Vec<f64>>, b: Vec<Vec<f64>>) -> Compared {
    let [a, b] = [a, b].map(|visits| results(vec![row("x", unit, 1, 50.0, visits)]));
    compare(&a, &b, 0.05).rows.remove(0)
}

fn steady(median: f64, visits: usize) -> Vec<Vec<f64>> {
    simulate::visits(&mut fastrand::Rng::with_seed(visits as u64), visits, 30, median, 0.01, 0.02)
}

#[test]
fn worse_depends_on_the_unit() {
    let (ns, gbs) = (Unit::Nanoseconds, Unit::GigabytesPerSecond);
    let double = one(ns, steady(100.0, 8), steady(200.0, 9));
    assert_eq!(double.verdict, Verdict::Regression, "{double:?}");
    assert!((1.9..2.1).contains(&double.ratio) && double.ci[0] > 1.8);
    assert_eq!(double.doubt, None);
    let verdict = |unit, a, b| one(unit, steady(a, 8), steady(b, 9)).verdict;
    assert_eq!(verdict(ns, 200.0, 100.0), Verdict::Improvement);
    assert_eq!(verdict(gbs, 100.0, 200.0), Verdict::Improvement);
    assert_eq!(verdict(gbs, 200.0, 100.0), Verdict::Regression);
    assert_eq!(verdict(ns, 100.0, 100.5), Verdict::Same);
    assert_eq!(verdict(gbs, 100.0, 100.5), Verdict::Same);
    // No more than a run moves by itself.
    assert_eq!(verdict(ns, 100.0, 105.0), Verdict::Same);
}

#[test]
fn few_visits_give_no_verdict_and_say_so() {
    let few = one(Unit::Nanoseconds, steady(100.0, 3), steady(200.0, 3));
    assert_eq!(few.verdict, Verdict::Unclear);
    let doubt = few.doubt.unwrap();
    assert_eq!(doubt.why, "3 and 3 visits cannot give p below 0.10");
    assert_eq!((doubt.cause, doubt.same_at), (Cause::FewVisits, None));
    let single = one(Unit::Nanoseconds, steady(100.0, 1), steady(100.0, 1));
    assert_eq!(single.verdict, Verdict::Unclear);
    assert_eq!(single.doubt.unwrap().cause, Cause::FewVisits);
}

/// A row of 100 ns against one of `median`, whose visits spread by `between`.
fn spread(median: f64, between: f64, edit: impl Fn(&mut Visit)) -> Compared {
    let mut rng = fastrand::Rng::with_seed(41);
    let mut row = |median| {
        let visits = simulate::visits(&mut rng, 8, 30, median, between, 0.02);
        let mut row = row("x", Unit::Nanoseconds, 1, 50.0, visits);
        row.visits.iter_mut().for_each(&edit);
        results(vec![Row::summarise("x", Params::new(), row.unit, row.cpus, row.visits)])
    };
    let (a, b) = (row(100.0), row(median));
    compare(&a, &b, 0.05).rows.remove(0)
}

#[test]
fn an_unclear_row_says_why_and_what_would_clear_it() {
    let quiet = |_: &mut Visit| {};
    let wide = spread(100.5, 0.25, quiet).doubt.unwrap();
    assert_eq!(wide.cause, Cause::Wide, "{wide:?}");
    let more = wide.times_visits.unwrap();
    assert!((1.0..20.0).contains(&more), "{wide:?}");
    // The threshold that it names makes the row the same.
    let ci = spread(100.5, 0.25, quiet).ci;
    let limit = 1.0 + wide.same_at.unwrap();
    assert!(ci[1] <= limit * 1.0001 && ci[0] >= 0.9999 / limit, "{ci:?} {limit}");

    let side = |median, visits| {
        results(vec![row("x", Unit::Nanoseconds, 1, 50.0, steady(median, visits))])
    };
    let near = compare(&side(100.0, 8), &side(107.0, 9), 0.075).rows.remove(0).doubt.unwrap();
    assert!(near.cause == Cause::Near && near.why.contains('%'), "{near:?}");

    let struck = |visit: &mut Visit| visit.disturbances = vec!["steal".to_owned()];
    let disturbed = spread(100.5, 0.25, struck).doubt.unwrap();
    assert_eq!(disturbed.cause, Cause::Disturbed);
    assert!(disturbed.why.contains("A and B"), "{disturbed:?}");

    // What moves whole runs is not told by more visits.
    let side = |median| {
        results(vec![row("file.create_unlink", Unit::Nanoseconds, 1, 50.0, steady(median, 8))])
    };
    let runs = compare(&side(100.0), &side(150.0), 0.05);
    let doubt = runs.rows[0].doubt.clone().unwrap();
    assert_eq!((doubt.cause, doubt.times_visits), (Cause::Runs, None), "{doubt:?}");
    let doubt = runs.families[0].doubt.clone().unwrap();
    assert!(doubt.cause == Cause::Runs && doubt.why.ends_with("show more than 100 %"), "{doubt:?}");
}

proptest! {
    /// Two short runs beside heavy work have few visits, hundreds of times apart.
    #[test]
    fn no_figure_is_made_of_few_or_wild_visits(
        a in prop::collection::vec(prop::collection::vec(1e2..1e7f64, 1..6), 1..8),
        b in prop::collection::vec(prop::collection::vec(1e2..1e7f64, 1..6), 1..8),
    ) {
        let few = a.len().min(b.len()) < LEAST;
        let [a, b] = [a, b].map(|visits| {
            results(vec![row("x", Unit::Nanoseconds, 1, 50.0, visits)])
        });
        let found = compare(&a, &b, 0.05);
        let tells = found.tells[0];
        prop_assert!(tells.is_none_or(|tells| tells <= MOST_TOLD), "{:?}", tells);
        prop_assert!(!few || tells.is_none());
        let (family, row) = (&found.families[0], &found.rows[0]);
        for (ratio, ci, verdict, doubt) in [
            (family.ratio, family.ci, family.verdict, &family.doubt),
            (row.ratio, row.ci, row.verdict, &row.doubt),
        ] {
            let is_none = ci[0] == 0.0 && ci[1].is_infinite();
            let near = ci[0] * FURTHEST * 1.001 >= ratio && ci[1] <= ratio * FURTHEST * 1.001;
            prop_assert!(is_none || near, "{} {:?}", ratio, ci);
            prop_assert!(!few || is_none && verdict != Verdict::Same);
            if let Some(doubt) = doubt {
                prop_assert!(doubt.same_at.is_none_or(|same| same <= MOST_TOLD), "{:?}", doubt);
                let digits = doubt.why.split(|c: char| !c.is_ascii_digit());
                prop_assert!(digits.map(str::len).max() < Some(6), "{:?}", doubt);
            }
        }
    }
}

#[test]
fn a_clock_that_wandered_is_no_change_and_one_that_was_set_is() {
    let at = |cost: f64, cycle: f64| {
        let mut row = row("x", Unit::Nanoseconds, 1, 50.0, steady(cost, 8));
        row.visits.iter_mut().for_each(|visit| visit.cycle_ns = [Some(cycle), Some(9.0 * cycle)]);
        results(vec![row])
    };
    let wandered = compare(&at(100.0, 0.25), &at(107.0, 0.2675), 0.05);
    let clock = wandered.clock.unwrap();
    assert!(clock.cycles && clock.b_ns > clock.a_ns, "{clock:?}");
    assert!((wandered.rows[0].ratio - 1.0).abs() < 0.02, "{:?}", wandered.rows[0]);
    assert_eq!(wandered.families[0].verdict, Verdict::Same);
    let set = compare(&at(100.0, 0.25), &at(200.0, 0.5), 0.05);
    assert!(!set.clock.unwrap().cycles);
    assert_eq!(set.families[0].verdict, Verdict::Regression);
}

#[test]
fn rows_that_differ_in_size_are_one_family() {
    let sized = |bytes: u64, touch: &str, median: f64| {
        let mut row = row("process.exec", Unit::Nanoseconds, 1, 50.0, steady(median, 6));
        row.params.insert("data_bytes".to_owned(), bytes.into());
        row.params.insert("touch".to_owned(), touch.into());
        row
    };
    let side = |factor: f64| {
        let sizes = [4096, 65536, 1 << 20];
        let read = sizes.map(|bytes| sized(bytes, "read", 100.0));
        let written = sizes.map(|bytes| sized(bytes, "write", 200.0 * factor));
        results([read, written].concat())
    };
    let comparison = compare(&side(1.0), &side(1.3), 0.05);
    let told: Vec<_> = comparison.families.iter().map(|f| (f.rows, f.verdict)).collect();
    assert_eq!(told, [(3, Verdict::Same), (3, Verdict::Regression)]);
    let [same, worse] = [&comparison.families[0], &comparison.families[1]];
    assert_eq!(same.params, Params::from([("touch".to_owned(), "read".into())]));
    assert!(same.same_within.is_some_and(|within| within < 0.15), "{same:?}");
    assert!((1.29..1.31).contains(&worse.ratio) && worse.ci[0] > 1.2, "{worse:?}");
    let tells = comparison.tells[0].unwrap();
    assert!((0.05..0.15).contains(&tells) && comparison.tells[1].is_none(), "{tells}");
}

#[test]
fn a_row_that_differs_by_disturbance_is_not_worse() {
    let struck = |n: usize, slow: f64| {
        let mut side = row("x", Unit::Nanoseconds, 1, 50.0, steady(100.0, 10));
        for visit in side.visits.iter_mut().take(n) {
            visit.disturbances = vec!["steal".to_owned()];
            visit.samples.iter_mut().for_each(|sample| *sample *= slow);
        }
        results(vec![Row::summarise("x", Params::new(), side.unit, side.cpus, side.visits)])
    };
    let all = compare(&struck(0, 1.0), &struck(9, 2.0), 0.05).rows.remove(0);
    assert_eq!(all.verdict, Verdict::Unclear, "{all:?}");
    let doubt = all.doubt.unwrap();
    assert_eq!(doubt.cause, Cause::Disturbed);
    assert!(doubt.why.contains("disturbed B"), "{doubt:?}");
    // Where the quiet visits differ as much, it is worse all the same.
    let mut slow = struck(4, 1.0);
    for visit in &mut slow.rows[0].visits {
        visit.samples.iter_mut().for_each(|sample| *sample *= 2.0);
    }
    let visits = std::mem::take(&mut slow.rows[0].visits);
    slow.rows[0] = Row::summarise("x", Params::new(), Unit::Nanoseconds, vec![0], visits);
    assert!(slow.rows[0].disturbed);
    assert_eq!(compare(&struck(0, 1.0), &slow, 0.05).count(Verdict::Regression), 1);
}

#[test]
fn medians_apart_whose_ranks_overlap_say_so() {
    // A visit of one sample weighs nothing in the median and as much in the ranks.
    let visits = |usual: f64, odd: f64| [vec![vec![usual; 300]; 4], vec![vec![odd]]].concat();
    let row = one(Unit::Nanoseconds, visits(100.0, 300.0), visits(200.0, 90.0));
    assert_eq!(row.verdict, Verdict::Unclear);
    let doubt = row.doubt.unwrap();
    assert_eq!(doubt.cause, Cause::Overlap, "{doubt:?}");
    assert!(doubt.why.contains("p = 0."), "{doubt:?}");
}

#[test]
fn cpus_that_moved_apart_are_no_regression() {
    let case = |cpus, round_trip, median| {
        results(vec![row("ipc.pipe", Unit::Nanoseconds, cpus, round_trip, steady(median, 8))])
    };
    let moved = compare(&case(2, 45.0, 100.0), &case(2, 600.0, 200.0), 0.05).rows.remove(0);
    assert_eq!(moved.verdict, Verdict::Unclear);
    let doubt = moved.doubt.unwrap();
    assert_eq!(doubt.cause, Cause::Moved);
    assert_eq!(doubt.why, "the raw round trip between the cpus was 45 ns in A, 600 ns in B");
    assert_eq!((moved.a.round_trip_ns, moved.b.round_trip_ns), (Some(45.0), Some(600.0)));
    // A case of one cpu does not care, nor do cpus that stayed.
    for (cpus, round_trip) in [(1, 600.0), (2, 50.0)] {
        let stayed = compare(&case(cpus, 45.0, 100.0), &case(cpus, round_trip, 200.0), 0.05);
        assert_eq!(stayed.count(Verdict::Regression), 1);
    }
}

#[test]
fn a_clock_that_jumps_between_visits_counts_as_it_was_beside_their_quiet_samples() {
    // 2.5 and 3 GHz in turns; measured around the visits at whichever came then.
    let side = |case: &str, work: &dyn Fn(f64) -> f64, first: usize| {
        let cycle = |i: usize| [0.333, 0.4][(i + first) % 2];
        let mut row = row(case, Unit::Nanoseconds, 1, 50.0, steady(1.0, 5));
        for (i, visit) in row.visits.iter_mut().enumerate() {
            visit.samples.iter_mut().for_each(|sample| *sample *= work(cycle(i)));
            (visit.cycle_ns, visit.quiet_cycle_ns) = ([Some(cycle(i / 2)); 2], Some(cycle(i)));
        }
        results(vec![row])
    };
    let verdict = |case: &str, work: &dyn Fn(f64) -> f64| {
        let comparison = compare(&side(case, work, 0), &side(case, work, 1), 0.05);
        assert!(comparison.clock.unwrap().cycles);
        comparison.families[0].verdict
    };
    assert_eq!(verdict("x", &|cycle| 300.0 * cycle), Verdict::Same);
    // No core's clock has to do with a timer.
    assert_eq!(verdict("thread.nanosleep", &|_| 100.0), Verdict::Same);
}

#[test]
fn rows_match_by_case_parameters_and_unit() {
    let named = |case: &str, unit, bytes: Value| {
        let mut row = row(case, unit, 1, 50.0, steady(10.0, 4));
        row.params.insert("bytes".to_owned(), bytes);
        row
    };
    let ns = Unit::Nanoseconds;
    let a = results(vec![named("x", ns, 1u64.into()), named("y", ns, 1u64.into())]);
    let other = Unit::GigabytesPerSecond;
    let b = results(vec![
        named("z", ns, 1u64.into()),
        named("x", ns, "1".into()),
        named("x", ns, 1u64.into()),
        named("y", other, 1u64.into()),
    ]);
    let comparison = compare(&a, &b, 0.05);
    assert_eq!(comparison.rows.len(), 1);
    assert_eq!((comparison.rows[0].case.as_str(), comparison.rows[0].ratio), ("x", 1.0));
    assert_eq!(comparison.only_a, [unmatched(&a.rows[1])]);
    assert_eq!(comparison.only_b, [&b.rows[0], &b.rows[1], &b.rows[3]].map(unmatched));
}

#[test]
fn medians_of_zero_still_give_numbers() {
    let zero = one(Unit::Nanoseconds, vec![vec![0.0; 5]; 5], vec![vec![0.0; 5]; 5]);
    assert_eq!((zero.ratio, zero.verdict), (1.0, Verdict::Same));
    let grown = one(Unit::Nanoseconds, vec![vec![0.0; 5]; 5], vec![vec![1e18; 5]; 5]);
    assert!(grown.ci.iter().all(|bound| bound.is_finite()));
    assert_eq!(grown.verdict, Verdict::Regression);
}

/// A run of 40 families that are quiet to wild, measured by `visits` visits; `whole` is how
/// far it moves each of them as a whole.
fn run(rng: &mut fastrand::Rng, visits: usize, whole: f64) -> Results {
    let rows = (0..40).map(|i| {
        let between = [0.01, 0.03, 0.1, 0.3][i % 4];
        let middle = 100.0 * (whole * crate::stats::simulate::normal(rng)).exp();
        let samples = simulate::visits(rng, visits, 15, middle, between, 0.05);
        let visit = |samples| Visit { samples, ..Visit::default() };
        // No figure of a row but its visits is looked at.
        Row { visits: samples.into_iter().map(visit).collect(), ..base(&format!("case.{i}")) }
    });
    Results { rows: rows.collect(), ..results(Vec::new()) }
}

fn base(case: &str) -> Row {
    Row::summarise(case, Params::new(), Unit::Nanoseconds, vec![0], Vec::new())
}

#[test]
fn two_runs_of_one_machine_cry_regression_as_rarely_as_is_said() {
    const PAIRS: usize = 60;
    let mut rng = fastrand::Rng::with_seed(23);
    // Between two runs a family moves by root two of what one moves it.
    for (visits, whole) in [(5, 0.02), (10, 0.04)] {
        let alarms = (0..PAIRS)
            .filter(|_| {
                let [a, b] = [0; 2].map(|_| run(&mut rng, visits, whole));
                let comparison = compare(&a, &b, 0.05);
                comparison.count(Verdict::Regression) + comparison.families(Verdict::Regression) > 0
            })
            .count();
        let share = alarms as f64 / PAIRS as f64;
        assert!(share <= LEVEL, "{share} with {visits} visits, runs apart by {whole}");
    }
}

#[test]
fn real_regressions_are_found() {
    let mut rng = fastrand::Rng::with_seed(29);
    let mut slow = run(&mut rng, 8, 0.0);
    for row in &mut slow.rows {
        let mut visits = row.visits.clone();
        visits.iter_mut().flat_map(|v| &mut v.samples).for_each(|sample| *sample *= 1.5);
        *row = Row::summarise(&row.case, Params::new(), row.unit, vec![0], visits);
    }
    let comparison = compare(&run(&mut rng, 8, 0.0), &slow, 0.05);
    // All of the rows that wander by 10 % or less; the wild ones may hide it.
    let found = comparison.rows.iter().enumerate().filter(|(i, _)| i % 4 < 3);
    let found = found.filter(|(_, row)| row.verdict == Verdict::Regression).count();
    assert!(found >= 27, "{found} of 30");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_result_equals_itself(results in simulate::results()) {
        let comparison = compare(&results, &results, 0.05);
        prop_assert_eq!(comparison.rows.len(), results.rows.len());
        for row in &comparison.rows {
            prop_assert_eq!(row.ratio, 1.0);
            prop_assert!(row.ci[0] <= 1.0 && row.ci[1] >= 1.0);
            prop_assert!(matches!(row.verdict, Verdict::Same | Verdict::Unclear));
            prop_assert_eq!(row.doubt.is_some(), row.verdict == Verdict::Unclear);
        }
        prop_assert!(comparison.only_a.is_empty() && comparison.only_b.is_empty());
    }
}
