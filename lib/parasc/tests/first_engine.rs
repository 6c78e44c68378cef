//! The first engines of a process, of which one has what a sleep costs measured.
//! Without the test harness: its main thread would take the signals.

use std::mem::MaybeUninit;
use std::sync::atomic::AtomicI32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_parasc::{Config, Engine};
use kumiki_sys::cpuset::CpuSet;
use rustix::process::{Signal, getpid, kill_process};
use rustix::thread::gettid;

const SIGNAL: Signal = Signal::USR1;
/// No measurement takes less: it lets so much time pass.
const MEASURED: Duration = Duration::from_millis(1);

/// The only thread of the program's in which the signal is not blocked.
static OWN: AtomicI32 = AtomicI32::new(0);
/// How often the handler has run there.
static RUNS: AtomicI32 = AtomicI32::new(0);
/// Another in which it has run.
static OTHER: AtomicI32 = AtomicI32::new(0);

extern "C" fn handle(_: i32) {
    let this = gettid().as_raw_pid();
    if this == OWN.load(Relaxed) {
        RUNS.fetch_add(1, Relaxed);
    } else {
        OTHER.store(this, Relaxed);
    }
}

fn handle_signals() {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are an action with an empty mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = handle as extern "C" fn(i32) as usize;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: a handler that counts may run at any time.
    let set = unsafe { libc::sigaction(SIGNAL.as_raw(), action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
}

/// Blocks or unblocks the signal in this thread.
fn mask(how: i32) {
    let mut set = MaybeUninit::uninit();
    // SAFETY: fills the set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: filled above.
    unsafe { libc::sigaddset(set.as_mut_ptr(), SIGNAL.as_raw()) };
    // SAFETY: a valid set; nothing is to be written.
    let changed = unsafe { libc::pthread_sigmask(how, set.as_ptr(), std::ptr::null_mut()) };
    assert_eq!(changed, 0);
}

fn engines() {
    OWN.store(gettid().as_raw_pid(), Release);
    mask(libc::SIG_UNBLOCK);
    let none = Config { cpus: Some(CpuSet::new()), threads: 0, ..Config::default() };
    drop(Engine::new(&none).unwrap());
    let begin = Instant::now();
    drop(Engine::new(&Config::default()).unwrap());
    assert!(begin.elapsed() >= MEASURED, "an engine without threads has measured before");
}

fn main() {
    handle_signals();
    mask(libc::SIG_BLOCK);
    let engines = thread::spawn(engines);
    while OWN.load(Acquire) == 0 || !engines.is_finished() {
        kill_process(getpid(), SIGNAL).unwrap();
    }
    engines.join().unwrap();
    assert_eq!(OTHER.load(Relaxed), 0, "a handler has run in a thread of the engine's");
    println!("{} handlers have run in the program's own thread", RUNS.load(Relaxed));
}
