//! An initramfs put together of archives and single files.
//!
//! The kernel unpacks archives that follow one another, compressed or not, and a
//! later file replaces an earlier one of the same name
//! (`Documentation/driver-api/early-userspace/buffer-format.rst`).

use std::collections::BTreeSet;
use std::io::Write;

use cpio::newc::{Builder, ModeFileType};

use crate::{Error, Result, archive};

/// Archives begin at multiples of four bytes; zeros between them are skipped.
const ALIGNMENT: usize = 4;

/// An initramfs in the making.
#[derive(Debug, Default)]
pub struct Initramfs {
    bytes: Vec<u8>,
    /// The archive that files go to, until another one is appended.
    open: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
    unpacked_bytes: u64,
}

impl Initramfs {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a whole archive, as a distribution's initrd or a user's overlay, unless a
    /// kernel would stop within it (see [`packing`](crate::packing)).
    pub fn archive(&mut self, archive: &[u8]) -> Result<()> {
        self.unpacked_bytes += archive::unpacked_bytes(archive)?;
        self.close()?;
        self.bytes.extend_from_slice(archive);
        self.pad();
        Ok(())
    }

    /// Adds a file with its permissions, and the folders above it.
    pub fn file(&mut self, path: &str, permissions: u32, content: &[u8]) -> Result<()> {
        self.entry(path, ModeFileType::Regular, permissions, content)
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, target: &str) -> Result<()> {
        self.entry(path, ModeFileType::Symlink, 0o777, target.as_bytes())?;
        // To a folder, it serves as one for what lies below.
        self.folders.insert(checked(path)?.to_owned());
        Ok(())
    }

    /// Adds a character device.
    pub fn device(&mut self, path: &str, permissions: u32, number: (u32, u32)) -> Result<()> {
        self.entry_of(path, ModeFileType::Char, permissions, number, &[])
    }

    /// Adds a folder, and those above it.
    pub fn folder(&mut self, path: &str) -> Result<()> {
        self.folder_for(path, 0o755)
    }

    /// Adds a folder with these permissions, if it is not there yet.
    pub fn folder_for(&mut self, path: &str, permissions: u32) -> Result<()> {
        let path = checked(path)?;
        if self.folders.contains(path) {
            return Ok(());
        }
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent)?;
        }
        self.folders.insert(path.to_owned());
        self.write(path, ModeFileType::Directory, permissions, (0, 0), &[])
    }

    /// Memory that its files take once a kernel has unpacked them.
    pub fn unpacked_bytes(&self) -> u64 {
        self.unpacked_bytes
    }

    /// The bytes to hand to the kernel.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        self.close()?;
        Ok(self.bytes)
    }

    fn entry(&mut self, path: &str, kind: ModeFileType, mode: u32, content: &[u8]) -> Result<()> {
        self.entry_of(path, kind, mode, (0, 0), content)
    }

    fn entry_of(
        &mut self,
        path: &str,
        kind: ModeFileType,
        mode: u32,
        device: (u32, u32),
        content: &[u8],
    ) -> Result<()> {
        let path = checked(path)?;
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.folder(parent)?;
        }
        self.write(path, kind, mode, device, content)
    }

    fn write(
        &mut self,
        path: &str,
        kind: ModeFileType,
        mode: u32,
        (major, minor): (u32, u32),
        content: &[u8],
    ) -> Result<()> {
        let refused = |reason: String| Error::Initramfs { name: path.to_owned(), reason };
        let size = u32::try_from(content.len())
            .map_err(|_| refused(format!("{} bytes; at most 4 GiB fit", content.len())))?;
        self.entries += 1;
        self.unpacked_bytes += (content.len() as u64).next_multiple_of(archive::PAGE_BYTES);
        let entry = Builder::new(path).ino(self.entries).mode(mode).set_mode_file_type(kind);
        let entry = entry.rdev_major(major).rdev_minor(minor);
        let mut writer = entry.write(&mut self.open, size);
        writer
            .write_all(content)
            .and_then(|()| writer.finish().map(drop))
            .map_err(|error| refused(error.to_string()))
    }

    fn close(&mut self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let failed = |error: std::io::Error| Error::Initramfs {
            name: "TRAILER!!!".to_owned(),
            reason: error.to_string(),
        };
        self.bytes.append(&mut self.open);
        cpio::newc::trailer(&mut self.bytes).map_err(failed)?;
        // A later archive may bring its own folders, with other owners.
        self.folders.clear();
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
    }
}

/// The path without the leading `/`, as archives hold it.
fn checked(path: &str) -> Result<&str> {
    let inside = path.trim_start_matches('/').trim_end_matches('/');
    let bad = inside.is_empty()
        || inside.contains('\0')
        || inside.split('/').any(|part| matches!(part, "" | "." | ".."));
    if bad {
        return Err(Error::Initramfs {
            name: path.to_owned(),
            reason: "a path within the initramfs is needed, without \".\" and \"..\"".to_owned(),
        });
    }
    Ok(inside)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use cpio::newc::Reader;
    use proptest::prelude::*;

    use super::*;

    /// Entries that the kernel would unpack: name, mode, content.
    pub(crate) fn unpack(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut files = Vec::new();
        loop {
            while let Some((0, rest)) = bytes.split_first() {
                bytes = rest;
            }
            if bytes.is_empty() {
                return files;
            }
            let mut reader = Reader::new(bytes).unwrap();
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            let mut content = Vec::new();
            reader.read_to_end(&mut content).unwrap();
            if !reader.entry().is_trailer() {
                files.push((name, mode, content));
            }
            bytes = reader.finish().unwrap();
        }
    }

    #[test]
    fn folders_come_before_what_is_in_them_and_archives_follow_each_other() {
        let mut overlay = Initramfs::new();
        overlay.file("/etc/motd", 0o644, b"hello\n").unwrap();
        let overlay = overlay.finish().unwrap();

        let mut whole = Initramfs::new();
        whole.archive(&overlay).unwrap();
        whole.file("bin/busybox", 0o755, b"\x7fELF").unwrap();
        whole.link("/bin/sh", "busybox").unwrap();
        whole.folder("/proc/").unwrap();
        whole.device("/dev/null", 0o666, (1, 3)).unwrap();
        whole.archive(&overlay[..overlay.len() - 1]).unwrap();
        let files = unpack(&whole.finish().unwrap());
        let names: Vec<_> = files.iter().map(|(name, mode, _)| (name.as_str(), *mode)).collect();
        assert_eq!(
            names,
            [
                ("etc", 0o040755),
                ("etc/motd", 0o100644),
                ("bin", 0o040755),
                ("bin/busybox", 0o100755),
                ("bin/sh", 0o120777),
                ("proc", 0o040755),
                ("dev", 0o040755),
                ("dev/null", 0o020666),
                ("etc", 0o040755),
                ("etc/motd", 0o100644),
            ]
        );
        assert_eq!(files[4].2, b"busybox");
    }

    #[test]
    fn a_path_that_leaves_the_root_is_refused() {
        let mut initramfs = Initramfs::new();
        for path in ["", "/", "../etc/passwd", "a/./b", "a//b", "a\0b"] {
            assert!(initramfs.file(path, 0o644, b"").is_err(), "{path:?}");
        }
    }

    proptest! {
        #[test]
        fn every_file_comes_out_as_it_went_in(
            files in prop::collection::btree_map(
                "[a-z]{1,6}(/[a-z]{1,40}){0,3}\\.x", prop::collection::vec(any::<u8>(), 0..70), 0..9
            ),
        ) {
            let mut initramfs = Initramfs::new();
            for (path, content) in &files {
                initramfs.file(path, 0o640, content).unwrap();
            }
            let unpacked = unpack(&initramfs.finish().unwrap());
            let regular = unpacked.into_iter().filter(|(_, mode, _)| *mode == 0o100640);
            let found: Vec<_> = regular.map(|(name, _, content)| (name, content)).collect();
            prop_assert_eq!(found, files.into_iter().collect::<Vec<_>>());
        }
    }
}
