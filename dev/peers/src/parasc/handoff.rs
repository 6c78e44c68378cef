//! The limit of one call that is handed over: a line that carries the request there and
//! the result back, a helper that looks at nothing else, and a caller that leaves the
//! line alone for as long as such calls have taken.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};
use std::thread::JoinHandle;

use anyhow::Result;
use kumiki_parasc::Request;
use kumiki_sys::syscall::{self, MAX_ARGS};
use kumiki_wait::Ticks;

use crate::pair::Pair;

const ASKED: u32 = 1;
const DONE: u32 = 2;
const OVER: u32 = 3;

/// How much sooner the caller looks after a call for which it came late enough, and how
/// much later after one that was not over: a look too early costs ten times what one too
/// late does. Ticks.
const SOONER: u64 = 8;
const LATER: u64 = 32;
/// Beyond that somebody was not on his cpu.
const LONGEST: u64 = 4_000;

/// The helper and its line.
pub(super) struct Handoff {
    line: Arc<HandoffLine>,
    helper: Option<JoinHandle<()>>,
    ticks: Ticks,
    quiet: u64,
}

#[derive(Default)]
#[repr(align(64))]
struct HandoffLine {
    state: AtomicU32,
    sysnum: AtomicU32,
    args: [AtomicU64; MAX_ARGS - 1],
    ret_val: AtomicI64,
}

impl Handoff {
    pub(super) fn new(pair: Pair) -> Result<Self> {
        let line = Arc::new(HandoffLine::default());
        let its = Arc::clone(&line);
        let helper =
            pair.on_helper(|| std::thread::Builder::new().spawn(move || its.serve()))??;
        Ok(Handoff { line, helper: Some(helper), ticks: Ticks::new(), quiet: 0 })
    }

    /// Has a call of five arguments at most made.
    ///
    /// # Safety
    /// As for [`syscall::raw`], on the helper's thread.
    pub(super) unsafe fn call(&mut self, request: &Request) -> i64 {
        let line = &self.line;
        line.sysnum.store(request.sysnum.into(), Relaxed);
        for (to, from) in line.args.iter().zip(&request.args) {
            to.store(*from, Relaxed);
        }
        line.state.store(ASKED, Release);
        let start = self.ticks.now();
        while self.ticks.now().wrapping_sub(start) < self.quiet {}
        let is_done = || line.state.load(Acquire) == DONE;
        if is_done() {
            self.quiet -= self.quiet.min(SOONER);
        } else {
            while !is_done() {}
            self.quiet = if self.quiet < LONGEST { self.quiet + LATER } else { 0 };
        }
        line.ret_val.load(Relaxed)
    }
}

impl HandoffLine {
    fn serve(&self) {
        loop {
            match self.state.load(Acquire) {
                ASKED => (),
                OVER => return,
                _ => continue,
            }
            let mut args = [0; MAX_ARGS];
            for (to, from) in args.iter_mut().zip(&self.args) {
                *to = from.load(Relaxed);
            }
            let sysnum = black_box(self.sysnum.load(Relaxed)) as usize;
            // SAFETY: `Handoff::call` has the caller's promise, and waits.
            let ret_val = unsafe { syscall::raw(sysnum, args) };
            self.ret_val.store(ret_val, Relaxed);
            self.state.store(DONE, Release);
        }
    }
}

impl Drop for Handoff {
    fn drop(&mut self) {
        self.line.state.store(OVER, Release);
        self.helper.take().map(JoinHandle::join);
    }
}
