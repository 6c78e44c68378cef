//! The types and constants of `kumiki/resource.h`. A test compiles the header against
//! them.

use std::ffi::c_char;

/// A right.
pub const KUMIKI_RESOURCE_USE: u32 = 1;
/// A right.
pub const KUMIKI_RESOURCE_SHARE: u32 = 2;
/// A right.
pub const KUMIKI_RESOURCE_DESTROY: u32 = 4;

/// A flag of an interface.
pub const KUMIKI_RESOURCE_ADOPTED: u32 = 1;

/// A flag of an attachment.
pub const KUMIKI_RESOURCE_READ_ONLY: u32 = 1;

/// An offset of an attachment.
pub const KUMIKI_RESOURCE_ANYWHERE: u64 = u64::MAX;
/// A value of `timeout_ns`.
pub const KUMIKI_RESOURCE_FOREVER: u64 = u64::MAX;

/// `struct kumiki_resource_listed`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct ResourceListed {
    pub name: *const c_char,
    pub owner: *const c_char,
    pub state: *const c_char,
    pub id: u64,
    pub bytes: u64,
    pub calls: u64,
}

/// `struct kumiki_resource_change`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct ResourceChange {
    pub name: *const c_char,
    pub id: u64,
    pub created: u32,
    pub reserved: u32,
}
