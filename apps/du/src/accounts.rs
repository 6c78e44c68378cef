//! What of an entry counts where.

use std::ffi::CStr;

use rustix::fs::{FileType, Stat};

use crate::links::{Claim, Links};
use crate::rules::{Amount, Rules};
use crate::sum::Sum;
use crate::talk::Talk;
use crate::tree::{Found, ROOT, Tree};
use crate::when::Moment;

/// Attributes of a file of any kind.
#[derive(Clone, Copy)]
pub(crate) struct Meta<'a>(pub(crate) &'a Stat);

impl Meta<'_> {
    pub(crate) fn kind(self) -> FileType {
        FileType::from_raw_mode(self.0.st_mode)
    }

    /// Identity by device and inode.
    pub(crate) fn identity(self) -> (u64, u64) {
        (self.0.st_dev, self.0.st_ino)
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
    pub(crate) fn account(&mut self, tree: &mut Tree, directory: u32, name: &CStr, meta: Meta<'_>) {
        let device = tree.directory(ROOT).device;
        if self.rules.one_file_system && meta.0.st_dev != device {
            return;
        }
        let bytes = self.bytes(meta);
        let holder = tree.directory_mut(directory);
        let position = holder.entries;
        holder.entries += 1;
        self.talk.count(bytes);
        if meta.kind().is_dir() {
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
            let time = self.time(meta);
            if recurs {
                times.recurring(meta.identity(), directory, time);
            } else {
                times.file(directory, time);
            }
        }
        if listed {
            let sum = Sum { amount: bytes, time: self.time(meta) };
            tree.add_file(directory, position, name, sum);
        }
    }

    /// Claims a file that may be found again; `false` if it counts elsewhere.
    /// What was counted where a later name stands is taken back.
    fn claim(&mut self, tree: &mut Tree, claim: Claim, meta: Meta<'_>) -> bool {
        let Some(held) = self.links.claim(meta.identity(), claim) else { return true };
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

    /// True if a file could be met a second time.
    pub(crate) fn may_recur(&self, meta: Meta<'_>) -> bool {
        !self.rules.count_links && (self.rules.once || meta.0.st_nlink > 1)
    }

    /// Amount that a file adds: bytes, or one.
    #[inline]
    fn bytes(&self, meta: Meta<'_>) -> u64 {
        match self.rules.amount {
            // Units of 512 bytes.
            Amount::Blocks => (meta.0.st_blocks as u64).saturating_mul(512),
            Amount::Lengths => match meta.kind() {
                FileType::RegularFile | FileType::Symlink => meta.0.st_size as u64,
                // What the length of any other file means is for its file system to say.
                _ => 0,
            },
            Amount::Inodes => 1,
        }
    }

    /// The time that counts; [`Moment::NEVER`] if none is asked for.
    fn time(&self, meta: Meta<'_>) -> Moment {
        self.rules.time.map_or(Moment::NEVER, |which| Moment::of(meta.0, which))
    }

    pub(crate) fn sum(&self, meta: Meta<'_>) -> Sum {
        Sum { amount: self.bytes(meta), time: self.time(meta) }
    }

    pub(crate) fn found(&self, meta: Meta<'_>, position: u32) -> Found {
        let (device, inode) = meta.identity();
        let (follow, time) = (self.rules.follow, self.time(meta));
        Found { position, device, inode, follow, bytes: self.bytes(meta), time }
    }
}
