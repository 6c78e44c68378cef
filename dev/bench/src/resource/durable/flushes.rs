//! Calls under way at once at a durable place, on a disk whose flush takes a known time, beside a place that keeps nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use kumiki_places::durable::{Disk, DiskFile, Folder};
use kumiki_places::standard::{Add, Counter};
use kumiki_places::{Client, Reference};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::child::turns;
use crate::pair::Pair;

use super::{DurableRequest, ServedPlace, durable, host, runtime, server};

pub(super) const SUBJECT: &str = "flushes:kumiki";

/// Calls under way.
pub(super) const CALLS: u64 = 64;
/// Time that a flush takes: that of a disk without a cache that outlives the power, such as most have.
const FLUSH: Duration = Duration::from_millis(4);
/// Bursts of a turn.
const BURSTS: usize = 16;
/// Bursts before the first turn.
const WARM: usize = 8;
/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Flushes of a disk, and their time.
#[derive(Default)]
struct Flushes {
    count: AtomicU64,
    ns: AtomicU64,
}

/// A folder whose flushes take their time, and are counted.
struct Slow {
    folder: Folder,
    flushes: Arc<Flushes>,
}

struct SlowFile {
    file: Box<dyn DiskFile>,
    flushes: Arc<Flushes>,
}

impl Disk for Slow {
    fn list(&self) -> io::Result<Vec<String>> {
        self.folder.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.folder.read(name)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let (file, flushes) = (self.folder.create(name, bytes)?, Arc::clone(&self.flushes));
        Ok(Box::new(SlowFile { file, flushes }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let (file, flushes) = (self.folder.open(name)?, Arc::clone(&self.flushes));
        Ok(Box::new(SlowFile { file, flushes }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.folder.sync()
    }

    fn name(&self) -> String {
        self.folder.name()
    }
}

impl DiskFile for SlowFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write(at, bytes)
    }

    /// Takes as long as it says, whatever this machine's own disk does.
    fn flush(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        std::thread::sleep(FLUSH);
        self.flushes.count.fetch_add(1, Relaxed);
        self.flushes.ns.fetch_add(begin.elapsed().as_nanos() as u64, Relaxed);
        Ok(())
    }

    fn end(&mut self, bytes: u64) -> io::Result<()> {
        self.file.end(bytes)
    }
}

/// A place and counters of it.
struct Called {
    client: Client,
    counters: Vec<Reference<Counter>>,
    _place: ServedPlace,
}

impl Called {
    fn new(place: ServedPlace, runtime: &Runtime) -> Result<Called> {
        let name = place.name()?;
        runtime.block_on(async {
            let client = Client::here().with_timeout(PATIENCE);
            let mut counters = Vec::new();
            for _ in 0..CALLS {
                counters.push(client.create::<Counter>(&name, None, 0).await?);
            }
            Ok(Called { client, counters, _place: place })
        })
    }

    /// Time in which all are called at once and answered.
    fn burst(&self, runtime: &Runtime) -> Result<Duration> {
        runtime.block_on(async {
            let begin = Instant::now();
            let mut calls = JoinSet::new();
            for counter in &self.counters {
                let (client, counter) = (self.client.clone(), counter.clone());
                calls.spawn(async move { client.call::<Add>(&counter, 1).await });
            }
            while let Some(answered) = calls.join_next().await {
                answered??;
            }
            Ok(begin.elapsed())
        })
    }
}

/// Serves by bursts.
pub(super) fn serve(pair: Pair) -> Result<()> {
    let folder = tempfile::tempdir().context("making a folder for a place")?;
    let flushes = Arc::new(Flushes::default());
    let (path, its) = (folder.path().to_owned(), Arc::clone(&flushes));
    let disk = move |core: &str| {
        let folder = Folder::open(&path.join(core))?;
        Ok(Arc::new(Slow { folder, flushes: Arc::clone(&its) }) as Arc<dyn Disk>)
    };
    pair.bind_both()?;
    let runtime = runtime()?;
    let kept =
        Called::new(ServedPlace::serve(durable(&host("kept"), disk), pair.helper)?, &runtime)?;
    let plain = Called::new(ServedPlace::serve(server(&host("plain")), pair.helper)?, &runtime)?;
    for _ in 0..WARM {
        kept.burst(&runtime)?;
        plain.burst(&runtime)?;
    }
    let counts = || (flushes.count.load(Relaxed), flushes.ns.load(Relaxed));
    let burst = || {
        let before = counts();
        let time = kept.burst(&runtime)?;
        let after = counts();
        let (count, ns) = (after.0 - before.0, after.1 - before.1);
        Ok::<_, anyhow::Error>((time, count as f64, ns as f64))
    };
    turns(|request| match request {
        DurableRequest::Flushes { .. } => {
            let all = (0..BURSTS).map(|_| burst().map(|(_, count, _)| count));
            all.collect::<Result<_>>().map(Some)
        }
        DurableRequest::Durable { .. } => {
            let each = |_| {
                let plain = plain.burst(&runtime)?;
                let (kept, count, ns) = burst()?;
                Ok((kept.as_nanos() as f64 - plain.as_nanos() as f64) / (ns / count))
            };
            (0..BURSTS).map(each).collect::<Result<_>>().map(Some)
        }
        _ => Ok(None),
    })
}
