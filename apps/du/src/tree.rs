//! What a walk keeps of one operand: its directories, and files that get a line.

use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;

use crate::sum::Sum;
use crate::when::Moment;

/// Number of the operand's own directory.
pub(crate) const ROOT: u32 = 0;

/// A directory. Parents have lower numbers than their children.
#[derive(Debug)]
pub(crate) struct Directory {
    /// Itself for the root.
    pub(crate) parent: u32,
    /// Position among its parent's entries, in the kernel's order.
    pub(crate) position: u32,
    /// 0 for the root.
    pub(crate) depth: u32,
    name: Name,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Its name may be a symbolic link.
    pub(crate) follow: bool,
    /// True if it is not counted after all: seen before, or its own ancestor.
    pub(crate) dropped: bool,
    /// Space of the directory itself.
    pub(crate) own_bytes: u64,
    /// Space of its entries that are not directories.
    pub(crate) files_bytes: u64,
    /// Entries seen so far.
    pub(crate) entries: u32,
    /// Subdirectories that have still to be opened, through this descriptor.
    pub(crate) waiting: u32,
    pub(crate) descriptor: Option<OwnedFd>,
}

/// A file, or anything but a directory, that gets a line of its own.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) directory: u32,
    pub(crate) position: u32,
    name: Name,
    pub(crate) bytes: u64,
    /// Counted at another of its names.
    pub(crate) dropped: bool,
}

/// Range of a name among the names.
#[derive(Clone, Copy, Debug)]
struct Name {
    start: usize,
    /// Length with the NUL.
    length: u32,
}

/// Times of a directory.
#[derive(Clone, Copy, Debug)]
struct Times {
    own: Moment,
    /// The latest of its entries that are not directories.
    files: Moment,
}

/// Times that a walk keeps, if they are asked for.
#[derive(Debug, Default)]
pub(crate) struct TreeTimes {
    /// Times of directories by number.
    directories: Vec<Times>,
    /// Times of the files, in the same order.
    files: Vec<Moment>,
    /// Files that may be found again, by device and inode: the directory where each is
    /// counted in the end is known when everything has been seen.
    recurring: HashMap<(u64, u64), (u32, Moment)>,
}

impl TreeTimes {
    /// A file that is counted once.
    pub(crate) fn file(&mut self, directory: u32, time: Moment) {
        let files = &mut self.directories[directory as usize].files;
        *files = time.max(*files);
    }

    /// A file that may be counted elsewhere later.
    pub(crate) fn recurring(&mut self, file: (u64, u64), directory: u32, time: Moment) {
        self.recurring.insert(file, (directory, time));
    }
}

/// A failed operation: its entry, of which directory, and a message.
pub(crate) type Fault = ((u32, u32), Vec<u8>);

/// One operand.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The operand as it is printed.
    pub(crate) operand: CString,
    /// Directories by number; empty if the operand is no directory.
    pub(crate) directories: Vec<Directory>,
    /// Files in the order in which they were found.
    pub(crate) files: Vec<File>,
    /// Directories to open, the next one last.
    pub(crate) pending: Vec<u32>,
    /// Directories with a descriptor, the one needed last first; some have lost
    /// theirs since.
    pub(crate) kept_open: VecDeque<u32>,
    /// Number of directories that have one; the rest of them closes with the tree.
    pub(crate) open: usize,
    /// Every name, with its NUL.
    names: Vec<u8>,
    /// Sum of the operand if it is no directory.
    pub(crate) alone: Sum,
    pub(crate) times: Option<TreeTimes>,
    faults: Vec<Fault>,
}

impl Tree {
    /// `timed`: with the times of everything.
    pub(crate) fn new(operand: &CStr, timed: bool) -> Self {
        Tree {
            operand: operand.to_owned(),
            directories: Vec::new(),
            files: Vec::new(),
            pending: Vec::new(),
            kept_open: VecDeque::new(),
            open: 0,
            names: Vec::new(),
            alone: Sum::NOTHING,
            times: timed.then(TreeTimes::default),
            faults: Vec::new(),
        }
    }

    /// Notes that an operation on an entry of a directory failed.
    pub(crate) fn fault(&mut self, directory: u32, position: u32, text: Vec<u8>) {
        self.faults.push(((directory, position), text));
    }

    /// Notes a fault of the entry that comes next there.
    pub(crate) fn fault_of_next(&mut self, directory: u32, text: Vec<u8>) {
        let holder = self.directory_mut(directory);
        let position = holder.entries;
        holder.entries += 1;
        self.fault(directory, position, text);
    }

    /// Faults, in the order in which `du` comes by.
    pub(crate) fn take_faults(&mut self) -> impl Iterator<Item = Vec<u8>> {
        let mut faults = std::mem::take(&mut self.faults);
        faults.sort_by(|(a, _), (b, _)| match (self.before(*a, *b), self.before(*b, *a)) {
            (true, _) => std::cmp::Ordering::Less,
            (_, true) => std::cmp::Ordering::Greater,
            _ => std::cmp::Ordering::Equal,
        });
        faults.into_iter().map(|(_, text)| text)
    }

    /// The latest time of a directory and of files in it; [`Moment::NEVER`] if none is
    /// asked for, or it is not counted.
    pub(crate) fn directory_time(&self, number: u32) -> Moment {
        match &self.times {
            Some(times) if !self.directory(number).dropped => {
                let Times { own, files } = times.directories[number as usize];
                own.max(files)
            }
            _ => Moment::NEVER,
        }
    }

    /// Time of a file that gets a line.
    pub(crate) fn file_time(&self, number: usize) -> Moment {
        self.times.as_ref().map_or(Moment::NEVER, |times| times.files[number])
    }

    /// Everything has been seen.
    pub(crate) fn finish(&mut self) {
        if let Some(times) = &mut self.times {
            for (_, (directory, time)) in std::mem::take(&mut times.recurring) {
                times.file(directory, time);
            }
        }
    }

    fn keep(&mut self, name: &CStr) -> Name {
        let bytes = name.to_bytes_with_nul();
        let start = self.names.len();
        self.names.extend_from_slice(bytes);
        Name { start, length: bytes.len() as u32 }
    }

    fn kept(&self, name: Name) -> &CStr {
        let bytes = &self.names[name.start..name.start + name.length as usize];
        CStr::from_bytes_with_nul(bytes).unwrap_or_default()
    }

    /// Adds a directory that waits to be opened: the next entry of `parent`,
    /// or the root.
    pub(crate) fn add(&mut self, parent: Option<u32>, name: &CStr, meta: &Found) {
        let number = self.directories.len() as u32;
        let name = self.keep(name);
        let depth = match parent {
            None => 0,
            Some(parent) => {
                let parent = &mut self.directories[parent as usize];
                parent.waiting += 1;
                parent.depth + 1
            }
        };
        self.directories.push(Directory {
            parent: parent.unwrap_or(number),
            position: meta.position,
            depth,
            name,
            device: meta.device,
            inode: meta.inode,
            follow: meta.follow,
            dropped: false,
            own_bytes: meta.bytes,
            files_bytes: 0,
            entries: 0,
            waiting: 0,
            descriptor: None,
        });
        self.pending.push(number);
        if let Some(times) = &mut self.times {
            times.directories.push(Times { own: meta.time, files: Moment::NEVER });
        }
    }

    /// Adds a line for a file.
    #[inline]
    pub(crate) fn add_file(&mut self, directory: u32, position: u32, name: &CStr, sum: Sum) {
        let name = self.keep(name);
        self.files.push(File { directory, position, name, bytes: sum.amount, dropped: false });
        if let Some(times) = &mut self.times {
            times.files.push(sum.time);
        }
    }

    pub(crate) fn directory(&self, number: u32) -> &Directory {
        &self.directories[number as usize]
    }

    pub(crate) fn directory_mut(&mut self, number: u32) -> &mut Directory {
        &mut self.directories[number as usize]
    }

    /// Keeps the descriptor of directory `number`.
    pub(crate) fn keep_open(&mut self, number: u32, descriptor: OwnedFd) {
        // One read in parts may have been opened a second time for its
        // subdirectories.
        if self.directory_mut(number).descriptor.replace(descriptor).is_none() {
            self.kept_open.push_back(number);
            self.open += 1;
        }
    }

    /// Takes the descriptor of directory `number`, to close it.
    pub(crate) fn release(&mut self, number: u32) -> Option<OwnedFd> {
        let descriptor = self.directory_mut(number).descriptor.take();
        self.open -= usize::from(descriptor.is_some());
        descriptor
    }

    /// The name to open directory `number` by, relative to its parent.
    pub(crate) fn name(&self, number: u32) -> &CStr {
        self.kept(self.directory(number).name)
    }

    pub(crate) fn file_name(&self, file: &File) -> &CStr {
        self.kept(file.name)
    }

    /// The ancestors of directory `number`, its parent first.
    pub(crate) fn ancestors(&self, number: u32) -> impl Iterator<Item = u32> {
        let parent = |of: u32| (of != ROOT).then(|| self.directory(of).parent);
        std::iter::successors(parent(number), move |&above| parent(above))
    }

    /// The path of directory `number`, as it is printed.
    pub(crate) fn path(&self, number: u32) -> Vec<u8> {
        let mut line: Vec<_> = self.ancestors(number).collect();
        line.reverse();
        line.push(number);
        let mut path = Vec::new();
        line.into_iter().for_each(|number| join(&mut path, self.name(number).to_bytes()));
        path
    }

    /// The path of an entry of directory `number`.
    pub(crate) fn path_of_entry(&self, number: u32, name: &CStr) -> Vec<u8> {
        let mut path = self.path(number);
        join(&mut path, name.to_bytes());
        path
    }

    /// True if an entry comes before another one when every directory is gone through where its
    /// parent names it, as `du` goes. Each is a directory and a position in it.
    pub(crate) fn before(&self, a: (u32, u32), b: (u32, u32)) -> bool {
        let up = |(directory, _)| {
            let above: &Directory = self.directory(directory);
            (above.parent, above.position)
        };
        let (mut a, mut b) = (a, b);
        while a.0 != b.0 {
            let (a_depth, b_depth) = (self.directory(a.0).depth, self.directory(b.0).depth);
            if a_depth >= b_depth {
                a = up(a);
            }
            if b_depth >= a_depth {
                b = up(b);
            }
        }
        a.1 < b.1
    }
}

/// Facts that a walk found about a directory before opening it.
pub(crate) struct Found {
    pub(crate) position: u32,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) follow: bool,
    pub(crate) bytes: u64,
    pub(crate) time: Moment,
}

/// Appends a component to a path.
pub(crate) fn join(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn found(position: u32) -> Found {
        Found { position, device: 1, inode: 1, follow: false, bytes: 0, time: Moment::NEVER }
    }

    /// `r/` with `a/` at 0 and `b/` at 2, `r/a/c/` at 5.
    fn tree() -> Tree {
        let mut tree = Tree::new(c"r", false);
        tree.add(None, c"r", &found(0));
        tree.add(Some(0), c"a", &found(0));
        tree.add(Some(0), c"b", &found(2));
        tree.add(Some(1), c"c", &found(5));
        tree
    }

    #[test]
    fn paths() {
        let tree = tree();
        assert_eq!(tree.path(ROOT), b"r");
        assert_eq!(tree.path(3), b"r/a/c");
        assert_eq!(tree.path_of_entry(2, c"x"), b"r/b/x");
        let mut slash = Tree::new(c"/", false);
        slash.add(None, c"/", &found(0));
        assert_eq!(slash.path_of_entry(ROOT, c"x"), b"/x");
    }

    #[test]
    fn a_directory_opened_twice_is_one() {
        let mut tree = tree();
        let descriptor = || std::io::stderr().as_fd().try_clone_to_owned().unwrap();
        tree.keep_open(1, descriptor());
        tree.keep_open(1, descriptor());
        assert_eq!((tree.open, tree.kept_open.len()), (1, 1));
        assert!(tree.release(1).is_some() && tree.release(1).is_none());
        assert_eq!(tree.open, 0);
    }

    #[test]
    fn faults_are_told_in_order() {
        let mut tree = tree();
        for (directory, position) in [(0, 3), (3, 1), (0, 1), (3, 0)] {
            tree.fault(directory, position, vec![directory as u8, position as u8]);
        }
        let told: Vec<_> = tree.take_faults().collect();
        assert_eq!(told, [[3, 0], [3, 1], [0, 1], [0, 3]]);
    }

    #[test]
    fn order_of_entries() {
        let tree = tree();
        let sorted = [(1, 3), (3, 0), (3, 1), (1, 6), (0, 1), (2, 0), (0, 3)];
        for (i, &a) in sorted.iter().enumerate() {
            for (j, &b) in sorted.iter().enumerate() {
                assert_eq!(tree.before(a, b), i < j, "{a:?} {b:?}");
            }
        }
    }
}
