//! Interface between a slot and the device behind it, whoever moves its data: the host's
//! kernel, another process, or a thread of this one.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;

use kumiki_node_wire::module::abi;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::eventfd::EventFd;

use super::bus::{Doorbell, QueueWords};
use crate::{Error, ErrorKind, Result};

/// An eventfd's descriptor.
pub(super) fn fd(event: &EventFd) -> BorrowedFd<'_> {
    // SAFETY: it is open as long as its owner is borrowed.
    unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) }
}

/// A node's pieces of memory, without its window; addresses are physical.
pub(crate) type NodeMemory = GuestMemoryMmap<()>;

pub(crate) const F_VERSION_1: u64 = 1 << 32;
pub(crate) const F_EVENT_IDX: u64 = 1 << 29;
pub(crate) const F_INDIRECT_DESC: u64 = 1 << 28;

/// Description of a device, for the node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Description {
    /// Virtio's number of its kind.
    pub(crate) id: u32,
    /// Offered.
    pub(crate) features: u64,
    /// The most entries of each queue; powers of two.
    pub(crate) limits: Vec<u16>,
    pub(crate) config: Vec<u8>,
}

/// A queue that was checked to lie within the node's memory.
pub(crate) struct Ring {
    pub(crate) index: u16,
    /// Largest size.
    pub(crate) limit: u16,
    pub(crate) size: u16,
    pub(crate) descriptors: u64,
    pub(crate) driver: u64,
    pub(crate) device: u64,
    /// The entry to begin with: as many as were used. Of a backend that ends
    /// requests in their order that is where its predecessor died.
    pub(crate) next: u16,
    /// Written when there is something in it.
    pub(crate) kick: EventFd,
    /// Read here, and passed on as an interrupt.
    pub(crate) call: EventFd,
    /// Interrupt sent at once, for a thread of this process.
    pub(crate) interrupt: Interrupt,
}

/// Interrupts the node for one queue.
#[derive(Clone)]
pub(crate) struct Interrupt {
    pub(crate) doorbell: Doorbell,
    pub(crate) slot: usize,
    pub(crate) bit: u32,
    /// The ring's, where the module hears it: rung so, a node does not wait for who takes memory
    /// from this machine meanwhile.
    pub(crate) call: Option<Arc<EventFd>>,
}

impl Interrupt {
    pub(crate) fn raise(&self) {
        match &self.call {
            // Full: it has been told.
            Some(call) => drop(call.write(1)),
            None => self.doorbell.interrupt(self.slot, self.bit),
        }
    }

    /// The device stands still, by its driver's fault: says so, until the driver begins anew.
    pub(crate) fn broken(&self) {
        self.doorbell.bus.slot(self.slot).needs_reset();
        self.doorbell.interrupt(self.slot, abi::CONFIG_BIT);
    }
}

/// A device. Started and stopped any number of times.
pub(crate) trait Backend: Send {
    fn describe(&self) -> Description;

    /// Begins with these features and queues.
    fn start(&mut self, accepted: u64, rings: Vec<Ring>) -> Result<()>;

    /// Ends: nothing of the node's memory is touched once this has returned.
    fn stop(&mut self) -> Result<()>;

    /// Goes on with the node's memory as it is now, where former pieces are the same mappings; false
    /// if it has to be started again for that.
    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool>;

    /// Does what there is, where no thread does.
    #[cfg(any(test, fuzzing))]
    fn work(&mut self) {}
}

/// Checks where a queue is said to be. `None` if it is not used.
pub(crate) fn checked(
    memory: &NodeMemory,
    number: usize,
    limit: u16,
    words: QueueWords,
) -> Result<Option<(QueueWords, u16)>> {
    if words.size == 0 {
        return Ok(None);
    }
    let refused =
        |what: String| Error::inner(ErrorKind::Protocol, format!("queue {number}: {what}"));
    if words.size > limit.into() || !words.size.is_power_of_two() {
        return Err(refused(format!(
            "{} entries: a power of two up to {limit} is expected",
            words.size
        )));
    }
    let size = u64::from(words.size);
    let parts = [
        (words.descriptors, 16 * size, 16),
        (words.driver, 6 + 2 * size, 2),
        (words.device, 6 + 8 * size, 4),
    ];
    for (address, bytes, alignment) in parts {
        let region = memory.find_region(GuestAddress(address));
        let inside = region.is_some_and(|region| {
            let rest = region.len() - (address - region.start_addr().0);
            bytes <= rest
        });
        if !inside || address % alignment != 0 {
            return Err(refused(format!(
                "{bytes} bytes at {address:#x}, which is not in one piece of the node's memory"
            )));
        }
    }
    // By the ring that the device writes: its own word, in the node's memory.
    let used = vm_memory::Bytes::load::<u16>(
        memory,
        GuestAddress(words.device + 2),
        std::sync::atomic::Ordering::Acquire,
    );
    let next = used.map_err(|error| refused(error.to_string()))?;
    Ok(Some((words, u16::from_le(next))))
}
