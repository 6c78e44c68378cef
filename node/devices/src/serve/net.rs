//! A network card where this host has no vhost-net: frames between a TAP and the
//! node's rings are moved by a thread of this process.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::event::PollFlags;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vmm_sys_util::eventfd::EventFd;

use super::backend::{
    Backend, Description, F_EVENT_IDX, F_INDIRECT_DESC, F_VERSION_1, NodeMemory, Ring, fd,
};
use super::net_control::{self, ControlQueue};
use super::queue::{Outcome, Server, both, drain, ready};
use super::tap::{self, Link};
use crate::{Error, Result};

const QUEUE_SIZE: u16 = 256;
const HEADER_BYTES: usize = 12;
/// Offset in the header of the number of buffers that a frame is in.
const BUFFERS_AT: usize = 10;
/// The longest frame with its header: what segmentation leaves to a card, and some.
const FRAME_BYTES: usize = HEADER_BYTES + 65_536 + 14 + 4;

/// Frames of one direction between two looks at the other one, and whether the card is to stop.
const ROUND: u32 = 256;

/// A card, and a thread for each of its pairs of queues while it is started.
pub(crate) struct Card {
    link: Link,
    memory: Arc<NodeMemory>,
    control: ControlQueue,
    servers: Vec<Server>,
}

impl Card {
    pub(crate) fn new(taps: Vec<File>, link: Link, memory: Arc<NodeMemory>) -> Self {
        Card { link, memory, control: ControlQueue::new(taps), servers: Vec::new() }
    }
}

impl Backend for Card {
    fn describe(&self) -> Description {
        let rings = F_VERSION_1 | F_EVENT_IDX | F_INDIRECT_DESC | tap::F_MRG_RXBUF;
        Description {
            id: tap::ID,
            features: rings | tap::features(&self.link),
            limits: net_control::limits(self.link.pairs, QUEUE_SIZE),
            config: self.link.config(),
        }
    }

    fn start(&mut self, accepted: u64, rings: Vec<Ring>) -> Result<()> {
        tap::offload(&self.control.taps()[0], accepted)?;
        let (of_pairs, control) = net_control::split(rings, accepted, self.link.pairs);
        for (tap, rings) in self.control.taps().iter().zip(of_pairs) {
            let tap = tap.try_clone().map_err(|error| Error::os("copying a descriptor", error))?;
            let memory = Arc::clone(&self.memory);
            let mut mover = Mover::new(Arc::new(tap), memory, accepted, rings)?;
            let interrupt = mover.transmit.1.interrupt.clone();
            let mut server = Server::default();
            server.start("network card", interrupt, move |end| mover.run(end))?;
            self.servers.push(server);
        }
        self.control.start(control, accepted, &self.memory)
    }

    fn stop(&mut self) -> Result<()> {
        let servers = std::mem::take(&mut self.servers);
        let stopped = super::each(servers.into_iter().map(|mut server| server.stop()));
        stopped.and(self.control.stop())
    }

    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
        self.memory = memory;
        Ok(false)
    }
}

pub(super) struct Mover {
    tap: Arc<File>,
    memory: Arc<NodeMemory>,
    receive: (Queue, Ring),
    transmit: (Queue, Ring),
    /// True if a frame may lie in several buffers.
    merges: bool,
    frame: Vec<u8>,
    /// Bytes of a frame that was read and for which the node had no room.
    waiting: usize,
    /// A frame on its way to the host.
    outgoing: Vec<u8>,
}

impl Mover {
    pub(super) fn new(
        tap: Arc<File>,
        memory: Arc<NodeMemory>,
        accepted: u64,
        rings: Vec<Ring>,
    ) -> Result<Self> {
        let (receive, transmit) = both("network card", rings, accepted)?;
        let merges = accepted & tap::F_MRG_RXBUF != 0;
        let (frame, outgoing) = (vec![0; FRAME_BYTES], vec![0; FRAME_BYTES]);
        Ok(Mover { tap, memory, receive, transmit, merges, frame, waiting: 0, outgoing })
    }

    /// Moves the frames that there are now, both ways, [`ROUND`] frames each at most. Whether there
    /// may be more, of which neither a kick nor the TAP tells.
    pub(super) fn move_all(&mut self) -> Outcome<bool> {
        let sends = self.send()?;
        Ok(self.receive()? || sends)
    }

    fn run(&mut self, end: &EventFd) -> Outcome<()> {
        loop {
            let more = self.move_all()?;
            // A frame that waits is taken up at the node's next kick.
            let tap = if self.waiting == 0 { PollFlags::IN } else { PollFlags::empty() };
            let input = PollFlags::IN;
            let (receive, transmit) = (fd(&self.receive.1.kick), fd(&self.transmit.1.kick));
            let fds =
                [(fd(end), input), (receive, input), (transmit, input), (self.tap.as_fd(), tap)];
            let [ended, _, _, tap] = ready(fds, more);
            if ended.contains(input) {
                return Ok(());
            }
            // A TAP that has vanished is ready for ever, and there is nothing to move.
            if tap.intersects(PollFlags::ERR | PollFlags::HUP) {
                super::say(format_args!("the TAP of a network card is gone"));
                self.transmit.1.interrupt.broken();
                return Ok(());
            }
            let _ = self.receive.1.kick.read();
            let _ = self.transmit.1.kick.read();
        }
    }

    /// Frames that the node has put there.
    fn send(&mut self) -> Outcome<bool> {
        let Mover { tap, memory, transmit: (queue, ring), outgoing, .. } = self;
        drain(queue, memory, &ring.interrupt, ROUND, |chain| {
            let reader = chain.reader::<()>(memory);
            let length = reader.ok().and_then(|mut reader| {
                let length = reader.available_bytes();
                let whole = length <= outgoing.len();
                (whole && reader.read_exact(&mut outgoing[..length]).is_ok()).then_some(length)
            });
            if let Some(length) = length.filter(|length| *length > HEADER_BYTES) {
                // A link that is down, or full, loses frames.
                let _ = (&**tap).write(&outgoing[..length]);
            }
            0
        })
    }

    /// Frames for the node, as far as it has room.
    fn receive(&mut self) -> Outcome<bool> {
        for _ in 0..ROUND {
            if self.waiting == 0 {
                match (&*self.tap).read(&mut self.frame) {
                    Ok(length) if length > HEADER_BYTES => self.waiting = length,
                    Ok(_) => continue,
                    Err(_) => return Ok(false),
                }
            }
            if !self.place()? {
                let (queue, _) = &mut self.receive;
                let available = queue.avail_idx(&*self.memory, Ordering::Acquire)?;
                // Its driver kicks when it has made room; it may have, just now.
                // Entries may be there that are too few for this frame.
                queue.enable_notification(&*self.memory)?;
                if queue.avail_idx(&*self.memory, Ordering::Acquire)? == available {
                    return Ok(false);
                }
                continue;
            }
            self.waiting = 0;
        }
        // Of another frame the TAP tells.
        Ok(self.waiting != 0)
    }

    /// Puts the frame that waits into buffers; `false` if there are not enough.
    fn place(&mut self) -> Outcome<bool> {
        let Mover { memory, receive: (queue, ring), frame, waiting, merges, .. } = self;
        let memory = &**memory;
        let mut chains = Vec::new();
        let mut room = 0;
        while room < *waiting && (chains.is_empty() || *merges) {
            let Some(chain) = queue.iter(memory)?.next() else { break };
            let head = chain.head_index();
            let writer = chain.writer::<()>(memory);
            let bytes = writer.as_ref().map_or(0, |writer| writer.available_bytes());
            room += bytes;
            chains.push((head, writer.ok()));
        }
        if room < *waiting && *merges {
            for _ in &chains {
                queue.go_to_previous_position();
            }
            return Ok(false);
        }
        if chains.is_empty() {
            return Ok(false);
        }
        let buffers = chains.len() as u16;
        frame[BUFFERS_AT..HEADER_BYTES].copy_from_slice(&buffers.to_le_bytes());
        let mut at = 0;
        for (head, writer) in chains {
            let mut length = 0;
            if let Some(mut writer) = writer {
                length = writer.available_bytes().min(*waiting - at);
                if writer.write_all(&frame[at..at + length]).is_err() {
                    length = 0;
                }
            }
            at += length;
            queue.add_used(memory, head, length as u32)?;
        }
        if queue.needs_notification(memory)? {
            ring.interrupt.raise();
        }
        Ok(true)
    }
}
