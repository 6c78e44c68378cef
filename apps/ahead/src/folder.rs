//! Folders and files as our threads ask for them: by descriptors of their own table, so that the program's
//! numbers, limits and closing of descriptors are none of theirs.
//!
//! The program's folder is opened anew by its name in /proc, which never holds anything of the program's open.
//! Folders below are opened by `openat2`, never across a mount.

use std::ffi::CStr;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    Advice, AtFlags, CWD, FileType, Mode, OFlags, RawDir, ResolveFlags, Statx, StatxAttributes,
    StatxFlags, fadvise, fstat, fstatfs, fstatvfs, openat, openat2, statx,
};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};

use crate::clock::sleeps;
use crate::kept::Finding;
use crate::names::{Name, Names};
use crate::table::Key;

/// Kinds of file systems that are in memory, made up by the kernel, or mount others when they are asked
/// (`f_type`, statfs(2) and linux/magic.h).
const LEFT_ALONE: [i64; 22] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x0187,      // autofs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x1cd1,      // devpts
    0xcafe_4a11, // bpf
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0x6573_5543, // fusectl
    0x1980_0202, // mqueue
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0x6e73_6673, // nsfs
    0x4249_4e4d, // binfmt_misc
    0x9584_58f6, // hugetlbfs
    0xf97c_ff8c, // selinux
    0x454d_444d, // devmem
];

/// Bytes of a file that are read ahead; the kernel reads on by itself.
const FIRST_BYTES: u64 = 128 << 10;
/// Bytes of a listing that are read at a time.
const LISTING_BYTES: usize = 16 << 10;
/// Longest path of a folder that is looked for.
const ABOVE_BYTES: usize = 512;
/// Names that are tried without sleeping.
const TRIES: usize = 4;

/// A folder that is open for us.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) open: OwnedFd,
    pub(crate) key: Key,
    pub(crate) device: u64,
    /// True if its file system may forget what was read of a file (`kept`).
    pub(crate) may_forget: bool,
    /// True if it tells whether a read would sleep.
    pub(crate) tells_contents: bool,
}

/// State of a folder's names: in the kernel's memory, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warmth {
    Cold,
    Warm,
    /// No name could be tried.
    Unknown,
}

/// A folder's names.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) names: Names,
    pub(crate) warmth: Warmth,
}

const TO_LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK);

/// Opens a folder that the program has open, by its descriptor; `descriptors` is its /proc/self/fd.
pub(crate) fn of_program(descriptors: BorrowedFd<'_>, descriptor: i32) -> Option<Folder> {
    let mut text = [0; 12];
    let name = decimal(descriptor, &mut text)?;
    // The link itself is followed. Access time: the program reads it, too.
    let flags = TO_LIST.difference(OFlags::NOFOLLOW);
    let open = openat(descriptors, name, flags | OFlags::NOATIME, Mode::empty())
        .or_else(|_| openat(descriptors, name, flags, Mode::empty()))
        .ok()?;
    known(open)
}

/// Opens a folder by the path that the program has for it.
pub(crate) fn by_path(path: &CStr) -> Option<Folder> {
    let flags = TO_LIST.difference(OFlags::NOFOLLOW);
    let open = openat(CWD, path, flags | OFlags::NOATIME, Mode::empty())
        .or_else(|_| openat(CWD, path, flags, Mode::empty()))
        .ok()?;
    known(open)
}

/// Opens a folder by its path whose names the program does not read, if that changes nothing that others see.
pub(crate) fn by_names(path: &CStr) -> Option<Folder> {
    known(open_unseen(path)?)
}

/// Opens a folder to be read without a change of its access time; none where there is no way to.
pub(crate) fn open_unseen(path: &CStr) -> Option<OwnedFd> {
    let flags = TO_LIST.difference(OFlags::NOFOLLOW);
    match openat(CWD, path, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => {
            let open = openat(CWD, path, flags, Mode::empty()).ok()?;
            fstatvfs(&open).is_ok_and(|all| has_no_access_times(&all)).then_some(open)
        }
        open => open.ok(),
    }
}

/// Opens the folder above one, if it is the one of this number: any other the program may never have read.
pub(crate) fn above_of(folder: BorrowedFd<'_>, number: u64) -> Option<Folder> {
    let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = open_below(folder, c"..", place).ok()?;
    let (device, inode) = identity(above.as_fd())?;
    if Key::of(device, inode).as_number() != number {
        return None;
    }
    // The program has just read it, and so changed its access time.
    let opened = openat(&above, c".", TO_LIST | OFlags::NOATIME, Mode::empty())
        .or_else(|_| openat(&above, c".", TO_LIST, Mode::empty()));
    known(opened.ok()?)
}

/// Opens a folder below another one, if that changes nothing that others see.
pub(crate) fn below(above: BorrowedFd<'_>, name: &CStr) -> Option<Folder> {
    let look = look(above, name)?;
    if is_mount(&look) || !is_folder(&look) {
        return None;
    }
    match open_below(above, name, TO_LIST | OFlags::NOATIME) {
        Ok(open) => known(open),
        Err(Errno::PERM) if fstatvfs(above).is_ok_and(|all| has_no_access_times(&all)) => {
            known(open_below(above, name, TO_LIST).ok()?)
        }
        Err(_) => None,
    }
}

fn has_no_access_times(all: &rustix::fs::StatVfs) -> bool {
    use rustix::fs::StatVfsMountFlags as Flags;
    all.f_flag.intersects(Flags::RDONLY | Flags::NOATIME | Flags::NODIRATIME)
}

/// Opens without crossing a mount, also where there is no `openat2`, or a filter refuses it: `below` has looked. Where the
/// folder is refused, not the call, it is refused again.
fn open_below(above: BorrowedFd<'_>, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
    match openat2(above, name, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => openat(above, name, flags, Mode::empty()),
        opened => opened,
    }
}

/// Kinds that keep a removed file under another name while somebody has it open: NFS, FUSE, CIFS, SMB.
const KEEP_REMOVED: [i64; 4] = [0x6969, 0x6573_5546, 0xff53_4d42, 0xfe53_4d42];

/// True for a file system in which a removed file that is open stands in its folder under another name.
pub(crate) fn keeps_removed(open: BorrowedFd<'_>) -> bool {
    fstatfs(open).map_or(true, |all| KEEP_REMOVED.contains(&all.f_type))
}

fn known(open: OwnedFd) -> Option<Folder> {
    let kind = fstatfs(&open).ok()?.f_type;
    if LEFT_ALONE.contains(&kind) {
        return None;
    }
    let (device, inode) = identity(open.as_fd())?;
    let may_forget = MAY_FORGET.contains(&kind);
    let tells_contents = TELL_CONTENTS.contains(&kind);
    Some(Folder { open, key: Key::of(device, inode), device, may_forget, tells_contents })
}

/// Kinds of which some forget what was read when a file is opened again: FUSE (virtiofs, too), 9p, NFS, CIFS, SMB.
const MAY_FORGET: [i64; 5] = [0x6573_5546, 0x0102_1997, 0x6969, 0xff53_4d42, 0xfe53_4d42];

/// True for a file system that does not sleep, or that must not be asked.
pub(crate) fn is_left_alone(open: BorrowedFd<'_>) -> bool {
    fstatfs(open).map_or(true, |all| LEFT_ALONE.contains(&all.f_type))
}

/// The device and inode number of an open file, as far as the kernel knows them without asking.
pub(crate) fn identity(open: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    statx(open, c"", flags, StatxFlags::INO).ok().map(|look| identity_of(&look))
}

pub(crate) fn identity_of(look: &Statx) -> (u64, u64) {
    (rustix::fs::makedev(look.stx_dev_major, look.stx_dev_minor), look.stx_ino)
}

/// The folder part of a path, with the slash at its end; none for a path of one name.
pub(crate) fn before_last(path: &[u8]) -> Option<&[u8]> {
    let end = path.iter().rposition(|byte| *byte == b'/')?;
    path.get(..=end)
}

/// The key of what a path leads to, as far as the kernel knows it without asking; none for a long one.
pub(crate) fn key_of(at: BorrowedFd<'_>, path: &[u8]) -> Option<Key> {
    let mut text = [0; ABOVE_BYTES];
    let (_, room) = text.split_last_mut()?;
    room.get_mut(..path.len())?.copy_from_slice(path);
    let text = CStr::from_bytes_until_nul(&text).ok()?;
    let look = statx(at, text, AtFlags::STATX_DONT_SYNC, StatxFlags::INO).ok()?;
    let (device, inode) = identity_of(&look);
    Some(Key::of(device, inode))
}

/// Looks at a name as the program would, mounting nothing; none where something is mounted on it. Who serves that
/// is not asked: it may not answer.
fn look(above: BorrowedFd<'_>, name: &CStr) -> Option<Statx> {
    let open = open_below(above, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC).ok()?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    statx(open, c"", flags, StatxFlags::BASIC_STATS).ok()
}

fn is_mount(look: &Statx) -> bool {
    let mounts = StatxAttributes::MOUNT_ROOT | StatxAttributes::AUTOMOUNT;
    StatxAttributes::from_bits_retain(look.stx_attributes.bits()).intersects(mounts)
}

/// Asks for a name's attributes; true if it is a folder.
pub(crate) fn ask(above: BorrowedFd<'_>, name: &CStr) -> bool {
    look(above, name).is_some_and(|look| is_folder(&look))
}

fn is_folder(look: &Statx) -> bool {
    FileType::from_raw_mode(look.stx_mode.into()) == FileType::Directory
}

/// Outcome of a request for contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Bytes that were asked for.
    pub(crate) bytes: u64,
    /// True if they were not in memory, as far as the file system tells.
    pub(crate) were_cold: bool,
    /// True for a folder, which has none.
    pub(crate) is_folder: bool,
}

/// Asks for a name's attributes, and the first bytes of a file. Whether these were in memory is asked of a file system that
/// tells it: the request does not wait for them, and so does not show it.
///
/// They are read by advice: unlike a read it leaves the access time alone. Opening breaks others' leases as the
/// program's own opening does, and waits for nobody.
pub(crate) fn ask_contents(above: BorrowedFd<'_>, name: &CStr, tells: bool) -> Contents {
    let Some(look) = look(above, name) else { return Contents::default() };
    let Some(bytes) = first_bytes(&look) else {
        return Contents { is_folder: is_folder(&look), ..Contents::default() };
    };
    let unseen = tells.then(|| open_below(above, name, TO_READ | OFlags::NOATIME).ok()).flatten();
    let warmth = unseen.as_ref().map_or(Warmth::Unknown, |open| try_read(open.as_fd()));
    if warmth == Warmth::Warm {
        return Contents { bytes, ..Contents::default() };
    }
    let open = unseen.map_or_else(|| open_below(above, name, TO_READ), Ok);
    let Ok(open) = open else { return Contents::default() };
    let _ = fadvise(&open, 0, std::num::NonZeroU64::new(bytes), Advice::WillNeed);
    Contents { bytes, were_cold: warmth == Warmth::Cold, is_folder: false }
}

const TO_READ: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

/// Bytes that are read ahead of a regular file; none of anything else.
fn first_bytes(look: &Statx) -> Option<u64> {
    let is_file = FileType::from_raw_mode(look.stx_mode.into()) == FileType::RegularFile;
    (is_file && !is_mount(look) && look.stx_size > 0).then(|| look.stx_size.min(FIRST_BYTES))
}

/// Reads of a file, and again after another opening, to find out whether it was kept meanwhile; none if it cannot be read.
///
/// By reads, which wait: such file systems leave access times to who serves them.
pub(crate) fn try_kept(above: BorrowedFd<'_>, name: &CStr) -> Option<Finding> {
    first_bytes(&look(above, name)?)?;
    read_first(above, name)?;
    Finding::of_reads(|| read_first(above, name))
}

/// Opens a file and reads its first byte; true if that slept.
fn read_first(above: BorrowedFd<'_>, name: &CStr) -> Option<bool> {
    let open = open_below(above, name, TO_READ | OFlags::NOATIME)
        .or_else(|_| open_below(above, name, TO_READ))
        .ok()?;
    let before = sleeps();
    let read = pread(&open, &mut [0], 0);
    (read == Ok(1)).then(|| sleeps() != before)
}

/// Reads a folder's names, and tries some of them.
pub(crate) fn list(open: BorrowedFd<'_>) -> Listing {
    let mut names = Names::new();
    let mut buffer = [MaybeUninit::uninit(); LISTING_BYTES];
    let mut entries = RawDir::new(open, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        if is_own(entry.file_name()) {
            continue;
        }
        let (inode, kind, name) = (entry.ino(), entry.file_type(), entry.file_name());
        if names.push(Name { inode, kind, name }).is_err() {
            break;
        }
    }
    let warmth = try_some(open, &names);
    Listing { names, warmth }
}

fn is_own(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Tries names from all over a folder.
fn try_some(open: BorrowedFd<'_>, names: &Names) -> Warmth {
    let (count, mut warmth) = (names.len(), Warmth::Unknown);
    for step in 0..TRIES as u32 {
        // The last ones first: the first ones may be the program's by now.
        let position = count.wrapping_sub(1 + step * (count / TRIES as u32).max(1));
        let Some(name) = names.get(position) else { continue };
        match try_one(open, name.name) {
            Warmth::Cold => return Warmth::Cold,
            Warmth::Warm => warmth = Warmth::Warm,
            Warmth::Unknown => {}
        }
    }
    warmth
}

/// Tries a name without sleeping.
pub(crate) fn try_one(open: BorrowedFd<'_>, name: &CStr) -> Warmth {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
    match openat2(open, name, flags, Mode::empty(), resolve) {
        Ok(_) => Warmth::Warm,
        // Without such a try (before Linux 5.12, or where it is forbidden) all may be cold.
        Err(Errno::AGAIN | Errno::NOSYS | Errno::INVAL | Errno::PERM) => Warmth::Cold,
        Err(_) => Warmth::Unknown,
    }
}

/// Kinds of which opening a file of a known name does not sleep, and that tell whether a read would: ext4, XFS, Btrfs, F2FS,
/// bcachefs, overlayfs.
const TELL_CONTENTS: [i64; 6] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0xca45_1a4e, 0x794c_7630];

/// Tries without sleeping whether the first bytes of a file are in memory. That leaves its access time alone: unknown where
/// this user may not read so.
pub(crate) fn try_contents(above: BorrowedFd<'_>, name: &CStr) -> Warmth {
    let Ok(all) = fstatvfs(above) else { return Warmth::Unknown };
    if !fstatfs(above).is_ok_and(|all| TELL_CONTENTS.contains(&all.f_type)) {
        return Warmth::Unknown;
    }
    let resolve = ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
    let open = match openat2(above, name, TO_READ | OFlags::NOATIME, Mode::empty(), resolve) {
        Err(Errno::PERM) if has_no_access_times(&all) => {
            openat2(above, name, TO_READ, Mode::empty(), resolve)
        }
        opened => opened,
    };
    open.map_or(Warmth::Unknown, |open| try_read(open.as_fd()))
}

/// True if a file that the program has just opened is a regular one, and reading it would sleep. Its access time is what the program
/// changes now.
pub(crate) fn is_read_slow(open: BorrowedFd<'_>) -> bool {
    fstatfs(open).is_ok_and(|all| TELL_CONTENTS.contains(&all.f_type))
        && fstat(open).is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_size > 0
        })
        && try_read(open) == Warmth::Cold
}

/// Tries without sleeping to read a file's first byte.
fn try_read(open: BorrowedFd<'_>) -> Warmth {
    let mut byte = [0];
    match preadv2(open, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT) {
        Ok(1) => Warmth::Warm,
        Err(Errno::AGAIN) => Warmth::Cold,
        Ok(_) | Err(_) => Warmth::Unknown,
    }
}

/// A number as text.
fn decimal(number: i32, text: &mut [u8; 12]) -> Option<&CStr> {
    use std::io::Write;
    let mut rest = &mut text[..];
    write!(rest, "{number}\0").ok()?;
    CStr::from_bytes_until_nul(text).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn numbers_are_texts() {
        let mut text = [0; 12];
        assert_eq!(decimal(0, &mut text), Some(c"0"));
        let mut text = [0; 12];
        assert_eq!(decimal(i32::MIN, &mut text), Some(c"-2147483648"));
    }

    #[test]
    fn a_folder_is_listed_and_what_is_no_folder_is_not_opened() {
        // Not in a file system that is left alone.
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        fs::write(folder.path().join("file"), "text").unwrap();
        std::os::unix::fs::symlink("below", folder.path().join("link")).unwrap();
        let open = fs::File::open(folder.path()).unwrap();
        let listing = list(open.as_fd());
        let mut names: Vec<_> = (0..listing.names.len())
            .map(|position| listing.names.get(position).unwrap().name.to_owned())
            .collect();
        names.sort();
        assert_eq!(names, [c"below".to_owned(), c"file".to_owned(), c"link".to_owned()]);
        // They were made just now.
        assert_eq!(listing.warmth, Warmth::Warm);
        assert!(below(open.as_fd(), c"below").is_some());
        for name in [c"file", c"link", c"nothing", c".."] {
            let opened = below(open.as_fd(), name).is_some();
            assert_eq!(opened, name == c"..", "{name:?}");
        }
        for tells in [true, false] {
            let asked = |name| ask_contents(open.as_fd(), name, tells);
            let of_file = Contents { bytes: 4, ..Contents::default() };
            assert_eq!(asked(c"file"), of_file);
            assert_eq!(asked(c"link"), Contents::default());
            assert_eq!(asked(c"below"), Contents { is_folder: true, ..Contents::default() });
        }
        let are_folders =
            [c"below", c"file", c"link", c"nothing"].map(|name| ask(open.as_fd(), name));
        assert_eq!(are_folders, [true, false, false, false]);
        assert_ne!(try_contents(open.as_fd(), c"file"), Warmth::Cold);
        assert_eq!(try_contents(open.as_fd(), c"link"), Warmth::Unknown);
    }

    #[test]
    fn what_the_kernel_makes_up_is_left_alone() {
        let open = fs::File::open("/proc/self").unwrap();
        assert!(is_left_alone(open.as_fd()));
        let open = fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
        assert!(!is_left_alone(open.as_fd()));
    }

    #[test]
    fn the_folder_above_a_path_is_found() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        let open = fs::File::open(folder.path()).unwrap();
        let key = |path: &CStr| key_of(open.as_fd(), before_last(path.to_bytes())?);
        let below = fs::File::open(folder.path().join("below")).unwrap();
        let (device, inode) = identity(below.as_fd()).unwrap();
        assert_eq!(key(c"below/name"), Some(Key::of(device, inode)));
        assert_eq!(key(c"below/../below/name"), key(c"below/other"));
        assert_eq!((key(c"name"), key(c"nowhere/name")), (None, None));
        let long = std::ffi::CString::new("below/".repeat(100)).unwrap();
        assert_eq!(key(&long), None);
    }
}
