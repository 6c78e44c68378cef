//! Removing what labs have left and what they keep.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::place;

/// Folders that [`clean`] has removed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Cleaned {
    /// Machines that had ended and not been removed.
    pub machines: Vec<String>,
    /// The folder of what labs keep.
    pub cache: PathBuf,
    /// Space that it took on the disk.
    pub bytes: u64,
}

/// Removes machines that have ended, and all that labs keep between runs: packages,
/// kernels, modules that were built, logs. The next lab has it anew, by the network.
/// Refused while a machine runs or is being started.
pub fn clean(cache: &Cache) -> Result<Cleaned> {
    let root = place::root()?;
    // Nobody makes a machine's folder meanwhile.
    let _alone = place::alone(&root)?;
    let folders: Vec<PathBuf> = fs::read_dir(&root)
        .map_err(Error::file("reading", &root))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    let name =
        |folder: &Path| folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(held) = folders.iter().find(|folder| !place::is_left_over(folder)) {
        let reason = "it runs or is being started, and needs what would be removed: \
                      `kumiki lab down`, or wait for its end";
        return Err(Error::Lab { name: name(held), reason: reason.to_owned() });
    }
    for folder in &folders {
        fs::remove_dir_all(folder).map_err(Error::file("removing", folder))?;
    }
    let folder = cache.folder();
    let bytes = bytes_of(folder);
    fs::remove_dir_all(folder).map_err(Error::file("removing", folder))?;
    let machines = folders.iter().map(|folder| name(folder));
    let machines = machines.filter(|name| !name.starts_with(place::UNNAMED)).collect();
    Ok(Cleaned { machines, cache: folder.to_owned(), bytes })
}

/// Space of a folder on the disk; a part that cannot be read counts nothing.
fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of = |path: PathBuf| match fs::symlink_metadata(&path) {
        Ok(about) if about.is_dir() => about.blocks() * 512 + bytes_of(&path),
        Ok(about) => about.blocks() * 512,
        Err(_) => 0,
    };
    entries.map(|entry| of(entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folders_bytes_are_those_of_all_below_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/c"), vec![7; 100_000]).unwrap();
        std::os::unix::fs::symlink("/usr", folder.path().join("link")).unwrap();
        let bytes = bytes_of(folder.path());
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
    }
}
