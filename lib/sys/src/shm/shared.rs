//! Memory behind a descriptor, for any number of processes.

use std::ops::Deref;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::{Huge, Mapping, Sealed};
use crate::error::{Error, Result};

/// Shared memory: a memfd, sealed at its size and mapped.
///
/// The size is sealed so that no process can shrink the memory under another one, which
/// would die of SIGBUS at its next access.
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
    memory: Sealed,
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
        let shared = Self::map(Sealed::new(name, len, huge)?)
            .map_err(|errno| huge.refusal(format!("mapping {name:?}"), len, errno))?;
        let advice = match huge {
            Huge::Transparent => Advice::LinuxHugepage,
            Huge::Never => Advice::LinuxNoHugepage,
            Huge::Policy | Huge::Size2M | Huge::Size1G => return Ok(shared),
        };
        // A kernel without transparent huge pages answers EINVAL: then every
        // page is small, which is what both wishes come to there.
        // SAFETY: the mapping made above; advice on page size keeps its bytes.
        let _ = unsafe { rustix::mm::madvise(shared.as_ptr().cast(), shared.len(), advice) };
        Ok(shared)
    }

    /// Maps the shared memory behind a descriptor that another process made
    /// by [`new`](Self::new).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the descriptor is not sealed at its size: it is
    /// something else, and could shrink under us.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        let memory = Sealed::from_fd(fd)?;
        let what = format!("mapping {} shared bytes", memory.len());
        Self::map(memory).map_err(|errno| Error::os(what, errno))
    }

    fn map(memory: Sealed) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let (len, fd, flags) = (memory.len(), memory.fd(), MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, access, flags, fd, 0) }?;
        // SAFETY: just mapped so, `len` bytes; the size is sealed, so the
        // pages stay backed; the address is known to nobody else.
        let mapping = unsafe { Mapping::new(start, len) }?;
        Ok(Shared { mapping, memory })
    }

    /// The descriptor, which is closed at exec: send it over a UNIX socket.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.fd()
    }

    /// A new descriptor of the same memory that stays open at exec, for a
    /// child.
    ///
    /// # Errors
    /// [`Error::Os`] if there are no descriptors left.
    pub fn inheritable(&self) -> Result<OwnedFd> {
        // dup(2) leaves close-on-exec off.
        rustix::io::dup(self.fd())
            .map_err(|errno| Error::os("duplicating the descriptor of shared memory", errno))
    }
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

    use rustix::fs::MemfdFlags;

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
