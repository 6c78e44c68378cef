//! The walk: what an operand and everything below it takes.
//!
//! ```text
//! pending ── open, a batch ─> active ── read until each buffer is full or done
//!    ^                          ^                        |
//!    |                          └── not at the end ──────┤
//!    └── directories found <── stat every name read <────┘
//! ```
//!
//! The directories found last are opened first, as many at once as descriptors
//! allow: wide enough for large batches, and still no more descriptors open than
//! a walk in depth has, times the batch.

use std::collections::HashSet;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use kumiki_parasc::Operation;
use kumiki_parasc::op::{Close, Entries};
use rustc_hash::FxBuildHasher;
use rustix::fs::{AtFlags, CWD, FileType, stat, statat};
use rustix::io::Errno;

use crate::accounts::{Accounts, Meta};
use crate::calls::{self, Calls, Read, Stat};
use crate::descriptors::{Descriptors, above};
use crate::links::{Claim, Links};
use crate::rules::Rules;
use crate::talk::{Talk, cannot};
use crate::tree::{Found, ROOT, Tree, join};

/// Bytes of records read from a directory before its entries are looked at.
const BUFFER_BYTES: usize = 16 * 1024;

/// A record of getdents64(2) of a name of 255 bytes: with less room it is not asked for
/// more. Some file systems have longer ones, as vfat of 255 characters.
const LONG: usize = 280;

/// Names looked at in one batch: their results stay in the nearer caches.
const STATS: usize = 512;

/// A directory being read.
struct Active {
    directory: u32,
    descriptor: OwnedFd,
    buffer: Box<[u8]>,
    filled: usize,
    /// The next record did not fit.
    full: bool,
    /// Everything has been read.
    done: bool,
}

impl Active {
    fn new(directory: u32, descriptor: OwnedFd, buffer: Box<[u8]>) -> Self {
        Active { directory, descriptor, buffer, filled: 0, full: false, done: false }
    }

    /// True if the buffer takes another record, of nearly any name.
    fn has_room(&self) -> bool {
        !self.done && !self.full && self.buffer.len() - self.filled >= LONG
    }

    /// Frees the records that were read.
    fn clear(&mut self) {
        (self.filled, self.full) = (0, false);
    }

    /// Takes what a read into the rest of the buffer has given.
    fn take(&mut self, read: Result<usize, Errno>) -> Result<(), Errno> {
        match read {
            Ok(filled) => {
                self.filled += filled;
                self.done = filled == 0;
            }
            Err(Errno::INVAL) if self.filled > 0 => self.full = true,
            Err(error) => {
                self.done = true;
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Walks operands, one after the other.
pub(crate) struct Walk<'a, C> {
    calls: C,
    rules: &'a Rules,
    talk: &'a Talk,
    accounts: Accounts<'a>,
    descriptors: Descriptors,
    buffers: Vec<Box<[u8]>>,
    /// Directories that have been met, by device and inode.
    admitted: HashSet<(u64, u64), FxBuildHasher>,
    /// Memory for questions.
    stats: [Vec<Stat<'static>>; 2],
    /// Descriptors to be closed.
    finished: Vec<Close>,
}

/// A name that has been read.
#[derive(Clone, Copy)]
struct EntryName<'a> {
    reading: &'a Active,
    name: &'a CStr,
    /// True if it may be a symbolic link, and those are followed.
    followed: bool,
}

impl EntryName<'_> {
    /// True if so many symbolic links lead there that the kernel refuses the whole path. GNU du,
    /// which follows links by that, leaves it out.
    #[cold]
    fn is_too_far(&self, tree: &Tree) -> bool {
        let path = tree.path_of_entry(self.reading.directory, self.name);
        stat(path).err() == Some(Errno::LOOP)
    }

    /// Notes that nothing is known of it: without an error, as it is too far.
    #[cold]
    fn cannot_access(&self, tree: &mut Tree, rules: &Rules, error: Option<Errno>) {
        let error = error.unwrap_or(Errno::LOOP);
        let dangling =
            rules.follow && is_dangling(self.reading.descriptor.as_fd(), self.name, error);
        let path = tree.path_of_entry(self.reading.directory, self.name);
        let text = cannot("access", &path, (!dangling).then_some(error));
        tree.fault_of_next(self.reading.directory, text);
    }
}

/// Names of a batch and what was found of each.
#[derive(Default)]
struct Looked<'a> {
    names: Vec<EntryName<'a>>,
    stats: Vec<Stat<'a>>,
    found: Vec<Result<(), Errno>>,
}

impl<'a> Looked<'a> {
    /// Counts and forgets them.
    fn count(&mut self, tree: &mut Tree, accounts: &mut Accounts<'_>) {
        let found = self.found.drain(..).zip(&self.stats);
        for (name, (result, stat)) in self.names.iter().zip(found) {
            match result.and_then(|()| meta(stat)) {
                Ok(meta) if !(name.followed && name.is_too_far(tree)) => {
                    accounts.account(tree, name.reading.directory, name.name, meta);
                }
                found => name.cannot_access(tree, accounts.rules, found.err()),
            }
        }
        self.names.clear();
        self.stats.clear();
    }

    /// Takes the next names.
    fn take(&mut self, names: &mut impl Iterator<Item = EntryName<'a>>, follow: bool) {
        for name in names.take(STATS) {
            self.names.push(name);
            self.stats.push(calls::stat(name.reading.descriptor.as_fd(), name.name, follow));
        }
    }
}

/// Attributes that `stat` has found.
fn meta<'a>(stat: &'a Stat<'_>) -> Result<Meta<'a>, Errno> {
    stat.stat().map(Meta).ok_or(Errno::NODATA)
}

/// True if a name that has led to `error` is a symbolic link to nothing. GNU du gives no reason
/// then.
fn is_dangling(directory: BorrowedFd<'_>, name: &CStr, error: Errno) -> bool {
    let itself = || statat(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT);
    error == Errno::NOENT && itself().is_ok()
}

/// Reuses the memory for questions about something else.
fn recycle<'b>(mut memory: Vec<Stat<'_>>) -> Vec<Stat<'b>> {
    memory.clear();
    // The standard library collects in place.
    memory.into_iter().map(|_| unreachable!("it is empty")).collect()
}

impl<'a, C: Calls> Walk<'a, C> {
    pub(crate) fn new(calls: C, rules: &'a Rules, talk: &'a Talk) -> Self {
        let accounts = Accounts { rules, talk, links: Links::default(), operand: 0 };
        Walk {
            calls,
            rules,
            talk,
            accounts,
            descriptors: Descriptors::new(),
            buffers: Vec::new(),
            admitted: HashSet::default(),
            stats: Default::default(),
            finished: Vec::new(),
        }
    }

    /// Counts `operand`; `None` if it does not count: excluded, seen in an earlier operand, or not
    /// to be found, which is said.
    pub(crate) fn operand(&mut self, operand: &CStr) -> Option<Tree> {
        if self.rules.exclude.matches(operand.to_bytes()) {
            return None;
        }
        self.accounts.operand += 1;
        let follow = self.rules.follow || self.rules.follow_operands;
        let mut stat = calls::stat(CWD, operand, follow);
        let result = stat.call();
        let meta = match result.and_then(|()| meta(&stat)) {
            Ok(meta) => meta,
            Err(error) => {
                let dangling = follow && is_dangling(CWD, operand, error);
                let error = (!dangling).then_some(error);
                self.talk.fault(&cannot("access", operand.to_bytes(), error));
                return None;
            }
        };
        let mut tree = Tree::new(operand, self.rules.time.is_some());
        if meta.kind().is_dir() {
            tree.add(None, operand, &Found { follow, ..self.accounts.found(meta, 0) });
            self.descend(&mut tree);
            tree.take_faults().for_each(|text| self.talk.fault(&text));
            tree.finish();
            return (!tree.directory(ROOT).dropped).then_some(tree);
        }
        let accounts = &mut self.accounts;
        tree.alone = accounts.sum(meta);
        let claim =
            Claim { operand: accounts.operand, directory: ROOT, position: 0, line: None, bytes: 0 };
        let seen =
            accounts.may_recur(meta) && accounts.links.claim(meta.identity(), claim).is_some();
        (!seen).then_some(tree)
    }

    fn descend(&mut self, tree: &mut Tree) {
        let mut active = Vec::new();
        while !(active.is_empty() && tree.pending.is_empty()) {
            self.open_more(tree, &mut active);
            let before = tree.pending.len();
            self.fill(tree, &mut active);
            self.examine(tree, &active);
            active = self.put_away(tree, active);
            self.talk.progress();
            // The first one found is the next one.
            tree.pending[before..].reverse();
        }
    }

    /// Opens the next directories, beside those that are being read.
    fn open_more(&mut self, tree: &mut Tree, active: &mut Vec<Active>) {
        // Through symbolic links a directory can be met in several places, and
        // the first one in order counts: so one after the other.
        let most = if self.rules.follow { 1 } else { self.descriptors.batch() };
        let most = most.saturating_sub(active.len());
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some(number) = tree.pending.pop()
        {
            if self.admit(tree, number) {
                batch.push(number);
            } else {
                tree.directory_mut(number).dropped = true;
                self.opened_one(tree, number);
            }
        }
        self.descriptors.make_room(tree, active.len() + batch.len());
        let mut postponed = Vec::new();
        batch.retain(|&number| match self.descriptors.open_parent(tree, number) {
            Ok(()) => true,
            Err(error) if is_short(error) && (self.descriptors.shrink() || !active.is_empty()) => {
                postponed.push(number);
                false
            }
            Err(error) => {
                Self::cannot_read(tree, number, error);
                self.opened_one(tree, number);
                false
            }
        });

        let open = |&n: &u32| calls::open(above(tree, n), tree.name(n), tree.directory(n).follow);
        let results = self.calls.make(&mut batch.iter().map(open).collect::<Vec<_>>(), || ());
        // Some are open, or fewer at once may be: the others get a second try.
        let short = results.iter().any(|result| result.as_ref().is_err_and(|&e| is_short(e)));
        let some = !active.is_empty() || results.iter().any(Result::is_ok);
        let again = short && (self.descriptors.shrink() || some);

        for (number, result) in batch.into_iter().zip(results) {
            match result {
                Ok(descriptor) => {
                    let buffer = self.buffers.pop();
                    let buffer = buffer.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice());
                    active.push(Active::new(number, descriptor, buffer));
                }
                Err(error) if again && is_short(error) => {
                    postponed.push(number);
                    continue;
                }
                Err(error) => Self::cannot_read(tree, number, error),
            }
            self.opened_one(tree, number);
        }
        calls::close(&mut self.calls, &mut self.finished);
        tree.pending.extend(postponed.into_iter().rev());
    }

    /// True if a directory counts: not seen before, nor its own ancestor.
    fn admit(&mut self, tree: &Tree, number: u32) -> bool {
        let found = tree.directory(number);
        let (device, inode) = (found.device, found.inode);
        let same = |above| {
            let above = tree.directory(above);
            (above.device, above.inode) == (device, inode)
        };
        // A postponed one is admitted twice.
        let claim = Claim {
            operand: self.accounts.operand,
            directory: number,
            position: 0,
            line: None,
            bytes: found.own_bytes,
        };
        if self.rules.once
            && !self.rules.count_links
            && let Some(held) = self.accounts.links.claim((device, inode), claim)
            && (held.operand, held.directory) != (claim.operand, number)
        {
            return false;
        }
        // A mount or a symbolic link may lead into an ancestor.
        let again = !self.admitted.insert((device, inode));
        !(again && tree.ancestors(number).any(same))
    }

    fn cannot_read(tree: &mut Tree, number: u32, error: Errno) {
        let text = cannot("read directory", &tree.path(number), Some(error));
        let found = tree.directory(number);
        let (parent, position) = (found.parent, found.position);
        tree.fault(parent, position, text);
    }

    /// Directory `number` needs its parent no longer.
    fn opened_one(&mut self, tree: &mut Tree, number: u32) {
        if number != ROOT {
            let parent = tree.directory(number).parent;
            let above = tree.directory_mut(parent);
            above.waiting -= 1;
            if above.waiting == 0 {
                self.finished.extend(tree.release(parent).map(Close::new));
            }
        }
    }

    /// Reads until each directory's buffer is full or the directory at its end.
    fn fill(&mut self, tree: &mut Tree, active: &mut [Active]) {
        active.iter_mut().for_each(Active::clear);
        while active.iter().any(Active::has_room) {
            let wanting = active.iter_mut().filter(|reading| reading.has_room());
            let reads = wanting.map(|reading| {
                Read::new(reading.descriptor.as_fd(), &mut reading.buffer[reading.filled..])
            });
            let results = self.calls.make(&mut reads.collect::<Vec<_>>(), || ());
            let wanting = active.iter_mut().filter(|reading| reading.has_room());
            for (reading, result) in wanting.zip(results) {
                match reading.take(result) {
                    // A directory that has been removed is at its end.
                    Ok(()) | Err(Errno::NOENT) => (),
                    Err(error) => Self::cannot_read(tree, reading.directory, error),
                }
            }
        }
    }

    /// Looks at every name that has been read, and counts what it is.
    fn examine(&mut self, tree: &mut Tree, active: &[Active]) {
        let rules = self.rules;
        let read = active
            .iter()
            .map(|reading| (reading, rules.exclude.prefix(|| tree.path(reading.directory))));
        let read: Vec<_> = read.collect();
        let mut entries = read.iter().flat_map(|(reading, prefix)| {
            let names = Entries::new(&reading.buffer[..reading.filled]);
            let names = names.filter(|entry| !matches!(entry.name.to_bytes(), b"." | b".."));
            let excluded = move |name: &CStr| {
                prefix.as_ref().is_some_and(|prefix| {
                    let mut path = prefix.clone();
                    join(&mut path, name.to_bytes());
                    rules.exclude.matches(&path)
                })
            };
            names.filter(move |entry| !excluded(entry.name)).map(move |entry| {
                let link = matches!(entry.kind, FileType::Symlink | FileType::Unknown);
                EntryName { reading, name: entry.name, followed: link && rules.follow }
            })
        });
        let Walk { calls, accounts, stats, .. } = self;
        let [mut last, mut next] = std::mem::take(stats)
            .map(|stats| Looked { stats: recycle(stats), ..Looked::default() });
        next.take(&mut entries, rules.follow);
        while !next.names.is_empty() {
            // Other threads are at these names while this one counts the last and
            // takes the ones after them.
            next.found = calls.make(&mut next.stats, || {
                last.count(tree, accounts);
                last.take(&mut entries, rules.follow);
            });
            std::mem::swap(&mut last, &mut next);
        }
        last.count(tree, accounts);
        *stats = [last, next].map(|looked| recycle(looked.stats));
    }

    /// Closes directories that have been read and have nothing below; returns
    /// those that have not been read to the end.
    fn put_away(&mut self, tree: &mut Tree, active: Vec<Active>) -> Vec<Active> {
        let (done, unread): (Vec<_>, Vec<_>) = active.into_iter().partition(|reading| reading.done);
        for Active { directory, descriptor, buffer, .. } in done {
            if tree.directory(directory).waiting == 0 {
                self.finished.push(Close::new(descriptor));
            } else {
                tree.keep_open(directory, descriptor);
            }
            self.buffers.push(buffer);
        }
        calls::close(&mut self.calls, &mut self.finished);
        unread
    }
}

/// True if there are too few descriptors, here or in the whole system.
fn is_short(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_does_not_fit_is_read_into_the_empty_buffer() {
        let directory = std::fs::File::open("/").unwrap();
        let mut reading = Active::new(ROOT, directory.into(), vec![0; 2048].into());
        assert_eq!(reading.take(Ok(1600)), Ok(()));
        assert!(reading.has_room());
        // As names of 255 characters are, where those are several bytes each.
        assert_eq!(reading.take(Err(Errno::INVAL)), Ok(()));
        assert!(!reading.has_room() && !reading.done && reading.filled == 1600);
        reading.clear();
        assert!(reading.has_room());
        assert_eq!(reading.take(Err(Errno::INVAL)), Err(Errno::INVAL));
        assert!(!reading.has_room() && reading.done);
    }
}
