//! Memory that the measuring process holds while it starts programs.

use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::error::{Error, Result};
use crate::program::{PAGE, memory_fits};

/// Resident anonymous memory in ordinary pages; given back when dropped.
#[derive(Debug)]
pub(super) struct Resident {
    mapping: Option<NonNull<u8>>,
    bytes: usize,
}

impl Resident {
    /// Maps `bytes` and writes to each page once.
    pub(super) fn new(bytes: u64) -> Result<Self> {
        if bytes == 0 {
            return Ok(Resident { mapping: None, bytes: 0 });
        }
        memory_fits("the process that starts programs", bytes)?;
        let bytes = bytes as usize;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping where the kernel likes replaces nothing.
        let mapping =
            unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
        let mapping = mapping
            .map_err(|e| Error::os(format!("map {bytes} bytes of anonymous memory"), e))?
            .cast::<u8>();
        let resident = Resident { mapping: NonNull::new(mapping), bytes };
        // SAFETY: exactly the mapping made above; the advice changes no contents.
        // A kernel without huge pages does not know it, and needs not.
        let _ = unsafe { madvise(mapping.cast(), bytes, Advice::LinuxNoHugepage) };
        for page in (0..bytes).step_by(PAGE as usize) {
            // SAFETY: `page` is less than the mapping's size.
            let at = unsafe { mapping.add(page) };
            // SAFETY: inside the mapping, which is writable and nobody else's;
            // volatile because nothing reads it.
            unsafe { at.write_volatile(1) };
        }
        Ok(resident)
    }
}

impl Drop for Resident {
    fn drop(&mut self) {
        if let Some(mapping) = self.mapping {
            // SAFETY: the mapping that `new` made, to which no reference exists.
            let _ = unsafe { munmap(mapping.as_ptr().cast(), self.bytes) };
        }
    }
}

#[cfg(test)]
mod tests {
    use procfs::process::Process;

    use super::*;

    #[test]
    fn every_page_is_resident_and_ordinary() {
        let bytes = 8 << 20;
        let memory = Resident::new(bytes).unwrap();
        let start = memory.mapping.unwrap().as_ptr().addr() as u64;
        let maps = Process::myself().unwrap().smaps().unwrap();
        let holds = |address: (u64, u64)| address.0 <= start && start < address.1;
        let map = maps.iter().find(|map| holds(map.address)).unwrap();
        assert!(map.extension.map["Rss"] >= bytes);
        assert_eq!(map.extension.map["AnonHugePages"], 0);
    }

    #[test]
    fn dropping_gives_it_back() {
        let size = || Process::myself().unwrap().statm().unwrap().size * PAGE;
        let before = size();
        for _ in 0..200 {
            Resident::new(16 << 20).unwrap();
        }
        // 3200 MiB if it leaked; other tests' threads come and go meanwhile.
        assert!(size() < before + (1 << 30));
    }

    #[test]
    fn more_than_there_is_is_refused() {
        assert!(matches!(Resident::new(1 << 50), Err(Error::Unsupported { .. })));
    }
}
