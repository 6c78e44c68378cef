//! The calls of a batch made by whoever is free, through `kumiki-parasc`.

use std::ffi::CStr;
use std::os::fd::{BorrowedFd, OwnedFd};

use kumiki_parasc::op::{Close, Getdents64, Openat, Statx};
use kumiki_parasc::{Config, Engine, Operation, Requester, Result};
use rustix::fs::{Mode, StatxAttributes};
use rustix::io::Errno;

use super::{Calls, Meta, Open, Read, Stat, WANTED, open_flags, stat_flags};

/// Why no batch fails as a whole.
const ALLOWED: &str = "an engine without an allow-list makes these calls";

/// A requesting thread, with the operations' memory kept from batch to batch.
pub(crate) struct Batched {
    requester: Requester,
    stats: Vec<Statx<BorrowedFd<'static>, &'static CStr>>,
    opens: Vec<Openat<BorrowedFd<'static>, &'static CStr>>,
    reads: Vec<Getdents64<BorrowedFd<'static>, &'static mut [u8]>>,
    closes: Vec<Close>,
    /// Its threads live as long as it does.
    _engine: Engine,
}

impl Batched {
    /// Measures for some milliseconds what waking a thread costs here. Threads
    /// start with the first batch that is worth it.
    ///
    /// # Errors
    /// Those of [`Engine::new`] and [`Engine::requester`].
    pub(crate) fn new() -> Result<Self> {
        let engine = Engine::new(&Config::default())?;
        let requester = engine.requester()?;
        Ok(Batched {
            requester,
            stats: Vec::new(),
            opens: Vec::new(),
            reads: Vec::new(),
            closes: Vec::new(),
            _engine: engine,
        })
    }
}

/// Makes the calls of `operations`.
fn run<O: Operation>(requester: &mut Requester, operations: &mut [O]) -> Vec<O::Output> {
    requester.run(operations).expect(ALLOWED)
}

/// The same memory for elements of the same size, which borrow something else.
fn recycle<A, B>(mut memory: Vec<A>) -> Vec<B> {
    memory.clear();
    // The standard library collects in place.
    memory.into_iter().map(|_| unreachable!("it is empty")).collect()
}

impl Calls for Batched {
    fn stat<'a>(
        &mut self,
        batch: impl Iterator<Item = Stat<'a>>,
        results: &mut Vec<std::result::Result<Meta, Errno>>,
        meanwhile: impl FnOnce(),
    ) {
        let mut stats = recycle(std::mem::take(&mut self.stats));
        stats
            .extend(batch.map(|stat| {
                Statx::new(stat.directory, stat.name, stat_flags(stat.follow), WANTED)
            }));
        let ran = self.requester.run_while(&mut stats, meanwhile);
        let (outputs, ()) = ran.expect(ALLOWED);
        results.extend(outputs.iter().zip(&stats).map(|(output, stat)| {
            let found = output.and_then(|()| stat.attributes().ok_or(Errno::NODATA))?;
            Ok(Meta {
                kind: found.file_type(),
                links: found.nlink(),
                device: found.dev(),
                inode: found.ino(),
                blocks: found.blocks(),
                size_bytes: found.size(),
                mount: found.as_raw().stx_attributes & StatxAttributes::MOUNT_ROOT.bits() != 0,
            })
        }));
        self.stats = recycle(stats);
    }

    fn open<'a>(
        &mut self,
        batch: impl Iterator<Item = Open<'a>>,
        results: &mut Vec<std::result::Result<OwnedFd, Errno>>,
    ) {
        let mut opens = recycle(std::mem::take(&mut self.opens));
        opens.extend(batch.map(|open| {
            Openat::new(open.directory, open.name, open_flags(open.follow), Mode::empty())
        }));
        results.extend(run(&mut self.requester, &mut opens));
        self.opens = recycle(opens);
    }

    fn read<'a>(
        &mut self,
        batch: impl Iterator<Item = Read<'a>>,
        results: &mut Vec<std::result::Result<usize, Errno>>,
    ) {
        let mut reads = recycle(std::mem::take(&mut self.reads));
        reads.extend(batch.map(|read| Getdents64::new(read.directory, read.buffer)));
        results.extend(run(&mut self.requester, &mut reads));
        self.reads = recycle(reads);
    }

    fn close(&mut self, batch: &mut Vec<OwnedFd>) {
        self.closes.extend(batch.drain(..).map(Close::new));
        // An error of close(2) tells of lost writes, and there were none.
        run(&mut self.requester, &mut self.closes);
        self.closes.clear();
    }
}
