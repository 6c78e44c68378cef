//! What calls contend on.

/// What calls made side by side wait for each other on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contends {
    /// The memory map of the process, which all threads share: its lock, and
    /// an interrupt to every cpu that must forget a mapping. Other cpus only
    /// make such calls slower.
    AddressSpace,
    /// The open file behind the descriptor in this argument: its position, its
    /// lock, the inode's lock, or at least its reference count.
    Descriptor(u8),
    /// The directory in which a name is made or taken away: its lock. The
    /// argument with the descriptor from which the path starts, if there is
    /// one; the path itself is memory of the caller, and not looked at.
    Directory(Option<u8>),
    /// Nothing that is known.
    Nothing,
}
