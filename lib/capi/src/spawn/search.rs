//! Where a program may be.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Folders without PATH, as confstr(3) has it.
const DEFAULT: &str = "/bin:/usr/bin";

/// Paths that posix_spawnp(3) tries, by the caller's PATH, in its order.
pub(super) fn places(file: &OsStr) -> Vec<OsString> {
    if file.is_empty() || file.as_bytes().contains(&b'/') {
        return vec![file.to_owned()];
    }
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT.into());
    // An empty one is the working folder. A script is told this name, so nothing is added.
    let place = |folder: &[u8]| match folder {
        b"" => file.to_owned(),
        folder => OsStr::from_bytes(&[folder, b"/", file.as_bytes()].concat()).to_owned(),
    };
    path.as_bytes().split(|byte| *byte == b':').map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_itself_and_a_name_is_searched_for() {
        assert_eq!(places(OsStr::new("./x")), ["./x"]);
        assert_eq!(places(OsStr::new("")), [""]);
        assert!(places(OsStr::new("sh")).iter().all(|place| place.as_bytes().ends_with(b"/sh")));
    }
}
