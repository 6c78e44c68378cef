//! Where the library stands that is put in front.

use std::env;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// Its name where it is installed, and as cargo builds it.
const INSTALLED: &str = "libkumiki-ahead.so";
const BUILT: &str = "libkumiki_ahead.so";

/// Finds it from where this program stands.
pub(super) fn find() -> Result<PathBuf> {
    let own = fs::read_link("/proc/self/exe").context("reading /proc/self/exe")?;
    let found = find_from(&own)?;
    // The loader splits at both, and knows no way to write them.
    let is_one_word = !found.as_os_str().as_bytes().iter().any(|byte| b": ".contains(byte));
    ensure!(
        is_one_word,
        "{}: the loader takes no library whose path has a space or a colon: move it, or name another one",
        found.display()
    );
    Ok(found)
}

fn find_from(own: &Path) -> Result<PathBuf> {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let above = folder.parent().unwrap_or(folder);
    let lib = above.join("lib");
    let debian = lib.join(format!("{}-linux-gnu", env::consts::ARCH));
    let places = [
        debian.join(INSTALLED),
        lib.join(INSTALLED),
        folder.join(BUILT),
        folder.join("deps").join(BUILT),
    ];
    match places.iter().find(|place| place.is_file()) {
        Some(place) => Ok(place.clone()),
        None => bail!(
            "{INSTALLED} is neither in {} nor in {}: install all of kumiki; in a clone, \
             `cargo build --package kumiki-ahead` makes it (--release for a release's)",
            debian.display(),
            lib.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_where_it_is_installed_and_where_it_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("usr/bin/kumiki");
        let error = find_from(&own).unwrap_err().to_string();
        assert!(error.contains("install all of kumiki") && error.contains("usr/lib"), "{error}");
        for below in ["usr/bin/deps/libkumiki_ahead.so", "usr/lib/libkumiki-ahead.so"] {
            let place = folder.path().join(below);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, "").unwrap();
            assert_eq!(find_from(&own).unwrap(), place);
        }
    }
}
