//! Making processes and programs: fork, exec, and the ways to do both at once.
//!
//! fork and exec are measured as the paper "Performance Evaluation of the UNIX
//! System Calls" (Nakamura and Noji, 1991) did, against the sizes that decide
//! their cost; the ways of starting a program against the memory of the one
//! that starts it. What ordinary programs pay for all three stands beside that.

mod exec;
mod fork;
mod ordinary;
mod raw;
pub(crate) mod spawn;
pub(crate) mod start;
mod sweep;

use kumiki_measure::case::{Case, Choice};

/// The cases.
pub(super) fn cases(choice: &Choice) -> Vec<Case> {
    let swept = [fork::cases, fork::cow_cases, fork::part_cases, exec::cases, exec::text_cases];
    let mut cases: Vec<_> = swept.iter().flat_map(|cases| cases(choice)).collect();
    // The others fork and exec themselves; here the measuring process is the parent.
    cases.extend(spawn::cases(choice).into_iter().map(Case::apart));
    cases.extend(ordinary::cases());
    cases
}

#[cfg(test)]
mod tests {
    use std::ops::Deref;
    use std::time::Duration;

    use kumiki_sys::clock::Clock;

    use super::*;
    use kumiki_measure::case::{Level, Place};
    use kumiki_measure::meter::Meter;

    /// A place with a scratch folder of its own.
    pub(super) struct TestPlace {
        place: Place,
        _folder: tempfile::TempDir,
    }

    impl Deref for TestPlace {
        type Target = Place;

        fn deref(&self) -> &Place {
            &self.place
        }
    }

    pub(super) fn place() -> TestPlace {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { cpu: 0, partner: None, scratch: folder.path().to_owned() };
        TestPlace { place, _folder: folder }
    }

    pub(super) fn meter() -> Meter {
        Meter::new(Clock::calibrate(Duration::from_millis(1)))
    }

    #[test]
    fn a_quick_run_stays_quick() {
        let quick = cases(&Choice::default()).iter().filter(|c| c.level == Level::Quick).count();
        assert!((50..=80).contains(&quick), "{quick} rows");
    }

    /// Runs once as the sampler will: every quick case sets up, runs and
    /// leaves neither a process nor a mapping behind.
    #[test]
    fn every_quick_case_runs() {
        let place = place();
        let meter = meter();
        for case in cases(&Choice::default()) {
            if case.level > Level::Quick {
                continue;
            }
            let outcome = (case.setup)(&place).and_then(|mut workload| {
                workload.overhead(2, &meter)?;
                workload.sample(2, &meter)
            });
            match outcome {
                Ok(sample) => assert!(sample.wall_ns > 0.0, "{} {:?}", case.name, case.params),
                Err(kumiki_measure::Error::Unsupported { .. }) => {}
                Err(e) => panic!("{} {:?}: {e}", case.name, case.params),
            }
        }
    }
}
