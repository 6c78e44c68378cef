//! Entering the kernel and coming back.

use std::hint::black_box;

use rustix::time::ClockId;

use kumiki_measure::case::{Case, Choice, Each, Level};
use kumiki_measure::error::{Error, Result};

/// Far above every number that Linux has given out, and not -1, which ptrace
/// and seccomp treat apart.
const NO_SUCH_CALL: libc::c_long = 1023;

/// The cases.
pub(super) fn cases(_choice: &Choice) -> Vec<Case> {
    vec![
        Case::new("entry.getppid", "a system call that does next to nothing", |_| {
            Ok(Each(|| {
                black_box(rustix::process::getppid());
                Ok(())
            }))
        }),
        Case::new(
            "entry.getppid.libc",
            "the same by the C library's function, as most programs make it",
            |_| {
                Ok(Each(|| {
                    // SAFETY: takes nothing, changes nothing and cannot fail.
                    black_box(unsafe { libc::getppid() });
                    Ok(())
                }))
            },
        ),
        Case::new(
            "entry.gettid",
            "a system call that does next to nothing, and takes no lock on the way",
            |_| {
                Ok(Each(|| {
                    black_box(rustix::thread::gettid());
                    Ok(())
                }))
            },
        )
        .level(Level::Default),
        Case::new("entry.invalid", "a system call number that does not exist: entry alone", |_| {
            Ok(Each(|| {
                // SAFETY: the kernel has no call of this number, so nothing
                // happens to this process.
                match unsafe { libc::syscall(NO_SUCH_CALL) } {
                    -1 => Ok(()),
                    _ => Err(Error::Invalid(format!("this kernel has a call {NO_SUCH_CALL}"))),
                }
            }))
        }),
        Case::new("entry.clock.vdso", "CLOCK_MONOTONIC without a system call, by the vDSO", |_| {
            Ok(Each(|| {
                black_box(rustix::time::clock_gettime(ClockId::Monotonic));
                Ok(())
            }))
        }),
        Case::new("entry.clock.syscall", "CLOCK_MONOTONIC by a system call", |_| {
            Ok(Each(clock_by_system_call))
        }),
    ]
}

fn clock_by_system_call() -> Result<()> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is writable and of the type that the kernel fills.
    match unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut now) } {
        0 => {
            black_box(now);
            Ok(())
        }
        _ => Err(Error::last_os("clock_gettime CLOCK_MONOTONIC")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invalid_call_is_refused_as_unknown() {
        // SAFETY: as in the case.
        assert_eq!(unsafe { libc::syscall(NO_SUCH_CALL) }, -1);
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
    }

    #[test]
    fn the_two_clocks_are_one() {
        let before = rustix::time::clock_gettime(ClockId::Monotonic);
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `now` is writable and of the type that the kernel fills.
        unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &mut now) };
        let after = rustix::time::clock_gettime(ClockId::Monotonic);
        let now = (now.tv_sec, now.tv_nsec);
        assert!((before.tv_sec, before.tv_nsec) <= now && now <= (after.tv_sec, after.tv_nsec));
        clock_by_system_call().unwrap();
    }
}
