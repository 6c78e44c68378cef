//! Private memory of chosen page size.

use std::ffi::c_void;
use std::ops::Deref;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::{Huge, Mapping};
use crate::error::{Error, Result};

/// Time at which the pages get their memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Populate {
    /// Each at its first access.
    #[default]
    OnTouch,
    /// All at once, when mapped.
    Now,
}

/// Anonymous memory of this process alone, starting as zeros.
///
/// ```
/// use kumiki_sys::shm::{Anon, Huge, Populate};
///
/// let memory = Anon::new(8 << 20, Huge::Transparent, Populate::Now)?;
/// assert_eq!(memory.as_ptr() as usize % (2 << 20), 0);
/// # Ok::<(), kumiki_sys::Error>(())
/// ```
#[derive(Debug)]
pub struct Anon {
    mapping: Mapping,
}

impl Anon {
    /// Maps `len` bytes, rounded up to whole pages. For transparent huge pages
    /// the mapping begins at a multiple of 2 MiB.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a length of 0; [`Error::Unsupported`] if the
    /// pool of huge pages is exhausted or the kernel has no transparent ones;
    /// [`Error::Os`] if memory is exhausted.
    pub fn new(len: usize, huge: Huge, populate: Populate) -> Result<Self> {
        let len = huge.whole_pages(len)?;
        let what = || format!("anonymous memory of {len} bytes");
        let refusal = |errno| huge.refusal(what(), len, errno);
        let start = match huge {
            Huge::Policy | Huge::Never => map(len, MapFlags::empty()),
            Huge::Transparent => map_aligned(len, Huge::Size2M.page_bytes()),
            Huge::Size2M => map(len, MapFlags::HUGETLB | MapFlags::HUGE_2MB),
            Huge::Size1G => map(len, MapFlags::HUGETLB | MapFlags::HUGE_1GB),
        };
        let start = start.map_err(refusal)?;
        // SAFETY: just mapped so, private and known to nobody else.
        let mapping = unsafe { Mapping::new(start, len) }.map_err(refusal)?;
        let anon = Anon { mapping };
        match huge {
            Huge::Transparent => anon.advise(Advice::LinuxHugepage).map_err(|errno| {
                Error::unsupported(
                    format!("transparent huge pages ({errno})"),
                    "a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
                )
            })?,
            // Without that kernel option pages are small anyway.
            Huge::Never => drop(anon.advise(Advice::LinuxNoHugepage)),
            Huge::Policy | Huge::Size2M | Huge::Size1G => {}
        }
        if populate == Populate::Now {
            anon.populate().map_err(refusal)?;
        }
        Ok(anon)
    }

    /// `MAP_POPULATE` would come before the advice on page size, so pages are
    /// filled afterwards; by hand on a kernel before 5.14.
    fn populate(&self) -> Result<(), Errno> {
        match self.advise(Advice::LinuxPopulateWrite) {
            Err(Errno::INVAL) => {
                for page in (0..self.len()).step_by(rustix::param::page_size()) {
                    self.write(page, &[0]);
                }
                Ok(())
            }
            outcome => outcome,
        }
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: our own mapping; none of the advices used changes its bytes.
        unsafe { rustix::mm::madvise(self.as_ptr().cast(), self.len(), advice) }
    }
}

fn map(len: usize, flags: MapFlags) -> Result<*mut c_void, Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let flags = flags | MapFlags::PRIVATE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, access, flags) }
}

/// Maps more than asked and gives back what lies before and behind: kernels
/// before 6.7 do not align by themselves.
fn map_aligned(len: usize, align: usize) -> Result<*mut c_void, Errno> {
    let room = len.checked_add(align).ok_or(Errno::NOMEM)?;
    let start = map(room, MapFlags::empty())?;
    let before = start.align_offset(align);
    let behind = align - before;
    let aligned = start.wrapping_byte_add(before);
    if before > 0 {
        // SAFETY: the beginning of the mapping made above, not given out yet.
        unsafe { rustix::mm::munmap(start, before) }?;
    }
    if behind > 0 {
        // SAFETY: the end of the mapping made above, not given out yet.
        unsafe { rustix::mm::munmap(aligned.wrapping_byte_add(len), behind) }?;
    }
    Ok(aligned)
}

impl Deref for Anon {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::param::page_size;

    use super::*;

    /// Bytes of the mapping that have memory.
    fn resident(anon: &Anon) -> usize {
        let mut pages = vec![0u8; anon.len() / page_size()];
        let start = anon.as_ptr().cast();
        // SAFETY: the range is mapped, and `pages` has a byte for each page.
        let outcome = unsafe { libc::mincore(start, anon.len(), pages.as_mut_ptr()) };
        assert_eq!(outcome, 0);
        pages.iter().filter(|&&page| page & 1 == 1).count() * page_size()
    }

    #[test]
    fn populated_memory_is_resident_and_zero() {
        for huge in [Huge::Never, Huge::Policy] {
            let anon = Anon::new(64 << 10, huge, Populate::Now).unwrap();
            assert_eq!(resident(&anon), 64 << 10);
            let mut bytes = vec![1; anon.len()];
            anon.read(0, &mut bytes);
            assert!(bytes.iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn untouched_memory_is_not_resident() {
        let anon = Anon::new(64 << 10, Huge::Never, Populate::OnTouch).unwrap();
        assert_eq!(resident(&anon), 0);
        anon.write(page_size(), b"x");
        assert_eq!(resident(&anon), page_size());
    }

    fn transparent(len: usize, populate: Populate) -> Option<Anon> {
        match Anon::new(len, Huge::Transparent, populate) {
            Err(Error::Unsupported { feature, needs }) => {
                eprintln!("skipped: {feature}: {needs}");
                None
            }
            outcome => Some(outcome.unwrap()),
        }
    }

    #[test]
    fn transparent_pages_are_asked_for_at_a_fitting_address() {
        let Some(anon) = transparent(6 << 20, Populate::Now) else {
            return;
        };
        assert_eq!(anon.as_ptr() as usize % (2 << 20), 0);
        assert_eq!((anon.len(), resident(&anon)), (6 << 20, 6 << 20));
        anon.write((6 << 20) - 1, b"x");
    }

    #[test]
    fn alignment_leaves_no_address_space_behind() {
        let pages = || {
            let statm = fs::read_to_string("/proc/self/statm").unwrap();
            let size = statm.split(' ').next().unwrap();
            size.parse::<usize>().unwrap()
        };
        let before = pages();
        for _ in 0..4000 {
            if transparent(page_size(), Populate::OnTouch).is_none() {
                return;
            }
        }
        // 2 MiB lost each time would make 8 GB; other tests' threads take some.
        assert!(pages().saturating_sub(before) < (4 << 30) / page_size());
    }

    #[test]
    fn an_exhausted_pool_says_how_to_fill_it() {
        // More than any machine's pool.
        let error = Anon::new(1 << 42, Huge::Size1G, Populate::Now).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(
            error.to_string().contains("echo 4096 > /sys/kernel/mm/hugepages/hugepages-1048576kB")
        );
    }
}
