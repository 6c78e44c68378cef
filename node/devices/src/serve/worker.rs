//! The process that serves a node's devices: it has the node's memory and what was
//! opened for each device, and may open nothing more.
//!
//! One thread: handshakes; and, where the module osnode-eventfd is not there, doorbells that become
//! eventfds, and eventfds that become interrupts. Data moves elsewhere: in the host's kernel, in
//! virtiofsd, or in a disk's or card's own thread.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use kumiki_boot::{Piece, WINDOW_BYTES};
use kumiki_node_wire::access::Access;
use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::abi;
use kumiki_node_wire::window::has_ended;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryRegion, GuestRegionMmap};

use super::backend::{Backend, NodeMemory, fd};
use super::block::{Block, Disk};
use super::bus::{Bus, Doorbell};
use super::console::Console;
use super::fd_passing::{Answer, Order, Passed, receive, send};
use super::irqfd::Irqfds;
use super::rng::Entropy;
use super::slot::{Slot, withdraw};
use super::transfer::Medium;
use super::vhost::{KernelNet, KernelVsock};
use super::vhost_user::VhostUserFs;
use super::{confine, net};
use crate::record::window_of;
use crate::{Error, ErrorKind, Refusal, Result};

/// Longest sleep, should a doorbell get lost.
const LOOK_AGAIN: rustix::event::Timespec =
    rustix::event::Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// Source of an event: a slot and a queue, or one of these.
const BELL: u64 = u64::MAX;
const ORDERS: u64 = u64::MAX - 1;

struct Worker {
    epoll: OwnedFd,
    device: Arc<File>,
    doorbell: Doorbell,
    memory: Arc<NodeMemory>,
    irqfds: Option<Irqfds>,
    slots: BTreeMap<usize, Slot>,
}

/// Serves whatever node and devices come by the socket that is standard input, until the
/// node has ended or the other end is gone.
pub fn work() -> Result<()> {
    let orders = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map_err(|error| Error::os("the socket for orders", error))?;
    confine::privileges()?;
    let first = receive::<Order>(&orders)?;
    let Some((Order::Node { name, pieces }, files)) = first else {
        return Err(Error::inner(ErrorKind::Invalid, "kumiki node start starts this program"));
    };
    let mut worker = Worker::new(&name, &pieces, files)?;
    confine::calls()?;
    worker.hear(orders.as_fd(), ORDERS)?;
    send(&orders, &Answer::Ok(()), &[])?;
    worker.run(&orders)
}

impl Worker {
    fn new(name: &str, pieces: &[(u64, u64)], files: Vec<File>) -> Result<Self> {
        let pieces: Vec<_> =
            pieces.iter().map(|&(address, bytes)| Piece { address, bytes }).collect();
        let mut files = files.into_iter();
        let device = files
            .next()
            .ok_or_else(|| Error::inner(ErrorKind::Protocol, "no descriptor of the module"))?;
        let device = Arc::new(device);
        let irqfds = files.next().map(|file| Irqfds::attach(file, &device)).transpose()?;
        let first = *pieces.first().ok_or_else(|| crate::record::incomplete(name))?;
        let window = Memory::map(device.as_fd(), &[window_of(&first)], Access::Write)?;
        let memory = Arc::new(memory_of(&device, pieces)?);
        let doorbell =
            Doorbell { bus: Arc::new(Bus::new(window)), device: Some(Arc::clone(&device)) };
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|error| Error::os("waiting for events", error))?;
        let worker = Worker { epoll, device, doorbell, memory, irqfds, slots: BTreeMap::new() };
        let bell = worker.irqfds.as_ref().map_or(worker.device.as_fd(), |irqfds| fd(irqfds.left()));
        worker.hear(bell, BELL)?;
        Ok(worker)
    }

    fn hear(&self, fd: BorrowedFd<'_>, what: u64) -> Result<()> {
        epoll::add(&self.epoll, fd, EventData::new_u64(what), EventFlags::IN)
            .map_err(|error| Error::os("waiting for events", error))
    }

    fn run(&mut self, orders: &OwnedFd) -> Result<()> {
        let mut events =
            [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 32];
        // What the last server was told of and has not looked at: as long as that is there, the
        // node does not ring.
        self.look_at_all();
        loop {
            let count = match epoll::wait(&self.epoll, &mut events[..], Some(&LOOK_AGAIN)) {
                Ok(count) => count,
                Err(rustix::io::Errno::INTR) => 0,
                Err(error) => return Err(Error::os("waiting for events", error)),
            };
            if count == 0 {
                self.look_at_all();
            }
            for event in &events[..count] {
                match event.data.u64() {
                    BELL => self.rung()?,
                    ORDERS => match receive::<Order>(orders)? {
                        Some((order, files)) => {
                            let answer: Answer = self.obey(order, files).map_err(Refusal::from);
                            send(orders, &answer, &[])?;
                        }
                        None => return Ok(()),
                    },
                    call => {
                        let (slot, queue) = ((call >> 32) as usize, call as u32 as usize);
                        if let Some(slot) = self.slots.get(&slot) {
                            slot.called(queue);
                        }
                    }
                }
            }
            if has_ended(self.doorbell.bus.node_word()) {
                return Ok(());
            }
        }
    }

    fn rung(&mut self) -> Result<()> {
        if let Some(irqfds) = &self.irqfds {
            // The slots are the module's to take: what it leaves may be of any.
            let _ = irqfds.left().read();
            self.slots.values_mut().for_each(Slot::look);
            return Ok(());
        }
        let mut count = [0; 8];
        (&*self.device)
            .read_exact(&mut count)
            .map_err(|error| Error::os("reading a doorbell", error))?;
        let mut slots = self.doorbell.bus.take_slots();
        while slots != 0 {
            let number = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            if let Some(slot) = self.slots.get_mut(&number) {
                slot.look();
            }
        }
        Ok(())
    }

    /// Should a bell have been lost.
    fn look_at_all(&mut self) {
        // Before the look: whatever is set after this rings again.
        self.doorbell.bus.take_slots();
        self.slots.values_mut().for_each(Slot::look);
        if self.doorbell.bus.interrupts_wait() {
            self.doorbell.ring();
        }
    }

    fn obey(&mut self, order: Order, files: Vec<File>) -> Result<()> {
        match order {
            Order::Node { .. } => {
                Err(Error::inner(ErrorKind::Protocol, "one node is served already"))
            }
            Order::Memory { pieces } => {
                let pieces = pieces.into_iter().map(|(address, bytes)| Piece { address, bytes });
                let memory = changed(&self.memory, &self.device, pieces.collect())?;
                self.memory = Arc::new(memory);
                let memory = &self.memory;
                super::each(self.slots.values_mut().map(|slot| slot.remember(memory)))
            }
            Order::Withdraw { slot } => {
                if slot >= abi::SLOTS {
                    return Err(Error::inner(
                        ErrorKind::Protocol,
                        format!("there is no slot {slot}"),
                    ));
                }
                let Some(mut device) = self.slots.remove(&slot) else {
                    withdraw(&self.doorbell, slot);
                    return Ok(());
                };
                // Another process may have copies, which would be heard on and on.
                let unheard = self.unhear(slot, &device);
                device.withdraw();
                unheard
            }
            Order::Serve { slot: number, name, device, resume } => {
                if number >= abi::SLOTS || self.slots.contains_key(&number) {
                    return Err(Error::inner(
                        ErrorKind::Protocol,
                        format!("slot {number} is taken"),
                    ));
                }
                let backend = self.backend(device, files)?;
                self.add(number, &name, backend, resume)
            }
        }
    }

    fn add(
        &mut self,
        number: usize,
        name: &str,
        backend: Box<dyn Backend>,
        resume: bool,
    ) -> Result<()> {
        let (doorbell, memory) = (self.doorbell.clone(), Arc::clone(&self.memory));
        let mut slot = Slot::new((number, name), backend, doorbell, memory)?;
        if let Err(error) = self.hear_queues(number, &slot) {
            let _ = self.unhear(number, &slot);
            return Err(error);
        }
        slot.is_connected = self.irqfds.is_some();
        if resume {
            slot.resume()
        } else {
            slot.offer()
        }
        self.slots.insert(number, slot);
        Ok(())
    }

    /// Hears the queues, before the device begins: kicks and calls from then on count.
    fn hear_queues(&self, number: usize, slot: &Slot) -> Result<()> {
        for (queue, (kick, call)) in slot.eventfds().enumerate() {
            match &self.irqfds {
                Some(irqfds) => irqfds.connect((number, queue), kick, call)?,
                None => self.hear(fd(call), (number as u64) << 32 | queue as u64)?,
            }
        }
        Ok(())
    }

    fn unhear(&self, number: usize, slot: &Slot) -> Result<()> {
        if let Some(irqfds) = &self.irqfds {
            return irqfds.disconnect(number);
        }
        for (_, call) in slot.eventfds() {
            let _ = epoll::delete(&self.epoll, fd(call));
        }
        Ok(())
    }

    fn backend(&self, device: Passed, files: Vec<File>) -> Result<Box<dyn Backend>> {
        let memory = Arc::clone(&self.memory);
        let missing = || Error::inner(ErrorKind::Protocol, "a descriptor is missing for it");
        let mut files = files.into_iter();
        if let Passed::Net { link, in_kernel } = device {
            let pairs = usize::from(link.pairs);
            let taps: Vec<File> = files.by_ref().take(pairs).collect();
            let movers: Vec<File> = files.collect();
            if taps.len() != pairs || pairs == 0 || in_kernel && movers.len() != pairs {
                return Err(missing());
            }
            return Ok(match in_kernel {
                true => Box::new(KernelNet::new(movers, taps, link, memory)?),
                false => Box::new(net::Card::new(taps, link, memory)),
            });
        }
        let mut file = || files.next().ok_or_else(missing);
        Ok(match device {
            Passed::Net { .. } => unreachable!("it has returned"),
            Passed::Disk { bytes, read_only, serial, direct } => {
                let medium = Medium::new(file()?, if direct { Some(file()?) } else { None });
                Box::new(Block::new(Disk { medium, bytes, read_only, serial }, memory))
            }
            Passed::Vsock { cid } => Box::new(KernelVsock::new(file()?, cid, memory)?),
            Passed::Entropy => Box::new(Entropy::new(memory)),
            Passed::Console => Box::new(Console::new(file()?, memory)),
            Passed::Share { tag } => Box::new(VhostUserFs::new(file()?, &tag, memory)?),
        })
    }
}

/// All pieces, but for the window.
fn memory_of(device: &Arc<File>, pieces: Vec<Piece>) -> Result<NodeMemory> {
    changed(&NodeMemory::default(), device, pieces)
}

/// Maps the pieces that have come, and forgets those that have gone. What stays is where it
/// was: rings are known by that.
fn changed(now: &NodeMemory, device: &Arc<File>, mut pieces: Vec<Piece>) -> Result<NodeMemory> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::inner(ErrorKind::System, format!("mapping the node's memory: {error}"))
    };
    if let Some(first) = pieces.first_mut() {
        first.bytes -= WINDOW_BYTES;
    }
    let mut memory = now.clone();
    let is_in = |memory: &NodeMemory, piece: &Piece| {
        let region = memory.find_region(GuestAddress(piece.address));
        region.is_some_and(|region| {
            (region.start_addr().0, region.len()) == (piece.address, piece.bytes)
        })
    };
    for region in now.iter() {
        let piece = Piece { address: region.start_addr().0, bytes: region.len() };
        if !pieces.contains(&piece) {
            let removed = memory.remove_region(region.start_addr(), region.len());
            memory = removed.map_err(|error| failed(&error))?.0;
        }
    }
    for piece in &pieces {
        if is_in(&memory, piece) {
            continue;
        }
        let offset = FileOffset::from_arc(Arc::clone(device), piece.address);
        let bytes = usize::try_from(piece.bytes).map_err(|error| failed(&error))?;
        let region = GuestRegionMmap::from_range(GuestAddress(piece.address), bytes, Some(offset));
        let region = Arc::new(region.map_err(|error| failed(&error))?);
        memory = memory.insert_region(region).map_err(|error| failed(&error))?;
    }
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

    use super::*;
    use crate::serve::backend::{Description, Ring};

    /// A device of one queue that keeps where its kicks and calls come from.
    struct Kept(std::sync::mpsc::Sender<Ring>);

    impl Backend for Kept {
        fn describe(&self) -> Description {
            Description { limits: vec![4], ..Description::default() }
        }

        fn start(&mut self, _: u64, rings: Vec<Ring>) -> Result<()> {
            rings.into_iter().for_each(|ring| self.0.send(ring).unwrap());
            Ok(())
        }

        fn stop(&mut self) -> Result<()> {
            Ok(())
        }

        fn remember(&mut self, _: Arc<NodeMemory>) -> Result<bool> {
            Ok(false)
        }
    }

    /// Makes a rig with a device in slot 3 that its driver has begun; its ring.
    fn worker() -> (Worker, Ring) {
        let bus = Arc::new(Bus::new(Memory::zeroed(WINDOW_BYTES)));
        let doorbell = Doorbell { bus, device: None };
        let memory = NodeMemory::from_ranges(&[(GuestAddress(0x1000), 0x4000)]).unwrap();
        let device = EventFd::new(EFD_NONBLOCK).unwrap();
        let device = fd(&device).try_clone_to_owned().unwrap();
        let mut worker = Worker {
            epoll: epoll::create(CreateFlags::CLOEXEC).unwrap(),
            device: Arc::new(device.into()),
            doorbell: doorbell.clone(),
            memory: Arc::new(memory),
            irqfds: None,
            slots: BTreeMap::new(),
        };
        let (sender, rings) = std::sync::mpsc::channel();
        let backend = Box::new(Kept(sender));
        worker.add(3, "kept", backend, false).unwrap();
        let node = doorbell.bus.slot(3);
        node.place_queue(0, 4, [0x1000, 0x2000, 0x3000]);
        node.ask(1, 15);
        worker.slots.get_mut(&3).unwrap().look();
        (worker, rings.recv_timeout(Duration::from_secs(20)).unwrap())
    }

    /// The node rings only if nothing is there to look at: what a server that died has left would
    /// else keep it silent for ever.
    #[test]
    fn what_the_last_server_has_not_looked_at_does_not_keep_the_node_from_ringing() {
        let (mut worker, ring) = worker();
        let bus = Arc::clone(&worker.doorbell.bus);
        bus.slot(3).kick(1);
        bus.tell_host(3);
        worker.look_at_all();
        assert_eq!(ring.kick.read().unwrap(), 1);
        assert_eq!(bus.take_slots(), 0);
    }

    #[test]
    fn pieces_that_stay_are_where_they_were() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(64 << 20).unwrap();
        let file = Arc::new(file);
        let piece = |address: u64, bytes: u64| Piece { address: address << 20, bytes: bytes << 20 };
        let first = memory_of(&file, vec![piece(8, 4), piece(32, 2)]).unwrap();
        let place = |memory: &NodeMemory, at: u64| {
            memory.get_host_address(GuestAddress(at << 20)).ok().map(|place| place as usize)
        };
        let more = changed(&first, &file, vec![piece(8, 4), piece(32, 2), piece(16, 2)]).unwrap();
        assert_eq!(more.num_regions(), 3);
        for at in [8, 32] {
            assert_eq!(place(&first, at), place(&more, at));
        }
        assert!(place(&first, 16).is_none() && place(&more, 17).is_some());
        // The window is none of it.
        assert!(place(&more, 9).is_some() && place(&more, 10).is_none());
        let less = changed(&more, &file, vec![piece(8, 4), piece(16, 2)]).unwrap();
        assert_eq!((place(&less, 32), place(&less, 16)), (None, place(&more, 16)));
    }

    /// virtiofsd has copies of the descriptors by which it calls, and ends when it likes.
    #[test]
    fn a_device_that_was_withdrawn_is_not_heard() {
        let (mut worker, ring) = worker();
        worker.obey(Order::Withdraw { slot: 3 }, Vec::new()).unwrap();
        ring.call.write(1).unwrap();
        let mut events =
            [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 4];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(epoll::wait(&worker.epoll, &mut events[..], Some(&at_once)).unwrap(), 0);
    }
}
