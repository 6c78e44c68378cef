//! Where a program may be.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Without PATH, as confstr(3) has it.
const DEFAULT: &str = "/bin:/usr/bin";

/// A path, also where it has no slash: nothing is searched for.
pub(super) fn itself(path: &OsStr) -> OsString {
    if path.is_empty() || path.as_bytes().contains(&b'/') {
        return path.to_owned();
    }
    Path::new(".").join(path).into()
}

/// As posix_spawnp(3), by the caller's PATH, in its order.
pub(super) fn places(file: &OsStr) -> Vec<OsString> {
    if file.is_empty() || file.as_bytes().contains(&b'/') {
        return vec![file.to_owned()];
    }
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT.into());
    // An empty one is the working folder.
    let place = |folder: std::path::PathBuf| Path::new(".").join(folder).join(file);
    env::split_paths(&path).map(place).map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_itself_and_a_name_is_searched_for() {
        assert_eq!(["/x", "x", ""].map(|path| itself(OsStr::new(path))), ["/x", "./x", ""]);
        assert_eq!(places(OsStr::new("./x")), ["./x"]);
        assert_eq!(places(OsStr::new("")), [""]);
        assert!(places(OsStr::new("sh")).iter().all(|place| place.as_bytes().ends_with(b"/sh")));
    }
}
