//! Sleep.

use rustix::time::{ClockId, Timespec};

use crate::request::Request;

operation! {
    /// nanosleep(2): sleeps for some time. Interrupted by a signal (`EINTR`) and
    /// requested again, it sleeps for the rest.
    pub struct Nanosleep { time: Timespec }
    |op| {
        // The kernel has read the time when it writes the rest to its place.
        let time = &raw mut op.time as u64;
        Request::new(libc::SYS_nanosleep, [time, time])
    } => ()
}

operation! {
    /// clock_nanosleep(2): sleeps by a clock; with `libc::TIMER_ABSTIME` as flags
    /// until it shows a time, else for some time as [`Nanosleep`] does.
    pub struct ClockNanosleep { clock: ClockId, flags: i32, time: Timespec }
    |op| {
        let time = &raw mut op.time as u64;
        Request::new(
            libc::SYS_clock_nanosleep,
            [op.clock as u64, op.flags as u64, time, time],
        )
    } => ()
}
