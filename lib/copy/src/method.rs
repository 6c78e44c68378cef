//! The ways to copy.

/// Division of a copy between the two threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// The caller copies; the helper runs ahead and asks for the lines of both
    /// sides. Pays where the two share a cache.
    Prefetch,
    /// Each copies every second block of so many bytes; the paper has 256,
    /// 1024 and 4096.
    Block(usize),
    /// Each copies one half with the C library's `memcpy`, so that what fits
    /// there is in the caches afterwards: for a destination that is read next.
    Split,
    /// Copies by the fastest way, and no slower than `memcpy`: that itself below 1 MiB; one thread
    /// for a source that is already in a cache; both threads for the rest, and past the caches
    /// (non-temporal stores) when it would not fit in the core's own anyway. A reader that comes
    /// right after such a copy fetches it from memory.
    ///
    /// A process knows nothing of its machine at first. Copies of 1 MiB or more are made
    /// by `memcpy` then, and each spends a fortieth of its time, or some microseconds
    /// now and then, on measuring: some hundred copies. [`prepare`](crate::prepare) does that at once.
    Auto,
    /// Both threads past the caches (non-temporal stores); the caller alone below 128 KiB, and
    /// where waking the helper would take longer. For a caller who knows that neither side is in a
    /// cache and that nobody reads the destination soon: up to 1 MiB `Auto` cannot know, and stays
    /// with `memcpy`. Bytes that are in a cache take several times as long as by `memcpy`.
    ///
    /// A process that knows nothing of its machine measures as with `Auto`, and does not wake its helper
    /// until it knows.
    Cold,
}
