//! Reads the clocks around an operation.

use std::iter::Sum;
use std::ops::Sub;

pub use kumiki_sys::clock::Clock;

use crate::error::Result;
use crate::schema::CpuTime;

/// Time of a number of operations together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Wall time, nanoseconds.
    pub wall_ns: f64,
    /// Processor time, nanoseconds.
    pub cpu: CpuTime,
    /// Energy, joules; 0 unless the workload reads a counter, for
    /// [`Unit::Watts`](crate::schema::Unit::Watts).
    pub joules: f64,
    /// Usage that a program of the workload's counted of itself and the children it waited for,
    /// while it was timed: no usage of this process has it.
    pub program: Counts,
}

/// Counts of `struct rusage` (getrusage(2)) between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Page faults without a disk.
    pub minor_faults: u64,
    /// Page faults for which a disk was read.
    pub major_faults: u64,
    /// Times the cpu was given up.
    pub voluntary_switches: u64,
    /// Times it was taken.
    pub involuntary_switches: u64,
    /// Reads from a disk, in blocks of 512 bytes.
    pub blocks_in: u64,
    /// Writes to a disk, in blocks of 512 bytes, counted when the page cache takes them.
    pub blocks_out: u64,
}

impl Counts {
    /// Each count by what `of` says of its field.
    pub fn each(of: impl Fn(fn(&libc::rusage) -> libc::c_long) -> u64) -> Self {
        Counts {
            minor_faults: of(|u| u.ru_minflt),
            major_faults: of(|u| u.ru_majflt),
            voluntary_switches: of(|u| u.ru_nvcsw),
            involuntary_switches: of(|u| u.ru_nivcsw),
            blocks_in: of(|u| u.ru_inblock),
            blocks_out: of(|u| u.ru_oublock),
        }
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Counts::default(), |a, b| Counts {
            minor_faults: a.minor_faults + b.minor_faults,
            major_faults: a.major_faults + b.major_faults,
            voluntary_switches: a.voluntary_switches + b.voluntary_switches,
            involuntary_switches: a.involuntary_switches + b.involuntary_switches,
            blocks_in: a.blocks_in + b.blocks_in,
            blocks_out: a.blocks_out + b.blocks_out,
        })
    }
}

/// The clocks. Wall time is read innermost, so that reading processor time
/// (a system call) does not count.
#[derive(Clone, Debug)]
pub struct Meter {
    clock: Clock,
}

impl Meter {
    /// A meter on this clock.
    pub fn new(clock: Clock) -> Self {
        Meter { clock }
    }

    /// The wall clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Times `operations`.
    #[inline]
    pub fn time(&self, operations: impl FnOnce() -> Result<()>) -> Result<Sample> {
        let cpu = processor_time();
        let start = self.clock.start();
        let outcome = operations();
        let end = self.clock.end();
        let cpu = processor_time() - cpu;
        outcome?;
        Ok(Sample { wall_ns: self.clock.ns(end.saturating_sub(start)), cpu, ..Sample::default() })
    }
}

/// Processor time used until now by this process and its waited children.
/// Resolution 1 µs (`struct rusage`).
fn processor_time() -> CpuTime {
    let own = usage(libc::RUSAGE_SELF);
    let children = usage(libc::RUSAGE_CHILDREN);
    CpuTime {
        user_ns: ns(own.ru_utime),
        system_ns: ns(own.ru_stime),
        children_ns: ns(children.ru_utime) + ns(children.ru_stime),
    }
}

/// `getrusage(2)` of this process (`RUSAGE_SELF`) or its children.
pub fn usage(who: libc::c_int) -> libc::rusage {
    // SAFETY: all-zero bytes are a valid `rusage`, a struct of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable and of the size the kernel writes. The call
    // can only fail for a bad `who` or pointer, and then leaves zeros.
    unsafe { libc::getrusage(who, &mut usage) };
    usage
}

/// Nanoseconds of a time of `struct rusage`.
pub fn ns(t: libc::timeval) -> f64 {
    t.tv_sec as f64 * 1e9 + t.tv_usec as f64 * 1e3
}

impl Sub for CpuTime {
    type Output = CpuTime;

    fn sub(self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns - earlier.user_ns,
            system_ns: self.system_ns - earlier.system_ns,
            children_ns: self.children_ns - earlier.children_ns,
        }
    }
}
