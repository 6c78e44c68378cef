//! A pair of fences of unequal cost.
//!
//! Two threads that each store to one place and then load from another need a
//! full fence in between, or both may read the old values. If one of them does
//! so very often and the other hardly ever, Linux lets the second pay for both:
//! membarrier(2) makes every running thread of the process execute a full fence
//! before it returns. The first is then left with a fence that only the compiler
//! sees.
//!
//! ```text
//!   often               rarely
//!   store A             store B
//!   light()             heavy()
//!   load B              load A        at least one of the loads sees the store
//! ```
//!
//! [`light`] is a full fence until the kernel has accepted the process for
//! private expedited barriers, and remains one where it does not. A [`heavy`]
//! holds against either form, so no thread needs to know when the mode changes:
//!
//! | mode | `light` | `heavy` |
//! |---|---|---|
//! | undecided | full fence | decides, then as below |
//! | asymmetric | compiler's fence | full fence, membarrier(2) |
//! | symmetric | full fence | full fence |
//!
//! The first decision is final: a thread may be inside a `light` at any moment,
//! so an asymmetric process cannot go back. What can still happen:
//!
//! - **fork(2)**. The child inherits the mode with its memory. Linux copies the
//!   registration too, with the rest of the address space's description
//!   (`dup_mm`, kernel/fork.c), but promises it nowhere; a `heavy` that is
//!   answered `EPERM` therefore registers again. execve(2) clears the
//!   registration (`membarrier_exec_mmap`, kernel/sched/membarrier.c) and the
//!   mode with it.
//! - **A seccomp filter that comes later** and forbids membarrier(2). Then
//!   [`heavy`] cannot do its work and returns `false`: whoever relies on it must
//!   look again some time later. Waiters do (see [`Bell`](crate::Bell)).
//! - **Memory shared with another process**: membarrier(2) as used here reaches
//!   one process only. Use a full fence on both sides.

use std::sync::atomic::Ordering::SeqCst;

use crate::primitive::fence;

/// The cheap side, for the thread that fences often: in an asymmetric process a load of
/// one byte, elsewhere a full fence.
#[inline(always)]
pub fn light() {
    #[cfg(sim)]
    if kumiki_sys::sim::machine().is_some() {
        return;
    }
    #[cfg(not(loom))]
    if mode::MODE.load(std::sync::atomic::Ordering::Relaxed) == mode::ASYMMETRIC {
        // Partner: the membarrier(2) in `heavy`.
        return std::sync::atomic::compiler_fence(SeqCst);
    }
    // Partner: the fence in `heavy`.
    fence(SeqCst);
}

/// The expensive side: a full fence in this thread and, in an asymmetric process, in
/// every other running thread of it: some microseconds, and one interrupt for each of
/// them.
///
/// Returns whether it reached all threads. It fails if a seccomp filter, installed after
/// the process became asymmetric, forbids membarrier(2), or while the kernel is out of
/// memory; the caller must then not rely on it, and check again later.
pub fn heavy() -> bool {
    #[cfg(sim)]
    if let Some(machine) = kumiki_sys::sim::machine() {
        machine.interrupt_all();
        return true;
    }
    // Partner: the fence in `light`, also that of a thread that has read the
    // mode before it was decided.
    fence(SeqCst);
    #[cfg(not(loom))]
    if mode::decided() == mode::ASYMMETRIC {
        return mode::reach_all();
    }
    true
}

/// True if [`light`] is only a compiler fence in this process. The first call decides it, which can
/// take some milliseconds in a process of several threads: the kernel waits for all cpus to pass
/// through its scheduler.
pub fn is_asymmetric() -> bool {
    #[cfg(sim)]
    if kumiki_sys::sim::machine().is_some() {
        return true;
    }
    #[cfg(not(loom))]
    return mode::decided() == mode::ASYMMETRIC;
    #[cfg(loom)]
    return false;
}

/// True if [`heavy`] interrupts others. A model has both sleeps, that before the fence and that
/// after it.
pub(crate) fn heavy_is_dear() -> bool {
    cfg!(loom) || is_asymmetric()
}

#[cfg(not(loom))]
mod mode {
    use std::sync::atomic::AtomicU8;
    use std::sync::atomic::Ordering::Relaxed;

    use rustix::io::Errno;
    use rustix::thread::{MembarrierCommand, membarrier};

    pub(super) const UNDECIDED: u8 = 0;
    pub(super) const ASYMMETRIC: u8 = 1;
    pub(super) const SYMMETRIC: u8 = 2;

    /// Written once. Relaxed: it is not used to hand over anything, and a
    /// thread that reads it late only fences more than it has to.
    pub(super) static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);

    pub(super) fn decided() -> u8 {
        match MODE.load(Relaxed) {
            UNDECIDED => decide(),
            mode => mode,
        }
    }

    #[cold]
    fn decide() -> u8 {
        let found = if register().is_ok() { ASYMMETRIC } else { SYMMETRIC };
        // Of two threads at once, one of them under a filter of its own, the
        // first decides for both.
        match MODE.compare_exchange(UNDECIDED, found, Relaxed, Relaxed) {
            Ok(_) => found,
            Err(decided) => decided,
        }
    }

    fn register() -> Result<(), Errno> {
        membarrier(MembarrierCommand::RegisterPrivateExpedited)
    }

    /// Full fences in all threads of this process.
    pub(super) fn reach_all() -> bool {
        let expedited = || membarrier(MembarrierCommand::PrivateExpedited);
        match expedited() {
            // A process that is not registered, or a filter.
            Err(Errno::PERM) => register().and_then(|()| expedited()).is_ok(),
            outcome => outcome.is_ok(),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_decision_is_final_and_heavy_reaches_all() {
        let asymmetric = is_asymmetric();
        assert!(heavy());
        assert_eq!(is_asymmetric(), asymmetric);
        assert_eq!(mode::decided() == mode::ASYMMETRIC, asymmetric);
    }

    #[test]
    fn it_is_asymmetric_where_the_kernel_offers_it() {
        use rustix::thread::{MembarrierCommand, membarrier_query};
        let offered = membarrier_query().contains_command(MembarrierCommand::PrivateExpedited);
        assert_eq!(is_asymmetric(), offered);
    }
}
