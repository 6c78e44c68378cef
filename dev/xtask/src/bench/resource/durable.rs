//! Promises of durable places.

use super::super::judge::Figures;
use super::super::{Must, promises};

pub(super) fn musts(figures: &Figures) -> Vec<Must> {
    promises::musts("durable", figures)
}

#[cfg(test)]
mod tests {
    use super::super::super::judge::{KUMIKI, NOT_MEASURED};
    use super::*;
    use crate::bench::{Row, sample};

    /// Rows by which every promise just holds.
    fn good() -> Vec<Row> {
        vec![
            sample::row("place_restart", KUMIKI, 1_000_000, 2000.0),
            sample::row("place_flushes", KUMIKI, 64, 1.0),
            sample::row("place_move", KUMIKI, 10_000, 50.0),
        ]
    }

    #[test]
    fn limits_themselves_hold_and_each_promise_can_break() {
        assert_eq!(sample::broken(musts(&Figures(&good()))), [] as [&str; 0]);
        for (at, above) in [2001.0, 1.1, 50.1].into_iter().enumerate() {
            let mut rows = good();
            rows[at].median = above;
            assert_eq!(sample::broken(musts(&Figures(&rows))).len(), 1, "{}", rows[at].case);
        }
        let unmeasured = sample::broken(musts(&Figures(&[])));
        assert!(unmeasured.len() == 3 && unmeasured.iter().all(|one| one.ends_with(NOT_MEASURED)));
    }
}
