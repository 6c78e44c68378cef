//! Building kernel modules for a stock kernel: against its headers, by the
//! compiler that it was built by, in a root of Debian's packages in the cache.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::apt::Archive;
use crate::cache::{Cache, Scratch, publish};
use crate::chroot;
use crate::error::{Error, Result};
use crate::kernel::Kernel;
use crate::talk::Talk;

/// Folder of the sources in that root.
const PLACE: &str = "build";

/// Builds the modules of `tree/part` for this kernel and hands back their files.
///
/// The whole folder `tree` is at hand while it builds, for headers that parts
/// share. What is built already, from the same files, is not built again.
pub fn build(
    cache: &Cache,
    kernel: &Kernel,
    tree: &Path,
    part: &str,
    talk: Talk<'_>,
) -> Result<Vec<PathBuf>> {
    build_from(cache, kernel, &sources(tree)?, part, talk)
}

/// Builds files that are no folder's, e.g. ones that a program brings along.
pub fn build_from(
    cache: &Cache,
    kernel: &Kernel,
    sources: &[SourceFile],
    part: &str,
    talk: Talk<'_>,
) -> Result<Vec<PathBuf>> {
    let headers = format!("/usr/src/linux-headers-{}", kernel.version);
    kept(cache, kernel, sources, part, talk, |place| {
        let folder = format!("M={place}/{part}");
        ["make", "-C", &headers, &folder, "-j2", "modules"].map(str::to_owned).to_vec()
    })
}

/// Builds a folder with a `dkms.conf` by `dkms add` and `dkms build`, by the DKMS of the kernel's
/// Debian.
pub fn build_by_dkms(
    cache: &Cache,
    kernel: &Kernel,
    tree: &Path,
    talk: Talk<'_>,
) -> Result<Vec<PathBuf>> {
    let dkms = Archive::new(cache, talk, kernel.name.release()).unpacked("dkms")?;
    let below = |(path, bytes)| (Path::new(DKMS).join(path), bytes);
    let mut all = sources(tree)?;
    all.extend(sources(&dkms)?.into_iter().map(below));
    kept(cache, kernel, &all, DKMS, talk, |place| {
        ["bash", "-ec", BY_DKMS, place, &kernel.version].map(str::to_owned).to_vec()
    })
}

/// Folder of DKMS itself below the sources, and of the modules that it has built.
const DKMS: &str = "dkms";
/// Script in the sources' folder, for the kernel of this version: the trees are not the machine's.
const BY_DKMS: &str = r#"
cd "$0"
dkms() { bash dkms/usr/sbin/dkms "$@" --dkmstree "$0/tree" --sourcetree "$0/source"; }
mkdir tree source
dkms add "$0"
. ./dkms.conf
dkms build "$PACKAGE_NAME/$PACKAGE_VERSION" -k "$1"
find tree -name '*.ko' -exec cp -t dkms {} +"#;

/// Result that was built of these sources before, or that this command builds in the folder of this
/// name below them; it is given their place in the root.
fn kept(
    cache: &Cache,
    kernel: &Kernel,
    sources: &[SourceFile],
    part: &str,
    talk: Talk<'_>,
    command: impl Fn(&str) -> Vec<String>,
) -> Result<Vec<PathBuf>> {
    let mut hash = DefaultHasher::new();
    (&kernel.version, part, sources).hash(&mut hash);
    let name = format!("{part}-{:016x}", hash.finish());
    let target = cache.folder().join("modules").join(&kernel.version).join(name);
    let _alone = cache.lock(&format!("build-{part}-{}", kernel.version))?;
    if !target.exists() {
        let made = make(cache, kernel, sources, part, talk, command)?;
        publish(made, &target)?;
    }
    modules(&target)
}

/// A file's path below the tree and its contents.
pub type SourceFile = (PathBuf, Vec<u8>);

/// The tree's files but for what an earlier build has left there.
fn sources(tree: &Path) -> Result<Vec<SourceFile>> {
    let mut found = Vec::new();
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(Error::file("reading", &folder))?.flatten() {
            let (path, name) = (entry.path(), entry.file_name());
            if name.to_string_lossy().starts_with('.') {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if is_source(&path) {
                let bytes = fs::read(&path).map_err(Error::file("reading", &path))?;
                let below = path.strip_prefix(tree).expect("it was found below it").to_owned();
                found.push((below, bytes));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_source(path: &Path) -> bool {
    let made = ["ko", "o", "mod", "order", "symvers"];
    let by_build = path.extension().is_some_and(|end| made.iter().any(|one| end == *one));
    !by_build && !path.to_string_lossy().ends_with(".mod.c")
}

/// Builds in the root, and gives a folder with the modules alone.
fn make(
    cache: &Cache,
    kernel: &Kernel,
    sources: &[SourceFile],
    part: &str,
    talk: Talk<'_>,
    command: impl Fn(&str) -> Vec<String>,
) -> Result<Scratch> {
    let root = root(cache, kernel, talk)?;
    let place = root.join(PLACE);
    fs::create_dir_all(&place).map_err(Error::file("making", &place))?;
    let work = TempDir::new_in(&place).map_err(Error::file("making a folder in", &place))?;
    for (path, bytes) in sources {
        let path = work.path().join(path);
        let folder = path.parent().expect("it is below the work folder");
        fs::create_dir_all(folder).map_err(Error::file("making", folder))?;
        fs::write(&path, bytes).map_err(Error::file("writing", &path))?;
    }
    talk.say(format_args!("building {part} for the kernel {}", kernel.version));
    let words =
        command(&format!("/{}", work.path().strip_prefix(&root).expect("it is below").display()));
    let mut command = chroot::entering(&root);
    command.args(words);
    let said =
        chroot::said(command, &format!("building {part} for the kernel {}", kernel.version))?;
    for line in said.lines().filter(|line| line.contains("warning:")) {
        talk.say(line);
    }
    let made = cache.scratch()?;
    for module in modules(&work.path().join(part))? {
        let target = made.path().join(module.file_name().expect("a module has a name"));
        fs::copy(&module, &target).map_err(Error::file("writing", &target))?;
    }
    Ok(made)
}

/// The root with this kernel's headers.
fn root(cache: &Cache, kernel: &Kernel, talk: Talk<'_>) -> Result<PathBuf> {
    if kernel.name.is_built_here() {
        // It was built in one.
        return Ok(kernel.folder.clone());
    }
    let headers = format!("linux-headers-{}", kernel.version);
    let archive = Archive::new(cache, talk, kernel.name.release());
    chroot::with(&archive, &headers, &[&headers])
}

fn modules(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(Error::file("reading", folder))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut modules: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|e| e == "ko")).collect();
    modules.sort();
    if modules.is_empty() {
        return Err(Error::malformed(folder.display(), "no module has been built"));
    }
    Ok(modules)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_build_leaves_is_no_source() {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir(tree.path().join("part")).unwrap();
        for name in ["part/a.c", "part/a.o", "part/a.ko", "part/a.mod.c", "part/.a.o.cmd", "u.h"] {
            fs::write(tree.path().join(name), name).unwrap();
        }
        let names: Vec<_> =
            sources(tree.path()).unwrap().into_iter().map(|(path, _)| path).collect();
        assert_eq!(names, [Path::new("part/a.c"), Path::new("u.h")]);
        assert!(modules(&tree.path().join("part")).is_ok());
        assert!(modules(tree.path()).unwrap_err().to_string().contains("no module"));
    }
}
