//! The limit: two of GNU's du side by side, each for half of the tree. Nobody could
//! walk so, as only who has walked before knows the halves; they have nothing in common
//! but the kernel and the memory.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// A part of the tree is one of so many at least.
const PARTS: u64 = 64;

/// Two halves of a tree, as files with the paths of their parts.
pub(super) struct Halves {
    folder: TempDir,
}

impl Halves {
    /// Counts what is in `tree` and divides it.
    pub(super) fn of(tree: &Path) -> Result<Self> {
        let folder = tempfile::tempdir().context("making a folder for lists of paths")?;
        let mut parts = Vec::new();
        cut(tree.to_owned(), count(tree) / PARTS, &mut parts);
        for (paths, file) in divide(parts).iter().zip(Self::files(folder.path())) {
            let mut file = BufWriter::new(File::create(&file)?);
            for path in paths {
                file.write_all(path.as_os_str().as_bytes())?;
                file.write_all(b"\0")?;
            }
            file.flush()?;
        }
        Ok(Halves { folder })
    }

    /// Arguments of each du.
    pub(super) fn words(&self) -> [Vec<OsString>; 2] {
        Self::files(self.folder.path()).map(|file| {
            let mut list = OsString::from("--files0-from=");
            list.push(file);
            vec!["-s".into(), list]
        })
    }

    fn files(folder: &Path) -> [PathBuf; 2] {
        ["first", "second"].map(|name| folder.join(name))
    }
}

/// Entries of a directory: those in it and below. One that cannot be read has none.
fn entries(path: &Path) -> impl Iterator<Item = (PathBuf, bool)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir())))
}

fn count(path: &Path) -> u64 {
    let below = entries(path).map(|(path, is_dir)| if is_dir { count(&path) } else { 1 });
    1 + below.sum::<u64>()
}

/// The parts of `path`: itself, or what is in it if it has more than `most` entries.
fn cut(path: PathBuf, most: u64, parts: &mut Vec<(u64, PathBuf)>) {
    let entries_below = count(&path);
    if entries_below <= most.max(1) {
        return parts.push((entries_below, path));
    }
    for (path, is_dir) in entries(&path) {
        if is_dir {
            cut(path, most, parts);
        } else {
            parts.push((1, path));
        }
    }
}

/// As equal as can be: the largest first, to whom has less.
fn divide(mut parts: Vec<(u64, PathBuf)>) -> [Vec<PathBuf>; 2] {
    parts.sort_by(|a, b| b.cmp(a));
    let mut halves = [(0, Vec::new()), (0, Vec::new())];
    for (entries, path) in parts {
        let half = usize::from(halves[1].0 < halves[0].0);
        halves[half].0 += entries;
        halves[half].1.push(path);
    }
    halves.map(|(_, paths)| paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_in_one_half() {
        let tree = tempfile::tempdir().unwrap();
        for directory in 0..20 {
            let directory = tree.path().join(directory.to_string());
            fs::create_dir(&directory).unwrap();
            (0..30).for_each(|file| _ = File::create(directory.join(file.to_string())).unwrap());
        }
        let halves = Halves::of(tree.path()).unwrap();
        let lists = Halves::files(halves.folder.path()).map(|file| fs::read(file).unwrap());
        let paths = lists.each_ref().map(|list| {
            let paths = list.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            paths.map(|path| Path::new(std::ffi::OsStr::from_bytes(path)).to_owned()).collect()
        });
        let counts = paths.each_ref().map(|paths: &Vec<PathBuf>| {
            let files = paths.iter().filter(|path| path.is_file()).count() as u64;
            files + paths.iter().filter(|path| path.is_dir()).map(|path| count(path)).sum::<u64>()
        });
        // A directory that is cut is in none.
        assert!((600..=620).contains(&(counts[0] + counts[1])), "{counts:?}");
        assert!(counts[0].abs_diff(counts[1]) <= 31, "{counts:?}");
        assert!(paths[0].iter().all(|path| !paths[1].contains(path)));
    }
}
