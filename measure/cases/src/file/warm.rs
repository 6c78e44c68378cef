//! Files whose contents are in the page cache.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use kumiki_measure::error::{Error, Result};

/// An unnamed file in `scratch`, open for reading and writing, that has just
/// been written and so is cached. It goes when it is closed.
pub(crate) fn warm_file(scratch: &Path, bytes: u64) -> Result<File> {
    let failed = |source| Error::File { path: scratch.to_owned(), source };
    let mut file = tempfile::tempfile_in(scratch).map_err(failed)?;
    let block = [0x5a; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(block.len() as u64);
        file.write_all(&block[..part as usize]).map_err(failed)?;
        left -= part;
    }
    Ok(file)
}

/// Memory to read into and write from.
pub(super) fn buffer(bytes: u64) -> Result<Vec<u8>> {
    let refused = || Error::Invalid(format!("no memory for a buffer of {bytes} bytes"));
    let bytes = usize::try_from(bytes).map_err(|_| refused())?;
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(bytes).map_err(|_| refused())?;
    buffer.resize(bytes, 0x5a);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_file_has_the_asked_size_and_no_name() {
        let scratch = tempfile::tempdir().unwrap();
        for bytes in [0, 1, 100_000] {
            let file = warm_file(scratch.path(), bytes).unwrap();
            assert_eq!(file.metadata().unwrap().len(), bytes);
        }
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_impossible_buffer_is_an_error_and_not_an_abort() {
        let error = buffer(u64::MAX).unwrap_err().to_string();
        assert!(error.contains(&u64::MAX.to_string()), "{error}");
    }
}
