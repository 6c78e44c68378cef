//! Shadow threads beside their peers, measured by `dev/bench/`, and what they
//! promise of it.

use anyhow::Result;

use super::judge::{Figures, measured};
use super::{BenchOutcome, Must, promises};
use crate::debian;

/// Measures every subject; with `judge` says whether the promises hold.
pub(super) fn shadow(judge: bool, cases: &[String]) -> Result<BenchOutcome> {
    debian::install("bench-shadow")?;
    let mut outcome = measured("shadow", cases)?;
    if judge {
        outcome.musts = musts(&Figures(&outcome.rows));
    }
    Ok(outcome)
}

fn musts(figures: &Figures) -> Vec<Must> {
    promises::musts("shadow", figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Row;
    use crate::bench::sample::{self, row};

    /// Rows by which every promise just holds.
    fn good() -> Vec<Row> {
        let mut rows = vec![
            row("fork_join_null", "raw", 9, 100.0),
            row("fork_join_null", "kumiki", 9, 100.0),
            row("fork_join_null", "kumiki/bound", 9, 96.0),
            row("fork_join_null", "forkunion", 9, 140.0),
            row("fork_join_null", "openmp_active", 9, 300.0),
            row("fork_join_null", "rayon_join", 9, 300.0),
            row("fork_join_null", "rayon_scope", 9, 300.0),
            row("fork_call", "kumiki", 9, 30.0),
            row("fork_join_gap", "kumiki", 1_000_000, 5000.0),
            row("fork_join_gap", "park", 1_000_000, 5000.0),
            row("fork_join_gap", "kumiki", 10_000, 9000.0),
            row("fork_join_gap", "park", 10_000, 5000.0),
            row("idle_burn", "kumiki", 4, 0.000_99),
        ];
        for (n, kumiki) in [(1024, 102.0), (16 << 10, 99.0), (1 << 20, 60.0)] {
            rows.push(row("sum_f32", "kumiki", n, kumiki));
            rows.push(row("sum_f32", "sequential", n, 100.0));
        }
        for case in ["nbody_busy1", "nbody_busy2", "nbody_busy4", "nbody_busy8"] {
            rows.push(row(case, "kumiki", 128, 110.0));
            rows.push(row(case, "sequential", 128, 100.0));
        }
        // Beyond both ends of the promise: slower, and nobody minds.
        let copies = [(4096, 9.5), (1 << 20, 25.0), (64 << 20, 30.0), (256 << 20, 20.0)];
        for (n, kumiki) in copies {
            rows.push(row("copy_cold", "kumiki", n, kumiki));
            rows.push(row("copy_cold", "libc", n, 10.0));
            rows.push(row("copy_cold", "kumiki/awake", n, kumiki));
            rows.push(row("copy_cold", "kumiki/memcpy", n, 10.0));
            rows.push(row("copy_cold", "nontemporal_1t", n, 15.0));
        }
        let others =
            ["unaligned", "warm", "stale_start", "stale_half", "stale_ends", "fresh", "first"];
        for case in others.map(|what| format!("copy_{what}")) {
            rows.push(row(&case, "libc", 4096, 10.0));
            rows.push(row(&case, "kumiki", 4096, 9.5));
        }
        rows
    }

    fn broken(rows: &[Row]) -> Vec<String> {
        sample::broken(musts(&Figures(rows)))
    }

    fn changed(case: &str, subject: &str, n: usize, median: f64) -> Vec<String> {
        let mut rows = good();
        let row = rows.iter_mut().find(|r| r.case == case && r.subject == subject && r.n == n);
        row.unwrap().median = median;
        broken(&rows)
    }

    #[test]
    fn limits_themselves_hold() {
        // 25 ÷ 15 and 30 ÷ 15, both beyond 1.5.
        assert_eq!(broken(&good()), [] as [&str; 0]);
        assert_eq!(musts(&Figures(&good())).len(), 27);
    }

    #[test]
    fn each_promise_can_break() {
        for (case, subject, n, median, expected) in [
            ("fork_join_null", "forkunion", 9, 139.0, "faster than forkunion: 1.390 ×"),
            ("fork_join_null", "openmp_active", 9, 299.0, "faster than openmp_active: 2.990 ×"),
            ("fork_join_null", "rayon_join", 9, 299.0, "faster than rayon_join: 2.990 ×"),
            ("fork_join_null", "rayon_scope", 9, 299.0, "faster than rayon_scope: 2.990 ×"),
            ("fork_join_null", "kumiki/bound", 9, 95.0, "not bound ÷ bound: 1.053 ×"),
            ("fork_call", "kumiki", 9, 30.5, "helper spinning: 30.500 ns"),
            ("fork_join_gap", "kumiki", 1_000_000, 5100.0, "park/unpark: 1.020 ×"),
            ("idle_burn", "kumiki", 4, 0.001, "threshold: 0.00100 cpu"),
            ("sum_f32", "kumiki", 1024, 103.0, "any n, ÷ sequential: 1.030 × at n = 1024"),
            (
                "sum_f32",
                "kumiki",
                16 << 10,
                100.0,
                "16k elements, ÷ sequential: 1.000 × at n = 16384",
            ),
            ("nbody_busy1", "kumiki", 128, 111.0, "nbody_busy1, a team ÷ one thread: 1.110 ×"),
            ("nbody_busy8", "kumiki", 128, 111.0, "nbody_busy8, a team ÷ one thread: 1.110 ×"),
            ("copy_cold", "libc", 64 << 20, 13.0, "÷ libc: 2.308 × at n = 67108864"),
            ("copy_cold", "libc", 4096, 10.1, "copy_cold, any n, ÷ libc: 0.941 × at n = 4096"),
            (
                "copy_cold",
                "kumiki/memcpy",
                4096,
                10.1,
                "copy_cold, any n, kumiki/awake ÷ kumiki/memcpy: 0.941 × at n = 4096",
            ),
            ("copy_warm", "kumiki", 4096, 9.4, "copy_warm, any n, ÷ libc: 0.940 × at n = 4096"),
            (
                "copy_cold",
                "nontemporal_1t",
                1 << 20,
                17.0,
                "÷ nontemporal_1t: 1.471 × at n = 1048576",
            ),
        ] {
            let broken = changed(case, subject, n, median);
            assert_eq!(broken.len(), 1, "{expected}: {broken:?}");
            assert!(broken[0].ends_with(expected), "{expected}: {broken:?}");
        }
    }

    #[test]
    fn the_limit_of_two_threads_stands_beside_a_copy_and_bends_nothing() {
        let mut rows = good();
        // Of two cpus that share a link: the limit breaks the promise, too.
        for row in rows.iter_mut().filter(|row| row.case == "copy_cold") {
            if row.subject == "kumiki" && row.n == 64 << 20 {
                (row.median, row.limit) = (13.0, Some(72.4));
            }
        }
        rows.push(row("copy_cold", "nontemporal_2t", 64 << 20, 13.1));
        assert_eq!(
            broken(&rows),
            [
                "cold copy, 1-64 MB, ÷ libc: 1.300 × at n = 67108864, nontemporal 2t 1.310",
                "cold copy, 1-64 MB, ÷ nontemporal_1t: 0.867 × at n = 67108864, nontemporal 2t 0.873",
            ]
        );
    }

    #[test]
    fn the_round_trip_of_the_same_turns_is_the_limit() {
        let mut rows = good();
        rows[1].limit = Some(95.0);
        let broken_ones = broken(&rows);
        assert_eq!(broken_ones, ["hot null fork+join, median ÷ raw round trip: 1.053 ×"]);
        rows[1].limit = Some(100.0);
        rows[1].p99 = 401.0;
        assert_eq!(broken(&rows).len(), 1);
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        assert_eq!(broken(&[]).len(), 27);
        let without = |subject: &str| {
            let rows: Vec<Row> = good().into_iter().filter(|r| r.subject != subject).collect();
            broken(&rows)
        };
        assert_eq!(without("kumiki").len(), 26);
        assert_eq!(without("kumiki/awake").len(), 1);
        assert_eq!(without("forkunion").len(), 1);
        assert_eq!(without("libc").len(), 9);
        let cold = "cold copy, 1-64 MB, ÷ libc: not measured at n = 1048576";
        assert_eq!(without("libc")[0], cold);
    }

    #[test]
    fn what_is_no_number_does_not_hold() {
        let broken = changed("sum_f32", "kumiki", 16 << 10, f64::NAN);
        assert_eq!(broken.len(), 2, "{broken:?}");
    }

    #[test]
    fn the_bench_s_json_is_read() {
        let json = r#"{"schema": 1, "machine": {"cpus": 2}, "rows": [{"case": "idle_burn",
            "subject": "park", "n": 4, "unit": "cpu", "median": 0.5, "p99": 0.5,
            "ci": [0.5, 0.5], "limit": 50.0, "base": null}]}"#;
        let outcome = BenchOutcome::read(json.as_bytes()).unwrap();
        assert_eq!((outcome.machine.cpus, outcome.rows[0].base), (2, None));
        assert!(outcome.musts.is_empty());
    }
}
