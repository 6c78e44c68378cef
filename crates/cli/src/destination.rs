//! A file that a person asked to be written.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::output;

/// The name of standard output, in place of a file's.
pub(crate) const STDOUT: &str = "-";

/// Where to write, checked before long work starts. What the file held stays
/// until its successor is complete.
pub(crate) struct Destination {
    path: PathBuf,
    way: Way,
}

enum Way {
    /// A new file in this folder takes the name when it is complete.
    Replace(PathBuf),
    /// A device, a pipe, or a file in a folder that takes no new one.
    InPlace(File),
    /// Standard output.
    Stdout,
}

impl Destination {
    /// Fails if `path` cannot be written, and changes nothing.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        if path == Path::new(STDOUT) {
            return Ok(Destination { path: path.to_owned(), way: Way::Stdout });
        }
        Self::check(path).with_context(|| {
            format!("{} cannot be written; choose another --output", path.display())
        })
    }

    fn check(path: &Path) -> io::Result<Self> {
        let exists = match fs::metadata(path) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        if !exists {
            let folder = folder(path);
            successor(&folder)?;
            return Ok(Destination { path: path.to_owned(), way: Way::Replace(folder) });
        }
        let file = OpenOptions::new().append(true).open(path)?;
        if file.metadata()?.is_file() {
            // A symbolic link stays one: what it points to is replaced.
            let path = fs::canonicalize(path)?;
            let folder = folder(&path);
            if successor(&folder).is_ok() {
                return Ok(Destination { path, way: Way::Replace(folder) });
            }
        }
        Ok(Destination { path: path.to_owned(), way: Way::InPlace(file) })
    }

    /// Writes the file.
    pub(crate) fn write(self, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        let Destination { path, way } = self;
        let written = match way {
            Way::Replace(folder) => replace(&path, &folder, fill),
            Way::InPlace(file) => overwrite(file, fill),
            Way::Stdout => {
                let mut whole = Vec::new();
                fill(&mut whole)?;
                return output::data(&whole);
            }
        };
        written.with_context(|| format!("writing {}", path.display()))
    }
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

fn replace(
    path: &Path,
    folder: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let mut file = successor(folder)?;
    if let Ok(former) = fs::metadata(path) {
        file.as_file().set_permissions(former.permissions())?;
    }
    let mut out = BufWriter::new(file.as_file_mut());
    fill(&mut out)?;
    out.flush()?;
    drop(out);
    file.persist(path)?;
    Ok(())
}

fn overwrite(file: File, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    let mut out = BufWriter::new(file);
    fill(&mut out)?;
    Ok(out.flush()?)
}

/// A new file beside the one that it will replace, with the permissions that
/// any new file gets; removed if it is not persisted.
fn successor(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new()
        .prefix(".kumiki-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(|error| {
            let (folder, kind) = (folder.display(), error.kind());
            io::Error::new(kind, format!("folder {folder} takes no new file ({kind})"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &str) -> Result<()> {
        Destination::new(path)?.write(|out| Ok(out.write_all(text.as_bytes())?))
    }

    #[test]
    fn former_content_stays_until_the_new_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        put(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let failed = Destination::new(&path).unwrap().write(|out| {
            out.write_all(b"half")?;
            anyhow::bail!("the disk is full")
        });
        assert!(format!("{:#}", failed.unwrap_err()).contains("the disk is full"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        put(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn links_and_devices_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        put(&target, "old").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        put(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&target).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        put(Path::new("/dev/null"), "gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
