//! Programs of ours that this one starts, or puts into nodes: where they stand.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Error, ErrorKind, Result, Subject};

/// Serves the devices of nodes, keeps services up, has nodes sleep.
pub const NODED: &str = "kumiki-noded";
/// All that a node carries of ours.
pub const AGENT: &str = "kumiki-node-agent";

/// Folder below the prefix of an installation: programs that no person starts.
const LIBEXEC: &str = "libexec/kumiki";
/// Text that the kernel writes behind the path of a program that was replaced.
const REPLACED: &str = " (deleted)";

/// Path of one of them: beside this program, where an installation has it, or where a shell looks.
pub fn find(name: &str) -> Result<PathBuf> {
    let own = "/proc/self/exe";
    let own = fs::read_link(own).map_err(|error| Error::file(own, error))?;
    let path = env::var_os("PATH").unwrap_or_default();
    find_from(&own, env::split_paths(&path), name)
}

fn find_from(own: &Path, path: impl Iterator<Item = PathBuf>, name: &str) -> Result<PathBuf> {
    let text = own.to_string_lossy();
    let own = text.strip_suffix(REPLACED).map_or(own, Path::new);
    let folder = own.parent().unwrap_or(Path::new("/"));
    let above = folder.parent().unwrap_or(folder);
    let installed = above.join(LIBEXEC);
    // A test's program stands in a folder of its own below those that were built.
    let near = [folder.to_owned(), installed.clone(), above.to_owned()];
    let mut places = near.into_iter().chain(path).map(|folder| folder.join(name));
    places.find(|place| place.is_file()).ok_or_else(|| {
        Error::refused(
            ErrorKind::NotFound, Subject::Program(name.to_owned()),
            format!(
                "{name} is neither beside {} nor in {}: install all of kumiki; in a clone, cargo build \
                 makes it (cargo build --release)",
                own.display(),
                installed.display()
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_beside_this_one_or_where_it_is_installed() {
        let folder = tempfile::tempdir().unwrap();
        let place = |below: &str| {
            let path = folder.path().join(below);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            path
        };
        let own = place("usr/bin/kumiki");
        let none = || std::iter::empty::<PathBuf>();
        let said = find_from(&own, none(), NODED).unwrap_err().to_string();
        assert!(said.contains("usr/libexec/kumiki: install all of kumiki"), "{said}");
        let on_path = place("other/kumiki-noded");
        let path = || [on_path.parent().unwrap().to_owned()].into_iter();
        assert_eq!(find_from(&own, path(), NODED).unwrap(), on_path);
        let installed = place("usr/libexec/kumiki/kumiki-noded");
        assert_eq!(find_from(&own, path(), NODED).unwrap(), installed);
        // It finds its like, and a program that was upgraded finds the new one's.
        assert_eq!(find_from(&installed, none(), NODED).unwrap(), installed);
        let replaced = PathBuf::from(format!("{}{REPLACED}", own.display()));
        assert_eq!(find_from(&replaced, none(), NODED).unwrap(), installed);
        let beside = place("usr/bin/kumiki-noded");
        assert_eq!(find_from(&own, none(), NODED).unwrap(), beside);
        // A test's, of those that cargo has built.
        let built = place("target/debug/kumiki-noded");
        assert_eq!(find_from(&place("target/debug/deps/test"), none(), NODED).unwrap(), built);
    }
}
