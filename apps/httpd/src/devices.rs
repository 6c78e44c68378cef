//! Threads for calls that would sleep: a share for each device, so that one which hangs stops
//! nobody but those who wait for it.
//!
//! ```text
//!  device ─▶ share ─▶ engine (64 threads) ── all in calls, and for a second none has come back ─▶
//!                     another one, …
//! ```

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kumiki_parasc::op::Close;
use kumiki_parasc::{Config, CpuSet, Engine, Pending};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags, openat2, statx};

use crate::beneath::BENEATH;

/// Devices that have threads of their own; those beyond share the last one's.
const MOST_DEVICES: usize = 32;
/// Engines of a device at most, each of 64 threads.
const MOST_ENGINES: usize = 8;
/// Time without an end after which all threads of an engine are taken for lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// Engines by device, of all workers.
#[derive(Debug)]
pub(crate) struct Devices {
    first: Arc<Engine>,
    shares: Mutex<Vec<Share>>,
    under_way: AtomicU64,
    /// Dropped, one that no thread has begun would be made by who drops it.
    closing: Mutex<Vec<Pending<Close>>>,
}

#[derive(Debug)]
struct Share {
    device: u64,
    engines: Vec<Arc<Engine>>,
    /// Time since which all engines have requests that no thread has begun.
    waits_since: Option<Instant>,
    last_end: Instant,
}

impl Devices {
    /// The first device that has to be waited for gets this engine.
    pub(crate) fn new(first: Arc<Engine>) -> Self {
        let (shares, closing) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        Devices { first, shares, under_way: AtomicU64::new(0), closing }
    }

    fn shares(&self) -> MutexGuard<'_, Vec<Share>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine for a call on this device.
    pub(crate) fn engine(&self, device: u64) -> Arc<Engine> {
        let (mut shares, now) = (self.shares(), Instant::now());
        let at = place(&shares, device).unwrap_or_else(|| {
            let engine = if shares.is_empty() { None } else { another() };
            let engines = vec![engine.unwrap_or_else(|| Arc::clone(&self.first))];
            shares.push(Share { device, engines, waits_since: None, last_end: now });
            shares.len() - 1
        });
        match shares.get_mut(at) {
            Some(share) => share.engine(now),
            None => Arc::clone(&self.first),
        }
    }

    /// Closes a file of this device, by a thread that may sleep.
    pub(crate) fn close(&self, device: u64, file: OwnedFd) {
        let closing = self.engine(device).submit(Close::new(file));
        let mut all = self.closing.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|it| !it.is_done());
        all.push(closing);
    }

    /// Counts a call that somebody waits for.
    pub(crate) fn enter(&self) {
        self.under_way.fetch_add(1, Relaxed);
    }

    /// Counts one less: it has come back, or nobody waits for it any more.
    pub(crate) fn leave(&self) {
        self.under_way.fetch_sub(1, Relaxed);
    }

    /// Calls that somebody waits for.
    pub(crate) fn under_way(&self) -> u64 {
        self.under_way.load(Relaxed)
    }

    /// A call on this device has come back.
    pub(crate) fn ended(&self, device: u64) {
        let mut shares = self.shares();
        let at = place(&shares, device);
        if let Some(share) = at.and_then(|at| shares.get_mut(at)) {
            share.last_end = Instant::now();
        }
    }
}

fn place(shares: &[Share], device: u64) -> Option<usize> {
    let at = shares.iter().position(|share| share.device == device);
    at.or_else(|| (shares.len() >= MOST_DEVICES).then_some(MOST_DEVICES - 1))
}

/// One more engine; `None` if there is no memory for it.
fn another() -> Option<Arc<Engine>> {
    // It gets calls that sleep alone: no threads for others.
    let config = Config { cpus: Some(CpuSet::new()), ..Config::default() };
    Engine::new(&config).ok().map(Arc::new)
}

impl Share {
    fn engine(&mut self, now: Instant) -> Arc<Engine> {
        if let Some(engine) = self.engines.iter().find(|engine| !engine.waits()) {
            self.waits_since = None;
            return Arc::clone(engine);
        }
        let since = (*self.waits_since.get_or_insert(now)).max(self.last_end);
        if now.saturating_duration_since(since) >= PATIENCE
            && self.engines.len() < MOST_ENGINES
            && let Some(engine) = another()
        {
            self.waits_since = None;
            self.engines.push(Arc::clone(&engine));
            return engine;
        }
        // The newest is the one whose threads may come back.
        self.engines.last().cloned().unwrap_or_else(|| unreachable!("a share begins with one"))
    }
}

/// The device that a path is on, as far as that is in memory: that of the longest part of it that
/// is. It makes no call that asks the file system.
pub(crate) fn device_of(folder: impl AsFd, path: &CStr) -> u64 {
    let mut path = path.to_bytes();
    while let Some(slash) = path.iter().rposition(|byte| *byte == b'/') {
        path = path.get(..slash).unwrap_or_default();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let opened = openat2(&folder, path, flags, Mode::empty(), BENEATH | ResolveFlags::CACHED);
        if let Some(device) = opened.ok().and_then(device) {
            return device;
        }
    }
    device(&folder).unwrap_or_default()
}

/// The device of an open file, which the kernel knows without its file system.
pub(crate) fn device(file: impl AsFd) -> Option<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let known = statx(file, c"", flags, StatxFlags::empty()).ok()?;
    Some(rustix::fs::makedev(known.stx_dev_major, known.stx_dev_minor))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use kumiki_parasc::op::Read;

    use super::*;

    /// Calls that do not return, as many as an engine has threads: reads of a pipe.
    fn hang(devices: &Devices, device: u64, pipe: &Arc<OwnedFd>) -> Vec<impl Drop> {
        let one = |_| {
            devices
                .engine(device)
                .submit(Read::new(Arc::clone(pipe), vec![0; 8].into_boxed_slice()))
        };
        (0..80).map(one).collect()
    }

    #[test]
    fn a_device_that_hangs_takes_the_threads_of_no_other() {
        let devices = Devices::new(Arc::new(Engine::new(&Config::default()).unwrap()));
        let (reader, writer) = std::io::pipe().unwrap();
        let reader = Arc::new(OwnedFd::from(reader));
        let hanging = hang(&devices, 7, &reader);
        let file = File::open("/proc/self/stat").unwrap();
        let read = Read::new(file, vec![0; 8].into_boxed_slice());
        let other = devices.engine(8);
        assert!(!Arc::ptr_eq(&other, &devices.engine(7)));
        let done = other.submit(read).wait_timeout(Duration::from_secs(120));
        assert!(done.is_ok_and(|done| done.is_ok_and(|done| done.output == Ok(8))));
        // None has come back for a second: more threads, for what may not hang.
        let first = devices.engine(7);
        while Arc::ptr_eq(&first, &devices.engine(7)) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let file = File::open("/proc/self/stat").unwrap();
        let read = Read::new(file, vec![0; 8].into_boxed_slice());
        let done = devices.engine(7).submit(read).wait_timeout(Duration::from_secs(120));
        assert!(done.is_ok_and(|done| done.is_ok_and(|done| done.output == Ok(8))));
        drop(writer);
        drop(hanging);
    }

    #[test]
    fn devices_beyond_the_most_share_one() {
        let devices = Devices::new(Arc::new(Engine::new(&Config::default()).unwrap()));
        let engines: Vec<_> = (0..MOST_DEVICES as u64 + 2).map(|at| devices.engine(at)).collect();
        let last = engines.len() - 1;
        assert!(Arc::ptr_eq(&engines[last], &engines[last - 1]));
        assert!(!Arc::ptr_eq(&engines[0], &engines[1]));
        devices.ended(0);
        devices.ended(1000);
    }

    #[test]
    fn a_path_is_on_the_device_of_what_is_known_of_it() {
        let root = OwnedFd::from(File::open("/").unwrap());
        let proc = OwnedFd::from(File::open("/proc").unwrap());
        let expected = device(&proc).unwrap();
        assert_ne!(device(&root).unwrap(), expected);
        assert_eq!(device_of(&root, c"proc/self/no/such"), expected);
        assert_eq!(device_of(&root, c"no/such/folder"), device(&root).unwrap());
    }
}
