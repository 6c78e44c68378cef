//! Memory mappings that undo themselves.

use std::hint::black_box;
use std::io;
use std::os::fd::AsFd;
use std::ptr;

use kumiki_sys::shm::{Anon, Huge, Populate};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use kumiki_measure::error::{Error, Result};

/// The ordinary page of x86-64.
pub(super) const PAGE_BYTES: usize = 4 << 10;

/// The huge page that one page-middle-directory entry of x86-64 maps.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Access made to every page of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    /// Nothing.
    None,
    /// One byte is read.
    Read,
    /// One byte is written.
    Write,
}

impl Touch {
    /// The value of a case's parameter `touch`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Touch::None => "none",
            Touch::Read => "read",
            Touch::Write => "write",
        }
    }
}

/// A mapping of this process, unmapped on drop. Readable, and writable unless
/// made otherwise.
pub(super) struct Mapping {
    start: *mut u8,
    bytes: usize,
    writable: bool,
}

impl Mapping {
    /// Maps fresh memory. `flags` must say `PRIVATE` or `SHARED`.
    pub(super) fn anonymous(bytes: usize, flags: MapFlags) -> Result<Self> {
        Mapping::try_anonymous(bytes, flags)
            .map_err(|e| Error::os(format!("mmap {bytes} bytes"), e))
    }

    /// Maps anonymous memory with an error that takes no memory, for a forked child.
    pub(super) fn try_anonymous(bytes: usize, flags: MapFlags) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: without an address and `FIXED` the kernel chooses a free
        // range, so no existing mapping changes.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, access, flags) }?;
        Ok(Mapping { start: start.cast(), bytes, writable: true })
    }

    /// Maps fresh private memory for transparent huge pages, beginning with a
    /// whole one. `bytes` are whole pages.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kernel has none.
    pub(super) fn huge(bytes: usize) -> Result<Self> {
        let memory = Anon::new(bytes, Huge::Transparent, Populate::OnTouch)?;
        let mapping = Mapping { start: memory.as_ptr(), bytes: memory.len(), writable: true };
        // From here on it is ours to unmap.
        std::mem::forget(memory);
        Ok(mapping)
    }

    /// Maps the first `bytes` of a file. `flags` must say `PRIVATE` or `SHARED`.
    pub(super) fn file(
        file: impl AsFd,
        bytes: usize,
        access: ProtFlags,
        flags: MapFlags,
    ) -> Result<Self> {
        // SAFETY: without an address and `FIXED` the kernel chooses a free
        // range, so no existing mapping changes.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, access, flags, file, 0) }
            .map_err(|e| Error::os(format!("mmap {bytes} bytes of a file"), e))?;
        let writable = access.contains(ProtFlags::WRITE);
        Ok(Mapping { start: start.cast(), bytes, writable })
    }

    /// The first byte.
    pub(super) fn start(&self) -> *mut u8 {
        self.start
    }

    /// Reads or writes one byte every `stride` bytes.
    #[inline]
    pub(super) fn touch(&self, touch: Touch, stride: usize) {
        assert!(touch != Touch::Write || self.writable, "write to a read-only mapping");
        for offset in (0..self.bytes).step_by(stride) {
            // SAFETY: `offset` lies inside the mapping.
            let at = unsafe { self.start.add(offset) };
            match touch {
                Touch::None => {}
                // SAFETY: mapped, readable, and any byte is a valid `u8`.
                Touch::Read => drop(black_box(unsafe { at.read_volatile() })),
                // SAFETY: mapped and, as asserted, writable; nobody holds a
                // reference into a mapping that is touched.
                Touch::Write => unsafe { at.write_volatile(1) },
            }
        }
    }

    /// `madvise` over the whole mapping.
    pub(super) fn advise(&self, advice: Advice) -> Result<()> {
        self.try_advise(advice)
            .map_err(|e| Error::os(format!("madvise {advice:?} of {} bytes", self.bytes), e))
    }

    fn try_advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the range is this mapping, and nobody holds a reference to
        // contents that an advice may throw away.
        unsafe { rustix::mm::madvise(self.start.cast(), self.bytes, advice) }
    }

    /// Asks for ordinary pages, whatever the system's policy on huge ones. A
    /// kernel without transparent huge pages has no others anyway.
    pub(super) fn ordinary_pages(self) -> Self {
        let _ = self.try_advise(Advice::LinuxNoHugepage);
        self
    }

    /// True if the page at `offset` is in memory (`mincore(2)`).
    pub(super) fn resident(&self, offset: usize) -> Result<bool> {
        assert!(offset < self.bytes && offset % PAGE_BYTES == 0);
        let mut state = 0_u8;
        // SAFETY: `offset` lies inside the mapping.
        let at = unsafe { self.start.add(offset) };
        // SAFETY: `at` is page-aligned and mapped; one page needs one byte of
        // answer, which `state` is.
        let failed = unsafe { libc::mincore(at.cast(), PAGE_BYTES, &mut state) } != 0;
        if failed { Err(Error::last_os("mincore one page")) } else { Ok(state & 1 == 1) }
    }

    /// The contents.
    ///
    /// # Safety
    /// Nobody writes to the mapping, or to the file below it, while the slice
    /// is in use.
    pub(super) unsafe fn as_slice(&self) -> &[u8] {
        // SAFETY: mapped and readable for as long as `self` lives; the caller
        // promises that it does not change.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and no reference outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.bytes) };
    }
}

/// The user half of an x86-64 address space, four-level page tables.
const ADDRESS_SPACE_BYTES: u64 = 1 << 47;

/// A size as an address width. Refuses what no mapping can have: nothing, or
/// more than the address space.
pub(super) fn mappable(bytes: u64) -> Result<usize> {
    if (1..=ADDRESS_SPACE_BYTES).contains(&bytes) {
        return Ok(bytes as usize);
    }
    Err(Error::Invalid(format!(
        "no mapping can have {bytes} bytes; choose a size from 1 to {ADDRESS_SPACE_BYTES}"
    )))
}

/// File in which the system says who gets transparent huge pages.
const HUGE_PAGE_POLICY: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Refuses where asking for transparent huge pages gets none.
pub(super) fn huge_pages_allowed() -> Result<()> {
    allowed_by(std::fs::read_to_string(HUGE_PAGE_POLICY))
}

fn allowed_by(policy: io::Result<String>) -> Result<()> {
    let unsupported = |needs: &str| Err(Error::unsupported("transparent huge pages", needs));
    match policy {
        Err(_) => unsupported("a kernel built with CONFIG_TRANSPARENT_HUGEPAGE"),
        Ok(policy) if policy.contains("[never]") => {
            unsupported(&format!("`echo madvise > {HUGE_PAGE_POLICY}` as root"))
        }
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_for_huge_pages_begins_with_one() {
        let mapping = match Mapping::huge(2 * HUGE_PAGE_BYTES) {
            Err(skip @ Error::Unsupported { .. }) => return eprintln!("skipped: {skip}"),
            outcome => outcome.unwrap(),
        };
        assert!(mapping.start.addr() % HUGE_PAGE_BYTES == 0);
        assert_eq!(mapping.bytes, 2 * HUGE_PAGE_BYTES);
        mapping.touch(Touch::Write, PAGE_BYTES);
        assert!(mapping.resident(2 * HUGE_PAGE_BYTES - PAGE_BYTES).unwrap());
    }

    #[test]
    fn untouched_memory_is_not_resident() {
        let mapping = Mapping::anonymous(2 * PAGE_BYTES, MapFlags::PRIVATE).unwrap();
        let mapping = mapping.ordinary_pages();
        // SAFETY: `start` is the first byte of a writable mapping.
        unsafe { mapping.start().write_volatile(1) };
        assert!(mapping.resident(0).unwrap());
        assert!(!mapping.resident(PAGE_BYTES).unwrap());
    }

    #[test]
    fn impossible_sizes_are_refused_by_name() {
        assert_eq!(mappable(1).unwrap(), 1);
        for bytes in [0, ADDRESS_SPACE_BYTES + 1, u64::MAX] {
            let error = mappable(bytes).unwrap_err().to_string();
            assert!(error.contains(&bytes.to_string()) && error.contains("choose"), "{error}");
        }
    }

    #[test]
    fn without_huge_pages_the_way_out_is_named() {
        assert!(allowed_by(Ok("always [madvise] never\n".into())).is_ok());
        assert!(allowed_by(Ok("[always] madvise never\n".into())).is_ok());
        let never = allowed_by(Ok("always madvise [never]\n".into())).unwrap_err();
        assert!(matches!(never, Error::Unsupported { .. }));
        assert!(never.to_string().contains(HUGE_PAGE_POLICY), "{never}");
        let missing = allowed_by(Err(io::ErrorKind::NotFound.into())).unwrap_err();
        assert!(missing.to_string().contains("CONFIG_TRANSPARENT_HUGEPAGE"), "{missing}");
    }
}
