//! Limits on what an image may hold.

/// How large an image may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Contents of all files together, those that a layer hides included.
    pub bytes: u64,
    /// Entries of all layers.
    pub entries: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes: 16 << 30, entries: 2_000_000 }
    }
}
