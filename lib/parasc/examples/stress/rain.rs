//! Signals, which come to any of the threads at any moment. A call that sleeps may
//! be interrupted by one if the thread makes it itself, and says so; nothing else
//! changes.

use std::mem::MaybeUninit;
use std::os::unix::thread::JoinHandleExt;
use std::ptr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fastrand::Rng;

use super::Scene;

pub(crate) const SIGNAL: i32 = libc::SIGUSR2;
/// Between two looks whether it rains.
const LOOK: Duration = Duration::from_millis(1);

extern "C" fn nothing(_: i32) {}

/// Has calls that the signal comes into return early: no SA_RESTART.
pub(crate) fn interrupt() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are an action without flags and with an empty mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
    // SAFETY: a handler that does nothing may run at any time.
    let set = unsafe { libc::sigaction(SIGNAL, action, ptr::null_mut()) };
    assert_eq!(set, 0, "a signal with a handler");
}

/// Signals `threads` while the round has it, until all is over.
pub(crate) fn rain(scene: &Scene, threads: &[JoinHandle<()>], over: &AtomicBool) {
    let mut random = Rng::with_seed(!scene.seed);
    while !over.load(Relaxed) {
        let Some(pause) = scene.round().rain else {
            thread::sleep(LOOK);
            continue;
        };
        thread::sleep(Duration::from_micros(random.u64(..pause)));
        let thread = threads[random.usize(..threads.len())].as_pthread_t();
        // SAFETY: a thread that has been neither joined nor detached.
        unsafe { libc::pthread_kill(thread, SIGNAL) };
        scene.counts.signals.fetch_add(1, Relaxed);
    }
}
