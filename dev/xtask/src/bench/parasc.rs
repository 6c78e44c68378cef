//! Parallel system calls beside their peers, measured by `dev/bench/`, and what
//! they promise of it.

use anyhow::Result;
use kumiki_measure::stats::describe;

use super::judge::{Bound, Figures, KUMIKI, digits, measured, of};
use super::{Must, Outcome, Row};
use crate::debian::{self, Package};

/// What the peers need to be built, and who walks as everybody does.
const PACKAGES: &[Package] = &[
    Package { name: "coreutils", reason: "GNU du is measured beside kumiki-du" },
    Package { name: "gcc", reason: "the bench has peers in C" },
    Package { name: "g++", reason: "the bench has peers in C++" },
    Package { name: "make", reason: "jemalloc is built by it, a peer of another bench" },
    Package { name: "libtbb-dev", reason: "the bench has oneTBB among them" },
];

/// The plain way.
const LOOP: &str = "loop";
/// Threads that do nothing but the calls: what the machine has to give.
const BARE: &str = "bare_threads";
/// Calls that leave their cpu to others. Of the rest, two cpus as fast as the loop's
/// make all in half a loop, if a call takes what it does there.
const SLEEP: &[&str] = &["fsync_dirty"];
/// Two of GNU's du side by side, each for half of the tree: the same of walks.
const HALVES: &str = "gnu_du/halves";
const RINGS: [&str; 4] = ["io_uring", "io_uring_defer", "io_uring_registered", "io_uring_sqpoll"];
const RUST_WALKERS: [&str; 3] = ["jwalk", "ignore", "dua"];

/// Measures every subject, or these cases; with `judge` says whether the promises hold.
pub(super) fn parasc(judge: bool, cases: &[String]) -> Result<Outcome> {
    debian::install(PACKAGES)?;
    let mut outcome = measured("parasc", cases)?;
    println!(
        "getppid: the paper has gettid, which answers for the wrong thread when it is offloaded"
    );
    println!("getppid of io_uring: a NOP, as a ring has no such call");
    println!("dua: the walker of dua-cli (dua-core) in a program of the bench");
    if judge {
        outcome.musts = musts(&Figures(&outcome.rows));
    }
    Ok(outcome)
}

/// What is promised of a case.
struct Promise {
    case: &'static str,
    /// Median ÷ that of a plain loop, for each batch size of [`SIZES`].
    of_loop: [f64; 4],
    /// Median ÷ that of the fastest ring at the largest size.
    of_ring: Option<f64>,
}

const SIZES: [usize; 4] = [1, 10, 50, 300];

/// What is not to get slower beside busy processes ÷ the plain way.
const LOADED: f64 = 1.05;
/// The same of calls that are shared where there is nobody else.
const SHARED_LOADED: f64 = 1.1;
/// Other processes that keep cpus busy.
const BUSY: [usize; 4] = [1, 2, 4, 8];
/// The same beside a walk, up to a crowd.
const CROWD: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// A walk beside any of them to that by GNU du, which has one thread.
const CROWDED: f64 = 1.1;
/// Batches with one thread of the program, and none of the engine's ÷ bare threads.
const OWN_THREADS: f64 = 1.15;
/// Reads that wait for the disk ÷ those of bare threads, …
const COLD: f64 = 1.3;
/// … in so many of twenty processes.
const OF_TWENTY: usize = 19;

const fn faster(case: &'static str, of_loop: [f64; 4], of_ring: f64) -> Promise {
    Promise { case, of_loop, of_ring: Some(of_ring) }
}

/// These contend in the kernel: they must only not become slower.
const fn not_slower(case: &'static str) -> Promise {
    Promise { case, of_loop: [1.02, 1.05, 1.05, 1.05], of_ring: None }
}

const PROMISES: [Promise; 10] = [
    faster("getppid", [1.02, 1.1, 0.70, 0.60], 1.0),
    faster("read_zero_own", [1.02, 0.9, 0.65, 0.53], 0.65),
    faster("pread_own", [1.02, 0.9, 0.65, 0.50], 0.6),
    faster("statx", [1.02, 0.7, 0.55, 0.48], 0.3),
    faster("open_close", [1.02, 0.95, 0.75, 0.66], 0.8),
    faster("fsync_dirty", [1.05, 0.3, 0.2, 0.12], 0.7),
    not_slower("mmap"),
    not_slower("unlink_one"),
    not_slower("read_zero_one"),
    not_slower("pread_one"),
];

/// Of a handoff over the raw round trip and the call itself.
const HANDOFF: f64 = 1.1;

fn musts(figures: &Figures) -> Vec<Must> {
    let mut musts: Vec<Must> =
        PROMISES.iter().flat_map(|promise| calls(figures, promise)).collect();
    let handoff = |subject| {
        let call = figures.at("getppid", LOOP, 1)?.median;
        Some(Ratios::of_limit(figures.at("handoff", subject, 1)?, call))
    };
    let kumiki = handoff(KUMIKI).filter(|ratios| !ratios.0.is_empty());
    let mut one = of("handoff of one getppid ÷ (raw round trip + call)", || {
        Some((kumiki.as_ref()?.median(), Bound::AtMost(HANDOFF), "×"))
    });
    if let Some(bare) = handoff(BARE) {
        one.figure += &format!(", bare threads {}", digits(bare.median()));
    }
    musts.push(one);
    let du = |name: &str, others: &[&str], limit| {
        of(&format!("du of /usr, warm, ÷ {name}"), || {
            let kumiki = figures.one("du_usr", KUMIKI)?.median;
            let others = others.iter().map(|other| Some(figures.one("du_usr", other)?.median));
            let best = others.collect::<Option<Vec<f64>>>()?.into_iter().fold(f64::NAN, f64::min);
            Some((kumiki / best, Bound::AtMost(limit), "×"))
        })
    };
    let mut gnu = du("GNU du", &["gnu_du"], 0.55);
    if let (Some(halves), Some(whole)) =
        (figures.one("du_usr", HALVES), figures.one("du_usr", "gnu_du"))
    {
        let ratio = digits(halves.median / whole.median);
        gnu.figure += &format!(", two of GNU's side by side, each for half: {ratio}");
    }
    musts.push(gnu);
    musts.push(du("the best of jwalk, ignore, dua", &RUST_WALKERS, 0.75));
    musts.push(du("io_uring", &["io_uring"], 0.42));
    musts.extend(loaded(figures));
    musts.extend(cold(figures));
    musts.push(of(
        "own_threads, statx × 300 with a thread of the program ÷ bare threads",
        || {
            let at = |subject| figures.at("own_threads", subject, 300);
            Some((Ratios::of(at(KUMIKI)?, at(BARE)?).median(), Bound::AtMost(OWN_THREADS), "×"))
        },
    ));
    musts
}

/// Beside other processes that keep cpus busy.
fn loaded(figures: &Figures) -> Vec<Must> {
    let unlinks = [(1, 50), (1, 300), (2, 50), (2, 300)].map(|(busy, n)| {
        of(&format!("unlink_one × {n} beside {busy} busy ÷ loop"), || {
            let row = figures.at(&format!("unlink_one_busy{busy}"), KUMIKI, n)?;
            let ratios = Ratios::of_plain(row);
            (!ratios.0.is_empty()).then(|| (ratios.median(), Bound::AtMost(LOADED), "×"))
        })
    });
    let shared = BUSY.map(|busy| {
        of(&format!("statx × 300 beside {busy} busy ÷ loop"), || {
            let ratios = Ratios::of_plain(figures.at(&format!("statx_busy{busy}"), KUMIKI, 300)?);
            (!ratios.0.is_empty()).then(|| (ratios.median(), Bound::AtMost(SHARED_LOADED), "×"))
        })
    });
    let walks = CROWD.into_iter().flat_map(|busy| {
        let beside = [("--plain", "kumiki/plain", LOADED), ("GNU du", "gnu_du", CROWDED)];
        beside.map(|(name, other, most)| {
            of(&format!("du of /usr beside {busy} busy ÷ {name}"), || {
                let own = figures.at("du_loaded", KUMIKI, busy)?.median;
                let other = figures.at("du_loaded", other, busy)?.median;
                Some((own / other, Bound::AtMost(most), "×"))
            })
        })
    });
    unlinks.into_iter().chain(shared).chain(walks).collect()
}

/// Reads that wait for the disk, from a quarter of a second on: all but one process of
/// twenty have to have found out.
fn cold(figures: &Figures) -> Vec<Must> {
    let cases = ["pread_cold", "pread_cold_warmed"];
    let all = cases.into_iter().flat_map(|case| [8, 32, 200].map(|n| (case, n)));
    let must = |(case, n)| {
        of(&format!("{case} × {n} ÷ 16 bare threads, in {OF_TWENTY} of 20 processes"), || {
            let (own, bare) = (figures.at(case, KUMIKI, n)?, figures.at(case, BARE, n)?);
            let ratios = describe::sorted(Ratios::of(own, bare).0);
            let last = (ratios.len() * OF_TWENTY).div_ceil(20).checked_sub(1)?;
            Some((ratios[last], Bound::AtMost(COLD), "×"))
        })
    };
    all.map(must).collect()
}

/// The promises of one case.
fn calls(figures: &Figures, promise: &Promise) -> Vec<Must> {
    let Promise { case, of_loop, of_ring } = *promise;
    let at = |subject, n| figures.at(case, subject, n);
    let bare = |other: Option<&Row>| {
        let ratios = Ratios::of(at(BARE, other?.n)?, other?);
        Some(format!(", bare threads {}", digits(ratios.median())))
    };
    let beside = |other| bare(other).unwrap_or_default();
    let plain = SIZES.into_iter().zip(of_loop).map(|(n, limit)| {
        let kumiki = at(KUMIKI, n).map(Ratios::of_plain).filter(|ratios| !ratios.0.is_empty());
        let mut must = of(&format!("{case} × {n} ÷ loop"), || {
            Some((kumiki.as_ref()?.median(), Bound::AtMost(limit), "×"))
        });
        must.figure += &kumiki.map_or(String::new(), |ratios| ratios.range());
        if n > 1 {
            must.figure += &beside(at(LOOP, n));
        }
        must
    });
    let largest = SIZES[SIZES.len() - 1];
    let ring = of_ring.map(|limit| {
        let best = RINGS.into_iter().filter_map(|ring| at(ring, largest));
        let best = best.min_by(|a, b| a.median.total_cmp(&b.median));
        let name = best.map_or("io_uring's best", |best| &best.subject);
        let mut must = of(&format!("{case} × {largest} ÷ {name}"), || {
            let ratios = Ratios::of(at(KUMIKI, largest)?, best?);
            Some((ratios.median(), Bound::AtMost(limit), "×"))
        });
        must.figure += &beside(best);
        if let (Some(whole), Some(best), false) = (at(LOOP, largest), best, SLEEP.contains(&case)) {
            let half = Ratios::of(whole, best).median() / 2.0;
            must.figure += &format!(", half a loop {}", digits(half));
        }
        must
    });
    plain.chain(ring).collect()
}

/// How many times as long as another a subject took, each time beside the other: the
/// machine's clock moves.
struct Ratios(Vec<f64>);

impl Ratios {
    /// To a plain loop in the subject's process, turn by turn: plain calls, too, differ
    /// by a third between processes on some machines.
    fn of_plain(row: &Row) -> Self {
        Ratios(row.of_plain.clone())
    }

    /// To another subject, instance by instance.
    fn of(row: &Row, other: &Row) -> Self {
        let pairs = row.instances.iter().zip(&other.instances);
        Ratios(match row.instances.len() == other.instances.len() {
            true if !row.instances.is_empty() => pairs.map(|(a, b)| a / b).collect(),
            _ => vec![row.median / other.median],
        })
    }

    /// To the raw reference and `more` nanoseconds, instance by instance: a line's way takes
    /// three times as long when the host has moved a cpu.
    fn of_limit(row: &Row, more: f64) -> Self {
        let pairs = row.instances.iter().zip(&row.limits);
        Ratios(pairs.map(|(instance, limit)| instance / (limit + more)).collect())
    }

    fn median(&self) -> f64 {
        describe::median_of(self.0.iter().copied())
    }

    /// From the best to the worst: a slow mode shows here.
    fn range(&self) -> String {
        let (best, worst) = self.0.iter().fold((f64::INFINITY, 0.0_f64), |(best, worst), ratio| {
            (best.min(*ratio), worst.max(*ratio))
        });
        match self.0.len() {
            1 => String::new(),
            _ => format!(", turns {} to {}", digits(best), digits(worst)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::sample;

    fn row(case: &str, subject: &str, n: usize, median: f64) -> Row {
        Row {
            // The clock was faster when the second one ran.
            instances: vec![1.1 * median, 0.8 * median, 0.9 * median],
            limits: vec![100.0; 3],
            ..sample::row(case, subject, n, median)
        }
    }

    fn slow_down(row: &mut Row, factor: f64) {
        row.median *= factor;
        row.instances.iter_mut().chain(&mut row.of_plain).for_each(|figure| *figure *= factor);
    }

    /// Rows by which every promise just holds.
    fn good() -> Vec<Row> {
        let mut rows = Vec::new();
        for Promise { case, of_loop, of_ring } in PROMISES {
            for (n, ratio) in SIZES.into_iter().zip(of_loop) {
                rows.push(row(case, LOOP, n, 1000.0));
                let of_plain = vec![ratio, 0.9 * ratio, 2.0 * ratio];
                rows.push(Row { of_plain, ..row(case, KUMIKI, n, 1000.0 * ratio) });
            }
            if let Some(ratio) = of_ring {
                let best = 1000.0 * of_loop[3] / ratio;
                rows.push(row(case, "io_uring_defer", 300, best));
                rows.push(row(case, "io_uring_sqpoll", 300, 2.0 * best));
            }
        }
        // For most the line came from far.
        let (instances, limits) = (vec![1100.0, 1650.0, 1700.0], vec![100.0, 500.0, 500.0]);
        rows.push(Row { instances, limits, ..row("handoff", KUMIKI, 1, 1650.0) });
        let du = [(KUMIKI, 55.0), ("gnu_du", 100.0), ("io_uring", 131.0), ("jwalk", 80.0)];
        let du = du.into_iter().chain([("ignore", 73.4), ("dua", 75.0)]);
        rows.extend(du.map(|(subject, ms)| row("du_usr", subject, 175_000, ms)));
        for (busy, n) in [(1, 50), (1, 300), (2, 50), (2, 300)] {
            let unlink = row(&format!("unlink_one_busy{busy}"), KUMIKI, n, 1050.0);
            rows.push(Row { of_plain: vec![1.0, 1.05, 3.0], ..unlink });
        }
        for busy in BUSY {
            let statx = row(&format!("statx_busy{busy}"), KUMIKI, 300, 1100.0);
            rows.push(Row { of_plain: vec![1.0, 1.1, 3.0], ..statx });
        }
        for busy in CROWD {
            rows.push(row("du_loaded", KUMIKI, busy, 105.0));
            rows.push(row("du_loaded", "kumiki/plain", busy, 100.0));
            rows.push(row("du_loaded", "gnu_du", busy, 105.0 / 1.1));
        }
        rows.push(row("own_threads", KUMIKI, 300, 1150.0));
        rows.push(row("own_threads", BARE, 300, 1000.0));
        for n in [8, 32, 200] {
            for case in ["pread_cold", "pread_cold_warmed"] {
                // One process of twenty has not found out.
                let mut cold = row(case, KUMIKI, n, 130.0);
                cold.instances = vec![130.0; 19];
                cold.instances.insert(7, 900.0);
                rows.push(cold);
                rows.push(Row { instances: vec![100.0; 20], ..row(case, BARE, n, 100.0) });
            }
        }
        rows
    }

    fn broken(rows: &[Row]) -> Vec<String> {
        sample::broken(musts(&Figures(rows)))
    }

    #[test]
    fn limits_themselves_hold() {
        assert_eq!(broken(&good()), [] as [&str; 0]);
        assert_eq!(musts(&Figures(&good())).len(), 10 * 4 + 6 + 1 + 3 + 8 + 2 * 6 + 6 + 1);
    }

    #[test]
    fn each_promise_can_break() {
        let count = good().iter().filter(|row| row.subject == KUMIKI).count();
        for i in 0..count {
            let mut rows = good();
            let slower = rows.iter_mut().filter(|row| row.subject == KUMIKI).nth(i).unwrap();
            slow_down(slower, 1.02);
            let (case, n) = (slower.case.clone(), slower.n);
            let broken = broken(&rows);
            assert!(!broken.is_empty(), "{case} × {n}");
            let expected = match case.split_once("_busy") {
                _ if case.starts_with("du_") => "du of /usr".to_owned(),
                Some((calls, _)) => calls.to_owned(),
                None => case,
            };
            assert!(broken.iter().all(|text| text.starts_with(&expected)), "{broken:?}");
        }
    }

    #[test]
    fn the_fastest_ring_counts_and_is_named() {
        let mut rows = good();
        let ring = rows.iter_mut().find(|r| r.case == "statx" && r.subject == "io_uring_sqpoll");
        let ring = ring.unwrap();
        slow_down(ring, 800.0 / ring.median);
        assert_eq!(broken(&rows), ["statx × 300 ÷ io_uring_sqpoll: 0.600 ×, half a loop 0.625"]);
    }

    #[test]
    fn the_best_walker_counts_and_none_may_be_missing() {
        let mut rows = good();
        rows.iter_mut().find(|row| row.subject == "dua").unwrap().median = 60.0;
        assert_eq!(broken(&rows), ["du of /usr, warm, ÷ the best of jwalk, ignore, dua: 0.917 ×"]);
        rows.retain(|row| row.subject != "dua");
        assert_eq!(broken(&rows).len(), 1);
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        assert_eq!(broken(&[]).len(), 77);
        let mut rows: Vec<Row> = good().into_iter().filter(|row| row.subject != LOOP).collect();
        assert_eq!(broken(&rows).len(), 1);
        rows.iter_mut().for_each(|row| row.of_plain.clear());
        assert_eq!(broken(&rows).len(), 49);
    }

    #[test]
    fn a_loop_beside_each_turn_is_what_counts_and_the_worst_turn_is_shown() {
        let mut rows = good();
        let plain = rows.iter_mut().find(|row| row.subject == LOOP && row.n == 300).unwrap();
        slow_down(plain, 2.0);
        assert_eq!(musts(&Figures(&rows))[3].figure, "0.600 ×, turns 0.540 to 1.200");
    }

    #[test]
    fn instances_are_compared_pair_by_pair() {
        for (slow, fails) in [(1, 0), (2, 1)] {
            let mut rows = good();
            let kumiki = rows.iter_mut().find(|row| row.subject == KUMIKI && row.n == 300);
            kumiki.unwrap().instances[..slow].iter_mut().for_each(|instance| *instance *= 2.0);
            assert_eq!(broken(&rows).len(), fails);
        }
    }

    #[test]
    fn what_bare_threads_give_is_said_beside() {
        let mut rows = good();
        rows.push(row("getppid", BARE, 300, 550.0));
        let musts = musts(&Figures(&rows));
        for (at, said) in
            [(3, ", bare threads 0.550"), (4, ", bare threads 0.917, half a loop 0.833")]
        {
            let figure = &musts[at].figure;
            assert!(figure.ends_with(said), "{figure}");
        }
        let fsync = musts.iter().find(|must| must.name.starts_with("fsync_dirty × 300 ÷ io"));
        assert!(!fsync.unwrap().figure.contains("half"));
    }
}
