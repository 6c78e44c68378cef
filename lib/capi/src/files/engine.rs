//! The engine of this process, which makes the calls, and each thread's requester.

use std::cell::RefCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kumiki_parasc::{Config, Engine, Operation, Requester};
use rustix::io::Errno;

/// Calls of a process after which an engine is worth its making: it takes 1.5 ms, 1,000 warm fstatat.
const MANY: usize = 1024;
/// Time of plain calls in one batch after which others are to help, however few there were.
const LONG: Duration = Duration::from_millis(2);
/// Plain calls between two looks at the clock.
const BETWEEN_LOOKS: usize = 8;

/// An engine, and the process that has made it: a child of fork(2) has none of its threads.
struct Owned {
    process: u32,
    engine: Engine,
}

/// Never freed: threads may be in it, and a process has one.
static CURRENT: AtomicPtr<Owned> = AtomicPtr::new(null_mut());
/// Plain calls so far, of all threads.
static MADE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static REQUESTER: RefCell<Option<(u32, Requester)>> = const { RefCell::new(None) };
}

/// The engine of this process, made if there is none. Without a lock, which a child of fork(2) could find taken by
/// a thread that it has not.
pub(super) fn engine() -> Result<&'static Engine, kumiki_parasc::Error> {
    let process = std::process::id();
    loop {
        let current = CURRENT.load(Ordering::Acquire);
        // SAFETY: null, or from a box that is never freed.
        if let Some(owned) = unsafe { current.as_ref() } {
            if owned.process == process {
                return Ok(&owned.engine);
            }
        }
        let config = Config { requesters: 61, ..Config::default() };
        let made = Box::new(Owned { process, engine: Engine::new(&config)? });
        let made = Box::into_raw(made);
        let stored = CURRENT.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire);
        if stored.is_err() {
            // SAFETY: from a box, and nobody else has heard of it: another thread was first.
            drop(unsafe { Box::from_raw(made) });
        }
    }
}

/// Makes these calls, in any order: a few by this thread, more of them with others where that is faster. What a
/// handler of a signal interrupts is made again.
pub(super) fn run<O, T>(operations: &mut [O]) -> Vec<Result<T, Errno>>
where
    O: Operation<Output = Result<T, Errno>>,
{
    let mut outputs = Vec::with_capacity(operations.len());
    let plain = plainly(operations, &mut outputs);
    let rest = operations.get_mut(plain..).unwrap_or_default();
    if !rest.is_empty() {
        match with_others(rest) {
            Some(made) => outputs.extend(made),
            // No engine is to be had, or none for this thread.
            None => outputs.extend(rest.iter_mut().map(Operation::call)),
        }
    }
    for (operation, output) in operations.iter_mut().zip(&mut outputs) {
        while matches!(output, Err(Errno::INTR)) {
            *output = operation.call();
        }
    }
    outputs
}

/// Makes calls here until there is reason for an engine; how many.
fn plainly<O: Operation>(operations: &mut [O], outputs: &mut Vec<O::Output>) -> usize {
    let before = MADE.load(Ordering::Relaxed);
    if before >= MANY && operations.len() > 1 {
        return 0;
    }
    let began = Instant::now();
    let mut plain = 0;
    for chunk in operations.chunks_mut(BETWEEN_LOOKS) {
        outputs.extend(chunk.iter_mut().map(Operation::call));
        plain += chunk.len();
        if before + plain >= MANY || began.elapsed() > LONG {
            break;
        }
    }
    MADE.fetch_add(plain, Ordering::Relaxed);
    plain
}

/// Makes them by this thread's requester, unless it has none.
fn with_others<O: Operation>(operations: &mut [O]) -> Option<Vec<O::Output>> {
    let process = std::process::id();
    let run = |place: &RefCell<Option<(u32, Requester)>>| {
        let mut place = place.try_borrow_mut().ok()?;
        if place.as_ref().is_none_or(|(of, _)| *of != process) {
            *place = Some((process, engine().ok()?.requester().ok()?));
        }
        let (_, requester) = place.as_mut()?;
        requester.run(operations).ok()
    };
    REQUESTER.try_with(run).ok().flatten()
}
