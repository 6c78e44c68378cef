//! What calls contend on.

/// Locks on which concurrent calls wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contends {
    /// The memory map of the process, which all threads share: its lock, and a TLB
    /// shootdown on every cpu that has the mapping. Further cpus only make such calls
    /// slower.
    AddressSpace,
    /// The open file behind the descriptor in this argument: its position, its
    /// lock, the inode's lock, or at least its reference count.
    Descriptor(u8),
    /// The directory in which a name is created or removed: its lock. The argument that
    /// holds the descriptor from which the path starts, if there is one; the path itself
    /// is not read.
    Directory(Option<u8>),
    /// Nothing known.
    Nothing,
}
