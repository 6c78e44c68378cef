//! What of this process serves, for who looks on.
//!
//! Shadow threads, teams, engines and managers each enter the roll when they are made and
//! leave it when they go. `kumiki_resource` shows it beside its own resources; whoever
//! enters needs nothing of that crate. What a look costs, the looker pays: who is looked
//! at keeps what it has in words that may be read at any time.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use kumiki_sys::fork::Process;

/// A look at something that serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// `idle`, `running`, …
    pub state: String,
    /// Memory that it holds, bytes.
    pub bytes: u64,
    /// Requests so far.
    pub calls: u64,
}

/// A thread that serves, as a look found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its kind: `shadow`.
    pub kind: &'static str,
    /// Number of the thread in this process, never repeated; from 1 on.
    pub number: u64,
    /// Cpu of the thread, if it is at one.
    pub cpu: Option<usize>,
    /// Name of the thread that made it.
    pub owner: String,
    /// A look at it.
    pub look: Look,
}

/// Value for a thread that is at no cpu in particular.
const NO_CPU: usize = usize::MAX;

struct Known {
    kind: &'static str,
    number: u64,
    /// [`NO_CPU`], or where it is.
    cpu: AtomicUsize,
    owner: String,
    look: Box<dyn Fn() -> Look + Send + Sync>,
}

/// The roll of one process: a child of fork(2) has threads neither of its parent nor holding its
/// parent's lock, and begins a roll of its own.
struct Roll {
    process: Process,
    known: Mutex<Vec<Arc<Known>>>,
}

impl Roll {
    fn known(&self) -> MutexGuard<'_, Vec<Arc<Known>>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// This process's roll. One that was replaced is never freed: another thread may be at it.
fn roll() -> Option<&'static Roll> {
    static ROLL: AtomicPtr<Roll> = AtomicPtr::new(ptr::null_mut());
    let mut now = ROLL.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or leaked below.
        let current = unsafe { now.as_ref() };
        if let Some(roll) = current.filter(|roll| roll.process.is_current()) {
            return Some(roll);
        }
        let process = Process::current().ok()?;
        let new = Box::into_raw(Box::new(Roll { process, known: Mutex::default() }));
        // Release: partner is the load.
        match ROLL.compare_exchange(now, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: leaked above.
            Ok(_) => return unsafe { new.as_ref() },
            Err(other) => {
                // SAFETY: made above, and nobody else knows it.
                drop(unsafe { Box::from_raw(new) });
                now = other;
            }
        }
    }
}

/// A place in the roll, until it is dropped.
#[must_use = "dropped, it leaves the roll"]
pub struct RollEntry {
    roll: Option<&'static Roll>,
    number: u64,
}

impl fmt::Debug for RollEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RollEntry").field(&self.number).finish()
    }
}

impl RollEntry {
    /// Records the cpu at which the thread is now.
    pub fn moved(&self, cpu: usize) {
        let Some(roll) = self.roll.filter(|roll| roll.process.is_current()) else { return };
        if let Some(known) = roll.known().iter().find(|known| known.number == self.number) {
            known.cpu.store(cpu, Ordering::Relaxed);
        }
    }
}

impl Drop for RollEntry {
    fn drop(&mut self) {
        let Some(roll) = self.roll.filter(|roll| roll.process.is_current()) else { return };
        let mut known = roll.known();
        let at = known.iter().position(|known| known.number == self.number);
        let gone = at.map(|at| known.remove(at));
        drop(known);
        // What it looked at may be dropped with it: not under the lock.
        drop(gone);
    }
}

/// Enters something of this kind, at one cpu or at none in particular, as the calling
/// thread's. `look` is called by who looks, at any time, and may wait for nobody.
pub fn enter(
    kind: &'static str,
    cpu: Option<usize>,
    look: impl Fn() -> Look + Send + Sync + 'static,
) -> RollEntry {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    let thread = std::thread::current();
    let owner = thread.name().map_or_else(|| format!("{:?}", thread.id()), str::to_owned);
    let roll = roll();
    if let Some(roll) = roll {
        let cpu = AtomicUsize::new(cpu.unwrap_or(NO_CPU));
        let known = Arc::new(Known { kind, number, cpu, owner, look: Box::new(look) });
        roll.known().push(known);
    }
    RollEntry { roll, number }
}

/// All that there is, in the order in which it came.
pub fn call() -> Vec<Seen> {
    // Looked at without the lock: a look is somebody else's code.
    let known = roll().map(|roll| roll.known().clone()).unwrap_or_default();
    known
        .iter()
        .map(|known| Seen {
            kind: known.kind,
            number: known.number,
            cpu: Some(known.cpu.load(Ordering::Relaxed)).filter(|cpu| *cpu != NO_CPU),
            owner: known.owner.clone(),
            look: (known.look)(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str) -> Vec<Seen> {
        call().into_iter().filter(|seen| seen.kind == kind).collect()
    }

    #[test]
    fn what_enters_is_seen_until_it_leaves() {
        let calls = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&calls);
        let entry = enter("roll-test", Some(3), move || Look {
            state: "idle".to_owned(),
            bytes: 64,
            calls: theirs.load(Ordering::Relaxed),
        });
        calls.store(7, Ordering::Relaxed);
        let seen = of("roll-test");
        assert_eq!((seen.len(), seen[0].cpu, seen[0].look.calls), (1, Some(3), 7));
        assert!(seen[0].owner.contains("what_enters"), "{}", seen[0].owner);
        entry.moved(5);
        assert_eq!(of("roll-test")[0].cpu, Some(5));
        let second = enter("roll-test", None, Look::default);
        assert_eq!(of("roll-test")[1].cpu, None);
        drop(entry);
        let left = of("roll-test");
        assert!(left.len() == 1 && left[0].number > seen[0].number);
        assert_eq!(Arc::strong_count(&calls), 1);
        drop(second);
        assert!(of("roll-test").is_empty());
    }

    #[test]
    fn a_child_of_fork_begins_anew() {
        let entry = enter("roll-fork", None, Look::default);
        // Another thread is at it, as if for ever.
        let held = roll().unwrap().known();
        // SAFETY: the child makes no call that waits for another thread of this one.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(entry);
            let own = enter("roll-child", None, Look::default);
            let good = of("roll-fork").is_empty() && of("roll-child").len() == 1;
            drop(own);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!good)) };
        }
        drop(held);
        let mut status = 0;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        drop(entry);
    }
}
