//! A disk: a file or a block device of the host, read and written by a thread of this
//! process, one for each disk.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FallocateFlags, fallocate};
use virtio_queue::{DescriptorChain, Queue, QueueOwnedT, QueueT, Reader, Writer};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::backend::{
    Backend, Description, F_EVENT_IDX, F_INDIRECT_DESC, F_VERSION_1, Interrupt, NodeMemory, Ring,
    fd,
};
use super::transfer::{Buffers, Medium, Way};
use crate::{Error, ErrorKind, Result};

const ID: u32 = 2;
/// Entries of the queue, and by that buffers of a request: a MiB of single pages is one, not
/// two that wait for each other.
const QUEUE_SIZE: u16 = 1024;
const SECTOR_BYTES: u64 = 512;

const F_SEG_MAX: u64 = 1 << 2;
const F_RO: u64 = 1 << 5;
const F_FLUSH: u64 = 1 << 9;
const F_DISCARD: u64 = 1 << 13;
const F_WRITE_ZEROES: u64 = 1 << 14;

const IN: u32 = 0;
const OUT: u32 = 1;
const FLUSH: u32 = 4;
const GET_ID: u32 = 8;
const DISCARD: u32 = 11;
const WRITE_ZEROES: u32 = 13;
const HEADER_BYTES: usize = 16;
const ID_BYTES: usize = 20;
/// Of a discard: sector, number of sectors, flags.
const RANGE_BYTES: usize = 16;
const MAY_UNMAP: u32 = 1;

const STATUS_OK: u8 = 0;
const STATUS_ERROR: u8 = 1;
const STATUS_UNSUPPORTED: u8 = 2;

/// Sectors of one discard or write of zeros.
const RANGE_MAX_SECTORS: u32 = 1 << 22;
/// Requests between two looks whether the device is to stop.
const ROUND: u32 = 64;
/// Zeros written at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// File or block device that a disk is made of.
pub(crate) struct Disk {
    pub(crate) medium: Medium,
    pub(crate) bytes: u64,
    pub(crate) read_only: bool,
    pub(crate) serial: String,
}

/// A disk, and its thread while it is started.
pub(crate) struct Block {
    disk: Arc<Disk>,
    memory: Arc<NodeMemory>,
    running: Option<(EventFd, JoinHandle<()>)>,
}

impl Block {
    pub(crate) fn new(disk: Disk, memory: Arc<NodeMemory>) -> Self {
        Block { disk: Arc::new(disk), memory, running: None }
    }
}

impl Backend for Block {
    fn describe(&self) -> Description {
        let writes = F_FLUSH | F_DISCARD | F_WRITE_ZEROES;
        let of_disk = if self.disk.read_only { F_RO } else { writes };
        let segments = u32::from(QUEUE_SIZE) - 2;
        let mut config = vec![0; 60];
        let mut put = |at: usize, bytes: &[u8]| config[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(self.disk.bytes / SECTOR_BYTES).to_le_bytes());
        put(12, &segments.to_le_bytes());
        put(34, &1_u16.to_le_bytes());
        for (at, number) in
            [(36, RANGE_MAX_SECTORS), (40, 1), (44, 1), (48, RANGE_MAX_SECTORS), (52, 1)]
        {
            put(at, &number.to_le_bytes());
        }
        put(56, &[1]);
        Description {
            id: ID,
            features: F_VERSION_1 | F_EVENT_IDX | F_INDIRECT_DESC | F_SEG_MAX | of_disk,
            limits: vec![QUEUE_SIZE],
            config,
        }
    }

    fn start(&mut self, accepted: u64, rings: Vec<Ring>) -> Result<()> {
        self.stop()?;
        let Some(ring) = rings.into_iter().next() else {
            return Err(Error::refused(ErrorKind::Protocol, "a disk without a queue"));
        };
        let mut queue = queue(&ring, accepted)?;
        let end = EventFd::new(EFD_NONBLOCK).map_err(|error| Error::os("an eventfd", error))?;
        let ended = end.try_clone().map_err(|error| Error::os("an eventfd", error))?;
        let (disk, memory) = (Arc::clone(&self.disk), Arc::clone(&self.memory));
        let thread = thread::Builder::new().name("disk".into()).spawn(move || {
            if let Err(error) = serve(&mut queue, &disk, &memory, &ring, &ended) {
                super::say(format_args!("a disk's queue stands still: {error}"));
                ring.interrupt.broken();
            }
        });
        let thread = thread.map_err(|error| Error::os("a disk's thread", error))?;
        self.running = Some((end, thread));
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if let Some((end, thread)) = self.running.take() {
            end.write(1).map_err(|error| Error::os("stopping a disk", error))?;
            // One that has panicked touches nothing more.
            let _ = thread.join();
        }
        Ok(())
    }
}

/// The crate's queue for a ring.
pub(super) fn queue(ring: &Ring, accepted: u64) -> Result<Queue> {
    let refused = |error: virtio_queue::Error| {
        Error::refused(ErrorKind::Protocol, format!("a queue: {error}"))
    };
    let mut queue = Queue::new(ring.limit).map_err(refused)?;
    queue.try_set_size(ring.size).map_err(refused)?;
    let half = |address: u64| (Some(address as u32), Some((address >> 32) as u32));
    let (low, high) = half(ring.descriptors);
    queue.set_desc_table_address(low, high);
    let (low, high) = half(ring.driver);
    queue.set_avail_ring_address(low, high);
    let (low, high) = half(ring.device);
    queue.set_used_ring_address(low, high);
    queue.set_event_idx(accepted & F_EVENT_IDX != 0);
    queue.set_next_avail(ring.next);
    queue.set_next_used(ring.next);
    queue.set_ready(true);
    Ok(queue)
}

/// How long to wait where there is more to do: it is only looked whether this is the end.
pub(super) const NOT_AT_ALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Sleeps until a kick, not at all if there is `more` to do; at the end `false`.
pub(super) fn wait(kick: &EventFd, end: &EventFd, more: bool) -> bool {
    loop {
        let mut fds = [fd(kick), fd(end)].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        if poll(&mut fds, more.then_some(&NOT_AT_ALL)).is_err() {
            continue;
        }
        if fds[1].revents().contains(PollFlags::IN) {
            return false;
        }
        if more || kick.read().is_ok() {
            return true;
        }
    }
}

fn serve(
    queue: &mut Queue,
    disk: &Disk,
    memory: &NodeMemory,
    ring: &Ring,
    end: &EventFd,
) -> Result<(), virtio_queue::Error> {
    loop {
        let more = drain(queue, disk, memory, &ring.interrupt)?;
        if !wait(&ring.kick, end, more) {
            return Ok(());
        }
    }
}

/// Does what is in the queue, [`ROUND`] requests at most: a driver that adds more all the time
/// would else keep who stops the device waiting. Whether there may be more.
pub(super) fn drain(
    queue: &mut Queue,
    disk: &Disk,
    memory: &NodeMemory,
    interrupt: &Interrupt,
) -> Result<bool, virtio_queue::Error> {
    let (mut left, mut last) = (ROUND, None);
    loop {
        queue.disable_notification(memory)?;
        // An index out of reach ends it here; `pop_descriptor_chain` would hide it.
        while let Some(chain) = queue.iter(memory)?.next() {
            let head = chain.head_index();
            let written = request(disk, memory, chain);
            queue.add_used(memory, head, written)?;
            if queue.needs_notification(memory)? {
                interrupt.raise();
            }
            left -= 1;
            if left == 0 {
                return Ok(true);
            }
        }
        if !queue.enable_notification(memory)? {
            return Ok(false);
        }
        went_on(queue, &mut last)?;
    }
}

/// An error if there is said to be more a second time, and nothing could be taken between:
/// that would go on for ever. Once is a driver that adds while it is looked.
pub(super) fn went_on(queue: &Queue, last: &mut Option<u16>) -> Result<(), virtio_queue::Error> {
    let at = queue.next_avail();
    match last.replace(at) {
        Some(before) if before == at => Err(virtio_queue::Error::InvalidAvailRingIndex),
        _ => Ok(()),
    }
}

/// One request; returns how many bytes of the node's memory were written. One that
/// does not even have room for a status gets none.
fn request(disk: &Disk, memory: &NodeMemory, chain: DescriptorChain<&NodeMemory>) -> u32 {
    let Ok(mut reader) = chain.clone().reader::<()>(memory) else { return 0 };
    let Ok(mut writer) = chain.clone().writer::<()>(memory) else { return 0 };
    let Some(room) = writer.available_bytes().checked_sub(1) else { return 0 };
    let Ok(mut status) = writer.split_at(room) else { return 0 };
    let data = |way| Buffers::of(memory, chain, way).ok_or(STATUS_ERROR);
    let outcome = perform(disk, &mut reader, &mut writer, data);
    let word = outcome.unwrap_or_else(|failure| failure);
    if status.write_all(&[word]).is_err() {
        return 0;
    }
    // The driver of a failed read looks at nothing but the status, which stands last.
    (room + 1) as u32
}

type Outcome = Result<u8, u8>;

fn io<T>(result: std::io::Result<T>) -> Result<T, u8> {
    result.map_err(|error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::OPNOTSUPP) => STATUS_UNSUPPORTED,
        _ => STATUS_ERROR,
    })
}

fn perform<'m>(
    disk: &Disk,
    reader: &mut Reader<'_>,
    writer: &mut Writer<'_>,
    data: impl FnOnce(Way) -> Result<Buffers<'m>, u8>,
) -> Outcome {
    let mut header = [0; HEADER_BYTES];
    io(reader.read_exact(&mut header))?;
    let word = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let sector = u64::from(word(8)) | u64::from(word(12)) << 32;
    match word(0) {
        IN => {
            let mut data = data(Way::ToNode)?;
            data.without_last();
            let at = place(disk, sector, data.bytes() as u64)?;
            io(disk.medium.transfer(Way::ToNode, at, &mut data))?;
            Ok(STATUS_OK)
        }
        OUT if disk.read_only => Err(STATUS_ERROR),
        OUT => {
            let mut data = data(Way::ToFile)?;
            data.skip(HEADER_BYTES);
            let at = place(disk, sector, data.bytes() as u64)?;
            io(disk.medium.transfer(Way::ToFile, at, &mut data))?;
            Ok(STATUS_OK)
        }
        FLUSH => {
            io(disk.medium.file.sync_data())?;
            Ok(STATUS_OK)
        }
        GET_ID => {
            let mut id = [0; ID_BYTES];
            let length = disk.serial.len().min(ID_BYTES);
            id[..length].copy_from_slice(&disk.serial.as_bytes()[..length]);
            io(writer.write_all(&id[..ID_BYTES.min(writer.available_bytes())]))?;
            Ok(STATUS_OK)
        }
        DISCARD | WRITE_ZEROES if disk.read_only => Err(STATUS_ERROR),
        kind @ (DISCARD | WRITE_ZEROES) => {
            // As its configuration says: many would make one request one without an end.
            if reader.available_bytes() != RANGE_BYTES {
                return Err(STATUS_UNSUPPORTED);
            }
            clear(disk, kind, reader)
        }
        _ => Err(STATUS_UNSUPPORTED),
    }
}

/// Where a range of the disk begins, in bytes; all of it is within.
fn place(disk: &Disk, sector: u64, bytes: u64) -> Result<u64, u8> {
    let at = sector.checked_mul(SECTOR_BYTES).ok_or(STATUS_ERROR)?;
    let end = at.checked_add(bytes).ok_or(STATUS_ERROR)?;
    if end <= disk.bytes && bytes.is_multiple_of(SECTOR_BYTES) { Ok(at) } else { Err(STATUS_ERROR) }
}

fn clear(disk: &Disk, kind: u32, reader: &mut Reader<'_>) -> Outcome {
    let mut range = [0; RANGE_BYTES];
    io(reader.read_exact(&mut range))?;
    let word =
        |at: usize| u32::from_le_bytes([range[at], range[at + 1], range[at + 2], range[at + 3]]);
    let sector = u64::from(word(0)) | u64::from(word(4)) << 32;
    let (sectors, flags) = (word(8), word(12));
    if sectors > RANGE_MAX_SECTORS || flags & !MAY_UNMAP != 0 {
        return Err(STATUS_UNSUPPORTED);
    }
    let bytes = u64::from(sectors) * SECTOR_BYTES;
    let at = place(disk, sector, bytes)?;
    if bytes == 0 {
        return Ok(STATUS_OK);
    }
    let keep = FallocateFlags::KEEP_SIZE;
    let unmaps = kind == DISCARD || flags & MAY_UNMAP != 0;
    let how = if unmaps { FallocateFlags::PUNCH_HOLE } else { FallocateFlags::ZERO_RANGE };
    match fallocate(disk.medium.file.as_fd(), how | keep, at, bytes) {
        Ok(()) => Ok(STATUS_OK),
        // A discard is advice.
        Err(rustix::io::Errno::OPNOTSUPP) if kind == DISCARD => Ok(STATUS_OK),
        Err(rustix::io::Errno::OPNOTSUPP) => zeros(disk, at, bytes),
        Err(_) => Err(STATUS_ERROR),
    }
}

/// Where the file system cannot do it by itself.
fn zeros(disk: &Disk, mut at: u64, mut bytes: u64) -> Outcome {
    let buffer = vec![0; CHUNK_BYTES];
    while bytes > 0 {
        let length = bytes.min(CHUNK_BYTES as u64);
        io(disk.medium.file.write_all_at(&buffer[..length as usize], at))?;
        (at, bytes) = (at + length, bytes - length);
    }
    Ok(STATUS_OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_stands_still_only_if_there_is_more_twice_and_nothing_to_take() {
        let (mut queue, mut last) = (Queue::new(16).unwrap(), None);
        assert!(went_on(&queue, &mut last).is_ok(), "a driver that has just added");
        queue.set_next_avail(1);
        assert!(went_on(&queue, &mut last).is_ok(), "which was taken");
        assert!(went_on(&queue, &mut last).is_err());
    }
}
