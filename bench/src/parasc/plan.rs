//! Who is asked for what, and how often.

use anyhow::Result;
use tempfile::TempDir;

use super::request::{Batch, Kind};
use super::scratch;
use crate::run::{Phase, Plan};

/// The plain way.
const LOOP: &str = "loop";

/// The same in a process of one thread, which uses descriptors without counting
/// (fdget, fs/file.c): a call is some 20 ns shorter there.
pub(super) const LOOP_OF_ONE: &str = "loop/one_thread";

/// No way that anybody could use, but what there is to be had here: two cpus, or
/// a disk asked by many at once.
pub(super) const BARE: &str = "bare_threads";

/// Subjects that need nothing of the machine.
const ANYWHERE: &[&str] = &[
    "kumiki",
    LOOP,
    LOOP_OF_ONE,
    BARE,
    "tokio",
    "rayon",
    #[cfg(feature = "peers")]
    "crossbeam",
];

/// Those that this machine allows.
fn rings() -> &'static [&'static str] {
    #[cfg(feature = "peers")]
    match io_uring::IoUring::new(1) {
        Ok(_) => return RINGS,
        Err(error) => eprintln!("io_uring is left out, as it is refused here: {error}"),
    }
    &[]
}

#[cfg(feature = "peers")]
const RINGS: &[&str] = &["io_uring", "io_uring_defer", "io_uring_registered", "io_uring_sqpoll"];

const SIZES: &[usize] = &[1, 5, 10, 50, 100, 300];

/// The plan, with the folder in which all subjects work.
pub(crate) struct Parasc {
    folder: TempDir,
}

impl Parasc {
    /// Makes the folder.
    pub(crate) fn new() -> Result<Self> {
        Ok(Parasc { folder: scratch::make()? })
    }
}

impl Plan for Parasc {
    type Case = Batch;

    const NAME: &'static str = "parasc";

    const RECENT: &'static [&'static str] =
        &["pread_cold", "pread_cold_warmed", "unlink_one_busy1", "unlink_one_busy2"];

    fn subjects(&self) -> Vec<&'static str> {
        [ANYWHERE, rings()].concat()
    }

    fn argument(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn phases(&self) -> Vec<Phase<Batch>> {
        let sizes = |kind| SIZES.iter().map(move |&n| (kind, n));
        let cheap = [
            Kind::Getppid,
            Kind::ReadZeroOwn,
            Kind::ReadZeroOne,
            Kind::PreadOwn,
            Kind::PreadOne,
            Kind::Statx,
            Kind::OpenClose,
            Kind::Mmap,
        ];
        // Those that take long, or must be prepared one by one.
        let slow = [Kind::Nanosleep, Kind::UnlinkMany, Kind::UnlinkOne, Kind::FsyncDirty];
        let batches = [(Kind::Handoff, 1)].into_iter();
        let batches = batches.chain(cheap.into_iter().chain(slow).flat_map(sizes));
        let of = |kinds: [Kind; 2], sizes: &'static [usize]| {
            kinds.into_iter().flat_map(move |kind| sizes.iter().map(move |&n| (kind, n)))
        };
        let batches = batches.chain(of([Kind::UnlinkOneBusy1, Kind::UnlinkOneBusy2], &[50, 300]));
        let batches = batches.chain(of([Kind::PreadCold, Kind::PreadColdWarmed], &[8, 32, 200]));
        let phase = |(i, (kind, n))| {
            // Turns differ by a tenth, and the median of 20 is off by 0.03 at times.
            // The slowest, which take most of the time, have musts far from a loop.
            // Instances in even numbers: half of them have the cpus swapped.
            let (rounds, turns) = match (kind, n) {
                (Kind::FsyncDirty | Kind::Nanosleep, 100..) => (18, 3),
                // Twenty processes, of which nineteen count.
                (Kind::PreadCold | Kind::PreadColdWarmed, _) => (20, 1),
                (Kind::UnlinkOneBusy1 | Kind::UnlinkOneBusy2, _) => (42, 3),
                (_, 2..) if slow.contains(&kind) => (42, 3),
                // The shortest differ most between processes.
                (_, 1) => (60, 2),
                _ => (80, 4),
            };
            Phase {
                // More than a phase has.
                case: Batch { kind, n, instance: i * 100, plain: false },
                rounds,
                base: Some(LOOP),
                turns_of_instance: Some(turns),
            }
        };
        batches.enumerate().map(phase).collect()
    }

    fn asks(&self, batch: Batch, subject: &str) -> bool {
        match batch.kind {
            Kind::Handoff => ["kumiki", BARE].contains(&subject),
            kind if kind.is_cold() => ["kumiki", LOOP, BARE].contains(&subject),
            kind if kind.busy() > 0 => ["kumiki", LOOP].contains(&subject),
            // It has none.
            Kind::Mmap => !subject.starts_with("io_uring"),
            _ => true,
        }
    }

    fn beside(&self, batch: Batch, subject: &str) -> Option<Batch> {
        // What stands ready in other subjects spins beside the loop.
        let both = subject == "kumiki" && batch.kind != Kind::Handoff && !batch.kind.is_cold();
        both.then_some(Batch { plain: true, ..batch })
    }

    fn next(&mut self, phase: &Phase<Batch>, round: usize) -> Batch {
        let instances = round / phase.turns_of_instance.unwrap_or(usize::MAX);
        Batch { instance: phase.case.instance + instances, ..phase.case }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::case::Case;

    #[test]
    fn every_instance_of_a_phase_has_a_number_of_its_own() {
        let mut plan = Parasc::new().unwrap();
        let mut seen = HashSet::new();
        for phase in plan.phases() {
            let turns = phase.turns_of_instance.unwrap();
            for round in 0..phase.rounds {
                let batch = plan.next(&phase, round);
                assert_eq!((batch.kind, batch.n), (phase.case.kind, phase.case.n));
                assert_eq!(seen.insert(batch.instance), round % turns == 0);
            }
            let instances = phase.rounds / turns;
            assert!(instances >= 3 && instances % 2 == 0, "{instances} of {:?}", phase.case);
        }
    }

    #[test]
    fn every_promised_size_is_measured() {
        let phases = Parasc::new().unwrap().phases();
        let kinds = "getppid read_zero_own read_zero_one pread_own pread_one statx open_close \
                     fsync_dirty unlink_many unlink_one mmap nanosleep";
        for kind in kinds.split_ascii_whitespace() {
            for n in [1, 5, 10, 50, 100, 300] {
                let is = |p: &&Phase<Batch>| p.case.name() == kind && p.case.size() == Some(n);
                assert_eq!(phases.iter().filter(is).count(), 1, "{kind} {n}");
            }
        }
    }

    #[test]
    fn a_ring_has_no_mmap() {
        let plan = Parasc::new().unwrap();
        let batch = |kind| Batch { kind, n: 1, instance: 0, plain: false };
        assert!(!plan.asks(batch(Kind::Mmap), "io_uring_defer"));
        assert!(plan.asks(batch(Kind::Mmap), "tokio"));
        assert!(!plan.asks(batch(Kind::Handoff), "tokio"));
    }
}
