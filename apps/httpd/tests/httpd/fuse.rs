//! A file system of FUSE whose server answers some questions and never others.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

/// What its only file has.
pub(crate) const CONTENT: &[u8] = b"by a server";
/// Operations of include/uapi/linux/fuse.h.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
pub(crate) const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
pub(crate) const FLUSH: u32 = 25;
const INIT: u32 = 26;

/// A mount, taken away when this is dropped: then its calls end.
pub(crate) struct Mount {
    _device: File,
    folder: PathBuf,
}

impl Mount {
    /// One whose server answers nothing. `None` where it cannot be mounted: it takes root and FUSE.
    pub(crate) fn at(folder: &Path) -> Option<Mount> {
        let device = File::options().read(true).write(true).open("/dev/fuse").ok()?;
        let data = format!("fd={},rootmode=40000,user_id=0,group_id=0\0", device.as_raw_fd());
        let data = std::ffi::CStr::from_bytes_with_nul(data.as_bytes()).unwrap();
        mount("hanging", folder, "fuse", MountFlags::empty(), data).ok()?;
        Some(Mount { _device: device, folder: folder.to_owned() })
    }

    /// One whose files, of any name, are there, and whose server never answers this operation.
    pub(crate) fn without(operation: u32, folder: &Path) -> Option<Mount> {
        Mount::served(folder, operation, CONTENT.to_vec(), Duration::ZERO)
    }

    /// One whose files have this, of which each page takes so long to be read.
    pub(crate) fn slow(folder: &Path, content: Vec<u8>, page: Duration) -> Option<Mount> {
        Mount::served(folder, 0, content, page)
    }

    fn served(folder: &Path, never: u32, content: Vec<u8>, page: Duration) -> Option<Mount> {
        let mount = Mount::at(folder)?;
        let device = mount._device.try_clone().unwrap();
        std::thread::spawn(move || serve(device, never, &content, page));
        Some(mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = unmount(&self.folder, UnmountFlags::DETACH | UnmountFlags::FORCE);
    }
}

/// Until the file system is gone.
fn serve(mut device: File, never: u32, content: &[u8], page: Duration) {
    let mut question = vec![0; 1 << 17];
    // Each read gives one question: length, operation and number are the first words of it.
    while let Ok(length) = device.read(&mut question) {
        if length < 40 {
            continue;
        }
        let operation = u32::from_ne_bytes(question[4..8].try_into().unwrap());
        let node = u64::from_ne_bytes(question[16..24].try_into().unwrap());
        let answer = match operation {
            // What kind of file system it is the list of mounts says.
            FORGET | STATFS => continue,
            operation if operation == never => continue,
            // fuse_init_out: version 7.31, and nothing more than is there without asking.
            INIT => words(&[7, 31, 4096, 0, 0, 4096, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            // fuse_entry_out: a node, its generation, for how long name and attributes are believed.
            LOOKUP => {
                [words(&[2, 0, 0, 0, 3600, 0, 3600, 0, 0, 0]), attributes(2, content)].concat()
            }
            // fuse_attr_out
            GETATTR => [words(&[3600, 0, 0, 0]), attributes(node, content)].concat(),
            OPEN => words(&[0, 0, 0, 0]),
            // fuse_read_in: a number that the file was opened by, where to begin, how many bytes.
            READ => {
                let start = u64::from_ne_bytes(question[48..56].try_into().unwrap()) as usize;
                let bytes = u32::from_ne_bytes(question[56..60].try_into().unwrap()) as usize;
                let end = content.len().min(start + bytes);
                let part = content.get(start..end).unwrap_or_default().to_vec();
                std::thread::sleep(page * (part.len() / 4096) as u32);
                part
            }
            FLUSH | RELEASE => Vec::new(),
            _ => {
                reply(&mut device, &question[8..16], -libc::ENOSYS, &[]);
                continue;
            }
        };
        reply(&mut device, &question[8..16], 0, &answer);
    }
}

fn reply(device: &mut File, number: &[u8], error: i32, answer: &[u8]) {
    let length = 16 + answer.len() as u32;
    let whole = [&length.to_ne_bytes()[..], &error.to_ne_bytes(), number, answer].concat();
    // Who has asked may have gone.
    let _ = device.write(&whole);
}

/// `struct fuse_attr` of the root or the file.
fn attributes(node: u64, content: &[u8]) -> Vec<u8> {
    let (mode, bytes) = match node {
        1 => (libc::S_IFDIR | 0o755, 0),
        _ => (libc::S_IFREG | 0o644, content.len() as u32),
    };
    let node = node as u32;
    let of_time = [1_700_000_000, 0, 1_700_000_000, 0, 1_700_000_000, 0, 0, 0, 0];
    words(&[&[node, 0, bytes, 0, 1, 0], &of_time[..], &[mode, 1, 0, 0, 0, 4096, 0]].concat())
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}
