//! Data that one cpu writes and another reads, apart from all other data.

/// A cache line of its own, and the neighbour that the processor fetches with it.
#[repr(align(128))]
#[derive(Debug, Default)]
pub struct CacheLine<T>(pub T);
