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
        let mut bytes = [0; NAME_BYTES];
        let text = name.to_bytes_with_nul();
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Text { bytes })
    }

    pub(crate) fn as_c(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}
