//! What a running program says, decoded: the layout is `common.s`'s.

use std::io;

use crate::meter::{Counts, Sample};
use crate::schema::CpuTime;

/// Bytes of a stamp: `struct timespec`, then `struct rusage` of the program
/// and of its waited children.
pub(crate) const STAMP: usize = 16 + 2 * RUSAGE;
/// Bytes of an answer.
pub(super) const BYTES: usize = 24 + 2 * STAMP;
/// `sizeof(struct rusage)`, fixed by the kernel's ABI.
const RUSAGE: usize = 144;

const _: () = assert!(size_of::<libc::rusage>() == RUSAGE);

/// What a program did with a command.
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
    own: Usage,
    children: Usage,
}

#[derive(Clone, Copy, Debug)]
struct Usage {
    user_us: i64,
    system_us: i64,
    counts: Counts,
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

    /// What went wrong in the program, in words.
    pub(super) fn failure(&self) -> Option<String> {
        let call = match self.at as i64 {
            libc::SYS_fork => "fork",
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
        let ns = |time: fn(&Usage) -> i64, of: fn(&Stamp) -> &Usage| {
            (time(of(&self.end)) - time(of(&self.start))) as f64 * 1e3
        };
        Sample {
            wall_ns: (self.end.clock_ns - self.start.clock_ns) as f64,
            cpu: CpuTime {
                user_ns: ns(|u| u.user_us, |s| &s.own),
                system_ns: ns(|u| u.system_us, |s| &s.own),
                children_ns: ns(|u| u.user_us + u.system_us, |s| &s.children),
            },
            program: self.counts(),
            ..Sample::default()
        }
    }

    /// What it and its children counted between the stamps.
    fn counts(&self) -> Counts {
        let of = |count: fn(&Counts) -> u64| {
            let at = |stamp: &Stamp| count(&stamp.own.counts) + count(&stamp.children.counts);
            at(&self.end).saturating_sub(at(&self.start))
        };
        Counts {
            minor_faults: of(|c| c.minor_faults),
            major_faults: of(|c| c.major_faults),
            voluntary_switches: of(|c| c.voluntary_switches),
            involuntary_switches: of(|c| c.involuntary_switches),
            blocks_in: of(|c| c.blocks_in),
            blocks_out: of(|c| c.blocks_out),
        }
    }
}

impl Stamp {
    fn parse(bytes: &[u8]) -> Self {
        Stamp {
            clock_ns: word(bytes, 0) * 1_000_000_000 + word(bytes, 8),
            own: Usage::parse(&bytes[16..]),
            children: Usage::parse(&bytes[16 + RUSAGE..]),
        }
    }
}

impl Usage {
    fn parse(bytes: &[u8]) -> Self {
        let us = |at| word(bytes, at) * 1_000_000 + word(bytes, at + 8);
        let count = |at| u64::try_from(word(bytes, at)).unwrap_or(0);
        Usage {
            user_us: us(std::mem::offset_of!(libc::rusage, ru_utime)),
            system_us: us(std::mem::offset_of!(libc::rusage, ru_stime)),
            counts: Counts {
                minor_faults: count(std::mem::offset_of!(libc::rusage, ru_minflt)),
                major_faults: count(std::mem::offset_of!(libc::rusage, ru_majflt)),
                voluntary_switches: count(std::mem::offset_of!(libc::rusage, ru_nvcsw)),
                involuntary_switches: count(std::mem::offset_of!(libc::rusage, ru_nivcsw)),
                blocks_in: count(std::mem::offset_of!(libc::rusage, ru_inblock)),
                blocks_out: count(std::mem::offset_of!(libc::rusage, ru_oublock)),
            },
        }
    }
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
        let text = answer(&[(0, 12), (8, libc::SYS_fork), (16, -11)]).failure().unwrap();
        assert!(text.contains("fork") && text.contains("12") && text.contains("os error 11"));
        let text = answer(&[(8, libc::SYS_wait4), (16, 9)]).failure().unwrap();
        assert!(text.contains("child") && text.contains("signal 9"), "{text}");
    }
}
