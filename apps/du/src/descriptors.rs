//! Descriptors of directories that still have subdirectories to open.
//!
//! No path is ever given to the kernel whole: a directory is opened by its name
//! relative to its parent's descriptor, so a tree may be deeper than `PATH_MAX`.
//! A parent's descriptor stays open until its last subdirectory is. Where that
//! takes too many, those needed last are closed, and opened again later by
//! going down from the nearest ancestor that is still open.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};

use rustix::fs::{CWD, Mode, OFlags, fstat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::tree::{ROOT, Tree};

/// Directories opened in one batch at most.
const BATCH: usize = 256;

/// Descriptors worth asking the kernel for.
const PLENTY: u64 = 4096;

/// Descriptors that others in this process have or may need.
const OTHERS: u64 = 16;

/// A parent and one below it, or two on the way to a parent.
const FEWEST: usize = 2;

/// Count of the descriptors that there may be. Which there are is for each tree to know:
/// directories of another one have the same numbers.
#[derive(Debug)]
pub(crate) struct Descriptors {
    budget: usize,
}

impl Descriptors {
    /// Takes as many as the process may have; raises its soft limit if that is low. Call it while
    /// the process has one thread.
    pub(crate) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let hard = limit.maximum.unwrap_or(PLENTY);
        let mut soft = limit.current.unwrap_or(PLENTY);
        let raised = Rlimit { current: Some(hard.min(PLENTY)), maximum: limit.maximum };
        if soft < PLENTY && setrlimit(Resource::Nofile, raised).is_ok() {
            soft = hard.min(PLENTY);
        }
        let budget = soft.min(PLENTY).saturating_sub(OTHERS) as usize;
        let budget = budget.max(FEWEST);
        make_table(budget);
        Descriptors { budget }
    }

    /// Number of directories that may be opened at once.
    pub(crate) fn batch(&self) -> usize {
        (self.budget / 4).clamp(1, BATCH)
    }

    /// The kernel had fewer than thought; `false` if it can't do with fewer.
    pub(crate) fn shrink(&mut self) -> bool {
        let before = self.budget;
        self.budget = (before / 2).max(FEWEST);
        self.budget < before
    }

    /// Closes those needed last until there is room to open `batch` directories,
    /// their parents, and those on the way there.
    pub(crate) fn make_room(&self, tree: &mut Tree, batch: usize) {
        let most = self.budget.saturating_sub(batch * 3);
        while tree.open > most
            && let Some(number) = tree.kept_open.pop_front()
        {
            tree.release(number);
        }
        // Whoever lost its descriptor in another way need not be remembered.
        if tree.kept_open.len() > 2 * self.budget {
            let Tree { kept_open, directories, .. } = tree;
            kept_open.retain(|&number| directories[number as usize].descriptor.is_some());
        }
    }

    /// Makes sure that the parent of directory `number` is open.
    ///
    /// # Errors
    /// The kernel's; `ESTALE` if another directory stands there now.
    pub(crate) fn open_parent(&self, tree: &mut Tree, number: u32) -> Result<(), Errno> {
        match number {
            ROOT => Ok(()),
            number => self.reopen(tree, tree.directory(number).parent),
        }
    }

    /// Opens directory `number` again, which this walk has had open before.
    fn reopen(&self, tree: &mut Tree, number: u32) -> Result<(), Errno> {
        if tree.directory(number).descriptor.is_some() {
            return Ok(());
        }
        let mut way = vec![number];
        let open = tree.ancestors(number).find(|&above| {
            let closed = tree.directory(above).descriptor.is_none();
            way.extend(closed.then_some(above));
            !closed
        });
        let mut at: Option<OwnedFd> = None;
        for (distance, &next) in way.iter().enumerate().rev() {
            let from = match (&at, open) {
                (Some(at), _) => at.as_fd(),
                (None, Some(open)) => descriptor(tree, open),
                (None, None) => CWD,
            };
            let opened = enter(tree, next, from)?;
            // Whoever is needed next is probably near: leave steps behind, the
            // closer the more.
            if let Some(passed) = at.replace(opened)
                && (distance + 1).is_power_of_two()
                && tree.open + self.batch() + 3 <= self.budget
            {
                tree.keep_open(way[distance + 1], passed);
            }
        }
        if let Some(descriptor) = at {
            tree.keep_open(number, descriptor);
        }
        Ok(())
    }
}

/// Has the kernel make room for so many descriptors. It doubles its table as they
/// grow, and with other threads there waits each time until none can be using the
/// old one: some 25 ms (`expand_fdtable`, fs/file.c).
fn make_table(descriptors: usize) {
    let highest = descriptors.saturating_sub(1) as RawFd;
    // Refused: it will grow when it must.
    let _ = fcntl_dupfd_cloexec(std::io::stderr(), highest);
}

/// The descriptor of a directory that is open.
fn descriptor(tree: &Tree, number: u32) -> BorrowedFd<'_> {
    let descriptor = tree.directory(number).descriptor.as_ref();
    descriptor.expect("a parent is open until its last child has been opened").as_fd()
}

/// Descriptor in which to open directory `number`: its parent's, which must be open, or, for the
/// operand, the working directory.
pub(crate) fn above(tree: &Tree, number: u32) -> BorrowedFd<'_> {
    match number {
        ROOT => CWD,
        number => descriptor(tree, tree.directory(number).parent),
    }
}

/// Opens directory `number`, for passing through only, and makes sure that it
/// is the one seen before.
fn enter(tree: &Tree, number: u32, from: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let known = tree.directory(number);
    let nofollow = if known.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | nofollow;
    let opened = rustix::fs::openat(from, tree.name(number), flags, Mode::empty())?;
    let found = fstat(&opened)?;
    let same = (found.st_dev, found.st_ino) == (known.device, known.inode);
    if same { Ok(opened) } else { Err(Errno::STALE) }
}
