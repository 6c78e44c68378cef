//! Limits on what an image may hold, and on the work that reading it may take.

/// Limits of an image.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Contents of all files together, holes and those that a layer hides included.
    pub bytes: u64,
    /// Entries of all layers.
    pub entries: u64,
    /// Names, targets of links and attributes together, which are in memory while an image is
    /// read.
    pub names: u64,
}

/// Bytes that an archive may have for an entry beside its content: headers and what fills up a
/// block.
const HEADER_BYTES: u64 = 2048;

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes: 16 << 30, entries: 2_000_000, names: 256 << 20 }
    }
}

impl Limits {
    /// Bytes that all archives together may unpack to.
    pub(crate) fn unpacked(&self) -> u64 {
        self.bytes.saturating_add(self.entries.saturating_add(1).saturating_mul(HEADER_BYTES))
    }
}
