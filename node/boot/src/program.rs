//! Programs of this machine for another one's initramfs, with all that they need there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::{Error, Initramfs, Result};

type Header = FileHeader64<Endianness>;

/// A file, and the place that it has in an initramfs.
#[derive(Debug)]
pub struct Placed {
    /// The place.
    pub path: PathBuf,
    /// The file's contents.
    pub bytes: Vec<u8>,
}

/// A program at this place, its loader and its libraries.
pub fn with_libraries(program: &Path, place: &Path) -> Result<Vec<Placed>> {
    let bytes = read(program)?;
    let mut files = libraries(program, &bytes)?;
    files.push(Placed { path: place.to_owned(), bytes: without_debug_information(bytes) });
    Ok(files)
}

/// The loader and the libraries that a program is linked with; none if it is
/// static or no ELF file.
pub fn libraries(program: &Path, bytes: &[u8]) -> Result<Vec<Placed>> {
    let Some(loader) = loader(bytes) else { return Ok(Vec::new()) };
    let failed = |reason: String| Error::Program {
        path: program.to_owned(),
        reason: format!("finding what it is linked with, by {loader}: {reason}"),
    };
    // A loader looks for a bare name among libraries.
    let target = program.canonicalize().map_err(|error| failed(error.to_string()))?;
    let output = Command::new(&loader).arg("--list").arg(target).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let paths = listed_paths(&String::from_utf8_lossy(&output.stdout), &loader);
    let placed = |path: PathBuf| {
        let bytes = without_debug_information(read(&path)?);
        Ok(Placed { path, bytes })
    };
    paths.into_iter().map(placed).collect()
}

/// True if a program needs no loader and no libraries.
pub(crate) fn is_static(program: &[u8]) -> bool {
    Header::parse(program).is_ok() && loader(program).is_none()
}

/// The paths in lines `NAME => PATH (ADDRESS)` or `PATH (ADDRESS)`; the vDSO has none.
fn listed_paths(list: &str, loader: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let target = line.split_once("=>").map_or(line, |(_, target)| target);
        let path = target.split_whitespace().next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    let mut paths: Vec<_> = list.lines().filter_map(path).chain([loader.into()]).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The program that loads this one, its ELF interpreter.
fn loader(bytes: &[u8]) -> Option<String> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let path = segments.iter().find_map(|one| one.interpreter(endian, bytes).ok().flatten())?;
    String::from_utf8(path.to_vec()).ok()
}

/// An ELF file cut off behind what is loaded of it. A program built for
/// debugging is mostly what comes after, and memory that every start copies.
fn without_debug_information(mut bytes: Vec<u8>) -> Vec<u8> {
    let loaded = || -> Option<u64> {
        let header = Header::parse(&*bytes).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, &*bytes).ok()?;
        segments.iter().map(|one| one.p_offset(endian).checked_add(one.p_filesz(endian))).max()?
    };
    let end = loaded().and_then(|end| usize::try_from(end).ok());
    if let Some(end) = end.filter(|end| *end < bytes.len()) {
        bytes.truncate(end);
        // e_shoff, then e_shnum and e_shstrndx: there are no sections any more.
        bytes[0x28..0x30].fill(0);
        bytes[0x3c..0x40].fill(0);
    }
    bytes
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed =
        |error: std::io::Error| Error::Program { path: path.to_owned(), reason: error.to_string() };
    fs::read(path).map_err(failed)
}

impl Initramfs {
    /// Adds programs and libraries, each at its place.
    pub fn programs(&mut self, files: &[Placed]) -> Result<()> {
        files
            .iter()
            .try_for_each(|file| self.file(&file.path.to_string_lossy(), 0o755, &file.bytes))
    }

    /// Adds a static busybox of this machine, with a link for each of its programs.
    pub fn busybox(&mut self, path: &Path) -> Result<()> {
        self.busybox_listed(path, path)
    }

    /// Adds one that this machine's processor may not run, and links for the programs of another one that it
    /// does run, of the same version.
    pub fn busybox_listed(&mut self, path: &Path, by: &Path) -> Result<()> {
        let failed = |reason: String| Error::Program { path: path.to_owned(), reason };
        let bytes = read(path)?;
        if !is_static(&bytes) {
            return Err(failed("it is no static program: install busybox-static".into()));
        }
        let not_listed = |reason: String| Error::Program {
            path: by.to_owned(),
            reason: format!("listing its programs: {reason}"),
        };
        let listed = Command::new(by).arg("--list").output();
        let listed = listed.map_err(|error| not_listed(error.to_string()))?;
        if !listed.status.success() {
            return Err(not_listed(listed.status.to_string()));
        }
        self.file("/bin/busybox", 0o755, &bytes)?;
        let names = String::from_utf8_lossy(&listed.stdout).into_owned();
        let mut names = names.lines().filter(|name| *name != "busybox");
        names.try_for_each(|name| self.link(&format!("/bin/{name}"), "busybox"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_program_runs_without_its_debug_information() {
        let own = std::env::current_exe().unwrap();
        let bytes = fs::read(&own).unwrap();
        let size = bytes.len();
        let cut = without_debug_information(bytes);
        assert!(cut.len() < size, "{} of {size}", cut.len());
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy");
        fs::write(&copy, cut).unwrap();
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(&copy).arg("--list").output().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("debug_information"));
    }

    #[test]
    fn a_dynamic_program_comes_with_loader_and_libraries() {
        let own = Path::new("/proc/self/exe");
        let files = with_libraries(own, Path::new("/bin/test")).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.path.display().to_string()).collect();
        assert_eq!(names.last().unwrap(), "/bin/test");
        let is_dynamic = !cfg!(target_feature = "crt-static");
        assert_eq!(names.iter().any(|name| name.contains("/ld-linux")), is_dynamic, "{names:?}");
        assert_eq!(names.iter().any(|name| name.ends_with("/libc.so.6")), is_dynamic);
    }

    #[test]
    fn a_loaders_list_gives_paths() {
        let list = "\tlinux-vdso.so.1 (0x7f)\n\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n\t/lib64/ld.so (0x7f)\n";
        let paths = [Path::new("/lib/libc.so.6"), Path::new("/lib64/ld.so")];
        assert_eq!(listed_paths(list, "/lib64/ld.so"), paths);
    }

    #[test]
    fn a_script_needs_no_libraries_and_is_no_busybox() {
        assert!(libraries(Path::new("/x"), b"#!/bin/sh\n").unwrap().is_empty());
        assert!(!is_static(b"#!/bin/sh\n"));
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("busybox");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let error = Initramfs::new().busybox(&script).unwrap_err().to_string();
        assert!(error.contains("install busybox-static"), "{error}");
        let missing = libraries(Path::new("/no/program"), &fs::read("/proc/self/exe").unwrap());
        assert!(cfg!(target_feature = "crt-static") || missing.is_err());
    }
}
