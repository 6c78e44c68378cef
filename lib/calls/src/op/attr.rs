//! Attributes of a file, changed and asked for; of its file system, asked for.

use std::ffi::CStr;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use kumiki_sys::syscall;
use rustix::fs::{Access, AtFlags, Mode, Timespec};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};

use super::Operation;
use super::output::{descriptor, name};
use crate::request::Request;

operation! {
    /// fchmodat(2): changes the permissions; of what a symbolic link leads to.
    pub struct Fchmodat<F: AsFd, P: AsRef<CStr>> { dir: F, path: P, mode: Mode }
    |op| Request::new(
        libc::SYS_fchmodat,
        [descriptor(&op.dir), name(&op.path), op.mode.as_raw_mode() as u64],
    ) => ()
}

operation! {
    /// fchmod(2): changes the permissions of an open file.
    pub struct Fchmod<F: AsFd> { file: F, mode: Mode }
    |op| Request::new(
        libc::SYS_fchmod,
        [descriptor(&op.file), op.mode.as_raw_mode() as u64],
    ) => ()
}

operation! {
    /// fchownat(2): changes owner and group; `None` leaves one as it is. With
    /// [`AtFlags::EMPTY_PATH`] and an empty path, of `dir` itself.
    pub struct Fchownat<F: AsFd, P: AsRef<CStr>> {
        dir: F,
        path: P,
        owner: Option<Uid>,
        group: Option<Gid>,
        flags: AtFlags,
    }
    |op| Request::new(
        libc::SYS_fchownat,
        [
            descriptor(&op.dir),
            name(&op.path),
            op.owner.map_or(u64::from(u32::MAX), |owner| owner.as_raw().into()),
            op.group.map_or(u64::from(u32::MAX), |group| group.as_raw().into()),
            op.flags.bits() as u64,
        ],
    ) => ()
}

operation! {
    /// utimensat(2): sets the times of last access and last change, in this
    /// order. Nanoseconds may be [`UTIME_NOW`](rustix::fs::UTIME_NOW) or
    /// [`UTIME_OMIT`](rustix::fs::UTIME_OMIT).
    pub struct Utimensat<F: AsFd, P: AsRef<CStr>> {
        dir: F,
        path: P,
        times: [Timespec; 2],
        flags: AtFlags,
    }
    |op| Request::new(
        libc::SYS_utimensat,
        [
            descriptor(&op.dir),
            name(&op.path),
            op.times.as_ptr() as u64,
            op.flags.bits() as u64,
        ],
    ) => ()
}

operation! {
    /// futimens(3): as [`Utimensat`], of an open file.
    pub struct Futimens<F: AsFd> { file: F, times: [Timespec; 2] }
    |op| Request::new(
        libc::SYS_utimensat,
        [descriptor(&op.file), 0, op.times.as_ptr() as u64, 0],
    ) => ()
}

operation! {
    /// faccessat2(2), since Linux 5.8: may the process do this with the file? An
    /// error, `EACCES` mostly, is the answer no.
    pub struct Faccessat2<F: AsFd, P: AsRef<CStr>> {
        dir: F,
        path: P,
        access: Access,
        flags: AtFlags,
    }
    |op| Request::new(
        libc::SYS_faccessat2,
        [descriptor(&op.dir), name(&op.path), op.access.bits() as u64, op.flags.bits() as u64],
    ) => ()
}

/// Calls that fill one `struct statfs`.
macro_rules! statfs {
    ($(#[$doc:meta])* $name:ident <$param:ident: $bound:path>: $sysnum:path, $what:ident) => {
        $(#[$doc])*
        pub struct $name<$param> {
            of: $param,
            answer: MaybeUninit<libc::statfs>,
        }

        impl<$param: $bound> $name<$param> {
            /// The call with this argument, to be made.
            #[inline]
            pub const fn new(of: $param) -> Self {
                $name { of, answer: MaybeUninit::uninit() }
            }
        }

        // SAFETY: the kernel writes one struct statfs, to the field of that type.
        unsafe impl<$param: $bound> Operation for $name<$param> {
            type Output = Result<libc::statfs, Errno>;

            #[inline]
            fn request(&mut self) -> Request {
                Request::new($sysnum, [$what(&self.of), self.answer.as_mut_ptr() as u64])
            }

            #[inline]
            unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
                syscall::result(ret_val)?;
                // SAFETY: the kernel wrote all of it.
                Ok(unsafe { self.answer.assume_init() })
            }
        }

        impl<$param: fmt::Debug> fmt::Debug for $name<$param> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("of", &self.of).finish_non_exhaustive()
            }
        }
    };
}

statfs! {
    /// statfs(2): the file system that the path is on: kind, size, space left, in
    /// blocks of `f_bsize` bytes.
    Statfs<P: AsRef<CStr>>: libc::SYS_statfs, name
}

statfs! {
    /// fstatfs(2): the file system that an open file is on; see [`Statfs`].
    Fstatfs<F: AsFd>: libc::SYS_fstatfs, descriptor
}
