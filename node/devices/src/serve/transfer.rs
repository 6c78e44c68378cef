//! A disk's data between its file and the node's buffers, without a copy on the way: the
//! kernel reads and writes where the node has them.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use virtio_queue::DescriptorChain;
use vm_memory::{GuestAddress, GuestMemoryBackend, VolatileSlice};

use super::backend::NodeMemory;

/// Buffers of one call: `IOV_MAX`.
const VECTORS: usize = 1024;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    ToNode,
    ToFile,
}

/// Bytes where the node has them.
#[derive(Default)]
pub(super) struct Buffers<'m>(VecDeque<VolatileSlice<'m>>);

impl<'m> Buffers<'m> {
    /// Buffers of a chain that the device may read, and those that it may write; `None` if one is
    /// not in the node's memory. By one walk, which of a large request costs as much as all else.
    pub(super) fn of(
        memory: &'m NodeMemory,
        chain: DescriptorChain<&NodeMemory>,
    ) -> Option<(Self, Self)> {
        let (mut read, mut written) = (Buffers::default(), Buffers::default());
        for buffer in chain {
            let side = if buffer.is_write_only() { &mut written } else { &mut read };
            let at = GuestAddress(buffer.addr().0);
            for slice in GuestMemoryBackend::get_slices(memory, at, buffer.len() as usize) {
                side.0.push_back(slice.ok()?);
            }
        }
        Some((read, written))
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().fold(0, |sum, slice| sum.saturating_add(slice.len()))
    }

    /// Leaves the first `count` bytes out.
    pub(super) fn skip(&mut self, mut count: usize) {
        while let Some(first) = self.0.front_mut() {
            if count < first.len() {
                if let Ok(rest) = first.offset(count) {
                    *first = rest;
                }
                return;
            }
            count -= first.len();
            self.0.pop_front();
        }
    }

    /// Takes the first bytes; `None` if there are fewer.
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (mut bytes, mut count) = ([0; N], 0);
        for slice in &self.0 {
            if count == N {
                break;
            }
            count += slice.copy_to(&mut bytes[count..]);
        }
        self.skip(count);
        (count == N).then_some(bytes)
    }

    /// Takes the last byte.
    pub(super) fn take_last(&mut self) -> Option<VolatileSlice<'m>> {
        while let Some(last) = self.0.pop_back() {
            if let Some(length) = last.len().checked_sub(1) {
                self.0.extend(last.subslice(0, length).ok().filter(|slice| !slice.is_empty()));
                return last.offset(length).ok();
            }
        }
        None
    }

    /// Writes as many of the bytes as there is room for.
    pub(super) fn write(&self, mut bytes: &[u8]) {
        for slice in &self.0 {
            let length = bytes.len().min(slice.len());
            slice.copy_from(&bytes[..length]);
            bytes = &bytes[length..];
        }
    }
}

/// File that a disk's data is read from and written to.
pub(crate) struct Medium {
    pub(crate) file: File,
    /// The file past the page cache.
    direct: Option<File>,
    /// True if the kernel can pin the node's memory, as far as it has been tried.
    pins: AtomicBool,
}

impl Medium {
    pub(crate) fn new(file: File, direct: Option<File>) -> Self {
        Medium { file, direct, pins: AtomicBool::new(true) }
    }

    /// Moves all of the buffers' bytes.
    pub(super) fn transfer(&self, way: Way, mut at: u64, buffers: &mut Buffers<'_>) -> Result<()> {
        while buffers.bytes() > 0 {
            let moved = self.some(way, at, &buffers.0)?;
            if moved == 0 {
                // A file that has shrunk: an error of this request only.
                return Err(ErrorKind::UnexpectedEof.into());
            }
            at += moved as u64;
            buffers.skip(moved);
        }
        Ok(())
    }

    fn some(&self, way: Way, at: u64, slices: &VecDeque<VolatileSlice<'_>>) -> Result<usize> {
        if let Some(direct) = self.direct.as_ref().filter(|_| self.pins.load(Ordering::Relaxed)) {
            match moved(direct, way, at, slices) {
                // Buffers that do not lie as the disk wants them, as those of small reads do.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                // Memory that the host's kernel has no pages of: kept from it, or off line.
                Err(error) if error.raw_os_error() == Some(libc::EFAULT) => {
                    self.pins.store(false, Ordering::Relaxed);
                    super::say(format_args!(
                        "a disk is read through the page cache: the node's memory is not of the \
                         host's allocator (--memory-from contig)"
                    ));
                }
                moved => return moved,
            }
        }
        moved(&self.file, way, at, slices)
    }
}

/// Number of bytes that one call has moved.
fn moved(file: &File, way: Way, at: u64, slices: &VecDeque<VolatileSlice<'_>>) -> Result<usize> {
    let vectors: Vec<_> = slices
        .iter()
        .take(VECTORS)
        .map(|slice| libc::iovec {
            iov_base: slice.ptr_guard_mut().as_ptr().cast(),
            iov_len: slice.len(),
        })
        .collect();
    let at = i64::try_from(at).map_err(|_| Error::from(ErrorKind::InvalidInput))?;
    loop {
        let (fd, count) = (file.as_raw_fd(), vectors.len() as i32);
        let moved = match way {
            // SAFETY: each vector is a slice of the node's memory, which is mapped as long as the
            // slices are borrowed, and to which no reference exists: others write it, too.
            Way::ToNode => unsafe { libc::preadv64(fd, vectors.as_ptr(), count, at) },
            // SAFETY: as above; it is only read.
            Way::ToFile => unsafe { libc::pwritev64(fd, vectors.as_ptr(), count, at) },
        };
        match usize::try_from(moved) {
            Ok(moved) => return Ok(moved),
            Err(_) => {
                let error = Error::last_os_error();
                if error.kind() != ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use vm_memory::Bytes;

    use super::*;

    fn buffers<'m>(memory: &'m NodeMemory, places: &[(u64, usize)]) -> Buffers<'m> {
        let slice = |&(at, length)| memory.get_slice(GuestAddress(at), length).unwrap();
        Buffers(places.iter().map(slice).collect())
    }

    #[test]
    fn bytes_go_where_the_buffers_are_and_no_further() {
        let memory = NodeMemory::from_ranges(&[(GuestAddress(0x1000), 0x2000)]).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let medium = Medium::new(file, None);
        let mut data = buffers(&memory, &[(0x1000, 2), (0x1100, 3), (0x1200, 1)]);
        assert!(data.take_last().is_some());
        data.skip(1);
        assert_eq!(data.bytes(), 4);
        medium.transfer(Way::ToNode, 3, &mut data).unwrap();
        let read = |at| memory.read_obj::<u32>(GuestAddress(at)).unwrap().to_le_bytes();
        assert_eq!(
            (&read(0x1000), &read(0x1100), &read(0x1200)),
            (b"\x003\0\0", b"456\0", &[0; 4])
        );
        medium.transfer(Way::ToFile, 8, &mut buffers(&memory, &[(0x1100, 3)])).unwrap();
        let mut data = buffers(&memory, &[(0x1000, 4), (0x1300, 0)]);
        medium.transfer(Way::ToNode, 7, &mut data).unwrap();
        assert_eq!(&read(0x1000), b"7456");
        // Beyond its end.
        let short = medium.transfer(Way::ToNode, 9, &mut buffers(&memory, &[(0x1000, 4)]));
        assert_eq!(short.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn bytes_are_taken_from_both_ends_and_no_more_than_there_are() {
        let memory = NodeMemory::from_ranges(&[(GuestAddress(0x1000), 0x2000)]).unwrap();
        memory.write_slice(b"abcdef", GuestAddress(0x1000)).unwrap();
        let mut data = buffers(&memory, &[(0x1000, 1), (0x1001, 0), (0x1001, 4), (0x1005, 0)]);
        assert_eq!(data.take(), Some(*b"abc"));
        data.take_last().unwrap().copy_from(b"X");
        assert_eq!(data.bytes(), 1);
        data.write(b"YZ");
        let mut there = [0; 6];
        memory.read_slice(&mut there, GuestAddress(0x1000)).unwrap();
        assert_eq!(&there, b"abcYXf");
        assert_eq!(data.take::<2>(), None);
        assert!(data.take_last().is_none() && data.bytes() == 0);
    }

    #[test]
    fn more_buffers_than_one_call_takes_are_several_calls() {
        let memory = NodeMemory::from_ranges(&[(GuestAddress(0x1000), 0x2000)]).unwrap();
        let text: Vec<u8> = (0..VECTORS + 9).map(|n| (n % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&text).unwrap();
        let places: Vec<_> = (0..text.len()).map(|n| (0x1000 + n as u64, 1)).collect();
        let mut data = buffers(&memory, &places);
        Medium::new(file, None).transfer(Way::ToNode, 0, &mut data).unwrap();
        let mut there = vec![0; text.len()];
        memory.read_slice(&mut there, GuestAddress(0x1000)).unwrap();
        assert_eq!(there, text);
    }
}
