//! Directories: creating, removing and changing names.
//!
//! A change takes the lock of the directory: several in one gain little from each other.

use std::ffi::CStr;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Dev, FileType, Mode, RenameFlags};

use super::output::{descriptor, name};
use crate::request::Request;

operation! {
    /// mkdirat(2): makes a directory; the process's umask clears bits of `mode`.
    pub struct Mkdirat<F: AsFd, P: AsRef<CStr>> { dir: F, path: P, mode: Mode }
    |op| Request::new(
        libc::SYS_mkdirat,
        [descriptor(&op.dir), name(&op.path), op.mode.as_raw_mode() as u64],
    ) => ()
}

operation! {
    /// mknodat(2): makes a file of any type but directory and symbolic link; the
    /// process's umask clears bits of `mode`.
    ///
    /// `device` counts for device files only, and of it what
    /// `libc::makedev` puts into 32 bits: a major number below 4096, a minor one
    /// below 2²⁰.
    pub struct Mknodat<F: AsFd, P: AsRef<CStr>> {
        dir: F,
        path: P,
        kind: FileType,
        mode: Mode,
        device: Dev,
    }
    |op| Request::new(
        libc::SYS_mknodat,
        [
            descriptor(&op.dir),
            name(&op.path),
            u64::from(op.kind.as_raw_mode() | op.mode.as_raw_mode()),
            op.device,
        ],
    ) => ()
}

operation! {
    /// unlinkat(2): removes a name; of an empty directory with
    /// [`AtFlags::REMOVEDIR`].
    pub struct Unlinkat<F: AsFd, P: AsRef<CStr>> { dir: F, path: P, flags: AtFlags }
    |op| Request::new(
        libc::SYS_unlinkat,
        [descriptor(&op.dir), name(&op.path), op.flags.bits() as u64],
    ) => ()
}

operation! {
    /// renameat2(2): renames a file, atomically.
    pub struct Renameat2<F: AsFd, P: AsRef<CStr>, T: AsFd, Q: AsRef<CStr>> {
        from_dir: F,
        from: P,
        to_dir: T,
        to: Q,
        flags: RenameFlags,
    }
    |op| Request::new(
        libc::SYS_renameat2,
        [
            descriptor(&op.from_dir),
            name(&op.from),
            descriptor(&op.to_dir),
            name(&op.to),
            op.flags.bits() as u64,
        ],
    ) => ()
}

operation! {
    /// linkat(2): gives a file one more name.
    pub struct Linkat<F: AsFd, P: AsRef<CStr>, T: AsFd, Q: AsRef<CStr>> {
        from_dir: F,
        from: P,
        to_dir: T,
        to: Q,
        flags: AtFlags,
    }
    |op| Request::new(
        libc::SYS_linkat,
        [
            descriptor(&op.from_dir),
            name(&op.from),
            descriptor(&op.to_dir),
            name(&op.to),
            op.flags.bits() as u64,
        ],
    ) => ()
}

operation! {
    /// symlinkat(2): makes the symbolic link `path` that leads to `target`.
    pub struct Symlinkat<T: AsRef<CStr>, F: AsFd, P: AsRef<CStr>> { target: T, dir: F, path: P }
    |op| Request::new(libc::SYS_symlinkat, [name(&op.target), descriptor(&op.dir), name(&op.path)]) => ()
}

filling! {
    /// readlinkat(2): the target of a symbolic link, without a terminating zero. If the
    /// buffer is full, the target may be truncated.
    pub struct Readlinkat<F: AsFd, P: AsRef<CStr>> { dir: F, path: P }
    |op, pointer, room| Request::new(
        libc::SYS_readlinkat,
        [descriptor(&op.dir), name(&op.path), pointer, room],
    )
}
