//! Whether a program takes a library in front: by its file's header, as the loader reads it.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;
/// Length of a 64-bit ELF file's header, and the type of a program header that names a loader (elf(5)).
const HEADER_BYTES: usize = 64;
const PT_INTERP: u32 = 3;

/// Linkage of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linkage {
    /// Libraries and glibc's loader; or a script, whose interpreter may have them.
    Dynamic,
    Static,
    Musl,
    SetId,
}

impl Linkage {
    /// Finds a command as a shell does; one that is not there is told when it is started.
    pub(super) fn of(word: &OsStr) -> Self {
        let path = match word.as_encoded_bytes().contains(&b'/') {
            true => Some(PathBuf::from(word)),
            false => {
                let path = env::var_os("PATH").unwrap_or_default();
                env::split_paths(&path).map(|folder| folder.join(word)).find(|at| at.is_file())
            }
        };
        path.and_then(|path| Self::of_file(&path)).unwrap_or(Linkage::Dynamic)
    }

    fn of_file(path: &Path) -> Option<Self> {
        let file = File::open(path).ok()?;
        if file.metadata().ok()?.mode() & SET_ID != 0 {
            return Some(Linkage::SetId);
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).ok()?;
        if !header.starts_with(b"\x7fELF\x02") {
            return None;
        }
        let short =
            |at: usize| header.get(at..)?.first_chunk().map(|word| u16::from_ne_bytes(*word));
        let table = u64::from_ne_bytes(*header.get(32..)?.first_chunk()?);
        let (length, count) = (short(54)?, short(56)?);
        for at in 0..u64::from(count) {
            let mut entry = [0; 56];
            let place = table.checked_add(at.checked_mul(length.into())?)?;
            file.read_exact_at(&mut entry, place).ok()?;
            if u32::from_ne_bytes(*entry.first_chunk()?) == PT_INTERP {
                let place = u64::from_ne_bytes(*entry.get(8..)?.first_chunk()?);
                let mut loader = [0; 64];
                let read = file.read_at(&mut loader, place).ok()?;
                let loader = loader.get(..read)?.split(|byte| *byte == 0).next()?;
                let is_musl = loader.windows(4).any(|word| word == b"musl");
                return Some(if is_musl { Linkage::Musl } else { Linkage::Dynamic });
            }
        }
        Some(Linkage::Static)
    }

    /// True if the variable for the loader may be set.
    pub(super) fn takes_libraries(self) -> bool {
        // musl's loader would end a program for a library of glibc; children of others may well take it.
        self != Linkage::Musl
    }

    /// True if what it opens may be watched instead.
    pub(super) fn is_watched(self) -> bool {
        matches!(self, Linkage::Static | Linkage::Musl)
    }

    /// Says why nothing is asked ahead for it, if so.
    pub(super) fn why_not(self) -> Option<&'static str> {
        match self {
            Linkage::Dynamic => None,
            Linkage::Static => Some(
                "it is linked statically and takes no library in front: nothing was asked ahead for it",
            ),
            Linkage::Musl => {
                Some("it is linked with musl, not glibc: nothing was asked ahead for it")
            }
            Linkage::SetId => Some(
                "it is set-user-ID or set-group-ID, for which the loader takes no library in front: nothing was \
                 asked ahead for it",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one program header.
    fn elf(kind: u32, loader: &str) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES + 56];
        bytes[..5].copy_from_slice(b"\x7fELF\x02");
        bytes[32..40].copy_from_slice(&64_u64.to_ne_bytes());
        bytes[54..56].copy_from_slice(&56_u16.to_ne_bytes());
        bytes[56..58].copy_from_slice(&1_u16.to_ne_bytes());
        bytes[64..68].copy_from_slice(&kind.to_ne_bytes());
        bytes[72..80].copy_from_slice(&120_u64.to_ne_bytes());
        bytes.extend_from_slice(loader.as_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn a_file_tells_how_it_is_linked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Linkage::of(path.as_os_str())
        };
        assert_eq!(of(&elf(PT_INTERP, "/lib64/ld-linux-x86-64.so.2")), Linkage::Dynamic);
        assert_eq!(of(&elf(PT_INTERP, "/lib/ld-musl-x86_64.so.1")), Linkage::Musl);
        assert_eq!(of(&elf(1, "")), Linkage::Static);
        // A header that leads nowhere, a script, nothing.
        let mut wrong = elf(PT_INTERP, "");
        wrong[32..40].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(of(&wrong), Linkage::Dynamic);
        assert_eq!(of(b"#!/bin/sh\n"), Linkage::Dynamic);
        assert_eq!(of(b""), Linkage::Dynamic);
        assert_eq!(Linkage::of(OsStr::new("/no/such/program")), Linkage::Dynamic);
    }
}
