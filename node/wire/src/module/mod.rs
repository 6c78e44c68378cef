//! The kernel modules as programs see them: the ABI of `node/kernel/uapi/osnode.h`, requests,
//! doorbells, and files in sysfs.

pub mod abi;
pub mod doorbell;
pub mod holding;
pub mod requests;
pub mod sysfs;
