//! The bus and its slots in a node's window, from the server's side, word by word.
//! The other side is another kernel: each word read is a claim to be checked.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::{abi, requests};

/// Bit of a status: the device stands still until its driver begins anew.
pub(super) const NEEDS_RESET: u32 = 64;

/// The window of a node whose devices are served here.
pub(crate) struct Bus {
    window: Memory,
}

impl Bus {
    pub(crate) fn new(window: Memory) -> Self {
        assert!(window.bytes() == kumiki_boot::WINDOW_BYTES as usize, "a window has 2 MiB");
        Bus { window }
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn window(&self) -> &Memory {
        &self.window
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.window.u64(abi::BUS_AT + offset)
    }

    /// Last word of the node's about itself.
    pub(crate) fn node_word(&self) -> u32 {
        self.window.u32(abi::STATE).load(Ordering::Acquire)
    }

    /// Slots that have kicks or a request. Whatever is set after this rings again.
    pub(crate) fn take_slots(&self) -> u64 {
        self.word(abi::BUS_TO_HOST).swap(0, Ordering::SeqCst)
    }

    /// Tells the host as a node does it; it would ring, if nothing was there before.
    #[cfg(test)]
    pub(crate) fn tell_host(&self, slot: usize) {
        self.word(abi::BUS_TO_HOST).fetch_or(1 << slot, Ordering::SeqCst);
    }

    /// True if interrupts wait that the node has not taken.
    pub(crate) fn interrupts_wait(&self) -> bool {
        self.word(abi::BUS_TO_NODE).load(Ordering::SeqCst) != 0
    }

    /// A slot's device came, or went: the node looks at all of them.
    pub(crate) fn announce(&self) {
        // Release: the slot's words were written before.
        self.window.u32(abi::BUS_AT + abi::BUS_ANNOUNCED).fetch_add(1, Ordering::Release);
    }

    pub(crate) fn slot(&self, number: usize) -> SlotWords<'_> {
        assert!(number < abi::SLOTS, "slot {number} of {}", abi::SLOTS);
        let at = abi::BUS_AT + abi::BUS_BYTES + number * abi::SLOT_BYTES;
        SlotWords { window: &self.window, at }
    }
}

/// Addresses of a queue, by the node's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueWords {
    pub(crate) size: u32,
    pub(crate) descriptors: u64,
    pub(crate) driver: u64,
    pub(crate) device: u64,
}

/// One slot.
pub(crate) struct SlotWords<'a> {
    window: &'a Memory,
    at: usize,
}

impl<'a> SlotWords<'a> {
    fn u32(&self, offset: usize) -> &'a AtomicU32 {
        self.window.u32(self.at + offset)
    }

    fn u64(&self, offset: usize) -> &'a AtomicU64 {
        self.window.u64(self.at + offset)
    }

    pub(crate) fn present(&self) -> u32 {
        self.u32(abi::SLOT_PRESENT).load(Ordering::Relaxed)
    }

    pub(crate) fn id(&self) -> u32 {
        self.u32(abi::SLOT_ID).load(Ordering::Relaxed)
    }

    pub(crate) fn set_present(&self, number: u32) {
        // Release: what describes the device was written before.
        self.u32(abi::SLOT_PRESENT).store(number, Ordering::Release);
    }

    /// Kind of device. Before it is present.
    pub(crate) fn describe(&self, id: u32, features: u64, limits: &[u16], config: &[u8]) {
        self.u32(abi::SLOT_ID).store(id, Ordering::Relaxed);
        self.u64(abi::SLOT_FEATURES).store(features, Ordering::Relaxed);
        for n in 0..abi::QUEUES {
            let limit = limits.get(n).copied().unwrap_or(0);
            self.u32(abi::SLOT_QUEUES + n * abi::QUEUE_BYTES)
                .store(limit.into(), Ordering::Relaxed);
        }
        self.u32(abi::SLOT_HOST_STATUS).store(0, Ordering::Relaxed);
        self.u32(abi::SLOT_ANSWER).store(self.request(), Ordering::Relaxed);
        self.u64(abi::SLOT_KICKS).store(0, Ordering::Relaxed);
        self.u64(abi::SLOT_INTERRUPTS).store(0, Ordering::Relaxed);
        self.set_config(config);
    }

    pub(crate) fn generation(&self) -> u32 {
        self.u32(abi::SLOT_GENERATION).load(Ordering::Relaxed)
    }

    /// Another configuration; the node is interrupted for it by the caller.
    pub(crate) fn set_config(&self, config: &[u8]) {
        assert!(config.len() <= abi::CONFIG_BYTES, "a configuration of {} bytes", config.len());
        self.window.write(self.at + abi::SLOT_CONFIG, config);
        self.u32(abi::SLOT_CONFIG_BYTES).store(config.len() as u32, Ordering::Relaxed);
        self.u32(abi::SLOT_GENERATION).fetch_add(1, Ordering::Release);
    }

    /// Number of requests that the node has made.
    pub(crate) fn request(&self) -> u32 {
        // Acquire: what it is about was written before.
        self.u32(abi::SLOT_REQUEST).load(Ordering::Acquire)
    }

    pub(crate) fn status(&self) -> u32 {
        self.u32(abi::SLOT_STATUS).load(Ordering::Relaxed)
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.u64(abi::SLOT_ACCEPTED).load(Ordering::Relaxed)
    }

    pub(crate) fn answered(&self) -> u32 {
        self.u32(abi::SLOT_ANSWER).load(Ordering::Relaxed)
    }

    pub(crate) fn host_status(&self) -> u32 {
        self.u32(abi::SLOT_HOST_STATUS).load(Ordering::Relaxed)
    }

    pub(crate) fn answer(&self, request: u32, status: u32) {
        self.u32(abi::SLOT_HOST_STATUS).store(status, Ordering::Relaxed);
        // Release: status and all that it stands for come before.
        self.u32(abi::SLOT_ANSWER).store(request, Ordering::Release);
    }

    /// A status that no request asked for.
    pub(crate) fn set_host_status(&self, status: u32) {
        self.u32(abi::SLOT_HOST_STATUS).store(status, Ordering::Relaxed);
    }

    pub(crate) fn needs_reset(&self) {
        self.u32(abi::SLOT_HOST_STATUS).fetch_or(NEEDS_RESET, Ordering::Relaxed);
    }

    /// Kicks queues as a node does it.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn kick(&self, queues: u64) {
        self.u64(abi::SLOT_KICKS).fetch_or(queues, Ordering::SeqCst);
    }

    /// Asks for this status as a node does it, by so many requests.
    #[cfg(test)]
    pub(crate) fn ask(&self, requests: u32, status: u32) {
        self.u32(abi::SLOT_STATUS).store(status, Ordering::Relaxed);
        self.u32(abi::SLOT_REQUEST).fetch_add(requests, Ordering::Release);
    }

    /// Places a queue as a node does it.
    #[cfg(test)]
    pub(crate) fn place_queue(&self, number: usize, size: u32, at: [u64; 3]) {
        let queue = abi::SLOT_QUEUES + number * abi::QUEUE_BYTES;
        self.u32(queue + 4).store(size, Ordering::Relaxed);
        for (n, address) in at.into_iter().enumerate() {
            self.u64(queue + 8 + 8 * n).store(address, Ordering::Relaxed);
        }
    }

    pub(crate) fn take_kicks(&self) -> u64 {
        self.u64(abi::SLOT_KICKS).swap(0, Ordering::SeqCst)
    }

    pub(crate) fn queue(&self, number: usize) -> QueueWords {
        assert!(number < abi::QUEUES, "queue {number} of {}", abi::QUEUES);
        let at = abi::SLOT_QUEUES + number * abi::QUEUE_BYTES;
        let address = |offset| self.u64(at + offset).load(Ordering::Relaxed);
        QueueWords {
            size: self.u32(at + 4).load(Ordering::Relaxed),
            descriptors: address(8),
            driver: address(16),
            device: address(24),
        }
    }
}

/// Interrupts a node for its devices, from any thread.
#[derive(Clone)]
pub(crate) struct Doorbell {
    pub(crate) bus: Arc<Bus>,
    /// None where nobody is to be rung: the twin of a hostile node.
    pub(crate) device: Option<Arc<File>>,
}

impl Doorbell {
    /// Sets one of a slot's bits; whoever sets the first of all rings.
    pub(crate) fn interrupt(&self, slot: usize, bit: u32) {
        let words = self.bus.slot(slot);
        words.u64(abi::SLOT_INTERRUPTS).fetch_or(1 << bit, Ordering::SeqCst);
        if self.bus.word(abi::BUS_TO_NODE).fetch_or(1 << slot, Ordering::SeqCst) == 0 {
            self.ring();
        }
    }

    pub(crate) fn ring(&self) {
        if let Some(device) = &self.device {
            // A node that has ended hears nothing, which its word tells.
            let _ = requests::bell(device);
        }
    }
}
