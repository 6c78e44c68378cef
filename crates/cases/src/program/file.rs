//! The folder of program files, kept for later visits.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::limits;
use kumiki_measure::error::{Error, Result};

/// Makes the file `name` in the folder `programs` of `scratch` with what `write`
/// writes, `bytes` at most, unless it is there already.
///
/// The file is written back before this returns: the disk shall not work on it
/// during the samples.
///
/// # Errors
/// [`Error::Unsupported`] if the file system has no room, before a byte is
/// written; [`Error::File`] if writing fails, and then no file is left behind.
pub(super) fn make(
    scratch: &Path,
    name: &str,
    bytes: u64,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<PathBuf> {
    let folder = scratch.join("programs");
    let path = std::path::absolute(folder.join(name)).map_err(error(&folder))?;
    if path.exists() {
        return Ok(path);
    }
    limits::file_fits(scratch, bytes)?;
    if !folder.exists() {
        std::fs::create_dir(&folder).map_err(error(&folder))?;
    }
    let mut file = NamedTempFile::new_in(&folder).map_err(error(&folder))?;
    let finish = |file: &mut NamedTempFile| {
        write(file)?;
        file.as_file().set_permissions(Permissions::from_mode(0o755))?;
        file.as_file().sync_data()
    };
    finish(&mut file).map_err(error(&path))?;
    let file = file.into_temp_path();
    // Only now, when no descriptor can write to it any more, may it be run.
    file.persist(&path).map_err(|e| error(&path)(e.error))?;
    Ok(path)
}

fn error(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| Error::File { path: path.to_owned(), source }
}
