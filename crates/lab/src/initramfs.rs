//! The file system that a machine starts with: busybox, our agent, modules.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use cpio::newc::{Builder, trailer};

use crate::error::{Error, Result};
use crate::modules::Loadable;
use crate::program::Placed;

/// The agent's place in a machine.
pub(crate) const AGENT: &str = "/bin/kumiki";
/// Modules to load at the start, a line each: file, then parameters.
pub(crate) const MODULES: &str = "/lib/lab/modules";

const FOLDER: u32 = 0o040_755;
const SHARED_FOLDER: u32 = 0o041_777;
const LINK: u32 = 0o120_777;
const DEVICE: u32 = 0o020_600;
const PROGRAM: u32 = 0o100_755;
const TEXT: u32 = 0o100_644;

/// A cpio archive in the making; initramfs-buffer-format.rst.
pub(crate) struct Initramfs {
    archive: Vec<u8>,
    /// Names that it has, and the number of the next file.
    names: BTreeSet<String>,
    inode: u32,
}

impl Initramfs {
    /// With the folders and devices that a kernel and programs expect.
    pub(crate) fn new() -> Self {
        let mut new = Initramfs { archive: Vec::new(), names: BTreeSet::new(), inode: 1 };
        for folder in ["dev", "proc", "sys", "run", "mnt", "root", "etc", "bin", "usr", "var"] {
            new.add(folder, FOLDER, &[]);
        }
        new.add("tmp", SHARED_FOLDER, &[]);
        for (name, target) in
            [("sbin", "bin"), ("usr/bin", "../bin"), ("usr/sbin", "../bin"), ("var/tmp", "../tmp")]
        {
            new.add(name, LINK, target.as_bytes());
        }
        new.device("dev/console", 5, 1);
        new.device("dev/null", 1, 3);
        new.add("etc/passwd", TEXT, b"root:x:0:0:root:/root:/bin/sh\n");
        new.add("etc/group", TEXT, b"root:x:0:\n");
        new.add("etc/hostname", TEXT, b"lab\n");
        new
    }

    /// Busybox with a link for each of its applets.
    pub(crate) fn busybox(&mut self, busybox: &Path) -> Result<()> {
        let bytes = fs::read(busybox).map_err(Error::file("reading", busybox))?;
        let failed =
            |reason: String| Error::Program { program: busybox.display().to_string(), reason };
        let output = Command::new(busybox).arg("--list").output();
        let output = output.map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed("it does not list its applets".to_owned()));
        }
        self.add("bin/busybox", PROGRAM, &bytes);
        for applet in String::from_utf8_lossy(&output.stdout).lines() {
            self.add(&format!("bin/{applet}"), LINK, b"busybox");
        }
        Ok(())
    }

    /// Programs and libraries, each at its place.
    pub(crate) fn programs(&mut self, files: &[Placed]) {
        for file in files {
            self.file(&file.path, PROGRAM, &file.bytes);
        }
    }

    /// Modules, and the list by which the agent loads them.
    pub(crate) fn modules(&mut self, modules: &[Loadable]) {
        let mut list = String::new();
        for module in modules {
            let path = format!("/lib/lab/{}.ko", module.name);
            self.file(Path::new(&path), TEXT, &module.bytes);
            list += &format!("{path} {}\n", module.parameters);
        }
        self.file(Path::new(MODULES), TEXT, list.as_bytes());
    }

    /// Any other file.
    pub(crate) fn put(&mut self, path: &Path, bytes: &[u8]) {
        self.file(path, TEXT, bytes);
    }

    /// The finished archive.
    pub(crate) fn finish(self) -> Vec<u8> {
        trailer(self.archive).expect("a vector takes every byte")
    }

    /// A file with the folders that lead to it.
    fn file(&mut self, path: &Path, mode: u32, bytes: &[u8]) {
        let path = path.to_string_lossy();
        let path = path.trim_start_matches('/');
        for (at, _) in path.match_indices('/') {
            self.add(&path[..at], FOLDER, &[]);
        }
        self.add(path, mode, bytes);
    }

    fn device(&mut self, name: &str, major: u32, minor: u32) {
        self.entry(Builder::new(name).mode(DEVICE).rdev_major(major).rdev_minor(minor), &[]);
    }

    fn add(&mut self, name: &str, mode: u32, bytes: &[u8]) {
        if self.names.insert(name.to_owned()) {
            self.entry(Builder::new(name).mode(mode), bytes);
        }
    }

    fn entry(&mut self, entry: Builder, bytes: &[u8]) {
        self.inode += 1;
        let size = u32::try_from(bytes.len()).expect("no file of ours has four GiB");
        let entry = entry.ino(self.inode).nlink(1).uid(0).gid(0);
        let mut writer = entry.write(&mut self.archive, size);
        let written = writer.write_all(bytes).and_then(|()| writer.finish().map(drop));
        written.expect("a vector takes every byte");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(archive: &[u8]) -> Vec<(String, u32, u32)> {
        let mut found = Vec::new();
        let mut rest = archive;
        loop {
            let reader = cpio::newc::Reader::new(rest).unwrap();
            let entry = reader.entry();
            if entry.is_trailer() {
                return found;
            }
            found.push((entry.name().to_owned(), entry.mode(), entry.file_size()));
            rest = reader.finish().unwrap();
        }
    }

    #[test]
    fn files_come_after_their_folders_and_once() {
        let mut initramfs = Initramfs::new();
        let module = Loadable { name: "m".into(), parameters: "a=1".into(), bytes: vec![1; 5] };
        initramfs.modules(&[module]);
        let placed = |bytes| Placed { path: "/lib64/ld.so".into(), bytes };
        initramfs.programs(&[placed(vec![1; 3]), placed(vec![1; 4])]);
        let names = names(&initramfs.finish());
        let at = |name: &str| names.iter().position(|(n, ..)| n == name).expect(name);
        assert!(at("lib") < at("lib/lab") && at("lib/lab") < at("lib/lab/m.ko"));
        assert_eq!(names[at("lib64/ld.so")], ("lib64/ld.so".into(), PROGRAM, 3));
        assert_eq!(names[at("lib/lab/modules")].2, "/lib/lab/m.ko a=1\n".len() as u32);
        assert_eq!(names[at("dev/console")].1, DEVICE);
        let mut once: Vec<_> = names.iter().map(|(name, ..)| name).collect();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len());
    }
}
