//! A sleeping node's words in its window, and what its host tells it before it wakes up.

use std::sync::atomic::Ordering;

use crate::module::abi;
use crate::window::Window;

/// Words of a node whose kernel sleeps: claims, to be checked against its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asleep {
    /// Address at which its kernel goes on, by its own addresses.
    pub wake: u64,
    /// Physical address of its first page table.
    pub tables: u64,
    /// Runs of pages that hold nothing which it needs: number of the first, and how many.
    pub free: Vec<(u64, u64)>,
}

/// Facts for a node that wakes up.
#[derive(Debug)]
pub struct Waking<'a> {
    /// Bytes that the start's two pages in the slice cover.
    pub covered: &'a [u8; abi::COVERED_BYTES],
    /// The host's wall clock, ns since 1970, at this value of the time stamp counter.
    pub now_ns: u64,
    pub now_ticks: u64,
    /// Never told twice.
    pub random: &'a [u8; abi::RANDOM_BYTES],
}

impl Window {
    /// Words of a node that has said that it is kept.
    pub fn asleep(&self) -> Asleep {
        // Relaxed: the word that it is kept was loaded with Acquire before.
        let word = |offset| self.memory.u64(abi::SLEEP_AT + offset).load(Ordering::Relaxed);
        let count = (word(abi::SLEEP_RUNS) as usize).min(abi::FREE_RUNS);
        let run = |n| self.memory.u64(abi::FREE_AT + 8 * n).load(Ordering::Relaxed);
        let parts = |run: u64| (run & ((1 << abi::RUN_SHIFT) - 1), run >> abi::RUN_SHIFT);
        Asleep {
            wake: word(abi::SLEEP_WAKE),
            tables: word(abi::SLEEP_TABLES),
            free: (0..count).map(|n| parts(run(n))).collect(),
        }
    }

    /// Tells a node that is to wake up, before its start.
    pub fn tell_waking(&self, waking: &Waking<'_>) {
        let set = |offset, value| {
            self.memory.u64(abi::SLEEP_AT + offset).store(value, Ordering::Relaxed);
        };
        set(abi::SLEEP_NOW_NS, waking.now_ns);
        set(abi::SLEEP_NOW_TICKS, waking.now_ticks);
        self.memory.write(abi::SLEEP_AT + abi::SLEEP_RANDOM, waking.random);
        self.memory.write(abi::SLEEP_AT + abi::SLEEP_COVERED, waking.covered);
    }

    /// Says that it sleeps, as a node does it, also one whose memory was brought back.
    pub fn fall_asleep(&self, asleep: &Asleep) {
        let set = |at, value| self.memory.u64(at).store(value, Ordering::Relaxed);
        set(abi::SLEEP_AT + abi::SLEEP_WAKE, asleep.wake);
        set(abi::SLEEP_AT + abi::SLEEP_TABLES, asleep.tables);
        set(abi::SLEEP_AT + abi::SLEEP_RUNS, asleep.free.len() as u64);
        for (n, (first, pages)) in asleep.free.iter().take(abi::FREE_RUNS).enumerate() {
            set(abi::FREE_AT + 8 * n, pages << abi::RUN_SHIFT | first);
        }
        self.say(abi::WORD_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;
    use crate::window::{has_ended, meaning};

    #[test]
    fn what_a_node_says_as_it_falls_asleep_is_read_as_it_was_said() {
        let window = Window::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES));
        let said = Asleep {
            wake: 0xffff_ffff_c000_0010,
            tables: 0x4000_3000,
            free: vec![(0x4_0000, 1), (0x7f_ffff_ffff, (1 << 24) - 1)],
        };
        window.fall_asleep(&said);
        assert_eq!(window.asleep(), said);
        assert!(has_ended(window.word()) && meaning(window.word()) == "kept");
        // More than it has room for.
        let free = vec![(1, 1); abi::FREE_RUNS + 1];
        window.fall_asleep(&Asleep { free, ..said });
        assert_eq!(window.asleep().free.len(), abi::FREE_RUNS);
        window.set_record(b"{}");
        window.tell_waking(&Waking {
            covered: &[0xee; abi::COVERED_BYTES],
            now_ns: 1,
            now_ticks: 2,
            random: &[3; abi::RANDOM_BYTES],
        });
        assert_eq!((window.record(), window.asleep().free.len()), (b"{}".to_vec(), 23040));
    }
}
