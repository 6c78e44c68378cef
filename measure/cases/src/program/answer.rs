//! What a running program says, decoded: the layout is that of each processor's `common.s`.

use std::io;

use kumiki_measure::meter::{Counts, Sample, ns};
use kumiki_measure::schema::CpuTime;

/// Bytes of a stamp: `struct timespec`, then `struct rusage` of the program
/// and of its waited children.
pub(crate) const STAMP: usize = 16 + 2 * RUSAGE;
/// Bytes of an answer.
pub(super) const BYTES: usize = 24 + 2 * STAMP;
/// `sizeof(struct rusage)`, fixed by the kernel's ABI.
const RUSAGE: usize = 144;

/// Calls that make a child. aarch64 has clone(2) alone for both, which is told as `fork`.
#[cfg(target_arch = "x86_64")]
const FORK: i64 = libc::SYS_fork;
#[cfg(target_arch = "aarch64")]
const FORK: i64 = libc::SYS_clone;
/// Call that makes a child with its parent's memory.
#[cfg(target_arch = "x86_64")]
const VFORK: i64 = libc::SYS_vfork;
/// None: no call has this number.
#[cfg(target_arch = "aarch64")]
const VFORK: i64 = i64::MAX;

// musl's has room for more, which the kernel does not fill.
const _: () = assert!(size_of::<libc::rusage>() >= RUSAGE);

/// A program's answer to a command.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Children forked and waited for; the exec program does not count.
    pub(crate) done: u64,
    /// The system call that failed, if `error` is not 0.
    at: u64,
    /// 0, a negative errno, or a child's wait status.
    error: i64,
    start: Stamp,
    end: Stamp,
}

/// Clock and usage at one moment.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    clock_ns: i64,
    own: libc::rusage,
    children: libc::rusage,
}

impl Answer {
    /// Decodes what a program wrote.
    pub(super) fn parse(bytes: &[u8; BYTES]) -> Self {
        Answer {
            done: word(bytes, 0) as u64,
            at: word(bytes, 8) as u64,
            error: word(bytes, 16),
            start: Stamp::parse(&bytes[24..]),
            end: Stamp::parse(&bytes[24 + STAMP..]),
        }
    }

    /// Failure in the program, in words.
    pub(super) fn failure(&self) -> Option<String> {
        let call = match self.at as i64 {
            FORK => "fork",
            VFORK => "vfork",
            libc::SYS_execve => "execve",
            libc::SYS_mmap => "mmap of the anonymous memory",
            libc::SYS_madvise => "madvise(MADV_HUGEPAGE)",
            libc::SYS_wait4 => "wait for the child",
            libc::SYS_prctl => "prctl",
            _ => "a system call",
        };
        let what = match self.error {
            0 => return None,
            ..0 => io::Error::from_raw_os_error(-self.error as i32).to_string(),
            // Low seven bits of a wait status: the signal.
            _ => format!("it was killed by signal {}", self.error & 0x7f),
        };
        Some(format!("{call}: {what}, after {} operations", self.done))
    }

    /// The time between the stamps.
    pub(crate) fn sample(&self) -> Sample {
        let (start, end) = (&self.start, &self.end);
        let (user, system) = (|u: &libc::rusage| ns(u.ru_utime), |u: &libc::rusage| ns(u.ru_stime));
        Sample {
            wall_ns: (self.end.clock_ns - self.start.clock_ns) as f64,
            cpu: CpuTime {
                user_ns: user(&end.own) - user(&start.own),
                system_ns: system(&end.own) - system(&start.own),
                children_ns: user(&end.children) + system(&end.children)
                    - user(&start.children)
                    - system(&start.children),
            },
            // What it and its children counted between the stamps.
            program: Counts::each(|of| {
                let at = |stamp: &Stamp| of(&stamp.own) + of(&stamp.children);
                u64::try_from(at(end) - at(start)).unwrap_or(0)
            }),
            ..Sample::default()
        }
    }
}

impl Stamp {
    fn parse(bytes: &[u8]) -> Self {
        Stamp {
            clock_ns: word(bytes, 0) * 1_000_000_000 + word(bytes, 8),
            own: usage(&bytes[16..16 + RUSAGE]),
            children: usage(&bytes[16 + RUSAGE..16 + 2 * RUSAGE]),
        }
    }
}

fn usage(bytes: &[u8]) -> libc::rusage {
    assert_eq!(bytes.len(), RUSAGE);
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: so many bytes are there, and it is no smaller.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), usage.as_mut_ptr().cast(), RUSAGE) };
    // SAFETY: any bytes are a valid `rusage`, a struct of integers.
    unsafe { usage.assume_init() }
}

fn word(bytes: &[u8], at: usize) -> i64 {
    i64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(words: &[(usize, i64)]) -> Answer {
        let mut bytes = [0; BYTES];
        for (at, word) in words {
            bytes[*at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        Answer::parse(&bytes)
    }

    #[test]
    fn times_are_differences() {
        let end = 24 + STAMP;
        let answer = answer(&[
            (24, 7),                // start: 7.999999990 s
            (24 + 8, 999_999_990),  //
            (24 + 16 + 8, 10),      // own user 10 µs
            (end, 8),               // end: 8.000000010 s
            (end + 8, 10),          //
            (end + 16 + 8, 15),     // own user 15 µs
            (end + 16 + 24, 4),     // own system 4 µs
            (end + 16 + RUSAGE, 1), // children user 1 s
            (24 + 16 + 64, 3),      // minor faults: 3
            (end + 16 + 64, 10),    // then 10, and 5 of children
            (end + 16 + RUSAGE + 64, 5),
            (end + 16 + 88, 2), // blocks read
        ]);
        let sample = answer.sample();
        assert_eq!(sample.wall_ns, 20.0);
        assert_eq!(sample.cpu.user_ns, 5e3);
        assert_eq!(sample.cpu.system_ns, 4e3);
        assert_eq!(sample.cpu.children_ns, 1e9);
        let counts = Counts { minor_faults: 12, blocks_in: 2, ..Counts::default() };
        assert_eq!(sample.program, counts);
    }

    #[test]
    fn failures_are_put_in_words() {
        assert_eq!(answer(&[]).failure(), None);
        let text = answer(&[(0, 12), (8, FORK), (16, -11)]).failure().unwrap();
        assert!(text.contains("fork") && text.contains("12") && text.contains("os error 11"));
        let text = answer(&[(8, libc::SYS_wait4), (16, 9)]).failure().unwrap();
        assert!(text.contains("child") && text.contains("signal 9"), "{text}");
    }
}
