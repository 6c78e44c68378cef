//! Calls that stand alone.

use std::os::fd::AsFd;

use rustix::rand::GetRandomFlags;

use super::output::descriptor;
use crate::request::Request;

filling! {
    /// getrandom(2): random bytes.
    pub struct Getrandom<> { flags: GetRandomFlags }
    |op, pointer, room| Request::new(libc::SYS_getrandom, [pointer, room, op.flags.bits().into()])
}

operation! {
    /// ioctl(2): what the file's driver makes of `request` and `argument`.
    pub struct Ioctl<F: AsFd> { file: F, request: u32, argument: u64 }
    |op| Request::new(
        libc::SYS_ioctl,
        [descriptor(&op.file), op.request.into(), op.argument],
    ) => i32;
    /// # Safety
    /// The request is one that does no harm, on whichever thread it is made. Where
    /// its argument is an address, that stays valid for what the driver reads and
    /// writes there until the call is complete.
    unsafe
}
