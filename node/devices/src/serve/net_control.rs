//! A network card's pairs of queues: which ring belongs to which, and the control queue, by which
//! the node's driver says how many it uses.
//!
//! ```text
//!   rings  0 1 | 2 3 | ... | 2n-2 2n-1 | 2n: control, where the driver took several pairs
//! ```
//!
//! Each pair has a queue of the TAP. Only those that the driver uses are attached: one when the
//! card is opened and whenever it is stopped. A server that takes over from one that died finds
//! them as they were.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;

use virtio_queue::DescriptorChain;

use super::backend::{NodeMemory, Ring};
use super::queue::Server;
use super::tap::{self, F_MQ};
use crate::Result;

const CONTROL_QUEUE_SIZE: u16 = 64;

/// Virtio 1.2, 5.1.6.5.5: class, command, how many.
const CLASS: u8 = 4;
const SET: u8 = 0;
const DONE: u8 = 0;
const REFUSED: u8 = 1;

/// The limits of a card's queues.
pub(super) fn limits(pairs: u16, size: u16) -> Vec<u16> {
    let mut limits = vec![size; 2 * usize::from(pairs)];
    if pairs > 1 {
        limits.push(CONTROL_QUEUE_SIZE);
    }
    limits
}

/// Each pair's rings, numbered as in a card of one pair; and the control queue's.
pub(super) fn split(rings: Vec<Ring>, accepted: u64, pairs: u16) -> (Vec<Vec<Ring>>, Vec<Ring>) {
    let pairs = if accepted & F_MQ != 0 { pairs } else { 1 };
    let mut of_pairs: Vec<Vec<Ring>> = (0..pairs).map(|_| Vec::new()).collect();
    let mut control = Vec::new();
    for ring in rings {
        match of_pairs.get_mut(usize::from(ring.index / 2)) {
            Some(pair) => pair.push(Ring { index: ring.index % 2, ..ring }),
            None if ring.index == 2 * pairs => control.push(ring),
            // Of pairs that the driver does not know of.
            None => {}
        }
    }
    // A driver may have made some only, from the first on.
    of_pairs.retain(|pair| !pair.is_empty());
    (of_pairs, control)
}

/// The queues of a card's TAP, and who serves its control queue.
pub(super) struct ControlQueue {
    taps: Arc<Vec<File>>,
    server: Server,
}

impl ControlQueue {
    pub(super) fn new(taps: Vec<File>) -> Self {
        ControlQueue { taps: Arc::new(taps), server: Server::default() }
    }

    pub(super) fn taps(&self) -> &[File] {
        &self.taps
    }

    pub(super) fn start(
        &mut self,
        rings: Vec<Ring>,
        accepted: u64,
        memory: &Arc<NodeMemory>,
    ) -> Result<()> {
        if rings.is_empty() {
            return Ok(());
        }
        let taps = Arc::clone(&self.taps);
        let answer = move |memory: &NodeMemory, chain: DescriptorChain<&NodeMemory>| {
            command(memory, chain, |count| {
                (1..=taps.len()).contains(&count.into()) && tap::attach(&taps, count).is_ok()
            })
        };
        self.server.answer(
            "network card's control queue",
            rings,
            accepted,
            Arc::clone(memory),
            answer,
        )
    }

    pub(super) fn stop(&mut self) -> Result<()> {
        self.server.stop()?;
        if self.taps.len() > 1 { tap::attach(&self.taps, 1) } else { Ok(()) }
    }
}

/// Carries one command out; bytes written.
fn command(
    memory: &NodeMemory,
    chain: DescriptorChain<&NodeMemory>,
    set: impl FnOnce(u16) -> bool,
) -> u32 {
    let Ok(mut reader) = chain.clone().reader::<()>(memory) else { return 0 };
    let Ok(mut writer) = chain.writer::<()>(memory) else { return 0 };
    let mut words = [0; 4];
    let is_done = reader.read_exact(&mut words).is_ok()
        && words[..2] == [CLASS, SET]
        && set(u16::from_le_bytes([words[2], words[3]]));
    let said = writer.write_all(&[if is_done { DONE } else { REFUSED }]);
    said.map_or(0, |()| 1)
}

#[cfg(test)]
mod tests {
    use kumiki_node_wire::memory::Memory;
    use virtio_queue::QueueOwnedT;
    use vm_memory::{Bytes, GuestAddress};
    use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

    use super::*;
    use crate::serve::backend::Interrupt;
    use crate::serve::bus::{Bus, Doorbell};
    use crate::serve::queue::queue;

    fn rings(indexes: impl IntoIterator<Item = u16>) -> Vec<Ring> {
        let bus = Arc::new(Bus::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES)));
        let ring = |index| Ring {
            index,
            limit: 4,
            size: 4,
            descriptors: index.into(),
            driver: 0,
            device: 0,
            next: 0,
            kick: EventFd::new(EFD_NONBLOCK).unwrap(),
            call: EventFd::new(EFD_NONBLOCK).unwrap(),
            interrupt: Interrupt {
                doorbell: Doorbell { bus: Arc::clone(&bus), device: None },
                slot: 0,
                bit: index.into(),
                call: None,
            },
        };
        indexes.into_iter().map(ring).collect()
    }

    #[test]
    fn each_ring_is_of_its_pair() {
        let of = |indexes: std::ops::Range<u16>, accepted| {
            let (pairs, control) = split(rings(indexes), accepted, 3);
            let numbered = |ring: &Ring| (ring.index, ring.descriptors);
            let pairs: Vec<Vec<_>> =
                pairs.iter().map(|pair| pair.iter().map(numbered).collect()).collect();
            (pairs, control.iter().map(numbered).collect::<Vec<_>>())
        };
        let all = vec![vec![(0, 0), (1, 1)], vec![(0, 2), (1, 3)], vec![(0, 4), (1, 5)]];
        assert_eq!(of(0..7, F_MQ), (all.clone(), vec![(6, 6)]));
        assert_eq!(of(0..4, F_MQ), (all[..2].to_vec(), vec![]));
        assert_eq!(of(0..3, 0), (all[..1].to_vec(), vec![(2, 2)]));
        assert_eq!((limits(1, 8), limits(2, 8)), (vec![8; 2], vec![8, 8, 8, 8, 64]));
    }

    #[test]
    fn commands_are_carried_out_or_refused() {
        let memory = NodeMemory::from_ranges(&[(GuestAddress(0x1000), 0x8000)]).unwrap();
        let put = |bytes: &[u8], at: u64| memory.write_slice(bytes, GuestAddress(at)).unwrap();
        let descriptor = |at: u64, length: usize, flags: u16, next: u16| {
            let length = length as u32;
            [
                &at.to_le_bytes()[..],
                &length.to_le_bytes(),
                &flags.to_le_bytes(),
                &next.to_le_bytes(),
            ]
            .concat()
        };
        for (words, says) in [
            (&[4, 0, 2, 0][..], DONE),
            (&[4, 0, 0, 0], REFUSED),
            // Of receive modes, and half a one.
            (&[0, 0, 2, 0], REFUSED),
            (&[4, 0, 2], REFUSED),
        ] {
            put(words, 0x4000);
            put(&[9], 0x5000);
            put(&descriptor(0x4000, words.len(), 1, 1), 0x1000);
            put(&descriptor(0x5000, 1, 2, 0), 0x1010);
            // Flags, index, entry.
            put(&[0, 0, 1, 0, 0, 0], 0x2000);
            let ring = rings([0]).remove(0);
            let ring = Ring { descriptors: 0x1000, driver: 0x2000, device: 0x3000, ..ring };
            let mut queue = queue(&ring, 0).unwrap();
            let chain = queue.iter(&memory).unwrap().next().unwrap();
            assert_eq!(command(&memory, chain, |count| count == 2), 1, "{words:?}");
            let mut said = [0];
            memory.read_slice(&mut said, GuestAddress(0x5000)).unwrap();
            assert_eq!(said, [says], "{words:?}");
        }
    }
}
