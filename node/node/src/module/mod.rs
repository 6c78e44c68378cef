//! The kernel modules as programs see them: the ABI of `node/kernel/uapi/osnode.h`, requests,
//! doorbells, and files in sysfs.

pub(crate) mod abi;
pub(crate) mod doorbell;
pub(crate) mod holding;
pub(crate) mod requests;
pub(crate) mod sysfs;
