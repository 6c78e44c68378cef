//! A walker whose statx(2) calls go through io_uring, a directory at a time.

use std::ffi::{CString, OsStr};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

use super::Total;
use crate::parasc::scratch::c_path;

/// Calls that are submitted together.
const ENTRIES: usize = 512;

const MASK: u32 = libc::STATX_TYPE | libc::STATX_NLINK | libc::STATX_INO | libc::STATX_BLOCKS;

/// One thread: a ring's own workers do the calls.
pub(super) fn walk(tree: &Path) -> Result<Total> {
    let mut builder = IoUring::builder();
    builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
    let mut ring = builder.build(ENTRIES as u32).context("setting the ring up")?;
    let mut total = Total::default();
    // SAFETY: plain numbers, of which zero is one.
    let mut attributes: Vec<libc::statx> = vec![unsafe { std::mem::zeroed() }; ENTRIES];
    let mut folders: Vec<PathBuf> = Vec::new();
    let root = [c_path(tree)?];
    stat(&mut ring, libc::AT_FDCWD, &root, &mut attributes)?;
    if count(&mut total, &attributes[0]) {
        folders.push(tree.to_owned());
    }
    let mut names: Vec<CString> = Vec::new();
    while let Some(folder) = folders.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(CWD, &folder, flags, Mode::empty());
        let opened = opened.with_context(|| format!("opening {}", folder.display()))?;
        names.clear();
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                names.push(name.to_owned());
            }
        }
        for names in names.chunks(ENTRIES) {
            stat(&mut ring, opened.as_raw_fd(), names, &mut attributes)
                .with_context(|| format!("reading attributes in {}", folder.display()))?;
            for (name, attributes) in names.iter().zip(&attributes) {
                if count(&mut total, attributes) {
                    folders.push(folder.join(OsStr::from_bytes(name.as_bytes())));
                }
            }
        }
    }
    Ok(total)
}

/// The attributes of `names`, which are relative to `folder`.
fn stat(ring: &mut IoUring, folder: i32, names: &[CString], to: &mut [libc::statx]) -> Result<()> {
    for (i, (name, to)) in names.iter().zip(to).enumerate() {
        let to = std::ptr::from_mut(to).cast();
        let entry = opcode::Statx::new(Fd(folder), name.as_ptr(), to)
            .flags(libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT)
            .mask(MASK)
            .build()
            .user_data(i as u64);
        // SAFETY: name and attributes stay until all completions are seen.
        unsafe { ring.submission().push(&entry) }.expect("the ring is as large as a batch");
    }
    let mut missing = names.len();
    let mut failed = Ok(());
    while missing > 0 {
        ring.submit_and_wait(missing)?;
        for done in ring.completion() {
            missing -= 1;
            if done.result() < 0 {
                let name = &names[done.user_data() as usize];
                let error = std::io::Error::from_raw_os_error(-done.result());
                failed = Err(error).with_context(|| format!("{name:?}"));
            }
        }
    }
    failed
}

/// Adds an entry. Returns whether it is a directory.
fn count(total: &mut Total, of: &libc::statx) -> bool {
    let directory = u32::from(of.stx_mode) & libc::S_IFMT == libc::S_IFDIR;
    let device = libc::makedev(of.stx_dev_major, of.stx_dev_minor);
    total.add(directory, of.stx_nlink.into(), (device, of.stx_ino), of.stx_blocks);
    directory
}
