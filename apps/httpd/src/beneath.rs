//! How every path of a request is resolved.

use rustix::fs::ResolveFlags;

/// Beneath the folder, and by no link of `/proc`.
pub(crate) const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);
