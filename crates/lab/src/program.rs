//! A program of this machine with all that it needs to run in another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};

use crate::error::{Error, Result};

/// A file for a machine, and the place that it has there.
pub(crate) struct Placed {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

/// The program at this place, its loader and its libraries.
pub(crate) fn with_libraries(program: &Path, place: &Path) -> Result<Vec<Placed>> {
    let bytes = fs::read(program).map_err(Error::file("reading", program))?;
    let mut files = libraries(program, &bytes)?;
    files.push(Placed { path: place.to_owned(), bytes: without_debug_information(bytes) });
    Ok(files)
}

/// The loader and the libraries that a program is linked with; none if it is
/// static or no ELF file.
pub(crate) fn libraries(program: &Path, bytes: &[u8]) -> Result<Vec<Placed>> {
    let Some(loader) = loader(bytes) else { return Ok(Vec::new()) };
    let failed = |reason: String| Error::Program { program: loader.clone(), reason };
    let mut command = Command::new(&loader);
    let output = command.arg("--list").arg(program).output();
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!(
            "listing the libraries of {}: {}",
            program.display(),
            said.trim()
        )));
    }
    // `NAME => PATH (ADDRESS)`, `PATH (ADDRESS)`; the vDSO has no path.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = |line: &str| {
        let target = line.split_once("=>").map_or(line, |(_, target)| target);
        let path = target.split_whitespace().next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    let mut paths: Vec<PathBuf> = text.lines().filter_map(path).collect();
    paths.push(PathBuf::from(&loader));
    paths.sort();
    paths.dedup();
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).map_err(Error::file("reading", &path))?;
        Ok(Placed { bytes: without_debug_information(bytes), path })
    };
    paths.into_iter().map(read).collect()
}

type Header = elf::FileHeader64<Endianness>;

/// The program that loads this one, its ELF interpreter.
fn loader(bytes: &[u8]) -> Option<String> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let path = segments.iter().find_map(|one| one.interpreter(endian, bytes).ok().flatten())?;
    String::from_utf8(path.to_vec()).ok()
}

/// An ELF file cut off behind what is loaded of it. A program built for
/// debugging is mostly what comes after, and a machine's memory is small.
fn without_debug_information(mut bytes: Vec<u8>) -> Vec<u8> {
    let loaded = || -> Option<u64> {
        let header = Header::parse(&*bytes).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, &*bytes).ok()?;
        segments.iter().map(|one| one.p_offset(endian).checked_add(one.p_filesz(endian))).max()?
    };
    if let Some(end) = loaded().and_then(|end| usize::try_from(end).ok())
        && end < bytes.len()
    {
        bytes.truncate(end);
        // e_shoff, then e_shnum and e_shstrndx: there are no sections any more.
        bytes[0x28..0x30].fill(0);
        bytes[0x3c..0x40].fill(0);
    }
    bytes
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
        let own = std::env::current_exe().unwrap();
        let files = with_libraries(&own, Path::new("/bin/test")).unwrap();
        let names: Vec<_> = files.iter().map(|file| file.path.display().to_string()).collect();
        assert_eq!(names.last().unwrap(), "/bin/test");
        assert!(names.iter().any(|name| name.contains("/ld-linux")), "{names:?}");
        assert!(names.iter().any(|name| name.ends_with("/libc.so.6")), "{names:?}");
    }

    #[test]
    fn a_script_needs_no_libraries() {
        assert!(libraries(Path::new("/x"), b"#!/bin/sh\n").unwrap().is_empty());
    }
}
