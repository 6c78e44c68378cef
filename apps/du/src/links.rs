//! Files that may be found more than once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use rustc_hash::FxBuildHasher;

/// Place at which a file has been counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// The operand, by number.
    pub(crate) operand: usize,
    /// The directory, by number within the operand's tree.
    pub(crate) directory: u32,
    /// The entry in that directory.
    pub(crate) position: u32,
    /// Its own line, if it has one.
    pub(crate) line: Option<u32>,
    /// Bytes that were counted.
    pub(crate) bytes: u64,
}

/// Every file seen so far that could be met again, by device and inode.
///
/// The quick hash does not resist chosen keys; whoever can choose inode
/// numbers owns the file system, and could make the walk slow in easier ways.
#[derive(Debug, Default)]
pub(crate) struct Links(HashMap<(u64, u64), Claim, FxBuildHasher>);

impl Links {
    /// Enters a file, by device and inode; `None` if it was new, otherwise the claim that stands,
    /// which the caller may replace.
    pub(crate) fn claim(&mut self, file: (u64, u64), claim: Claim) -> Option<&mut Claim> {
        match self.0.entry(file) {
            Entry::Vacant(free) => {
                free.insert(claim);
                None
            }
            Entry::Occupied(taken) => Some(taken.into_mut()),
        }
    }
}
