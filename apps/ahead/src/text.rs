//! A name or path that a word or a task has for its own.

use std::ffi::CStr;

/// Longest name that is asked (NAME_MAX).
const NAME_BYTES: usize = 256;

/// A name that is a task's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    bytes: [u8; NAME_BYTES],
}

impl Text {
    /// A copy of it; none of one that is too long.
    pub(crate) fn of(name: &CStr) -> Option<Self> {
        Self::of_bytes(name.to_bytes())
    }

    /// A copy of bytes of which none is zero.
    pub(crate) fn of_bytes(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; NAME_BYTES];
        // The last one is for the zero at the end.
        let (_, room) = bytes.split_last_mut()?;
        room.get_mut(..name.len())?.copy_from_slice(name);
        Some(Text { bytes })
    }

    pub(crate) fn as_c(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}
