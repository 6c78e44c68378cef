//! What was asked and used, as the library of each process of a command adds it up in one file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

/// The variable that tells the library of the file.
pub(super) const VARIABLE: &str = "KUMIKI_AHEAD_COUNTS";
/// Length of the file, which the library checks.
const BYTES: u64 = 4096;

/// The file, while the command runs.
#[derive(Debug)]
pub(super) struct Counts(NamedTempFile);

impl Counts {
    pub(super) fn new() -> Result<Self> {
        let make = || {
            let file = NamedTempFile::with_prefix("kumiki-ahead-")?;
            file.as_file().set_len(BYTES)?;
            std::io::Result::Ok(file)
        };
        Ok(Counts(make().context("making a file for counts in the folder for temporary files")?))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(super) fn read(&self) -> Result<Sums> {
        let path = self.path();
        let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Sums::of(&bytes))
    }
}

/// The counts, in the order of `apps/ahead/src/counts.rs`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    programs: u64,
    pools: u64,
    visits: u64,
    listed: u64,
    warm: u64,
    asked: u64,
    used: u64,
    opened: u64,
    opened_used: u64,
    listed_ahead: u64,
    listed_ahead_used: u64,
    bytes: u64,
    ahead_calls: u64,
    ahead_ns: u64,
    other_calls: u64,
    other_ns: u64,
}

impl Sums {
    fn of(bytes: &[u8]) -> Self {
        let count = |at: usize| {
            let word = bytes.get(at * 8..).and_then(|rest| rest.first_chunk::<8>());
            word.map_or(0, |word| u64::from_ne_bytes(*word))
        };
        Sums {
            programs: count(0),
            pools: count(1),
            visits: count(2),
            listed: count(3),
            warm: count(4),
            asked: count(5),
            used: count(6),
            opened: count(7),
            opened_used: count(8),
            listed_ahead: count(9),
            listed_ahead_used: count(10),
            bytes: count(11),
            ahead_calls: count(12),
            ahead_ns: count(13),
            other_calls: count(14),
            other_ns: count(15),
        }
    }

    /// Sentences for a person.
    pub(super) fn sentences(&self) -> Vec<String> {
        if self.programs == 0 {
            return vec!["ahead: no program has loaded the library".to_owned()];
        }
        if self.pools == 0 {
            return vec![format!(
                "ahead: nothing was asked: of {} folders those that were tried were in memory, or in a file \
                 system that does not sleep",
                self.visits
            )];
        }
        let mut said = vec![format!(
            "ahead: asked for {} names ({} used), opened {} files ({} used) and read {} MiB of them, listed {} \
             folders ({} used)",
            self.asked,
            self.used,
            self.opened,
            self.opened_used,
            self.bytes >> 20,
            self.listed_ahead,
            self.listed_ahead_used
        )];
        said.extend(self.estimate());
        said
    }

    /// Estimates the time that calls would have slept without, by the others' time.
    fn estimate(&self) -> Option<String> {
        let ahead = self.ahead_ns.checked_div(self.ahead_calls)?;
        let other = self.other_ns.checked_div(self.other_calls)?;
        let spared = u128::from(other.saturating_sub(ahead)) * u128::from(self.ahead_calls);
        Some(format!(
            "ahead: its calls on these took {} µs each, {} others {} µs: it has slept about {:.1} s less, an \
             estimate by these alone",
            ahead / 1000,
            self.other_calls,
            other / 1000,
            spared as f64 / 1e9
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_stand_in_the_order_in_which_the_library_has_them() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ahead/src/counts.rs");
        // A packed crate has not the other one beside it.
        let Ok(source) = fs::read_to_string(source) else { return };
        let names = "Programs Pools Visits Listed Warm Asked Used Opened OpenedUsed ListedAhead \
                     ListedAheadUsed Bytes AheadCalls AheadNs OtherCalls OtherNs";
        for (at, name) in names.split_whitespace().enumerate() {
            assert!(source.contains(&format!("    {name} = {at},\n")), "{name} {at}");
        }
    }

    #[test]
    fn what_is_said_names_what_was_used_and_is_an_estimate() {
        let said = |sums: Sums| sums.sentences().join("\n");
        assert!(said(Sums::default()).contains("no program"));
        assert!(said(Sums { programs: 2, visits: 7, ..Sums::default() }).contains("of 7 folders"));
        let sums = Sums {
            programs: 1,
            pools: 1,
            asked: 100,
            used: 90,
            bytes: 3 << 20,
            ahead_calls: 90,
            ahead_ns: 90 * 10_000,
            other_calls: 10,
            other_ns: 10 * 510_000,
            ..Sums::default()
        };
        let text = said(sums);
        assert!(text.contains("100 names (90 used)") && text.contains("3 MiB"), "{text}");
        assert!(text.contains("took 10 µs each, 10 others 510 µs"), "{text}");
        assert!(text.contains("0.0 s less, an estimate"), "{text}");
    }

    #[test]
    fn a_file_that_is_too_short_is_zeros() {
        assert_eq!(Sums::of(&[1, 0, 0, 0, 0, 0, 0, 0, 5]), Sums { programs: 1, ..Sums::default() });
    }
}
