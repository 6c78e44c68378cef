//! Memory of the process: mapped, unmapped, protected; memory as a file.
//!
//! Addresses are numbers, so that an operation may go from thread to thread.
//! All but [`MemfdCreate`] take the lock of the process's memory map, so that
//! they gain nothing from each other.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MlockFlags, MprotectFlags, MremapFlags, MsyncFlags, ProtFlags};

use super::Operation;
use super::output::{descriptor, name, typed};
use crate::request::Request;

/// mmap(2): maps memory; gives its address.
#[derive(Debug)]
pub struct Mmap<F = BorrowedFd<'static>> {
    address: usize,
    length: usize,
    protection: ProtFlags,
    flags: MapFlags,
    file: Option<F>,
    offset: u64,
}

impl Mmap {
    /// New private memory of `length` bytes, all zero, anywhere.
    #[inline]
    pub const fn anonymous(length: usize, protection: ProtFlags) -> Self {
        // MAP_ANONYMOUS has no constant: rustix means it by having no file.
        let anonymous = libc::MAP_ANONYMOUS as u32;
        let flags = MapFlags::PRIVATE.union(MapFlags::from_bits_retain(anonymous));
        Mmap { address: 0, length, protection, flags, file: None, offset: 0 }
    }
}

impl<F: AsFd> Mmap<F> {
    /// `length` bytes of a file from `offset` on, anywhere; what is written there
    /// goes to the file.
    #[inline]
    pub const fn shared(file: F, offset: u64, length: usize, protection: ProtFlags) -> Self {
        let flags = MapFlags::SHARED;
        Mmap { address: 0, length, protection, flags, file: Some(file), offset }
    }

    /// `length` bytes of a file from `offset` on, anywhere; what is written there
    /// stays in the process.
    #[inline]
    pub const fn private(file: F, offset: u64, length: usize, protection: ProtFlags) -> Self {
        let flags = MapFlags::PRIVATE;
        Mmap { address: 0, length, protection, flags, file: Some(file), offset }
    }

    /// The call with any arguments, `libc::MAP_ANONYMOUS` among the flags where
    /// there is no file.
    ///
    /// # Safety
    /// With `MAP_FIXED` the call replaces what is mapped there: nobody may rely
    /// on it.
    #[inline]
    pub const unsafe fn new(
        address: usize,
        length: usize,
        protection: ProtFlags,
        flags: MapFlags,
        file: Option<F>,
        offset: u64,
    ) -> Self {
        Mmap { address, length, protection, flags, file, offset }
    }
}

// SAFETY: no pointers into the operation. Memory mapped anywhere harms nobody;
// for a fixed address the constructor's caller vouches.
unsafe impl<F: AsFd> Operation for Mmap<F> {
    type Output = Result<usize, Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        Request::new(
            libc::SYS_mmap,
            [
                self.address as u64,
                self.length as u64,
                self.protection.bits().into(),
                self.flags.bits().into(),
                self.file.as_ref().map_or(-1i64 as u64, descriptor),
                self.offset,
            ],
        )
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        // SAFETY: any number is an address.
        unsafe { typed(ret_val) }
    }
}

operation! {
    /// munmap(2): unmaps `length` bytes.
    pub struct Munmap { address: usize, length: usize }
    |op| Request::new(libc::SYS_munmap, [op.address as u64, op.length as u64]) => ();
    /// # Safety
    /// Nobody uses the memory any more, or will before it is mapped again.
    unsafe
}

operation! {
    /// mprotect(2): says what may be done with `length` bytes.
    pub struct Mprotect { address: usize, length: usize, protection: MprotectFlags }
    |op| Request::new(
        libc::SYS_mprotect,
        [op.address as u64, op.length as u64, op.protection.bits().into()],
    ) => ();
    /// # Safety
    /// Nobody does with the memory what the protection takes away, or has
    /// references to it that promise more.
    unsafe
}

operation! {
    /// madvise(2): says how `length` bytes will be used.
    pub struct Madvise { address: usize, length: usize, advice: Advice }
    |op| Request::new(
        libc::SYS_madvise,
        [op.address as u64, op.length as u64, op.advice as u64],
    ) => ();
    /// # Safety
    /// Advice such as [`Advice::LinuxDontNeed`] takes the content of the memory:
    /// nobody may rely on it.
    unsafe
}

operation! {
    /// mremap(2), anywhere: gives `old_length` bytes another length, and their new
    /// address.
    pub struct Mremap { address: usize, old_length: usize, length: usize, flags: MremapFlags }
    |op| Request::new(
        libc::SYS_mremap,
        [op.address as u64, op.old_length as u64, op.length as u64, op.flags.bits().into()],
    ) => usize;
    /// # Safety
    /// Nobody uses the memory under its old address any more where it may move,
    /// or the part that is cut off.
    unsafe
}

operation! {
    /// msync(2): writes `length` bytes of a shared mapping to their file.
    pub struct Msync { address: usize, length: usize, flags: MsyncFlags }
    |op| Request::new(
        libc::SYS_msync,
        [op.address as u64, op.length as u64, op.flags.bits().into()],
    ) => ()
}

operation! {
    /// mlock2(2), since Linux 4.4: brings the pages of `length` bytes into memory
    /// and keeps them there; with [`MlockFlags::ONFAULT`] each from its first use
    /// on. `ENOMEM` beyond the process's limit (`RLIMIT_MEMLOCK`).
    pub struct Mlock2 { address: usize, length: usize, flags: MlockFlags }
    |op| Request::new(
        libc::SYS_mlock2,
        [op.address as u64, op.length as u64, op.flags.bits().into()],
    ) => ()
}

operation! {
    /// munlock(2): lets the pages of `length` bytes leave memory again, however
    /// often they were locked.
    pub struct Munlock { address: usize, length: usize }
    |op| Request::new(libc::SYS_munlock, [op.address as u64, op.length as u64]) => ()
}

operation! {
    /// memfd_create(2): a file in memory; the name is for those who debug.
    pub struct MemfdCreate<P: AsRef<CStr>> { name: P, flags: MemfdFlags }
    |op| Request::new(libc::SYS_memfd_create, [name(&op.name), op.flags.bits().into()]) => OwnedFd
}
