//! A node gone mad: any words, where a node may write them, while its devices are served.
//! For fuzzing, and for its twin among the tests.
//!
//! Nothing here may panic or go on for ever, and no byte may change but those of the
//! node's memory, of the window and of the disk, which keeps its size.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kumiki_node_wire::memory::Memory;
use kumiki_node_wire::module::abi;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use virtio_queue::{DescriptorChain, Queue};
use vm_memory::{Bytes, GuestAddress};

use super::backend::{Backend, Description, NodeMemory, Ring};
use super::block::{Block, Disk, request};
use super::bus::{Bus, Doorbell};
use super::console::{self, Ends};
use super::net::Mover;
use super::queue::{Outcome, ROUND, drain, queue};
use super::rng::{Entropy, fill};
use super::slot::Slot;
use super::tap::{F_MRG_RXBUF, ID, Link};
use super::transfer::Medium;
use crate::Result;

/// Pieces of the node's memory: four with holes between them, one for each device's rings.
const PIECE_BYTES: u64 = 64 << 10;
const PIECES: [u64; SLOTS] = [0x10_0000, 0x20_0000, 0x30_0000, 0x40_0000];
const SLOTS: usize = 4;
const DISK_BYTES: u64 = 32 << 10;
const ENTRIES: u32 = 16;
/// Bytes between the rings of two queues, where a well-behaved driver would have put them.
const RING_STEP: u64 = 0x1000;
const AVAILABLE: u64 = 0x400;
const USED: u64 = 0x800;
const HANDSHAKE: [u32; 4] = [1, 3, 11, 15];

type Answer = Box<dyn FnMut(&NodeMemory, DescriptorChain<&NodeMemory>) -> u32 + Send>;

/// A device of one queue without its thread.
struct Inline {
    about: Description,
    answer: Answer,
    memory: Arc<NodeMemory>,
    queue: Option<(Queue, Ring)>,
}

impl Inline {
    fn boxed(
        about: Description,
        memory: &Arc<NodeMemory>,
        answer: impl FnMut(&NodeMemory, DescriptorChain<&NodeMemory>) -> u32 + Send + 'static,
    ) -> Box<dyn Backend> {
        let (answer, memory) = (Box::new(answer), Arc::clone(memory));
        Box::new(Inline { about, answer, memory, queue: None })
    }
}

impl Backend for Inline {
    fn describe(&self) -> Description {
        self.about.clone()
    }

    fn start(&mut self, accepted: u64, rings: Vec<Ring>) -> Result<()> {
        self.queue = None;
        for ring in rings {
            self.queue = Some((queue(&ring, accepted)?, ring));
        }
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.queue = None;
        Ok(())
    }

    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
        self.memory = memory;
        Ok(false)
    }

    fn work(&mut self) {
        let Inline { answer, memory, .. } = self;
        let Some((queue, ring)) = &mut self.queue else { return };
        if drain(queue, memory, &ring.interrupt, ROUND, |chain| answer(memory, chain)).is_err() {
            ring.interrupt.broken();
            self.queue = None;
        }
    }
}

/// Mover of a card's frames or of a console's bytes, both of two queues.
trait Both: Sized + Send {
    fn begin(
        end: Arc<File>,
        memory: Arc<NodeMemory>,
        accepted: u64,
        rings: Vec<Ring>,
    ) -> Result<Self>;
    fn move_all(&mut self) -> Outcome<bool>;
}

impl Both for Mover {
    fn begin(
        tap: Arc<File>,
        memory: Arc<NodeMemory>,
        accepted: u64,
        rings: Vec<Ring>,
    ) -> Result<Self> {
        Mover::new(tap, memory, accepted, rings)
    }

    fn move_all(&mut self) -> Outcome<bool> {
        self.move_all()
    }
}

impl Both for Ends {
    fn begin(
        terminal: Arc<File>,
        memory: Arc<NodeMemory>,
        accepted: u64,
        rings: Vec<Ring>,
    ) -> Result<Self> {
        Ends::new(terminal, memory, accepted, rings)
    }

    fn move_all(&mut self) -> Outcome<bool> {
        self.move_all()
    }
}

/// A card or a console without its thread, whose other end is a socket.
struct InlineBoth<M> {
    about: Description,
    end: Arc<File>,
    memory: Arc<NodeMemory>,
    mover: Option<M>,
}

impl<M: Both> Backend for InlineBoth<M> {
    fn describe(&self) -> Description {
        self.about.clone()
    }

    fn start(&mut self, accepted: u64, rings: Vec<Ring>) -> Result<()> {
        let (end, memory) = (Arc::clone(&self.end), Arc::clone(&self.memory));
        self.mover = Some(M::begin(end, memory, accepted, rings)?);
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        self.mover = None;
        Ok(())
    }

    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
        self.memory = memory;
        Ok(false)
    }

    fn work(&mut self) {
        self.mover.take_if(|mover| mover.move_all().is_err());
    }
}

/// A node and what is served to it: a disk in slot 0, a card in slot 1, entropy in slot 2,
/// a console in slot 3.
struct Rig {
    bus: Arc<Bus>,
    memory: Arc<NodeMemory>,
    disk: File,
    outside: [File; 2],
    slots: [Slot; SLOTS],
}

impl Rig {
    fn new() -> Self {
        let bus = Arc::new(Bus::new(Memory::zeroed(kumiki_boot::WINDOW_BYTES)));
        let ranges = PIECES.map(|piece| (GuestAddress(piece), PIECE_BYTES as usize));
        let memory = Arc::new(NodeMemory::from_ranges(&ranges).expect("there is memory"));
        let disk = File::from(memfd_create("disk", MemfdFlags::empty()).expect("a file"));
        ftruncate(&disk, DISK_BYTES).expect("a file");
        let ((tap, net), (terminal, user)) = (taps(), taps());
        let link = Link { mac: [2, 0, 0, 0, 0, 1], mtu: None, pairs: 1 };
        let features = 1 << 32 | 1 << 28 | 1 << 29 | F_MRG_RXBUF;
        let both = |id, features, config| Description {
            id,
            features,
            limits: vec![ENTRIES as u16; 2],
            config,
        };
        let card = InlineBoth::<Mover> {
            about: both(ID, features, link.config()),
            end: Arc::new(tap),
            memory: Arc::clone(&memory),
            mover: None,
        };
        let console = InlineBoth::<Ends> {
            about: both(console::ID, 1 << 32 | 1 << 29, vec![0; 4]),
            end: Arc::new(terminal),
            memory: Arc::clone(&memory),
            mover: None,
        };
        let about = Entropy::new(Arc::clone(&memory)).describe();
        let about = Description { limits: vec![ENTRIES as u16], ..about };
        let entropy = Inline::boxed(about, &memory, fill);
        let slots = [
            (0, inline(&disk, DISK_BYTES, &memory)),
            (1, Box::new(card) as _),
            (2, entropy),
            (3, Box::new(console) as _),
        ];
        let mut slots = slots.map(|(number, backend)| slot(number, backend, &bus, &memory));
        slots.iter_mut().for_each(Slot::offer);
        Rig { bus, memory, disk, outside: [net, user], slots }
    }

    /// Has the drivers begin as good ones do.
    fn begin(&mut self) {
        for (slot, piece) in PIECES.into_iter().enumerate() {
            for queue in 0..2_u64 {
                let at = piece + queue * RING_STEP;
                let words = [at, at + AVAILABLE, at + USED];
                let queue = abi::SLOT_QUEUES + queue as usize * abi::QUEUE_BYTES;
                self.poke(slot, queue + 4, ENTRIES);
                for (n, word) in words.into_iter().enumerate() {
                    self.poke(slot, queue + 8 + 8 * n, word as u32);
                    self.poke(slot, queue + 12 + 8 * n, (word >> 32) as u32);
                }
            }
            self.poke(slot, abi::SLOT_ACCEPTED, 0);
            self.poke(slot, abi::SLOT_ACCEPTED + 4, 1);
            for status in HANDSHAKE {
                self.poke(slot, abi::SLOT_STATUS, status);
                let request = self.bus.slot(slot).request();
                self.poke(slot, abi::SLOT_REQUEST, request.wrapping_add(1));
                self.look();
            }
        }
    }

    /// The node writes a word of a slot.
    fn poke(&self, slot: usize, offset: usize, word: u32) {
        let at = abi::BUS_AT + abi::BUS_BYTES + slot * abi::SLOT_BYTES + offset;
        self.bus.window().u32(at).store(word, Ordering::Relaxed);
    }

    fn look(&mut self) {
        self.bus.take_slots();
        self.slots.iter_mut().for_each(Slot::look);
        self.slots.iter_mut().for_each(Slot::work);
    }

    /// The disk is as large as it was, and the servers' own words are theirs.
    fn check(&self) {
        let bytes = self.disk.metadata().expect("a file").len();
        assert_eq!(bytes, DISK_BYTES, "the disk's size");
    }
}

fn inline(disk: &File, bytes: u64, memory: &Arc<NodeMemory>) -> Box<dyn Backend> {
    let copy = || disk.try_clone().expect("a descriptor");
    let of =
        || Disk { medium: Medium::new(copy(), None), bytes, read_only: false, serial: "s".into() };
    let (about, disk) = (Block::new(of(), Arc::clone(memory)).describe(), of());
    Inline::boxed(about, memory, move |memory, chain| request(&disk, memory, chain))
}

fn slot(
    number: usize,
    backend: Box<dyn Backend>,
    bus: &Arc<Bus>,
    memory: &Arc<NodeMemory>,
) -> Slot {
    let doorbell = Doorbell { bus: Arc::clone(bus), device: None };
    Slot::new((number, "made up"), backend, doorbell, Arc::clone(memory)).expect("eventfds")
}

fn taps() -> (File, File) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
    let (one, other): (OwnedFd, OwnedFd) = pair.expect("a pair of sockets");
    (File::from(one), File::from(other))
}

/// Drivers that have begun, and then `bytes`: again and again a place (u16), what kind of
/// place (u8), and a word (u32) there.
pub fn node(mut bytes: &[u8]) {
    let mut rig = Rig::new();
    rig.begin();
    let mut frame = vec![0; 70_000];
    while let [low, high, kind, a, b, c, d, rest @ ..] = bytes {
        let place = usize::from(u16::from_le_bytes([*low, *high]));
        let word = u32::from_le_bytes([*a, *b, *c, *d]);
        // Values as a mad driver has them, mostly near what is right.
        let word = if kind & 0x40 == 0 { word } else { word & 0x1f };
        let slot = place % SLOTS;
        let place = place / SLOTS;
        match kind & 0x07 {
            0 => rig.poke(slot, place % 0x240 * 4, word),
            1 => {
                rig.poke(slot, abi::SLOT_STATUS, word);
                rig.poke(slot, abi::SLOT_REQUEST, u32::from(*d) + 5);
            }
            // A ring: descriptors, what is available, what is used.
            2..=4 => {
                let piece = PIECES[slot] + place as u64 % 0x800 * 4;
                let _ = rig.memory.write_obj(word, GuestAddress(piece));
            }
            // A descriptor that is nearly right, made available.
            5 | 6 => descriptor(&rig, slot, place, word),
            _ => {
                let length = 20 + place % 2_000;
                frame[..4].copy_from_slice(&word.to_le_bytes());
                let _ = std::io::Write::write(&mut &rig.outside[place & 1], &frame[..length]);
            }
        }
        if kind & 0x80 == 0 {
            rig.bus.slot(slot).kick(3);
            rig.look();
        }
        bytes = rest;
    }
    rig.look();
    rig.check();
}

/// Writes one of a queue's descriptors, and the next entry of what is available.
fn descriptor(rig: &Rig, slot: usize, place: usize, word: u32) {
    let queue = PIECES[slot] + (place as u64 & 1) * RING_STEP;
    let entry = u64::from(word) % u64::from(ENTRIES);
    let at = queue + 16 * entry;
    let buffer = PIECES[(place >> 1) % SLOTS] + 0x4000 + u64::from(word >> 8 & 0xfff) * 8;
    let flags = (word >> 20 & 3) as u16 | ((word >> 26 & 1) as u16) << 2;
    let memory = &*rig.memory;
    let _ = memory.write_obj(buffer, GuestAddress(at));
    let _ = memory.write_obj((word >> 4 & 0xfff) + 1, GuestAddress(at + 8));
    let _ = memory.write_obj(flags, GuestAddress(at + 12));
    let _ = memory.write_obj(((entry + 1) % u64::from(ENTRIES)) as u16, GuestAddress(at + 14));
    // A disk's request: its kind and sector.
    let _ = memory.write_obj(word >> 22 & 0xf, GuestAddress(buffer));
    let _ = memory.write_obj(u64::from(word >> 12 & 0x7f), GuestAddress(buffer + 8));
    let available = queue + AVAILABLE;
    let index: u16 = memory.read_obj(GuestAddress(available + 2)).unwrap_or(0);
    let ring = available + 4 + 2 * u64::from(index % ENTRIES as u16);
    let _ = memory.write_obj(entry as u16, GuestAddress(ring));
    let _ = memory.write_obj(index.wrapping_add(1), GuestAddress(available + 2));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random words, the same in each run; `KUMIKI_WORDS` of them.
    #[test]
    fn a_node_gone_mad_stops_its_own_device_only() {
        let words = std::env::var("KUMIKI_WORDS").ok().and_then(|text| text.parse().ok());
        let words: u64 = words.unwrap_or(40_000);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut done = 0;
        while done < words {
            // Some rigs live long, most are disturbed early.
            let length = 1 + next() % 400;
            let bytes: Vec<u8> =
                (0..length).flat_map(|_| next().to_le_bytes()[..7].to_vec()).collect();
            node(&bytes);
            done += length;
        }
    }

    /// Checks that the rig does what a good driver asks for: a sector is written, and read.
    #[test]
    fn a_good_driver_is_served() {
        let mut rig = Rig::new();
        rig.begin();
        assert_eq!(rig.bus.slot(0).host_status(), 15);
        let memory = Arc::clone(&rig.memory);
        let (queue, buffer) = (PIECES[0], PIECES[0] + 0x4000);
        let put = |n: u64, address: u64, length: u32, flags: u16| {
            let at = queue + 16 * n;
            memory.write_obj(address, GuestAddress(at)).unwrap();
            memory.write_obj(length, GuestAddress(at + 8)).unwrap();
            memory.write_obj(flags, GuestAddress(at + 12)).unwrap();
            memory.write_obj(n as u16 + 1, GuestAddress(at + 14)).unwrap();
        };
        let mut request = |kind: u32, index: u16, data_flags: u16| {
            memory.write_obj(kind, GuestAddress(buffer)).unwrap();
            memory.write_obj(3_u64, GuestAddress(buffer + 8)).unwrap();
            memory.write_obj(0xff_u8, GuestAddress(buffer + 0x1000)).unwrap();
            put(0, buffer, 16, 1);
            put(1, buffer + 0x100, 512, data_flags);
            put(2, buffer + 0x1000, 1, 2);
            memory
                .write_obj(0_u16, GuestAddress(queue + AVAILABLE + 4 + 2 * u64::from(index)))
                .unwrap();
            memory.write_obj(index + 1, GuestAddress(queue + AVAILABLE + 2)).unwrap();
            rig.bus.slot(0).kick(0);
            rig.look();
            let used: u16 = memory.read_obj(GuestAddress(queue + USED + 2)).unwrap();
            assert_eq!(used, index + 1);
            memory.read_obj::<u8>(GuestAddress(buffer + 0x1000)).unwrap()
        };
        memory.write_slice(&[7; 512], GuestAddress(buffer + 0x100)).unwrap();
        assert_eq!(request(1, 0, 1), 0);
        memory.write_slice(&[0; 512], GuestAddress(buffer + 0x100)).unwrap();
        assert_eq!(request(0, 1, 3), 0);
        let mut read = [0; 512];
        memory.read_slice(&mut read, GuestAddress(buffer + 0x100)).unwrap();
        assert_eq!(read, [7; 512]);
        // A kind that there is not, and ranges to discard, of which one is taken.
        memory.write_slice(&[0; 512], GuestAddress(buffer + 0x100)).unwrap();
        assert_eq!(request(11, 2, 1), 2);
        assert_eq!(request(99, 3, 3), 2);
        // Read at the end of the disk by a file that has shrunk meanwhile.
        ftruncate(&rig.disk, 512).unwrap();
        let mut request_again = |index: u16| {
            memory.write_obj(0_u32, GuestAddress(buffer)).unwrap();
            memory
                .write_obj(0_u16, GuestAddress(queue + AVAILABLE + 4 + 2 * u64::from(index)))
                .unwrap();
            memory.write_obj(index + 1, GuestAddress(queue + AVAILABLE + 2)).unwrap();
            rig.bus.slot(0).kick(0);
            rig.look();
            memory.read_obj::<u8>(GuestAddress(buffer + 0x1000)).unwrap()
        };
        assert_eq!(request_again(4), 1);
    }

    /// A disk whose sectors are the driver: each read puts one more request for the next sector
    /// into the ring, in the very buffer that is read.
    #[test]
    fn a_driver_that_always_has_more_does_not_keep_its_device_from_stopping() {
        const SECTORS: u16 = 2048;
        let mut rig = Rig::new();
        ftruncate(&rig.disk, u64::from(SECTORS) * 512).unwrap();
        let (queue, available) = (PIECES[0], PIECES[0] + AVAILABLE);
        let (header, status) = (available + 0x80, PIECES[0] + 0x4000);
        for sector in 0..SECTORS {
            let mut bytes = [0; 512];
            bytes[2..4].copy_from_slice(&(sector + 2).to_le_bytes());
            bytes[0x88..0x8a].copy_from_slice(&(sector + 1).to_le_bytes());
            std::os::unix::fs::FileExt::write_all_at(&rig.disk, &bytes, u64::from(sector) * 512)
                .unwrap();
        }
        let disk = inline(&rig.disk, u64::from(SECTORS) * 512, &rig.memory);
        rig.slots[0] = slot(0, disk, &rig.bus, &rig.memory);
        rig.slots[0].offer();
        rig.begin();
        let memory = Arc::clone(&rig.memory);
        for (n, address, length, flags) in
            [(0, header, 16_u32, 1_u16), (1, available, 512, 3), (2, status, 1, 2)]
        {
            let at = queue + 16 * n;
            memory.write_obj(address, GuestAddress(at)).unwrap();
            memory.write_obj(length, GuestAddress(at + 8)).unwrap();
            memory.write_obj(flags, GuestAddress(at + 12)).unwrap();
            memory.write_obj(n as u16 + 1, GuestAddress(at + 14)).unwrap();
        }
        memory.write_obj(1_u16, GuestAddress(available + 2)).unwrap();
        rig.bus.slot(0).kick(1);
        rig.look();
        let used = || memory.read_obj::<u16>(GuestAddress(queue + USED + 2)).unwrap();
        let once = used();
        assert!((1..SECTORS / 2).contains(&once), "{once}");
        // What is left is done the next time, though nobody kicks.
        rig.look();
        assert!(used() > once);
    }

    /// A driver on another cpu adds a request just when the queue has been found empty.
    #[test]
    fn a_driver_that_adds_while_it_is_looked_is_no_fault() {
        const TIME: std::time::Duration = std::time::Duration::from_millis(300);
        let begun = std::time::Instant::now();
        let mut rig = Rig::new();
        rig.begin();
        let memory = Arc::clone(&rig.memory);
        let (table, buffer) = (PIECES[0], PIECES[0] + 0x4000);
        let driver = std::thread::spawn(move || {
            let put = |n: u64, address: u64, length: u32, flags: u16| {
                let at = table + 16 * n;
                memory.write_obj(address, GuestAddress(at)).unwrap();
                memory.write_obj(length, GuestAddress(at + 8)).unwrap();
                memory.write_obj(flags, GuestAddress(at + 12)).unwrap();
                memory.write_obj(n as u16 + 1, GuestAddress(at + 14)).unwrap();
            };
            memory.write_obj(8_u32, GuestAddress(buffer)).unwrap();
            put(0, buffer, 16, 1);
            put(1, buffer + 0x100, 20, 3);
            put(2, buffer + 0x1000, 1, 2);
            for n in 0..u16::MAX {
                if begun.elapsed() > TIME {
                    return;
                }
                let entry = table + AVAILABLE + 4 + 2 * (u64::from(n) % u64::from(ENTRIES));
                memory.write_obj(0_u16, GuestAddress(entry)).unwrap();
                let index = GuestAddress(table + AVAILABLE + 2);
                memory.store(n + 1, index, Ordering::Release).unwrap();
                let used = GuestAddress(table + USED + 2);
                while memory.load::<u16>(used, Ordering::Acquire).unwrap() != n + 1
                    && begun.elapsed() < TIME
                {
                    std::hint::spin_loop();
                }
            }
        });
        while !driver.is_finished() {
            rig.slots[0].work();
            assert_eq!(rig.bus.slot(0).host_status(), 15);
        }
        driver.join().unwrap();
    }

    /// A server that takes over finds the device as it was, whatever step it died at.
    #[test]
    fn another_server_goes_on_where_the_last_one_died() {
        let mut rig = Rig::new();
        // Asked for, and not answered.
        rig.poke(0, abi::SLOT_STATUS, 1);
        rig.poke(0, abi::SLOT_REQUEST, 1);
        let words = rig.bus.slot(0);
        assert_eq!(words.answered(), 0);
        rig.slots[0].resume();
        assert_eq!((rig.bus.slot(0).answered(), rig.bus.slot(0).host_status()), (1, 1));
        let present = rig.bus.slot(0).present();
        rig.begin();
        rig.slots[0].resume();
        assert_eq!(rig.bus.slot(0).host_status(), 15);
        assert_eq!(rig.bus.slot(0).present(), present, "it is the same device");
        // Another kind of device in the same slot is a new one.
        rig.poke(0, abi::SLOT_ID, 99);
        rig.slots[0].resume();
        assert_eq!(rig.bus.slot(0).present(), present + 1);
    }

    #[test]
    fn what_was_not_offered_and_rings_elsewhere_are_refused() {
        let mut rig = Rig::new();
        rig.poke(0, abi::SLOT_ACCEPTED, 1 << 31);
        rig.poke(0, abi::SLOT_STATUS, 11);
        rig.poke(0, abi::SLOT_REQUEST, 1);
        rig.look();
        assert_eq!(rig.bus.slot(0).host_status(), 3, "without FEATURES_OK");
        rig.begin();
        for (offset, word) in [
            (4, 3),
            (4, 2048),
            (8, 0x50_0000),
            (8, PIECES[0] as u32 + 8),
            (16, (PIECES[0] + PIECE_BYTES - 4) as u32),
            (28, 0xffff_ffff_u32),
        ] {
            rig.begin();
            rig.poke(0, abi::SLOT_QUEUES + offset, word);
            for status in [0, 1, 3, 11, 15] {
                rig.poke(0, abi::SLOT_STATUS, status);
                let request = rig.bus.slot(0).request() + 1;
                rig.poke(0, abi::SLOT_REQUEST, request);
                rig.look();
            }
            let (own, other) = (rig.bus.slot(0).host_status(), rig.bus.slot(1).host_status());
            assert_eq!((own, other), (15 | 64, 15), "{offset:#x} {word:#x}");
            // It begins anew.
            rig.poke(0, abi::SLOT_STATUS, 0);
            let request = rig.bus.slot(0).request() + 1;
            rig.poke(0, abi::SLOT_REQUEST, request);
            rig.look();
            assert_eq!(rig.bus.slot(0).host_status(), 0);
        }
    }
}
