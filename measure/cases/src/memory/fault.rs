//! Page faults, one an operation: every operation touches one page, or one
//! window of pages, that has no entry in the page tables yet.

use std::fs::File;
use std::path::Path;

use rustix::mm::{MapFlags, ProtFlags};

use crate::file::warm_file;
use crate::mapping::{HUGE_PAGE_BYTES, Mapping, PAGE_BYTES, Touch, huge_pages_allowed};
use kumiki_measure::case::{Case, Level, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

/// Memory that one sample takes at most.
const SAMPLE_BYTES: usize = 32 << 20;

/// Pages that one read fault on a file maps, as Linux comes
/// (`fault_around_bytes`, 64 KiB): touching one page in each such window makes
/// every touch a fault.
const FAULT_AROUND_PAGES: usize = 16;

/// The cases.
pub(super) fn cases() -> Vec<Case> {
    vec![
        anonymous(Touch::Write),
        anonymous(Touch::Read).level(Level::Default),
        file("shared", MapFlags::SHARED, 1),
        file("shared", MapFlags::SHARED, FAULT_AROUND_PAGES),
        file("private", MapFlags::PRIVATE, 1).level(Level::Default),
        file("private", MapFlags::PRIVATE, FAULT_AROUND_PAGES).level(Level::Default),
        copy_on_write(),
        huge(),
    ]
}

/// Touches one byte in each of `stride` bytes of a mapping made for the sample.
struct Faults<M> {
    map: M,
    touch: Touch,
    stride: usize,
}

impl<M: FnMut(usize) -> Result<Mapping>> Workload for Faults<M> {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        // Beyond the end of a mapped file a touch would kill.
        assert!(Some(iterations) <= self.max_batch(), "{iterations} faults in one sample");
        let mapping = (self.map)(iterations as usize * self.stride)?;
        meter.time(|| {
            mapping.touch(self.touch, self.stride);
            Ok(())
        })
    }

    fn max_batch(&self) -> Option<u64> {
        Some((SAMPLE_BYTES / self.stride) as u64)
    }
}

fn anonymous(touch: Touch) -> Case {
    let case = Case::new("memory.fault.anon", "first touch of a page of memory", move |_| {
        let map = |bytes| Ok(Mapping::anonymous(bytes, MapFlags::PRIVATE)?.ordinary_pages());
        Ok(Faults { map, touch, stride: PAGE_BYTES })
    });
    case.with("touch", touch.word()).asks(SAMPLE_BYTES as u64)
}

fn file(sharing: &'static str, flags: MapFlags, stride_pages: usize) -> Case {
    let about = "first read of a page of a mapped, cached file, every stride_pages pages";
    let case = Case::new("memory.fault.file", about, move |place| {
        let map = map_file(&place.scratch, ProtFlags::READ, flags)?;
        Ok(Faults { map, touch: Touch::Read, stride: stride_pages * PAGE_BYTES })
    });
    case.with("mapping", sharing).with("stride_pages", stride_pages).asks(SAMPLE_BYTES as u64)
}

fn copy_on_write() -> Case {
    let about = "first write to a page of a private mapping of a cached file: it is copied";
    let case = Case::new("memory.fault.cow", about, |place| {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let map = map_file(&place.scratch, access, MapFlags::PRIVATE)?;
        Ok(Faults { map, touch: Touch::Write, stride: PAGE_BYTES })
    });
    case.asks(SAMPLE_BYTES as u64)
}

/// Mappings of the first bytes of a cached file of [`SAMPLE_BYTES`].
fn map_file(
    scratch: &Path,
    access: ProtFlags,
    flags: MapFlags,
) -> Result<impl FnMut(usize) -> Result<Mapping> + use<>> {
    let file: File = warm_file(scratch, SAMPLE_BYTES as u64)?;
    Ok(move |bytes| Mapping::file(&file, bytes, access, flags))
}

fn huge() -> Case {
    let about = "first touch of a transparent huge page, 2 MiB";
    let case = Case::new("memory.fault.huge", about, |_| {
        huge_pages_allowed()?;
        Ok(HugeFaults)
    });
    case.asks(SAMPLE_BYTES as u64 + HUGE_PAGE_BYTES as u64)
}

/// First touches of huge pages. The kernel silently gives ordinary pages when
/// it has no huge one at hand, so each sample is checked.
struct HugeFaults;

impl Workload for HugeFaults {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let pages = iterations as usize;
        let mapping = Mapping::huge(pages * HUGE_PAGE_BYTES)?;
        let sample = meter.time(|| {
            mapping.touch(Touch::Write, HUGE_PAGE_BYTES);
            Ok(())
        })?;
        for page in 1..=pages {
            // Only the first byte was touched; the last page came with it or not.
            if !mapping.resident(page * HUGE_PAGE_BYTES - PAGE_BYTES)? {
                return Err(Error::unsupported(
                    "a transparent huge page",
                    "unfragmented free memory: `echo 1 > /proc/sys/vm/compact_memory` as root, \
                     or free some",
                ));
            }
        }
        Ok(sample)
    }

    fn max_batch(&self) -> Option<u64> {
        Some((SAMPLE_BYTES / HUGE_PAGE_BYTES) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kumiki_sys::clock::Clock;

    use super::*;
    use kumiki_measure::case::Place;
    use kumiki_measure::meter::usage;

    /// Minor faults of this thread during one sample of each case that
    /// `chosen` picks, with the operations the sample held.
    fn faults(chosen: impl Fn(&Case) -> bool) -> Vec<(i64, i64)> {
        let scratch = tempfile::tempdir().unwrap();
        let place = Place { cpu: 0, partner: None, scratch: scratch.path().to_owned() };
        let meter = Meter::new(Clock::calibrate(Duration::from_millis(1)));
        let of = |case: Case| {
            let mut workload = (case.setup)(&place).unwrap();
            let operations = 200;
            let before = usage(libc::RUSAGE_THREAD).ru_minflt;
            workload.sample(operations, &meter).unwrap();
            (usage(libc::RUSAGE_THREAD).ru_minflt - before, operations as i64)
        };
        let rows: Vec<_> = cases().into_iter().filter(chosen).map(of).collect();
        assert!(!rows.is_empty());
        rows
    }

    /// Faults of the harness itself (stack, meter) stay below this.
    const SLACK: i64 = 50;

    #[test]
    fn every_operation_is_one_fault() {
        let one_each = |case: &Case| {
            case.name == "memory.fault.anon"
                || case.name == "memory.fault.cow"
                || case.params.get("stride_pages") == Some(&FAULT_AROUND_PAGES.into())
        };
        for (faults, operations) in faults(one_each) {
            assert!((operations..operations + SLACK).contains(&faults), "{faults}/{operations}");
        }
    }

    #[test]
    fn the_fault_that_reads_a_file_maps_its_neighbours_too() {
        let neighbours = |case: &Case| case.params.get("stride_pages") == Some(&1_u64.into());
        for (faults, operations) in faults(neighbours) {
            assert!((1..operations / 2).contains(&faults), "{faults}/{operations}");
        }
    }
}
