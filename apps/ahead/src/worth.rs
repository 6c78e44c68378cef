//! Is asking worth its time? Requests that do not sleep bring nothing into memory: the disk had been asked before, or one
//! answer of it has brought many names' attributes.
//!
//! A disk answers in blocks: numbers of files that stand close together are in one block, and file systems read some
//! blocks ahead by themselves. So where few requests sleep, one name of each block is asked, and the block is taken for
//! larger as long as few sleep: 16 numbers are a block of ext4, 512 what it reads at once. A file system of a network
//! sleeps for each name, and its blocks stay at one name.

/// A request that slept and took longer has waited for the disk; a shorter sleep was for a lock. As much at least is spared by
/// contents that were not in memory, for which no request waits.
pub(crate) const SLEPT_NS: u64 = 60_000;
/// Time of a request that did not sleep, with what it takes from the program's caches.
const COST_NS: i64 = 10_000;
/// Time spent for nothing until asking ends, and the most that counts for what was gained before.
const MOST_LOSS_NS: i64 = 128 * COST_NS;
const MOST_GAIN_NS: i64 = 16 * MOST_LOSS_NS;
/// Requests for attributes after which the block is judged.
const JUDGED: u32 = 16;
/// Share of them that must have slept.
const SHARE: u32 = 4;
/// Blocks by the logarithm of their numbers of files: one, 16, 64, ... 512.
const FIRST_SHIFT: u32 = 4;
const MOST_SHIFT: u32 = 9;
/// Blocks asked last.
const RECENT: usize = 64;
/// The program's calls that slept on names which were passed over, until blocks are taken for smaller.
const MISSED: u32 = 8;

/// Gain and loss of the requests, and blocks that need no more of them.
#[derive(Debug)]
pub(crate) struct Worth {
    /// Above zero is gain.
    sum_ns: i64,
    asked: u32,
    slept: u32,
    shift: u32,
    missed: u32,
    recent: [u64; RECENT],
    next: usize,
}

impl Worth {
    pub(crate) const fn new() -> Self {
        Worth { sum_ns: 0, asked: 0, slept: 0, shift: 0, missed: 0, recent: [0; RECENT], next: 0 }
    }

    /// Counts a request by the time that it slept in, if it did; true if it has waited for the disk.
    pub(crate) fn took(&mut self, ns: u64, is_of_attributes: bool) -> bool {
        let gain = if ns >= SLEPT_NS { i64::try_from(ns).unwrap_or(MOST_GAIN_NS) } else { 0 };
        self.sum_ns = (self.sum_ns.saturating_add(gain) - COST_NS).min(MOST_GAIN_NS);
        if !is_of_attributes {
            return gain > 0;
        }
        self.asked += 1;
        self.slept += u32::from(gain > 0);
        if self.asked >= JUDGED {
            if self.slept * SHARE < self.asked && self.shift < MOST_SHIFT {
                self.shift = (self.shift + 1).max(FIRST_SHIFT);
                self.recent = [0; RECENT];
            }
            (self.asked, self.slept) = (0, 0);
        }
        gain > 0
    }

    /// True if a name's attributes came with those of another one, by the numbers of their files; else its block is
    /// taken for asked from now on.
    pub(crate) fn is_near(&mut self, device: u64, inode: u64) -> bool {
        if self.shift == 0 {
            return false;
        }
        // Never zero, which is no block.
        let block = (inode >> self.shift).wrapping_add(device.rotate_left(40)).wrapping_add(1);
        if self.recent.contains(&block) {
            return true;
        }
        if let Some(place) = self.recent.get_mut(self.next) {
            *place = block;
        }
        self.next = (self.next + 1) % RECENT;
        false
    }

    /// Takes in how often the program has slept so far on names that were passed over.
    pub(crate) fn missed(&mut self, count: u32) {
        if count.wrapping_sub(self.missed) >= MISSED {
            self.missed = count;
            self.shift = if self.shift > FIRST_SHIFT { self.shift - 1 } else { 0 };
            (self.asked, self.slept) = (0, 0);
        }
    }

    /// True once if asking has cost more than it has gained for so long that it is in vain.
    pub(crate) fn is_in_vain(&mut self) -> bool {
        let is_in_vain = self.sum_ns <= -MOST_LOSS_NS;
        if is_in_vain {
            self.sum_ns = 0;
        }
        is_in_vain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK_NS: u64 = 500_000;
    const MEMORY_NS: u64 = 3_000;

    /// Asks for this many names as a file system would answer that reads so many numbers at once; gives the requests.
    fn ask(worth: &mut Worth, names: u64, block: u64) -> u32 {
        let (mut there, mut requests) = (std::collections::HashSet::new(), 0);
        for inode in 0..names {
            if worth.is_near(1, inode) {
                continue;
            }
            requests += 1;
            let is_new = there.insert(inode / block);
            worth.took(if is_new { DISK_NS } else { MEMORY_NS }, true);
            assert!(!worth.is_in_vain(), "at {inode}");
        }
        requests
    }

    #[test]
    fn of_blocks_that_the_disk_reads_at_once_few_names_are_asked() {
        let requests = ask(&mut Worth::new(), 30_000, 512);
        assert!((59..400).contains(&requests), "{requests}");
        let requests = ask(&mut Worth::new(), 30_000, 16);
        assert!((1000..4000).contains(&requests), "{requests}");
    }

    #[test]
    fn where_each_name_sleeps_each_is_asked() {
        assert_eq!(ask(&mut Worth::new(), 10_000, 1), 10_000);
    }

    #[test]
    fn where_none_sleeps_it_is_in_vain_soon() {
        let mut worth = Worth::new();
        (0..127).for_each(|_| assert!(!worth.took(MEMORY_NS, false)));
        assert!(!worth.is_in_vain());
        worth.took(MEMORY_NS, false);
        assert!(worth.is_in_vain());
        // Begun anew.
        assert!(!worth.is_in_vain());
        // However much was gained before, it ends.
        (0..100_000).for_each(|_| assert!(worth.took(DISK_NS, false)));
        (0..17 * 128).for_each(|_| _ = worth.took(MEMORY_NS, false));
        assert!(worth.is_in_vain());
    }

    #[test]
    fn blocks_are_smaller_again_where_the_program_sleeps() {
        let mut worth = Worth::new();
        (0..10 * JUDGED).for_each(|_| _ = worth.took(MEMORY_NS, true));
        assert!(!worth.is_near(1, 5) && worth.is_near(1, 300));
        // Of another device.
        assert!(!worth.is_near(2, 5));
        for count in 1..=10 {
            worth.missed(count * MISSED);
        }
        assert!((0..1000).all(|inode| !worth.is_near(1, inode)));
        // A count that stands still changes nothing.
        (0..10 * JUDGED).for_each(|_| _ = worth.took(MEMORY_NS, true));
        worth.missed(10 * MISSED);
        assert!(!worth.is_near(1, 5) && worth.is_near(1, 300));
    }
}
