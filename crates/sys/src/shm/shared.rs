//! Memory behind a descriptor, for any number of processes.

use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::{Huge, Mapping};
use crate::error::{Error, Result};

/// The kernel counts the ending zero and a prefix of its own (`MFD_NAME_MAX_LEN`,
/// mm/memfd.c).
const LONGEST_NAME: usize = 249;

/// Shared memory: a memfd, sealed at its size and mapped.
///
/// The size is sealed so that no party can shrink the memory under another
/// one, who would die of SIGBUS at its next access.
///
/// ```
/// use std::sync::atomic::Ordering;
/// use kumiki_sys::shm::{Huge, Shared};
///
/// let ours = Shared::new("example", 4096, Huge::Policy)?;
/// // What another process does with the descriptor it was given:
/// let theirs = Shared::from_fd(ours.inheritable()?)?;
/// theirs.atomic_u32(64).store(7, Ordering::Release);
/// assert_eq!(ours.atomic_u32(64).load(Ordering::Acquire), 7);
/// # Ok::<(), kumiki_sys::Error>(())
/// ```
#[derive(Debug)]
pub struct Shared {
    mapping: Mapping,
    fd: OwnedFd,
}

impl Shared {
    /// Makes and maps `len` bytes of zeros, rounded up to whole pages. The
    /// name is for people, in `/proc/PID/maps` and `/proc/PID/fd`. The
    /// descriptor is closed at exec.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a length of 0 or a name that is too long or has
    /// a zero byte; [`Error::Unsupported`] if the pool of huge pages is
    /// exhausted; [`Error::Os`] if memory or descriptors are.
    pub fn new(name: &str, len: usize, huge: Huge) -> Result<Self> {
        let len = huge.whole_pages(len)?;
        if name.len() > LONGEST_NAME || name.contains('\0') {
            return Err(Error::Invalid(format!(
                "{name:?} cannot name shared memory: at most {LONGEST_NAME} bytes, none of them 0"
            )));
        }
        let what = || format!("shared memory {name:?} of {len} bytes");
        let refusal = |errno| huge.refusal(what(), len, errno);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let flags = match huge {
            Huge::Size2M => flags | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
            Huge::Size1G => flags | MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
            Huge::Policy | Huge::Never | Huge::Transparent => flags,
        };
        let fd = create(name, flags).map_err(refusal)?;
        rustix::fs::ftruncate(&fd, len as u64).map_err(refusal)?;
        rustix::fs::fcntl_add_seals(&fd, fixed_size() | SealFlags::SEAL).map_err(refusal)?;
        let shared = Self::map(fd, len).map_err(refusal)?;
        let advice = match huge {
            Huge::Transparent => Advice::LinuxHugepage,
            Huge::Never => Advice::LinuxNoHugepage,
            Huge::Policy | Huge::Size2M | Huge::Size1G => return Ok(shared),
        };
        // A kernel without transparent huge pages answers EINVAL: then every
        // page is small, which is what both wishes come to there.
        // SAFETY: the mapping made above; advice on page size keeps its bytes.
        let _ = unsafe { rustix::mm::madvise(shared.as_ptr().cast(), len, advice) };
        Ok(shared)
    }

    /// Maps the shared memory behind a descriptor that another process made
    /// by [`new`](Self::new).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the descriptor is not sealed at its size: it is
    /// something else, and could shrink under us.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        let foreign = |why: String| {
            Error::Invalid(format!(
                "the descriptor is not Kumiki's shared memory ({why}): pass that of Shared::fd"
            ))
        };
        let seals = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|errno| foreign(format!("it has no seals, {errno}")))?;
        if !seals.contains(fixed_size()) {
            return Err(foreign("its size is not sealed".to_owned()));
        }
        let stat = rustix::fs::fstat(&fd).map_err(|errno| foreign(errno.to_string()))?;
        let len = usize::try_from(stat.st_size).unwrap_or(0);
        if len == 0 {
            return Err(foreign("it is empty".to_owned()));
        }
        Self::map(fd, len).map_err(|errno| Error::os(format!("mapping {len} shared bytes"), errno))
    }

    fn map(fd: OwnedFd, len: usize) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start =
            unsafe { rustix::mm::mmap(ptr::null_mut(), len, access, MapFlags::SHARED, &fd, 0) }?;
        // SAFETY: just mapped so, `len` bytes; the size is sealed, so the
        // pages stay backed; the address is known to nobody else.
        let mapping = unsafe { Mapping::new(start, len) }?;
        Ok(Shared { mapping, fd })
    }

    /// The descriptor, which is closed at exec: send it over a UNIX socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// A new descriptor of the same memory that stays open at exec, for a
    /// child.
    ///
    /// # Errors
    /// [`Error::Os`] if there are no descriptors left.
    pub fn inheritable(&self) -> Result<OwnedFd> {
        // dup(2) leaves close-on-exec off.
        rustix::io::dup(&self.fd)
            .map_err(|errno| Error::os("duplicating the descriptor of shared memory", errno))
    }
}

/// Memory that nobody will execute, which hardened systems insist on
/// (`vm.memfd_noexec`); kernels before 6.3 do not know the flag.
fn create(name: &str, flags: MemfdFlags) -> Result<OwnedFd, Errno> {
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        outcome => outcome,
    }
}

fn fixed_size() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW
}

impl Deref for Shared {
    type Target = Mapping;

    fn deref(&self) -> &Mapping {
        &self.mapping
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn two_mappings_see_one_memory() {
        let ours = Shared::new("kumiki-test", 5000, Huge::Policy).unwrap();
        let theirs = Shared::from_fd(ours.inheritable().unwrap()).unwrap();
        assert_eq!((ours.len(), theirs.len()), (8192, 8192));
        assert_ne!(ours.as_ptr(), theirs.as_ptr());
        ours.write(8185, b"kumiki!");
        let mut seen = [0; 7];
        theirs.read(8185, &mut seen);
        assert_eq!(&seen, b"kumiki!");
        theirs.atomic_u64(8).store(3, Relaxed);
        assert_eq!(ours.atomic_u32(8).load(Relaxed), 3);
    }

    #[test]
    fn an_exec_ed_child_reaches_it() {
        use std::os::fd::AsRawFd;
        let shared = Shared::new("kumiki-test", 4096, Huge::Never).unwrap();
        let fd = shared.inheritable().unwrap();
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let run = |redirect: &str| {
            let mut shell = std::process::Command::new("sh");
            shell.args(["-c", &format!("printf kumiki {redirect} {path}")]);
            shell.stderr(std::process::Stdio::null());
            shell.status().unwrap().success()
        };
        // `>` truncates what it opens, and the seal forbids that.
        assert!(!run(">"));
        assert!(run("1<>"));
        let mut seen = [0; 6];
        shared.read(0, &mut seen);
        assert_eq!(&seen, b"kumiki");
    }

    #[test]
    fn the_name_is_seen_and_the_mapping_goes() {
        let shared = Shared::new("kumiki-visible", 4096, Huge::Policy).unwrap();
        let start = format!("{:x}-", shared.as_ptr() as usize);
        let mapped = || {
            let maps = fs::read_to_string("/proc/self/maps").unwrap();
            let line = maps.lines().find(|line| line.starts_with(&start));
            line.is_some_and(|line| line.contains("memfd:kumiki-visible"))
        };
        assert!(mapped());
        drop(shared);
        assert!(!mapped());
    }

    #[test]
    fn nobody_can_shrink_it() {
        let shared = Shared::new("kumiki-test", 8192, Huge::Policy).unwrap();
        assert_eq!(rustix::fs::ftruncate(shared.fd(), 4096), Err(Errno::PERM));
    }

    #[test]
    fn foreign_descriptors_are_refused() {
        let file = tempfile::tempfile().unwrap();
        let error = Shared::from_fd(file.into()).unwrap_err().to_string();
        assert!(error.contains("not Kumiki's shared memory"), "{error}");
        let loose = rustix::fs::memfd_create("loose", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&loose, 4096).unwrap();
        let error = Shared::from_fd(loose).unwrap_err().to_string();
        assert!(error.contains("size is not sealed"), "{error}");
    }

    #[test]
    fn impossible_wishes_are_explained() {
        for len in [0, usize::MAX] {
            let error = Shared::new("x", len, Huge::Policy).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
        let long = "x".repeat(250);
        assert!(matches!(Shared::new(&long, 1, Huge::Policy), Err(Error::Invalid(_))));
        assert!(matches!(Shared::new("a\0b", 1, Huge::Policy), Err(Error::Invalid(_))));
        // No machine has a pool of 2^42 bytes of huge pages.
        let error = Shared::new("x", 1 << 42, Huge::Size2M).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("hugepages-2048kB/nr_hugepages"));
    }

    #[test]
    #[should_panic(expected = "end beyond the mapping's 4096")]
    fn out_of_bounds_panics() {
        let shared = Shared::new("x", 1, Huge::Policy).unwrap();
        shared.atomic_u32(4096);
    }

    #[test]
    #[should_panic(expected = "not a multiple of 8")]
    fn misalignment_panics() {
        let shared = Shared::new("x", 1, Huge::Policy).unwrap();
        shared.atomic_u64(4);
    }
}
