//! The device of the module by which MONITOR and MWAIT are used.

use std::fs::File;
use std::os::fd::{IntoRawFd, RawFd};
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::Relaxed;

const DEVICE: &str = "/dev/kumiki-mwait";

/// The device's descriptor, from the first look on, or -1. The process's own for as long as
/// it lives: waiters come and go at any time. One that the program closes is as good as
/// none, as each wait in it fails.
static OPENED: AtomicI32 = AtomicI32::new(-1);

/// Opens the device. Two threads that come first at the same time both do, and one of the
/// descriptors is used.
pub(crate) fn open() -> bool {
    if OPENED.load(Relaxed) < 0 {
        if let Ok(device) = File::open(DEVICE) {
            OPENED.store(device.into_raw_fd(), Relaxed);
        }
    }
    OPENED.load(Relaxed) >= 0
}

/// Its descriptor; -1 if it was not opened.
#[inline]
pub(crate) fn descriptor() -> RawFd {
    OPENED.load(Relaxed)
}
