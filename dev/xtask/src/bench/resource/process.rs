//! Promises of processes.

use super::super::judge::Figures;
use super::super::{Must, promises};

pub(super) fn musts(figures: &Figures) -> Vec<Must> {
    promises::musts("process", figures)
}

#[cfg(test)]
mod tests {
    use super::super::super::judge::{KUMIKI, NOT_MEASURED};
    use super::*;
    use crate::bench::Row;

    /// MiB of a large parent.
    const LARGE: usize = 8192;

    /// The paper's shared type.
    const SHARED: &str = "kumiki/shared";
    /// Children made by a spawn server, which does the work that else is the caller's.
    const SERVER: &str = "kumiki/server";
    /// MiB of a small parent.
    const SMALL: usize = 1;

    fn row(case: &str, subject: &str, n: usize, median: f64) -> Row {
        Row {
            case: case.to_owned(),
            subject: subject.to_owned(),
            n,
            unit: "ns".to_owned(),
            median,
            ..Row::default()
        }
    }

    /// Rows by which every promise just holds.
    fn good() -> Vec<Row> {
        vec![
            row("spawn", KUMIKI, SMALL, 40_000.0),
            row("spawn", KUMIKI, LARGE, 44_000.0),
            row("spawn", "posix_spawn", LARGE, 55_000.0),
            row("spawn", "bare", LARGE, 40_000.0),
            row("spawn", "fork_exec", LARGE, 132e6),
            row("spawn_call", SERVER, LARGE, 4000.0),
            row("spawn_servers", KUMIKI, 1, 45_000.0),
            row("spawn_servers", KUMIKI, 2, 30_000.0),
            row("spawn_servers", "bare", 2, 20_000.0),
            row("process_pair", KUMIKI, 2, 100.0),
            row("process_pair", SHARED, 2, 100.0),
            row("python_spawn", KUMIKI, LARGE, 1.0),
            row("python_spawn", "subprocess", LARGE, 100.0),
        ]
    }

    fn broken(rows: &[Row]) -> Vec<String> {
        let all = musts(&Figures(rows)).into_iter().filter(|must| !must.holds);
        all.map(|must| must.figure).collect()
    }

    #[test]
    fn limits_themselves_hold_and_each_promise_can_break() {
        assert_eq!(broken(&good()), [] as [&str; 0]);
        for (case, n, median, expected) in [
            ("spawn", SMALL, 39_000.0, "1.128 ×"),
            ("spawn_servers", 2, 31_000.0, "1.452 × one, 0.645 × two bare processes"),
            ("process_pair", 2, 101.0, "0.990 ×"),
            ("python_spawn", LARGE, 1.1, "0.01100 ×"),
        ] {
            let mut rows = good();
            let its = |row: &&mut Row| row.case == case && row.subject == KUMIKI && row.n == n;
            rows.iter_mut().find(its).unwrap().median = median;
            assert_eq!(broken(&rows), [expected], "{case}");
        }
        let mut rows = good();
        rows[5].median = 4100.0;
        assert_eq!(broken(&rows), ["4.100 µs"]);
        let mut rows = good();
        rows[1].median = 44_500.0;
        let expected =
            ["1.113 ×", "2966.292 ×", "0.809 × posix_spawn, 1.113 × bare"].map(str::to_owned);
        assert_eq!(broken(&rows), expected);
    }

    #[test]
    fn the_other_figure_is_enough_too() {
        let mut rows = good();
        rows[2].median = 50_000.0;
        rows[3].median = 43_000.0;
        assert_eq!(broken(&rows), [] as [&str; 0]);
        rows[7].median = 40_000.0;
        rows[8].median = 40_000.0;
        assert_eq!(broken(&rows), [] as [&str; 0]);
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        assert_eq!(broken(&[]), vec![NOT_MEASURED; 7]);
    }
}
