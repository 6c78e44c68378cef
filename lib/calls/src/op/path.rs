//! Names of files, as the kernel reads them: bytes up to a zero.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A path holds a zero byte, which ends a name for the kernel.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "path {path:?} has a zero byte at position {position}, where the kernel would end it: \
     give a path without"
)]
pub struct ZeroInPath {
    /// The path, whole.
    pub path: OsString,
    /// Position of the first zero byte, from 0.
    pub position: usize,
}

kumiki_sys::debug_is_display!(ZeroInPath);

/// The path with the zero byte that ends it for the kernel.
///
/// ```
/// use kumiki_calls::op::path;
///
/// assert_eq!(path::terminated("/usr/bin")?.as_c_str(), c"/usr/bin");
/// assert_eq!(path::terminated("a\0b").unwrap_err().position, 1);
/// # Ok::<(), path::ZeroInPath>(())
/// ```
///
/// # Errors
/// [`ZeroInPath`], if there is such a byte within.
pub fn terminated(path: impl AsRef<Path>) -> Result<CString, ZeroInPath> {
    let path = path.as_ref().as_os_str();
    CString::new(path.as_bytes())
        .map_err(|error| ZeroInPath { path: path.to_owned(), position: error.nul_position() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn names_that_are_not_utf8_pass() {
        let name = OsStr::from_bytes(b"\xff\xfe");
        assert_eq!(terminated(name).unwrap().as_bytes_with_nul(), b"\xff\xfe\0");
        assert_eq!(terminated("").unwrap().as_bytes_with_nul(), b"\0");
    }

    #[test]
    fn the_error_says_where() {
        let error = terminated("etc\0passwd").unwrap_err();
        assert_eq!(
            error.to_string(),
            "path \"etc\\0passwd\" has a zero byte at position 3, where the kernel would end \
             it: give a path without"
        );
    }
}
