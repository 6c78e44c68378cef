//! The cpu to which a thread is bound by its shadows.
//!
//! A thread may have several, and drop them in any order: it stays bound until
//! the last one is gone, and gets back the cpus that it had before the first.

use std::cell::RefCell;
use std::marker::PhantomData;

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::error::Result;

thread_local! {
    static MAIN: RefCell<Option<Main>> = const { RefCell::new(None) };
}

/// What the bindings of one thread share.
struct Main {
    cpu: usize,
    /// The cpus before the first binding.
    former: CpuSet,
    bindings: usize,
}

/// One shadow's or team's part in the binding of its thread.
#[derive(Debug)]
pub(crate) struct Binding {
    _thread: PhantomData<*mut ()>,
}

impl Binding {
    /// Binds the calling thread to `cpu`.
    pub(crate) fn to(cpu: usize) -> Result<Binding> {
        let former = allowed()?;
        affinity::set(&CpuSet::from_iter([cpu]))?;
        MAIN.with_borrow_mut(|main| {
            let bindings = main.as_ref().map_or(0, |main| main.bindings) + 1;
            *main = Some(Main { cpu, former, bindings });
        });
        Ok(Binding { _thread: PhantomData })
    }
}

impl Drop for Binding {
    fn drop(&mut self) {
        // At the thread's end there may be nothing left to set right.
        let _ = MAIN.try_with(|main| {
            let mut main = main.borrow_mut();
            let Some(last) = main.as_mut() else { return };
            last.bindings -= 1;
            if last.bindings == 0 {
                // As in `affinity::Bound`: if it is refused there is nothing
                // better to do.
                let _ = affinity::set(&last.former);
                *main = None;
            }
        });
    }
}

/// The cpu to which the calling thread is bound by a shadow.
pub(crate) fn bound() -> Option<usize> {
    MAIN.with_borrow(|main| main.as_ref().map(|main| main.cpu))
}

/// The cpus that the calling thread may use, were it not for its shadows.
pub(crate) fn allowed() -> Result<CpuSet> {
    let now = affinity::current()?;
    Ok(MAIN.with_borrow(|main| match main {
        // Somebody else has bound it anew meanwhile otherwise.
        Some(main) if now == CpuSet::from_iter([main.cpu]) => main.former.clone(),
        _ => now,
    }))
}
