//! Extended attributes, xattr(7): names with a namespace (`user.…`) and bytes.
//!
//! With a buffer without room, the calls that fill one tell how much is needed.

use std::ffi::CStr;
use std::os::fd::AsFd;

use rustix::fs::XattrFlags;

use super::output::{descriptor, name};
use crate::request::Request;

filling! {
    /// getxattr(2): the value of an attribute; `ENODATA` if there is none.
    pub struct Getxattr<P: AsRef<CStr>, N: AsRef<CStr>> { path: P, attribute: N }
    |op, pointer, room| Request::new(
        libc::SYS_getxattr,
        [name(&op.path), name(&op.attribute), pointer, room],
    )
}

filling! {
    /// lgetxattr(2): as [`Getxattr`], of a symbolic link itself.
    pub struct Lgetxattr<P: AsRef<CStr>, N: AsRef<CStr>> { path: P, attribute: N }
    |op, pointer, room| Request::new(
        libc::SYS_lgetxattr,
        [name(&op.path), name(&op.attribute), pointer, room],
    )
}

filling! {
    /// fgetxattr(2): as [`Getxattr`], of an open file.
    pub struct Fgetxattr<F: AsFd, N: AsRef<CStr>> { file: F, attribute: N }
    |op, pointer, room| Request::new(
        libc::SYS_fgetxattr,
        [descriptor(&op.file), name(&op.attribute), pointer, room],
    )
}

filling! {
    /// listxattr(2): the names of all attributes, each with a zero at its end.
    pub struct Listxattr<P: AsRef<CStr>> { path: P }
    |op, pointer, room| Request::new(libc::SYS_listxattr, [name(&op.path), pointer, room])
}

filling! {
    /// llistxattr(2): as [`Listxattr`], of a symbolic link itself.
    pub struct Llistxattr<P: AsRef<CStr>> { path: P }
    |op, pointer, room| Request::new(libc::SYS_llistxattr, [name(&op.path), pointer, room])
}

filling! {
    /// flistxattr(2): as [`Listxattr`], of an open file.
    pub struct Flistxattr<F: AsFd> { file: F }
    |op, pointer, room| Request::new(libc::SYS_flistxattr, [descriptor(&op.file), pointer, room])
}

/// Call number `sysnum` of those that set an attribute of a target.
#[inline]
fn set(
    sysnum: libc::c_long,
    target: u64,
    attribute: &CStr,
    value: &[u8],
    flags: XattrFlags,
) -> Request {
    let (pointer, length) = (value.as_ptr() as u64, value.len() as u64);
    Request::new(sysnum, [target, name(&attribute), pointer, length, flags.bits() as u64])
}

operation! {
    /// setxattr(2): sets an attribute.
    pub struct Setxattr<P: AsRef<CStr>, N: AsRef<CStr>, B: AsRef<[u8]>> {
        path: P,
        attribute: N,
        value: B,
        flags: XattrFlags,
    }
    |op| {
        let (attribute, value) = (op.attribute.as_ref(), op.value.as_ref());
        set(libc::SYS_setxattr, name(&op.path), attribute, value, op.flags)
    } => ()
}

operation! {
    /// lsetxattr(2): as [`Setxattr`], of a symbolic link itself, on which `user.…`
    /// is an error, `EPERM`.
    pub struct Lsetxattr<P: AsRef<CStr>, N: AsRef<CStr>, B: AsRef<[u8]>> {
        path: P,
        attribute: N,
        value: B,
        flags: XattrFlags,
    }
    |op| {
        let (attribute, value) = (op.attribute.as_ref(), op.value.as_ref());
        set(libc::SYS_lsetxattr, name(&op.path), attribute, value, op.flags)
    } => ()
}

operation! {
    /// fsetxattr(2): as [`Setxattr`], of an open file.
    pub struct Fsetxattr<F: AsFd, N: AsRef<CStr>, B: AsRef<[u8]>> {
        file: F,
        attribute: N,
        value: B,
        flags: XattrFlags,
    }
    |op| {
        let (attribute, value) = (op.attribute.as_ref(), op.value.as_ref());
        set(libc::SYS_fsetxattr, descriptor(&op.file), attribute, value, op.flags)
    } => ()
}

operation! {
    /// removexattr(2): removes an attribute; `ENODATA` if there is none.
    pub struct Removexattr<P: AsRef<CStr>, N: AsRef<CStr>> { path: P, attribute: N }
    |op| Request::new(libc::SYS_removexattr, [name(&op.path), name(&op.attribute)]) => ()
}

operation! {
    /// lremovexattr(2): as [`Removexattr`], of a symbolic link itself.
    pub struct Lremovexattr<P: AsRef<CStr>, N: AsRef<CStr>> { path: P, attribute: N }
    |op| Request::new(libc::SYS_lremovexattr, [name(&op.path), name(&op.attribute)]) => ()
}

operation! {
    /// fremovexattr(2): as [`Removexattr`], of an open file.
    pub struct Fremovexattr<F: AsFd, N: AsRef<CStr>> { file: F, attribute: N }
    |op| Request::new(
        libc::SYS_fremovexattr,
        [descriptor(&op.file), name(&op.attribute)],
    ) => ()
}
