//! Parallel system calls beside their peers, measured by `dev/bench/`, and what
//! they promise of it.

use anyhow::Result;

use super::judge::{Figures, measured};
use super::{BenchOutcome, Must, promises};
use crate::debian;

/// Measures every subject, or these cases; with `judge` says whether the promises hold.
pub(super) fn parasc(judge: bool, cases: &[String]) -> Result<BenchOutcome> {
    debian::install("bench-parasc")?;
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

fn musts(figures: &Figures) -> Vec<Must> {
    promises::musts("parasc", figures)
}

#[cfg(test)]
mod tests {
    use super::super::judge::KUMIKI;
    use super::*;
    use crate::bench::{Row, sample};

    /// The plain way, and threads that do nothing but the calls.
    const LOOP: &str = "loop";
    const BARE: &str = "bare_threads";
    const SIZES: [usize; 4] = [1, 10, 50, 300];
    const NOT_SLOWER: [f64; 4] = [1.02, 1.05, 1.05, 1.05];
    /// Limits ÷ a loop at each size, and ÷ the best ring at the largest, as the file has them.
    const PROMISES: [(&str, [f64; 4], Option<f64>); 10] = [
        ("getppid", [1.02, 1.1, 0.70, 0.60], Some(1.0)),
        ("read_zero_own", [1.02, 0.9, 0.65, 0.53], Some(0.65)),
        ("pread_own", [1.02, 0.9, 0.65, 0.50], Some(0.6)),
        ("statx", [1.02, 0.7, 0.55, 0.48], Some(0.3)),
        ("open_close", [1.02, 0.95, 0.75, 0.66], Some(0.8)),
        ("fsync_dirty", [1.05, 0.3, 0.2, 0.12], Some(0.7)),
        ("mmap", NOT_SLOWER, None),
        ("unlink_one", NOT_SLOWER, None),
        ("read_zero_one", NOT_SLOWER, None),
        ("pread_one", NOT_SLOWER, None),
    ];

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
        for (case, of_loop, of_ring) in PROMISES {
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
        for busy in [1, 2, 4, 8] {
            let statx = row(&format!("statx_busy{busy}"), KUMIKI, 300, 1100.0);
            rows.push(Row { of_plain: vec![1.0, 1.1, 3.0], ..statx });
        }
        for busy in [1, 2, 4, 8, 16, 32] {
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
        assert_eq!(broken(&rows), ["statx × 300 ÷ io_uring_sqpoll: 0.600 ×"]);
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
        let musts = musts(&Figures(&rows));
        let must = musts.iter().find(|must| must.name == "getppid × 300 ÷ loop").unwrap();
        assert_eq!(must.figure, "0.600 ×, turns 0.540 to 1.200");
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
        for (name, said) in [
            ("getppid × 300 ÷ loop", ", bare threads 0.550"),
            ("getppid × 300 ÷ io_uring_defer", ", bare threads 0.917"),
        ] {
            let must = musts.iter().find(|must| must.name == name).unwrap();
            assert!(must.figure.ends_with(said), "{}", must.figure);
        }
    }
}
