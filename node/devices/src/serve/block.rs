//! A disk: a file or a block device of the host, read and written by a thread of this
//! process, one for each disk.

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};
use virtio_queue::DescriptorChain;

use super::backend::{
    Backend, Description, F_EVENT_IDX, F_INDIRECT_DESC, F_VERSION_1, NodeMemory, Ring,
};
use super::queue::Server;
use super::transfer::{Buffers, Medium, Way};
use crate::Result;

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
/// Bytes of a discard's range: sector, number of sectors, flags.
const RANGE_BYTES: usize = 16;
const MAY_UNMAP: u32 = 1;

const STATUS_OK: u8 = 0;
const STATUS_ERROR: u8 = 1;
const STATUS_UNSUPPORTED: u8 = 2;

/// Sectors of one discard or write of zeros.
const RANGE_MAX_SECTORS: u32 = 1 << 22;
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
    server: Server,
}

impl Block {
    pub(crate) fn new(disk: Disk, memory: Arc<NodeMemory>) -> Self {
        Block { disk: Arc::new(disk), memory, server: Server::default() }
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
        let (disk, memory) = (Arc::clone(&self.disk), Arc::clone(&self.memory));
        self.server.answer("disk", rings, accepted, memory, move |memory, chain| {
            request(&disk, memory, chain)
        })
    }

    fn stop(&mut self) -> Result<()> {
        self.server.stop()
    }

    fn remember(&mut self, memory: Arc<NodeMemory>) -> Result<bool> {
        self.memory = memory;
        Ok(false)
    }
}

/// One request; returns how many bytes of the node's memory were written. One that
/// does not even have room for a status gets none.
pub(super) fn request(
    disk: &Disk,
    memory: &NodeMemory,
    chain: DescriptorChain<&NodeMemory>,
) -> u32 {
    let Some((read, mut written)) = Buffers::of(memory, chain) else { return 0 };
    let Some(status) = written.take_last() else { return 0 };
    let room = written.bytes();
    let word = perform(disk, read, written).unwrap_or_else(|failure| failure);
    status.copy_from(&[word]);
    // The driver of a failed read looks at nothing but the status, which stands last.
    (room + 1) as u32
}

type BlockOutcome = Result<u8, u8>;

fn io<T>(result: std::io::Result<T>) -> Result<T, u8> {
    result.map_err(|error| match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::OPNOTSUPP) => STATUS_UNSUPPORTED,
        _ => STATUS_ERROR,
    })
}

/// `read` is the device's to read, from the header on, and `written` to write, up to the status.
fn perform(disk: &Disk, mut read: Buffers<'_>, mut written: Buffers<'_>) -> BlockOutcome {
    let header: [u8; HEADER_BYTES] = read.take().ok_or(STATUS_ERROR)?;
    let word = |at: usize| {
        u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    let sector = u64::from(word(8)) | u64::from(word(12)) << 32;
    match word(0) {
        IN => {
            let at = place(disk, sector, written.bytes() as u64)?;
            io(disk.medium.transfer(Way::ToNode, at, &mut written))?;
            Ok(STATUS_OK)
        }
        OUT if disk.read_only => Err(STATUS_ERROR),
        OUT => {
            let at = place(disk, sector, read.bytes() as u64)?;
            io(disk.medium.transfer(Way::ToFile, at, &mut read))?;
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
            written.write(&id);
            Ok(STATUS_OK)
        }
        DISCARD | WRITE_ZEROES if disk.read_only => Err(STATUS_ERROR),
        kind @ (DISCARD | WRITE_ZEROES) => {
            // As its configuration says: many would make one request one without an end.
            if read.bytes() != RANGE_BYTES {
                return Err(STATUS_UNSUPPORTED);
            }
            clear(disk, kind, read.take().ok_or(STATUS_ERROR)?)
        }
        _ => Err(STATUS_UNSUPPORTED),
    }
}

/// Offset of a range of the disk, in bytes; all of it is within.
fn place(disk: &Disk, sector: u64, bytes: u64) -> Result<u64, u8> {
    let at = sector.checked_mul(SECTOR_BYTES).ok_or(STATUS_ERROR)?;
    let end = at.checked_add(bytes).ok_or(STATUS_ERROR)?;
    if end <= disk.bytes && bytes.is_multiple_of(SECTOR_BYTES) { Ok(at) } else { Err(STATUS_ERROR) }
}

fn clear(disk: &Disk, kind: u32, range: [u8; RANGE_BYTES]) -> BlockOutcome {
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

/// Writes zeros where the file system cannot do it by itself.
fn zeros(disk: &Disk, mut at: u64, mut bytes: u64) -> BlockOutcome {
    let buffer = vec![0; CHUNK_BYTES];
    while bytes > 0 {
        let length = bytes.min(CHUNK_BYTES as u64);
        io(disk.medium.file.write_all_at(&buffer[..length as usize], at))?;
        (at, bytes) = (at + length, bytes - length);
    }
    Ok(STATUS_OK)
}
