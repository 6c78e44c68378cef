//! Doubles of what threads share, for runs on a machine of lines (`cfg(sim)`).
//!
//! As loom's doubles take the place of the real things under `cfg(loom)`, these do under `cfg(sim)`:
//! atomics, a lock, the clock, the futex, the cpu on which a thread runs. Inside of a simulated run
//! each asks the [`Machine`] that the run has [entered](enter); outside of one it is what it doubles.
//! The machine itself is `kumiki-sim`'s; `docs/design/lines.md` says what it models.

pub mod atomic;
pub mod lock;

use std::cell::Cell;
use std::hint::black_box;
use std::panic::Location;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Access to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A load.
    Load,
    /// A store, which its cpu does not wait for.
    Store,
    /// A swap, or another step that reads and writes at once.
    Swap,
}

/// Place in a program: who has made an access.
pub type Site = &'static Location<'static>;

/// A machine that a run is simulated on. All its threads are on one thread of the system.
pub trait Machine {
    /// The calling thread accesses the line of `address`; returns when it has it.
    fn access(&self, address: usize, access: Access, site: Site);
    /// A full fence: returns when others see all stores before it.
    fn fence(&self);
    /// A round of looks has found nothing: the thread looks again when one of the lines has
    /// changed, or a little later.
    fn spun(&self);
    /// Time since the run's begin, nanoseconds.
    fn now_ns(&self) -> u64;
    /// Ticks of a time stamp counter now.
    fn ticks(&self) -> u64 {
        self.now_ns() * TICKS_PER_US / 1000
    }
    /// The calling thread works for so long.
    fn work(&self, ns: u64);
    /// Cpu of the calling thread.
    fn cpu(&self) -> usize;
    /// Number of cpus.
    fn cpus(&self) -> usize;
    /// Cpus of a group with a cache in common.
    fn group(&self) -> usize;
    /// Sleeps at `address` unless `changed`, until woken or until that time; `true` if the time is over.
    fn sleep(&self, address: usize, changed: &dyn Fn() -> bool, until_ns: Option<u64>) -> bool;
    /// Wakes up to `count` sleepers at `address`; returns how many.
    fn wake(&self, address: usize, count: u32) -> u32;
    /// Cost of a sleep and its wake, nanoseconds.
    fn sleep_ns(&self) -> u64;
    /// Interrupts every other cpu, and waits for that.
    fn interrupt_all(&self);
    /// Starts a thread on `cpu`; its number.
    fn spawn(&self, cpu: usize, body: Box<dyn FnOnce()>) -> usize;
    /// True if that thread has ended.
    fn is_over(&self, thread: usize) -> bool;
    /// Returns when that thread has ended.
    fn join(&self, thread: usize);
}

thread_local! {
    static MACHINE: Cell<Option<&'static dyn Machine>> = const { Cell::new(None) };
}

/// The machine of this run; `None` outside of one.
#[inline]
pub fn machine() -> Option<&'static dyn Machine> {
    MACHINE.get()
}

/// A run, until it is dropped.
#[derive(Debug)]
#[must_use = "dropped, the run is over"]
pub struct Entered(());

/// Simulates what this thread of the system does from now on.
pub fn enter(machine: &'static dyn Machine) -> Entered {
    assert!(MACHINE.replace(Some(machine)).is_none(), "a run within a run");
    Entered(())
}

impl Drop for Entered {
    fn drop(&mut self) {
        MACHINE.set(None);
    }
}

/// Accesses the bytes of `value`, of which no double knows: captures, results, boxes.
#[inline]
#[track_caller]
pub fn touch<T: ?Sized>(value: *const T, bytes: usize, access: Access) {
    let Some(machine) = machine() else { return };
    let first = value.cast::<u8>().addr();
    for line in first / LINE..=(first + bytes.max(1) - 1) / LINE {
        machine.access(line * LINE, access, Location::caller());
    }
}

/// Ticks of a simulated time stamp counter in a microsecond.
pub const TICKS_PER_US: u64 = 2600;

/// Bytes of a line.
pub const LINE: usize = 64;

/// Now, by the clock of the run or the real one.
pub fn now() -> Instant {
    match machine() {
        Some(machine) => epoch() + Duration::from_nanos(machine.now_ns()),
        None => Instant::now(),
    }
}

/// Moment that runs count from.
fn epoch() -> Instant {
    static EPOCH: OnceLock<Instant> = OnceLock::new();
    *EPOCH.get_or_init(Instant::now)
}

/// Reads that moment by the run's clock, nanoseconds; one before its begin is its begin.
pub fn since_epoch_ns(moment: Instant) -> u64 {
    u64::try_from(moment.saturating_duration_since(epoch()).as_nanos()).unwrap_or(u64::MAX)
}

/// A look has found nothing: what a loop of looks calls in place of PAUSE.
#[inline]
pub fn spin_loop() {
    match machine() {
        Some(machine) => machine.spun(),
        None => std::hint::spin_loop(),
    }
}

/// Lets others have the cpu: of a simulated one it is the only thread.
pub fn yield_now() {
    match machine() {
        Some(machine) => machine.spun(),
        None => std::thread::yield_now(),
    }
}

/// Work for so long, of a run's time or of real time.
pub fn work(ns: u64) {
    match machine() {
        Some(machine) => machine.work(ns),
        None => real_work(ns),
    }
}

/// Multiplies for so long: a look at the clock takes as long as the shortest work that is asked for.
fn real_work(ns: u64) {
    static STEPS_PER_US: OnceLock<u64> = OnceLock::new();
    const STEPS: u64 = 1 << 20;
    let per_us = STEPS_PER_US.get_or_init(|| {
        let times = (0..5).map(|_| {
            let begin = Instant::now();
            multiply(STEPS);
            begin.elapsed().as_nanos() as u64
        });
        STEPS * 1000 / times.min().unwrap_or(1).max(1)
    });
    multiply(ns * per_us / 1000);
}

/// Multiplies so many times, each time the last product, also from one call to the next: a processor
/// would begin the next call's while this one's end, and each would seem to take two thirds of its time.
fn multiply(steps: u64) {
    thread_local!(static LAST: Cell<u64> = const { Cell::new(3) });
    // In registers alone: a value that goes through memory is faster in a long loop.
    LAST.set(black_box((0..steps).fold(LAST.get(), |x, _| x.wrapping_mul(x | 1))));
}

/// A full fence.
#[inline]
pub fn fence(order: std::sync::atomic::Ordering) {
    match machine() {
        Some(machine) if order == std::sync::atomic::Ordering::SeqCst => machine.fence(),
        Some(_) => {}
        None => std::sync::atomic::fence(order),
    }
}

/// A thread of a run, or of the system.
#[derive(Debug)]
pub enum JoinHandle {
    /// Its number.
    Simulated(usize),
    /// A real one.
    Real(std::thread::JoinHandle<()>),
}

impl JoinHandle {
    /// Waits for its end.
    ///
    /// # Errors
    /// What a real one has panicked with; a simulated one's panic ends the run.
    pub fn join(self) -> std::thread::Result<()> {
        match (self, machine()) {
            (JoinHandle::Simulated(thread), Some(machine)) => {
                machine.join(thread);
                Ok(())
            }
            (JoinHandle::Simulated(_), None) => Ok(()),
            (JoinHandle::Real(thread), _) => thread.join(),
        }
    }

    /// True if it has ended.
    pub fn is_finished(&self) -> bool {
        match (self, machine()) {
            (JoinHandle::Simulated(thread), Some(machine)) => machine.is_over(*thread),
            (JoinHandle::Simulated(_), None) => true,
            (JoinHandle::Real(thread), _) => thread.is_finished(),
        }
    }
}
