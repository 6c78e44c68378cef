//! The entries of many directories.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::OwnedFd;

use kumiki_parasc::op::{Getdents64, Openat};
use rustix::fs::{FileType, Mode, OFlags};

use super::engine::run;
use super::named::{directory, names};
use crate::failure::{Failure, answer_all};

/// Directories that are open at the same time.
const AT_ONCE: usize = 64;
/// Bytes for a directory's first entries: most have no more.
const FIRST: usize = 4 * 1024;
/// Bytes for further ones at once: what the C library takes.
const FURTHER: usize = 32 * 1024;

/// `struct kumiki_files_listed`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct Listed {
    pub names: *const c_char,
    pub names_size: usize,
    pub kinds: *const u8,
    pub inodes: *const u64,
    pub entries: usize,
    pub error: i64,
}

/// `struct kumiki_files_listing`
#[derive(Default)]
pub struct Listing {
    /// Memory that the table points to: of all directories, one after the other.
    names: Vec<u8>,
    kinds: Vec<u8>,
    inodes: Vec<u64>,
    table: Vec<Listed>,
}

impl Listing {
    /// Adds a directory's entries behind those of the one before.
    fn add(&mut self, folder: &Folder) {
        self.names.extend_from_slice(&folder.names);
        self.kinds.extend_from_slice(&folder.kinds);
        self.inodes.extend_from_slice(&folder.inodes);
        self.table.push(Listed {
            names: std::ptr::null(),
            names_size: folder.names.len(),
            kinds: std::ptr::null(),
            inodes: std::ptr::null(),
            entries: folder.kinds.len(),
            error: folder.error,
        });
    }

    /// Points to where the entries are, now that nothing moves any more.
    fn point(&mut self) {
        let (mut names, mut kinds, mut inodes) = (&*self.names, &*self.kinds, &*self.inodes);
        for listed in &mut self.table {
            listed.names = names.as_ptr().cast();
            (listed.kinds, listed.inodes) = (kinds.as_ptr(), inodes.as_ptr());
            names = names.get(listed.names_size..).unwrap_or_default();
            kinds = kinds.get(listed.entries..).unwrap_or_default();
            inodes = inodes.get(listed.entries..).unwrap_or_default();
        }
    }
}

/// The entries of a directory, but "." and "..".
#[derive(Default)]
struct Folder {
    /// Each with a zero at its end.
    names: Vec<u8>,
    kinds: Vec<u8>,
    inodes: Vec<u64>,
    error: i64,
}

impl Folder {
    fn add(&mut self, name: &CStr, kind: FileType, ino: u64) {
        if name == c"." || name == c".." {
            return;
        }
        self.names.extend_from_slice(name.to_bytes_with_nul());
        self.kinds.push(number(kind));
        self.inodes.push(ino);
    }
}

/// The kernel's number of a kind of file, DT_… of <dirent.h>.
fn number(kind: FileType) -> u8 {
    match kind {
        FileType::Fifo => libc::DT_FIFO,
        FileType::CharacterDevice => libc::DT_CHR,
        FileType::Directory => libc::DT_DIR,
        FileType::BlockDevice => libc::DT_BLK,
        FileType::RegularFile => libc::DT_REG,
        FileType::Symlink => libc::DT_LNK,
        FileType::Socket => libc::DT_SOCK,
        FileType::Unknown => libc::DT_UNKNOWN,
    }
}

/// Reads some directories to their ends, all of them at the same time.
fn read(opens: &mut [Openat<impl std::os::fd::AsFd, &CStr>]) -> Vec<Folder> {
    let mut folders: Vec<Folder> = opens.iter().map(|_| Folder::default()).collect();
    let mut reads: Vec<Getdents64<OwnedFd, Box<[u8]>>> = Vec::new();
    let mut whose = Vec::new();
    for (at, (opened, folder)) in run(opens).into_iter().zip(&mut folders).enumerate() {
        match opened {
            Ok(file) => {
                reads.push(Getdents64::new(file, vec![0; FIRST].into_boxed_slice()));
                whose.push(at);
            }
            Err(errno) => folder.error = errno.raw_os_error().into(),
        }
    }
    while !reads.is_empty() {
        let outputs = run(&mut reads);
        let (mut more, mut theirs) = (Vec::new(), Vec::new());
        for ((read, output), at) in reads.into_iter().zip(outputs).zip(whose) {
            let Some(folder) = folders.get_mut(at) else { continue };
            match output {
                // Its descriptor is closed here.
                Ok(0) => (),
                Ok(_) => {
                    for entry in read.entries() {
                        folder.add(entry.name, entry.kind, entry.ino);
                    }
                    more.push(going_on(read));
                    theirs.push(at);
                }
                Err(errno) => folder.error = errno.raw_os_error().into(),
            }
        }
        (reads, whose) = (more, theirs);
    }
    folders
}

/// The next read of a directory: into more room, if the first was nearly filled.
fn going_on(read: Getdents64<OwnedFd, Box<[u8]>>) -> Getdents64<OwnedFd, Box<[u8]>> {
    // Where that was all, the next one finds nothing.
    let is_large = read.filled().len() > FIRST / 2;
    let (file, mut buffer) = read.into_parts();
    if is_large && buffer.len() < FURTHER {
        buffer = vec![0; FURTHER].into_boxed_slice();
    }
    Getdents64::new(file, buffer)
}

/// See the header.
///
/// # Safety
/// `list` has `size` bytes; `listing` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_list(
    dir_fd: c_int,
    list: *const c_char,
    size: usize,
    n: usize,
    listing: *mut *mut Listing,
) -> c_int {
    answer_all(|| {
        if listing.is_null() {
            return Err(Failure::invalid("the place for the listing is a null pointer"));
        }
        let dir = directory(dir_fd)?;
        // SAFETY: the caller's promise.
        let names = unsafe { names(list, size, n) }?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mut made = Box::new(Listing::default());
        for names in names.chunks(AT_ONCE) {
            let names = names.iter().copied();
            let mut opens: Vec<_> =
                names.map(|name| Openat::new(dir, name, flags, Mode::empty())).collect();
            let mut read_now = read(&mut opens);
            // So many at once were too many: one after the other they need one descriptor.
            for (folder, open) in read_now.iter_mut().zip(&mut opens) {
                if folder.error == i64::from(libc::EMFILE) {
                    let mut alone = read(std::slice::from_mut(open));
                    *folder = alone.pop().unwrap_or_default();
                }
            }
            read_now.iter().for_each(|folder| made.add(folder));
        }
        made.point();
        let failed = made.table.iter().filter(|listed| listed.error != 0).count();
        // SAFETY: not null, so valid, the caller says.
        unsafe { listing.write(Box::into_raw(made)) };
        Ok(c_int::try_from(failed).unwrap_or(c_int::MAX))
    })
}

/// See the header.
///
/// # Safety
/// `listing` is from [`kumiki_files_list`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_listing_list(listing: *const Listing) -> *const Listed {
    // SAFETY: the caller's promise.
    unsafe { listing.as_ref() }.map_or(std::ptr::null(), |listing| listing.table.as_ptr())
}

/// See the header.
///
/// # Safety
/// `listing` is null, or from [`kumiki_files_list`] and not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_files_listing_destroy(listing: *mut Listing) {
    if !listing.is_null() {
        // SAFETY: it was made from a box, and this is its end.
        drop(unsafe { Box::from_raw(listing) });
    }
}
