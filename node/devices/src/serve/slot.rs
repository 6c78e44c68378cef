//! One device in its slot: the handshake, and who is told of what.
//!
//! ```text
//!   offered --request ACKNOWLEDGE, DRIVER, FEATURES_OK--> known
//!      ^                                                    | request DRIVER_OK: queues checked
//!      |   request 0: stopped, then answered                v
//!      +------------------------------------------------ running
//! ```
//!
//! A driver or a backend that fails has NEEDS_RESET in the status, and only this
//! device stands still. A server that takes over from one that died goes on by the
//! words in the slot: the last answer, and the status that it gave.

use std::sync::Arc;

use kumiki_node_wire::module::abi;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::backend::{Backend, Description, Interrupt, NodeMemory, Ring, checked};
use super::bus::{Doorbell, NEEDS_RESET};
use crate::{Error, Result};

const DRIVER_OK: u32 = 4;
const FEATURES_OK: u32 = 8;
/// Status bits that virtio has.
const STATUS: u32 = 0xff;

/// A served device.
pub(crate) struct Slot {
    number: usize,
    /// Name that a person gives it.
    pub(crate) name: String,
    doorbell: Doorbell,
    memory: Arc<NodeMemory>,
    backend: Box<dyn Backend>,
    about: Description,
    kicks: Vec<EventFd>,
    calls: Vec<EventFd>,
    /// The module hears and writes these.
    pub(crate) is_connected: bool,
    /// The last request that was carried out.
    handled: u32,
    running: bool,
}

impl Slot {
    pub(crate) fn new(
        (number, name): (usize, &str),
        backend: Box<dyn Backend>,
        doorbell: Doorbell,
        memory: Arc<NodeMemory>,
    ) -> Result<Self> {
        let about = backend.describe();
        let events = || -> Result<Vec<EventFd>> {
            let made = about.limits.iter().map(|_| EventFd::new(EFD_NONBLOCK));
            made.collect::<std::io::Result<_>>().map_err(|error| Error::os("an eventfd", error))
        };
        let (kicks, calls) = (events()?, events()?);
        Ok(Slot {
            number,
            name: name.to_owned(),
            doorbell,
            memory,
            backend,
            about,
            kicks,
            calls,
            is_connected: false,
            handled: 0,
            running: false,
        })
    }

    /// Eventfds by queue: the one that is written when the node has kicked it, and the one that its
    /// backend writes when it has used something.
    pub(crate) fn eventfds(&self) -> impl Iterator<Item = (&EventFd, &EventFd)> {
        self.kicks.iter().zip(&self.calls)
    }

    /// Shows the device to the node, as a new one.
    pub(crate) fn offer(&mut self) {
        let words = self.doorbell.bus.slot(self.number);
        words.set_present(0);
        let Description { id, features, limits, config } = &self.about;
        words.describe(*id, *features, limits, config);
        self.handled = words.request();
        // Counts descriptions of this slot: no two devices there have the same.
        words.set_present(words.generation().max(1));
        self.doorbell.bus.announce();
        self.doorbell.ring();
    }

    /// Goes on with a device whose server has died, if it is still this one.
    pub(crate) fn resume(&mut self) {
        let bus = Arc::clone(&self.doorbell.bus);
        let words = bus.slot(self.number);
        if words.present() == 0 || words.id() != self.about.id {
            return self.offer();
        }
        self.handled = words.answered();
        // A request that waits says what the driver wants by now. It may have been a reset, whose
        // driver has waited in vain, and the rings' memory is somebody else's.
        let waits = words.request() != self.handled;
        if !waits && words.host_status() & DRIVER_OK != 0 {
            self.go_on();
        }
        bus.announce();
        self.doorbell.ring();
        self.look();
    }

    /// Goes on with the node's memory as it is now.
    pub(crate) fn remember(&mut self, memory: &Arc<NodeMemory>) -> Result<()> {
        self.memory = Arc::clone(memory);
        let knows = self.backend.remember(Arc::clone(memory))?;
        if self.running && !knows {
            self.backend.stop()?;
            self.running = false;
            self.go_on();
        }
        Ok(())
    }

    /// Starts the backend where the last one has ended, by what it has used.
    fn go_on(&mut self) {
        let bus = Arc::clone(&self.doorbell.bus);
        let words = bus.slot(self.number);
        let status = self.start(words.host_status() & STATUS);
        words.set_host_status(status);
        for n in 0..self.kicks.len() {
            self.kick(n as u32);
            // What the last one has used, and not told.
            self.doorbell.interrupt(self.number, n as u32);
        }
    }

    /// Takes the device away.
    pub(crate) fn withdraw(&mut self) {
        let _ = self.backend.stop();
        self.running = false;
        withdraw(&self.doorbell, self.number);
    }

    /// Does what the node asks for, and passes its kicks on.
    pub(crate) fn look(&mut self) {
        let bus = Arc::clone(&self.doorbell.bus);
        let words = bus.slot(self.number);
        let request = words.request();
        if request != self.handled {
            // A driver that has waited in vain goes on: one of those that were missed may have
            // been a reset, since which other rings are there.
            if request.wrapping_sub(self.handled) != 1 {
                self.running = false;
                let _ = self.backend.stop();
            }
            self.handled = request;
            let status = self.carry_out(words.status() & STATUS, words.accepted());
            words.answer(request, status);
        }
        let kicks = words.take_kicks();
        for n in 0..self.kicks.len() as u32 {
            if kicks >> n & 1 == 1 {
                self.kick(n);
            }
        }
    }

    /// Passes on what its backend has written to `calls`.
    pub(crate) fn called(&self, queue: usize) {
        if self.calls.get(queue).is_some_and(|call| call.read().is_ok()) {
            self.doorbell.interrupt(self.number, queue as u32);
        }
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn work(&mut self) {
        self.backend.work();
    }

    fn kick(&self, queue: u32) {
        // Full, or nobody reads it: it has been told.
        let _ = self.kicks[queue as usize].write(1);
    }

    fn carry_out(&mut self, status: u32, accepted: u64) -> u32 {
        if status == 0 {
            self.running = false;
            return match self.backend.stop() {
                Ok(()) => 0,
                Err(error) => self.failed(0, &error),
            };
        }
        if status & FEATURES_OK != 0 && accepted & !self.about.features != 0 {
            let too_many = accepted & !self.about.features;
            super::say(format_args!("{}: features {too_many:#x} were not offered", self.name));
            return status & !FEATURES_OK;
        }
        if status & DRIVER_OK != 0 && !self.running { self.start(status) } else { status }
    }

    fn start(&mut self, status: u32) -> u32 {
        let words = self.doorbell.bus.slot(self.number);
        let accepted = words.accepted() & self.about.features;
        let rings = self.rings();
        let started = rings.and_then(|rings| self.backend.start(accepted, rings));
        match started {
            Ok(()) => {
                self.running = true;
                status
            }
            Err(error) => self.failed(status, &error),
        }
    }

    fn failed(&self, status: u32, error: &Error) -> u32 {
        super::say(format_args!(
            "{}: {error}; it stands still until its driver begins anew",
            self.name
        ));
        self.doorbell.interrupt(self.number, abi::CONFIG_BIT);
        status | NEEDS_RESET
    }

    fn rings(&self) -> Result<Vec<Ring>> {
        let words = self.doorbell.bus.slot(self.number);
        let copy = |event: &EventFd| {
            event.try_clone().map_err(|error| Error::os("copying an eventfd", error))
        };
        let mut rings = Vec::new();
        for (n, &limit) in self.about.limits.iter().enumerate() {
            let Some((queue, next)) = checked(&self.memory, n, limit, words.queue(n))? else {
                continue;
            };
            let doorbell = self.doorbell.clone();
            let call = self.is_connected.then(|| copy(&self.calls[n])).transpose()?.map(Arc::new);
            rings.push(Ring {
                index: n as u16,
                limit,
                size: queue.size as u16,
                descriptors: queue.descriptors,
                driver: queue.driver,
                device: queue.device,
                next,
                kick: copy(&self.kicks[n])?,
                call: copy(&self.calls[n])?,
                interrupt: Interrupt { doorbell, slot: self.number, bit: n as u32, call },
            });
        }
        Ok(rings)
    }
}

/// Shows that there is nothing in a slot; of a device that nobody serves any more, too.
pub(crate) fn withdraw(doorbell: &Doorbell, number: usize) {
    let words = doorbell.bus.slot(number);
    if words.present() != 0 {
        words.set_present(0);
        doorbell.bus.announce();
        doorbell.ring();
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let _ = self.backend.stop();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use kumiki_node_wire::memory::Memory;
    use vm_memory::{GuestAddress, GuestMemoryBackend};

    use super::*;
    use crate::serve::bus::Bus;

    /// A device of one queue that notes where its ring was at each start; 0 at a stop.
    struct Noted(Arc<Mutex<Vec<u64>>>);

    impl Backend for Noted {
        fn describe(&self) -> Description {
            Description { limits: vec![4], ..Description::default() }
        }

        fn start(&mut self, _: u64, rings: Vec<Ring>) -> Result<()> {
            self.0.lock().unwrap().extend(rings.iter().map(|ring| ring.descriptors));
            Ok(())
        }

        fn stop(&mut self) -> Result<()> {
            self.0.lock().unwrap().push(0);
            Ok(())
        }

        fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
            self.0.lock().unwrap().push(memory.num_regions() as u64);
            Ok(memory.num_regions() > 2)
        }
    }

    /// A lock that is held by an assertion that fails would end all tests.
    fn noted(notes: &Mutex<Vec<u64>>) -> Vec<u64> {
        std::mem::take(&mut notes.lock().unwrap())
    }

    /// Running, by a ring at 0x1000.
    fn running() -> (Slot, Arc<Bus>, Arc<Mutex<Vec<u64>>>) {
        let bus = Arc::new(Bus::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES)));
        let memory = Arc::new(NodeMemory::from_ranges(&[(GuestAddress(0x1000), 0x8000)]).unwrap());
        let (notes, doorbell) = (Arc::default(), Doorbell { bus: Arc::clone(&bus), device: None });
        let mut slot =
            Slot::new((0, "noted"), Box::new(Noted(Arc::clone(&notes))), doorbell, memory).unwrap();
        slot.offer();
        bus.slot(0).place_queue(0, 4, [0x1000, 0x2000, 0x3000]);
        for status in [0, 1, 3, 11, 15] {
            bus.slot(0).ask(1, status);
            slot.look();
        }
        assert_eq!(noted(&notes), [0, 0x1000]);
        (slot, bus, notes)
    }

    /// A driver that waited in vain for a reset has given the rings' memory back.
    #[test]
    fn a_new_server_does_not_begin_what_the_driver_wants_ended() {
        for status in [0, 1, 11] {
            let (mut slot, bus, notes) = running();
            bus.slot(0).ask(1, status);
            slot.running = false;
            slot.resume();
            assert_eq!(bus.slot(0).host_status(), status);
            assert!(!noted(&notes).contains(&0x1000));
        }
        // One that wants nothing else goes on.
        let (mut slot, bus, notes) = running();
        slot.running = false;
        slot.resume();
        assert_eq!((bus.slot(0).host_status(), noted(&notes)), (15, vec![0x1000]));
    }

    /// A backend that cannot learn of other memory as it runs is started again, where it was.
    #[test]
    fn memory_that_comes_is_known_to_what_runs() {
        let (mut slot, _bus, notes) = running();
        let ranges = [(0x1000, 0x8000), (0x10000, 0x1000), (0x20000, 0x1000)];
        let ranges = ranges.map(|(at, bytes)| (GuestAddress(at), bytes));
        let memory = |count| Arc::new(NodeMemory::from_ranges(&ranges[..count]).unwrap());
        slot.remember(&memory(2)).unwrap();
        assert_eq!(noted(&notes), [2, 0, 0x1000]);
        slot.remember(&memory(3)).unwrap();
        assert_eq!(noted(&notes), [3]);
        slot.running = false;
        slot.remember(&memory(2)).unwrap();
        assert_eq!(noted(&notes), [2]);
    }

    /// A driver that waits in vain goes on, and its server, which was busy, sees the last request.
    #[test]
    fn a_reset_that_was_missed_ends_the_former_rings() {
        let (mut slot, bus, notes) = running();
        bus.slot(0).place_queue(0, 4, [0x4000, 0x5000, 0x6000]);
        bus.slot(0).ask(5, 15);
        slot.look();
        assert_eq!((bus.slot(0).host_status(), noted(&notes)), (15, vec![0, 0x4000]));
    }
}
