//! Resources owned per core beside allocators, channels and locks, measured by `dev/bench/`,
//! and what they promise of it.

use anyhow::Result;

use super::judge::{Figures, measured};
use super::{BenchOutcome, Must, promises};
use crate::debian;

mod durable;
mod process;

/// Measures every subject, or these cases; with `judge` says whether the promises hold.
pub(super) fn resource(judge: bool, cases: &[String]) -> Result<BenchOutcome> {
    debian::install("bench-resource")?;
    // From Python it is measured by way of the library for C.
    let mut outcome = measured("resource", cases)?;
    if judge {
        let figures = Figures(&outcome.rows);
        outcome.musts = musts(&figures);
        outcome.musts.extend(process::musts(&figures));
        outcome.musts.extend(durable::musts(&figures));
    }
    Ok(outcome)
}

fn musts(figures: &Figures) -> Vec<Must> {
    promises::musts("resource", figures)
}

#[cfg(test)]
mod tests {
    use super::super::judge::KUMIKI;
    use super::*;
    use crate::bench::{Row, sample};

    /// The paper's two types.
    const SHARED: &str = "kumiki/shared";
    /// A space that is mapped once.
    const MAPPED: &str = "kumiki/mapped_once";

    fn row(case: &str, subject: &str, n: usize, median: f64) -> Row {
        let of_plain = vec![1.025_641, 1.0, 3.0];
        Row { of_plain, ..sample::row(case, subject, n, median) }
    }

    /// A row of two cores, which together take so much of what one takes.
    fn by_cores(case: &str, subject: &str, of_one: f64) -> Row {
        Row { of_plain: vec![of_one], ..sample::row(case, subject, 2, 1.0) }
    }

    /// Rows by which every promise just holds.
    fn good() -> Vec<Row> {
        vec![
            row("alloc_4k", KUMIKI, 1, 3.0),
            row("alloc_4k", "tcmalloc", 1, 5.0),
            row("alloc_4k", "glibc", 1, 30.0),
            row("alloc_4k", KUMIKI, 2, 3.0),
            row("alloc_4k", "tcmalloc", 2, 5.0),
            row("alloc_4k", "glibc", 2, 30.0),
            row("alloc_4k_batch", KUMIKI, 256, 10.0),
            row("alloc_4k_batch", "tcmalloc", 256, 10.0),
            row("free_remote", KUMIKI, 9, 50.0),
            row("free_remote", "snmalloc", 9, 100.0),
            row("memory_pair", KUMIKI, 2, 50.0),
            row("memory_pair", SHARED, 2, 50.0),
            Row { median: 5000.0, ..by_cores("memory_paper", KUMIKI, 0.526) },
            row("memory_paper", SHARED, 2, 5000.0),
            by_cores("memory_paper", MAPPED, 0.555),
            by_cores("memory_paper", "plain_processes", 0.5),
            by_cores("process_paper", KUMIKI, 0.526),
            by_cores("process_paper", "plain_processes", 0.5),
            row("alloc_4k_busy", KUMIKI, 1, 11.0),
            row("alloc_4k_busy", "glibc", 1, 10.0),
            row("memory_pair_busy", KUMIKI, 1, 11.0),
            row("memory_pair_busy", SHARED, 1, 10.0),
            row("core_call_busy", KUMIKI, 1, 110.0),
            row("core_call_busy", "mutex_map", 1, 100.0),
            row("core_call_busy", KUMIKI, 8, 11.0),
            row("core_call_busy", "mutex_map", 8, 10.0),
            row("kept", KUMIKI, 64, 160.0),
            row("core_call", KUMIKI, 1, 121.0),
            row("core_call", KUMIKI, 32, 50.0),
            row("core_call", "bare", 32, 45.0),
            row("core_each", KUMIKI, 32, 50.0),
            row("core_each", "mutex_map", 32, 100.0),
            row("core_call", "crossbeam_channel", 32, 100.0),
            row("local_call", KUMIKI, 9, 15.0),
            row("local_call", "direct", 9, 10.0),
            row("local_call", "mutex_map", 9, 12.5),
            row("lookup", KUMIKI, 9, 60.0),
            row("lookup", "mutex_map", 9, 50.0),
            row("line_call", KUMIKI, 9, 130.0),
            row("place_call", KUMIKI, 9, 115.0),
            row("place_call", "nats", 9, 100.0),
            row("control_home", KUMIKI, 9, 13.0),
            row("control_home", "interface", 9, 10.0),
            row("control_core", KUMIKI, 9, 10.5),
            row("control_core", "interface", 9, 10.0),
            row("control_process", KUMIKI, 9, 130.0),
            row("place_call", "kumiki/control", 9, 115.0),
            row("place_call", "kumiki/own", 9, 60.0),
            row("place_batch", KUMIKI, 256, 2.0),
            row("place_batch", "nats", 256, 10.0),
        ]
    }

    fn broken(rows: &[Row]) -> Vec<String> {
        sample::broken(musts(&Figures(rows)))
    }

    #[test]
    fn limits_themselves_hold() {
        assert_eq!(broken(&good()), [] as [&str; 0]);
        assert_eq!(musts(&Figures(&good())).len(), 32);
    }

    #[test]
    fn each_promise_can_break() {
        for (case, n, median, expected) in [
            ("alloc_4k", 1, 3.1, &["÷ tcmalloc: 0.620 ×", "÷ glibc: 0.103 ×"][..]),
            ("alloc_4k", 2, 3.1, &["÷ tcmalloc: 0.620 ×", "÷ glibc: 0.103 ×"]),
            ("alloc_4k_batch", 256, 10.1, &["÷ tcmalloc: 1.010 ×"]),
            ("free_remote", 9, 51.0, &["÷ snmalloc: 0.510 ×"]),
            ("memory_pair", 2, 51.0, &["throughput: 0.980 ×"]),
            ("memory_paper", 2, 5100.0, &["throughput: 0.980 ×"]),
            ("alloc_4k_busy", 1, 11.1, &["÷ glibc: 1.110 × at n = 1"]),
            ("memory_pair_busy", 1, 11.1, &["÷ kumiki/shared: 1.110 × at n = 1"]),
            ("core_call_busy", 8, 11.1, &["÷ mutex_map: 1.110 × at n = 8"]),
            ("kept", 64, 161.0, &["÷ what lived: 2.516 ×"]),
            ("core_call", 1, 122.0, &["handler): 1.109 ×"]),
            ("core_call", 32, 51.0, &["2.373 × one at a time, 0.882 × two bare threads"]),
            ("core_each", 32, 51.0, &["crossbeam_channel: 0.510 ×", "mutex_map: 0.510 ×"]),
            ("local_call", 9, 15.1, &["uncontended mutexed map: 1.208 ×", "direct call: 5.100 ns"]),
            ("lookup", 9, 61.0, &["uncontended mutexed map: 1.220 ×", "name: 61.000 ns"]),
            ("line_call", 9, 131.0, &["raw round trip: 1.310 ×"]),
            ("place_call", 9, 116.0, &["request and reply: 1.160 ×"]),
            ("control_home", 9, 13.1, &["the interface: 1.310 ×"]),
            ("control_core", 9, 10.6, &["the interface: 1.060 ×"]),
            ("control_process", 9, 131.0, &["raw round trip: 1.310 ×"]),
            ("place_batch", 256, 2.1, &["request and reply: 0.210 ×"]),
        ] {
            let mut rows = good();
            let its = |row: &&mut Row| row.case == case && row.subject == KUMIKI && row.n == n;
            rows.iter_mut().find(its).unwrap().median = median;
            let broken = broken(&rows);
            assert_eq!(broken.len(), expected.len(), "{case}: {broken:?}");
            for (broken, expected) in broken.iter().zip(expected) {
                assert!(broken.ends_with(expected), "{expected}: {broken}");
            }
        }
    }

    #[test]
    fn the_gain_is_of_turns_side_by_side() {
        let mut rows = good();
        rows[3].of_plain = vec![1.1, 1.1, 1.0];
        assert_eq!(broken(&rows), ["4 KiB, gain from 1 to 2 cores: 1.818 ×"]);
        rows[3].of_plain.clear();
        assert_eq!(broken(&rows), ["4 KiB, gain from 1 to 2 cores: not measured"]);
    }

    #[test]
    fn a_further_core_gains_nearly_as_much_as_the_plain_way_s() {
        let mut rows = good();
        for row in rows.iter_mut().filter(|r| r.case == "process_paper" && r.subject == KUMIKI) {
            row.of_plain = vec![0.53];
        }
        let name = "process as in the paper, gain a core ÷ that of the plain way";
        assert_eq!(broken(&rows), [format!("{name}: 0.943 ×")]);
    }

    #[test]
    fn a_space_that_is_mapped_once_gains_nearly_all_of_a_core() {
        let mut rows = good();
        let mapped = rows.iter_mut().find(|row| row.subject == MAPPED).unwrap();
        mapped.of_plain = vec![0.56];
        let broken = broken(&rows);
        assert!(broken.len() == 1 && broken[0].contains("mapped once"), "{broken:?}");
    }

    #[test]
    fn three_times_one_at_a_time_is_enough_too() {
        let mut rows = good();
        let row = rows.iter_mut().find(|row| row.subject == "bare").unwrap();
        row.median = 10.0;
        let one = rows.iter_mut().find(|row| row.case == "core_call" && row.n == 1).unwrap();
        (one.median, one.limit) = (150.0, Some(150.0));
        assert_eq!(broken(&rows), [] as [&str; 0]);
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        assert_eq!(broken(&[]).len(), 32);
        let without = |subject: &str| {
            let rows: Vec<Row> = good().into_iter().filter(|r| r.subject != subject).collect();
            broken(&rows).len()
        };
        assert_eq!((without("tcmalloc"), without("snmalloc"), without("direct")), (3, 1, 2));
    }
}
