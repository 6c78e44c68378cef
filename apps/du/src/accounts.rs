//! What of an entry counts where.

use std::ffi::CStr;

use rustix::fs::{FileType, Stat};

use crate::links::{Claim, Links};
use crate::talk::Talk;
use crate::tree::{Found, ROOT, Tree};
use crate::walk::Rules;

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
}

impl From<&Stat> for Meta {
    fn from(found: &Stat) -> Self {
        Meta {
            kind: FileType::from_raw_mode(found.st_mode),
            links: found.st_nlink,
            device: found.st_dev,
            inode: found.st_ino,
            blocks: found.st_blocks as u64,
            size_bytes: found.st_size as u64,
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
        if self.may_recur(meta) && !self.claim(tree, claim, meta) {
            return;
        }
        let held = tree.directory_mut(directory);
        held.files_bytes = held.files_bytes.saturating_add(bytes);
        if listed {
            tree.add_file(directory, position, name, bytes);
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

    pub(crate) fn bytes(&self, meta: &Meta) -> u64 {
        if self.rules.apparent { meta.size_bytes } else { meta.blocks.saturating_mul(512) }
    }

    pub(crate) fn found(&self, meta: &Meta, position: u32) -> Found {
        let Meta { device, inode, .. } = *meta;
        let follow = self.rules.follow;
        Found { position, device, inode, follow, bytes: self.bytes(meta) }
    }
}
