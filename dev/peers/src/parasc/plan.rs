//! Who is asked for what, and how often.

use anyhow::Result;
use tempfile::TempDir;

use super::request::{Batch, Kind};
use super::scratch;
use crate::run::{Phase, Plan};

/// The plain way.
pub(super) const LOOP: &str = "loop";
/// The same beside requests that are handed over one by one.
pub(super) const PLAIN: &str = "plain";
/// Kumiki's batches beside these.
pub(super) const RUN: &str = "kumiki/run";
/// The plain way by functions of the C library.
pub(super) const LOOP_OF_LIBC: &str = "loop/libc";

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
    LOOP_OF_LIBC,
    RUN,
    PLAIN,
    BARE,
    "tokio",
    "rayon",
    #[cfg(feature = "peers")]
    "crossbeam",
];

/// Subjects that this machine allows.
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
/// Of requests that are handed over one by one.
const ONE_BY_ONE: &[usize] = &[1, 10, 50, 300];
/// Other processes that keep cpus busy.
const BUSY: [u8; 4] = [1, 2, 4, 8];

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

    const RECENT: &'static [&'static str] = &[
        "pread_cold",
        "pread_cold_warmed",
        "unlink_one_busy1",
        "unlink_one_busy2",
        "statx_busy1",
        "statx_busy2",
        "statx_busy4",
        "statx_busy8",
        "own_threads",
        "by_hand",
        "submit",
    ];

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
        let batches = batches.chain(of([Kind::ByHand, Kind::Submit], ONE_BY_ONE));
        let batches = batches.chain([(Kind::OwnThreads, 300)]);
        let batches = batches.chain(BUSY.map(|busy| (Kind::StatxBusy(busy), 300)));
        let phase = |(i, (kind, n))| {
            // Turns differ by a tenth, and the median of 20 is off by 0.03 at times.
            // The slowest, which take most of the time, have musts far from a loop.
            // Instances in even numbers: half of them have the cpus swapped.
            let (rounds, turns) = match (kind, n) {
                (Kind::FsyncDirty | Kind::Nanosleep, 100..) => (18, 3),
                // Twenty processes, of which nineteen count.
                (Kind::PreadCold | Kind::PreadColdWarmed, _) => (20, 1),
                (kind, _) if kind.busy() > 0 => (42, 3),
                (_, 2..) if slow.contains(&kind) => (42, 3),
                // The shortest differ most between processes.
                (_, 1) => (60, 2),
                _ => (80, 4),
            };
            Phase {
                // More than a phase has.
                case: Batch { kind, n, instance: i * 100, plain: false },
                rounds,
                base: Some(if kind.is_one_by_one() { PLAIN } else { LOOP }),
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
            kind if kind.is_one_by_one() => ["kumiki", RUN, PLAIN].contains(&subject),
            Kind::OwnThreads => ["kumiki", LOOP, BARE].contains(&subject),
            // Beside them only.
            _ if [RUN, PLAIN].contains(&subject) => false,
            _ if subject == LOOP_OF_LIBC => {
                let told = [Kind::Getppid, Kind::PreadOwn, Kind::Statx, Kind::OpenClose];
                told.contains(&batch.kind)
            }
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

    #[test]
    fn requests_one_by_one_are_beside_batches_and_plain_calls() {
        let plan = Parasc::new().unwrap();
        for kind in [Kind::ByHand, Kind::Submit] {
            let batch = Batch { kind, n: 10, instance: 0, plain: false };
            let asked = plan.subjects().into_iter().filter(|subject| plan.asks(batch, subject));
            assert_eq!(asked.collect::<Vec<_>>(), ["kumiki", RUN, PLAIN]);
        }
        let batch = Batch { kind: Kind::Statx, n: 10, instance: 0, plain: false };
        assert!(!plan.asks(batch, PLAIN) && plan.asks(batch, LOOP_OF_LIBC));
    }
}
