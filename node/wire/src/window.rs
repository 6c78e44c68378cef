//! The window that a node and its host share: words, time stamps, log, channels.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::memory::Memory;
use crate::module::abi;
use crate::ring::Ring;
use crate::times::MemoryTimes;

#[derive(Debug)]
pub struct Window {
    pub(super) memory: Memory,
}

impl Window {
    pub fn new(memory: Memory) -> Self {
        assert!(memory.bytes() == kumiki_boot::WINDOW_BYTES as usize, "a window has 2 MiB");
        Window { memory }
    }

    pub fn is_one(&self) -> bool {
        self.memory.u64(0).load(Ordering::Relaxed) == abi::WINDOW_MAGIC
    }

    /// Makes it one, as the module does it; for tests.
    pub fn make_one(&self) {
        self.memory.u64(0).store(abi::WINDOW_MAGIC, Ordering::Relaxed);
    }

    /// Last word of the node's about itself.
    pub fn word(&self) -> u32 {
        // Acquire: a message was written before the word of a panic.
        self.memory.u32(abi::STATE).load(Ordering::Acquire)
    }

    pub fn say(&self, word: u32) {
        self.memory.u32(abi::STATE).store(word, Ordering::Release);
    }

    /// True if another node may start this one.
    pub fn is_lent(&self) -> bool {
        // Acquire: with `settle`, whose writes to this node's memory come before it.
        self.memory.u32(abi::LENT_STATE).load(Ordering::Acquire) != abi::NOT_LENT
    }

    /// Begins a start by another node, if the host leaves that to it; returns what
    /// was: LENT, and it has begun; STARTING, and who did not end it may go on.
    pub fn begin(&self) -> u32 {
        let lent = self.memory.u32(abi::LENT_STATE);
        // Acquire: writes to this node's memory come after it. The host's module
        // takes the node back by the same exchange.
        lent.compare_exchange(abi::LENT, abi::STARTING, Ordering::Acquire, Ordering::Acquire)
            .unwrap_or_else(|was| was)
    }

    /// Ends it: the host may take the node back.
    pub fn settle(&self) {
        // Release: writes to this node's memory come before it.
        self.memory.u32(abi::LENT_STATE).store(abi::LENT, Ordering::Release);
    }

    /// Empties what a node says of itself, and its channels, before a start.
    pub fn renew(&self) {
        self.memory.u32(abi::STATE).store(abi::WORD_SILENT, Ordering::Relaxed);
        self.memory.zero(abi::RESET, 1);
        self.memory.zero(abi::LOG_HEAD, 8);
        self.memory.zero(abi::STAMPS, abi::MESSAGE + abi::MESSAGE_BYTES - abi::STAMPS);
        self.memory.zero(abi::STALLED_US, abi::AVAILABLE + 8 - abi::STALLED_US);
        self.memory.zero(abi::CHANNELS_AT, abi::CHANNELS * abi::CHANNEL_BYTES);
        self.memory.zero(abi::BUS_AT, abi::BUS_BYTES + abi::SLOTS * abi::SLOT_BYTES);
        self.memory.zero(abi::LANES_AT, abi::LANES_BYTES);
    }

    /// Number of times that its host has announced devices.
    pub fn announced(&self) -> u32 {
        // Acquire: the record that tells of them was written before.
        self.memory.u32(abi::BUS_AT + abi::BUS_ANNOUNCED).load(Ordering::Acquire)
    }

    /// True if the node's kernel asked the firmware for a restart.
    pub fn wants_reset(&self) -> bool {
        let mut byte = [0];
        self.memory.read(abi::RESET, &mut byte);
        byte != [0]
    }

    pub fn stamp(&self, which: usize) -> u64 {
        self.memory.u64(abi::STAMPS + 8 * which).load(Ordering::Relaxed)
    }

    pub fn set_stamp(&self, which: usize, ticks: u64) {
        self.memory.u64(abi::STAMPS + 8 * which).store(ticks, Ordering::Relaxed);
    }

    /// Memory of the node's kernel, as its agent last said.
    pub fn memory_times(&self) -> MemoryTimes {
        let word = |at| self.memory.u64(at).load(Ordering::Relaxed);
        MemoryTimes { stalled_us: word(abi::STALLED_US), available: word(abi::AVAILABLE) }
    }

    pub fn set_memory_times(&self, times: MemoryTimes) {
        self.memory.u64(abi::STALLED_US).store(times.stalled_us, Ordering::Relaxed);
        self.memory.u64(abi::AVAILABLE).store(times.available, Ordering::Relaxed);
    }

    /// APIC ids of the cpus that it was started with, the first first.
    pub fn started_with(&self) -> Vec<u32> {
        let count = self.memory.u32(abi::STARTED_CPUS).load(Ordering::Relaxed) as usize;
        let id = |n| self.memory.u32(abi::STARTED_APIC_IDS + 4 * n).load(Ordering::Relaxed);
        (0..count.min(abi::CPUS)).map(id).collect()
    }

    /// The panic's text.
    pub fn message(&self) -> String {
        let mut bytes = [0; abi::MESSAGE_BYTES];
        self.memory.read(abi::MESSAGE, &mut bytes);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    }

    /// Says of a node that cannot say so itself that it has panicked, and why.
    pub fn say_panic(&self, why: &str) {
        let text = &why.as_bytes()[..why.len().min(abi::MESSAGE_BYTES - 1)];
        self.memory.zero(abi::MESSAGE, abi::MESSAGE_BYTES);
        self.memory.write(abi::MESSAGE, text);
        self.say(abi::WORD_PANIC);
    }

    /// Bytes that the kernel has logged.
    pub fn log_head(&self) -> u64 {
        // Acquire: what was logged is there before the head says so.
        self.memory.u64(abi::LOG_HEAD).load(Ordering::Acquire)
    }

    /// The kernel's log as far as it is still there.
    pub fn log(&self) -> Vec<u8> {
        self.log_since(&mut 0)
    }

    /// Bytes after the first `seen` bytes, as far as it is still there. A
    /// node that was started again begins anew.
    pub fn log_since(&self, seen: &mut u64) -> Vec<u8> {
        let ring = abi::LOG_BYTES as u64;
        let head = self.log_head();
        if head < *seen {
            *seen = 0;
        }
        let length = (head - *seen).min(ring);
        let start = head - length;
        *seen = head;
        let mut log = vec![0; length as usize];
        let at = (start % ring) as usize;
        let (end, rest) = log.split_at_mut((abi::LOG_BYTES - at).min(length as usize));
        self.memory.read(abi::LOG_AT + at, end);
        self.memory.read(abi::LOG_AT, rest);
        // What the node overwrote while it was copied is not the log's beginning.
        let overwritten = self.log_head().saturating_sub(ring).saturating_sub(start).min(length);
        log.drain(..overwritten as usize);
        log
    }

    /// Record that was put there with [`set_record`](Self::set_record).
    pub fn record(&self) -> Vec<u8> {
        let mut bytes = vec![0; abi::RECORD_BYTES];
        self.memory.read(abi::RECORD_AT, &mut bytes);
        let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        bytes
    }

    /// Keeps text without zeros beside the node; it survives starts and stops.
    pub fn set_record(&self, text: &[u8]) {
        assert!(text.len() < abi::RECORD_BYTES, "a record of {} bytes", text.len());
        self.memory.zero(abi::RECORD_AT, abi::RECORD_BYTES);
        self.memory.write(abi::RECORD_AT, text);
    }

    pub fn channel(&self, number: usize) -> Channel<'_> {
        assert!(number < abi::CHANNELS, "channel {number} of {}", abi::CHANNELS);
        let at = abi::CHANNELS_AT + number * abi::CHANNEL_BYTES;
        let rings = abi::RINGS_AT + number * 2 * abi::RING_BYTES;
        Channel {
            state: self.memory.u32(at),
            to_node: Ring::new(&self.memory, at + abi::CHANNEL_TO_NODE, rings),
            to_host: Ring::new(&self.memory, at + abi::CHANNEL_TO_HOST, rings + abi::RING_BYTES),
        }
    }
}

/// A talk between one client and the agent.
///
/// ```text
///   FREE -> OPEN     the client that has claimed it from the module
///   OPEN -> CLOSED   the client, or the module when the client dies
///   CLOSED -> FREE   the agent, when what ran has ended and the rings are empty
/// ```
#[derive(Debug)]
pub struct Channel<'a> {
    state: &'a AtomicU32,
    pub to_node: Ring<'a>,
    pub to_host: Ring<'a>,
}

impl Channel<'_> {
    pub fn state(&self) -> u32 {
        // Acquire: who freed the channel had emptied its rings.
        self.state.load(Ordering::Acquire)
    }

    /// The client begins. The first frame may stand in the ring already.
    pub fn open(&self) {
        self.state.store(abi::CHANNEL_OPEN, Ordering::Release);
    }

    pub fn close(&self) {
        self.state.store(abi::CHANNEL_CLOSED, Ordering::Release);
    }

    /// The agent ends it.
    pub fn free(&self) {
        self.to_node.reset();
        self.to_host.reset();
        self.state.store(abi::CHANNEL_FREE, Ordering::Release);
    }
}

/// Meaning of a node's word.
pub fn meaning(word: u32) -> &'static str {
    match word {
        abi::WORD_SILENT => "silent",
        1 => "booting",
        abi::WORD_READY => "ready",
        abi::WORD_HALTED => "halted",
        4 => "powered off",
        5 => "restart",
        abi::WORD_PANIC => "panic",
        abi::WORD_STOPPED => "stopped",
        abi::WORD_KEPT => "kept",
        _ => "unknown",
    }
}

/// True if a node of this word executes nothing more.
pub fn has_ended(word: u32) -> bool {
    word >= abi::WORD_HALTED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        Window::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES))
    }

    #[test]
    fn the_log_is_its_last_bytes() {
        let window = window();
        assert!(window.log().is_empty());
        let text: Vec<u8> = (0..abi::LOG_BYTES + 10).map(|n| (n % 251) as u8).collect();
        for (n, &byte) in text.iter().enumerate() {
            window.memory.write(abi::LOG_AT + n % abi::LOG_BYTES, &[byte]);
        }
        let head = window.memory.u64(abi::LOG_HEAD);
        head.store(text.len() as u64, Ordering::Relaxed);
        assert_eq!(window.log(), &text[10..]);
        let mut seen = text.len() as u64 - 7;
        assert_eq!(window.log_since(&mut seen), &text[text.len() - 7..]);
        assert!(window.log_since(&mut seen).is_empty());
        // The node was started again.
        head.store(3, Ordering::Relaxed);
        assert_eq!((window.log_since(&mut seen).len(), seen), (3, 3));
        assert_eq!(window.log().len(), 3);
    }

    #[test]
    fn one_starts_a_node_that_is_lent_and_nobody_another() {
        let window = window();
        assert!(window.begin() == abi::NOT_LENT && !window.is_lent());
        window.settle();
        assert!(window.is_lent() && window.begin() == abi::LENT);
        assert!(window.begin() == abi::STARTING && window.is_lent());
        window.say(abi::WORD_HALTED);
        window.set_stamp(abi::STAMP_READY, 1);
        window.channel(7).open();
        window.renew();
        assert_eq!((window.word(), window.stamp(abi::STAMP_READY)), (abi::WORD_SILENT, 0));
        assert_eq!(window.channel(7).state(), abi::CHANNEL_FREE);
        assert!(window.is_lent());
    }

    #[test]
    fn channels_and_their_rings_do_not_touch() {
        let window = window();
        for number in 0..abi::CHANNELS {
            let channel = window.channel(number);
            assert!(channel.to_node.write(&[&[number as u8; abi::RING_BYTES]]).unwrap());
            assert!(channel.to_host.write(&[&[!(number as u8); abi::RING_BYTES]]).unwrap());
            channel.open();
        }
        window.say_panic(&"é".repeat(200));
        assert!(window.word() == abi::WORD_PANIC && window.message().starts_with("éé"));
        window.say(0);
        window.set_record(b"{}");
        for number in 0..abi::CHANNELS {
            let channel = window.channel(number);
            let mut bytes = vec![0; abi::RING_BYTES];
            channel.to_node.peek(0, &mut bytes);
            assert!(bytes.iter().all(|&byte| byte == number as u8));
            channel.to_host.peek(0, &mut bytes);
            assert!(bytes.iter().all(|&byte| byte == !(number as u8)));
            assert_eq!(channel.state(), abi::CHANNEL_OPEN);
            channel.free();
            assert_eq!(channel.to_node.available().unwrap(), 0);
        }
        assert_eq!(window.record(), b"{}");
        assert_eq!(window.word(), 0);
    }
}
