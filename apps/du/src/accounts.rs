//! What of an entry counts where.

use std::ffi::CStr;

use rustix::fs::{FileType, Stat};

use crate::lines::Sum;
use crate::links::{Claim, Links};
use crate::talk::Talk;
use crate::tree::{Found, ROOT, Tree};
use crate::walk::Rules;
use crate::when::{Moment, Which};

/// What is added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Amount {
    /// What files take on the disk.
    #[default]
    Blocks,
    /// How long files are.
    Lengths,
    /// How many there are.
    Inodes,
}

/// What is known of a file of any kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) kind: FileType,
    links: u64,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Units of 512 bytes.
    blocks: u64,
    size_bytes: u64,
    /// [`Moment::NEVER`] if no time is asked for.
    time: Moment,
}

impl Meta {
    #[inline]
    pub(crate) fn new(found: &Stat, time: Option<Which>) -> Self {
        Meta {
            kind: FileType::from_raw_mode(found.st_mode),
            links: found.st_nlink,
            device: found.st_dev,
            inode: found.st_ino,
            blocks: found.st_blocks as u64,
            size_bytes: found.st_size as u64,
            time: time.map_or(Moment::NEVER, |which| Moment::of(found, which)),
        }
    }
}

/// Counts entries, each file once.
pub(crate) struct Accounts<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) talk: &'a Talk,
    pub(crate) links: Links,
    /// The operand that is being walked, by number.
    pub(crate) operand: usize,
}

impl Accounts<'_> {
    /// Counts one entry.
    pub(crate) fn account(&mut self, tree: &mut Tree, directory: u32, name: &CStr, meta: &Meta) {
        let device = tree.directory(ROOT).device;
        if self.rules.one_file_system && meta.device != device {
            return;
        }
        let bytes = self.bytes(meta);
        let holder = tree.directory_mut(directory);
        let position = holder.entries;
        holder.entries += 1;
        self.talk.count(bytes);
        if meta.kind.is_dir() {
            tree.add(Some(directory), name, &self.found(meta, position));
            return;
        }
        let depth = holder.depth + 1;
        let listed = self.rules.files_to_depth.is_some_and(|deepest| depth <= deepest);
        let line = listed.then_some(tree.files.len() as u32);
        let claim = Claim { operand: self.operand, directory, position, line, bytes };
        let recurs = self.may_recur(meta);
        if recurs && !self.claim(tree, claim, meta) {
            return;
        }
        let held = tree.directory_mut(directory);
        held.files_bytes = held.files_bytes.saturating_add(bytes);
        if let Some(times) = &mut tree.times {
            if recurs {
                times.recurring((meta.device, meta.inode), directory, meta.time);
            } else {
                times.file(directory, meta.time);
            }
        }
        if listed {
            tree.add_file(directory, position, name, Sum { amount: bytes, time: meta.time });
        }
    }

    /// Claims a file that may be found again; `false` if it counts elsewhere.
    /// What was counted where a later name stands is taken back.
    fn claim(&mut self, tree: &mut Tree, claim: Claim, meta: &Meta) -> bool {
        let Some(held) = self.links.claim(meta.device, meta.inode, claim) else { return true };
        let earlier = held.operand == claim.operand
            && tree.before((claim.directory, claim.position), (held.directory, held.position));
        if earlier {
            tree.directory_mut(held.directory).files_bytes -= held.bytes;
            if let Some(line) = held.line {
                tree.files[line as usize].dropped = true;
            }
            *held = claim;
        }
        earlier
    }

    /// Whether a file could be met a second time.
    pub(crate) fn may_recur(&self, meta: &Meta) -> bool {
        !self.rules.count_links && (self.rules.once || meta.links > 1)
    }

    /// What is counted for a file: bytes, or one.
    #[inline]
    fn bytes(&self, meta: &Meta) -> u64 {
        match self.rules.amount {
            Amount::Blocks => meta.blocks.saturating_mul(512),
            // What the length of any other file means is for its file system to say.
            Amount::Lengths if meta.kind.is_file() || meta.kind.is_symlink() => meta.size_bytes,
            Amount::Lengths => 0,
            Amount::Inodes => 1,
        }
    }

    pub(crate) fn sum(&self, meta: &Meta) -> Sum {
        Sum { amount: self.bytes(meta), time: meta.time }
    }

    pub(crate) fn found(&self, meta: &Meta, position: u32) -> Found {
        let Meta { device, inode, .. } = *meta;
        let follow = self.rules.follow;
        Found { position, device, inode, follow, bytes: self.bytes(meta), time: meta.time }
    }
}
