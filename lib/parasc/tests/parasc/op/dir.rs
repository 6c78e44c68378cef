use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, FileTypeExt, MetadataExt, symlink};
use std::path::Path;

use kumiki_parasc::op::{
    CWD, Errno, Getdents64, Linkat, Mkdirat, Mknodat, Readlinkat, Renameat2, Symlinkat, Unlinkat,
};
use rustix::fs::{AtFlags, FileType, Mode, RenameFlags};
use tempfile::TempDir;

use super::execute;

/// Name to number and type, by the standard library.
fn listed(folder: &Path) -> BTreeMap<Vec<u8>, (u64, FileType)> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            let kind = match (kind.is_dir(), kind.is_symlink()) {
                (true, _) => FileType::Directory,
                (_, true) => FileType::Symlink,
                _ => FileType::RegularFile,
            };
            (entry.file_name().as_bytes().to_vec(), (entry.ino(), kind))
        })
        .collect()
}

#[test]
fn all_entries_are_found_in_any_buffer() {
    let folder = TempDir::new().unwrap();
    let path = |name: &[u8]| folder.path().join(OsStr::from_bytes(name));
    for number in 0..300 {
        let name = format!("{number}{}", "x".repeat(number * 7 % 240));
        File::create(path(name.as_bytes())).unwrap();
    }
    File::create(path(b"\xff\xfe not UTF-8")).unwrap();
    fs::create_dir(path(b"folder")).unwrap();
    symlink("nowhere", path(b"link")).unwrap();

    for size in [280, 281, 4096, 1 << 20] {
        let dir = File::open(folder.path()).unwrap();
        let mut found = BTreeMap::new();
        let mut getdents = Getdents64::new(&dir, Box::<[u8]>::new_uninit_slice(size));
        while execute(&mut getdents).unwrap() > 0 {
            let mut entries = getdents.entries();
            for entry in entries.by_ref() {
                let again = found.insert(entry.name.to_bytes().to_vec(), (entry.ino, entry.kind));
                assert_eq!(again, None, "{entry:?} twice");
            }
            assert_eq!(entries.rest(), b"");
        }
        assert_eq!(getdents.entries().next(), None);
        for dots in [&b"."[..], b".."] {
            assert!(found.remove(dots).is_some());
        }
        assert_eq!(found, listed(folder.path()), "{size} bytes");
    }
}

#[test]
fn a_file_has_no_entries_and_a_small_buffer_no_room() {
    let file = tempfile::tempfile().unwrap();
    assert_eq!(execute(&mut Getdents64::new(&file, [0; 512])), Err(Errno::NOTDIR));
    let dir = File::open("/").unwrap();
    assert_eq!(execute(&mut Getdents64::new(&dir, [0; 8])), Err(Errno::INVAL));
}

#[test]
fn names_are_made_changed_and_removed() {
    let folder = TempDir::new().unwrap();
    let dir = File::open(folder.path()).unwrap();
    let exists = |name: &str| folder.path().join(name).symlink_metadata().is_ok();
    let (none, mode) = (AtFlags::empty(), Mode::RWXU);

    assert_eq!(execute(&mut Mkdirat::new(&dir, c"sub", mode)), Ok(()));
    assert_eq!(execute(&mut Mkdirat::new(&dir, c"sub", mode)), Err(Errno::EXIST));
    File::create(folder.path().join("sub/a")).unwrap();

    assert_eq!(execute(&mut Linkat::new(&dir, c"sub/a", &dir, c"b", none)), Ok(()));
    assert_eq!(execute(&mut Linkat::new(&dir, c"no", &dir, c"c", none)), Err(Errno::NOENT));
    assert!(exists("b") && exists("sub/a"));

    let keep = RenameFlags::NOREPLACE;
    let rename = |from, to| execute(&mut Renameat2::new(&dir, from, CWD, to, keep));
    let target = super::name(&folder, "sub/c");
    assert_eq!(rename(c"b", target.as_c_str()), Ok(()));
    assert!(!exists("b") && exists("sub/c"));
    let taken = super::name(&folder, "sub/a");
    assert_eq!(rename(c"sub/c", taken.as_c_str()), Err(Errno::EXIST));

    assert_eq!(execute(&mut Symlinkat::new(c"sub/c", &dir, c"link")), Ok(()));
    assert_eq!(execute(&mut Symlinkat::new(c"x", &dir, c"link")), Err(Errno::EXIST));
    let mut readlink = Readlinkat::new(&dir, c"link", [0; 100]);
    assert_eq!(execute(&mut readlink), Ok(5));
    assert_eq!(readlink.filled(), b"sub/c");
    assert_eq!(execute(&mut Readlinkat::new(&dir, c"link", [0; 2])), Ok(2));
    assert_eq!(execute(&mut Readlinkat::new(&dir, c"sub", [0; 9])), Err(Errno::INVAL));

    let unlink = |path, flags| execute(&mut Unlinkat::new(&dir, path, flags));
    assert_eq!(unlink(c"sub", AtFlags::REMOVEDIR), Err(Errno::NOTEMPTY));
    assert_eq!(unlink(c"sub/a", none), Ok(()));
    assert_eq!(unlink(c"sub/c", none), Ok(()));
    assert_eq!(unlink(c"sub", AtFlags::REMOVEDIR), Ok(()));
    assert_eq!(unlink(c"sub", none), Err(Errno::NOENT));
    assert!(exists("link") && !exists("sub"));
}

#[test]
fn nodes_are_of_the_type_that_was_asked_for() {
    let folder = TempDir::new().unwrap();
    let dir = File::open(folder.path()).unwrap();
    let make = |path, kind, device| {
        execute(&mut Mknodat::new(&dir, path, kind, Mode::RUSR | Mode::WUSR, device))
    };
    let metadata = |name: &str| fs::symlink_metadata(folder.path().join(name)).unwrap();

    assert_eq!(make(c"fifo", FileType::Fifo, 0), Ok(()));
    assert!(metadata("fifo").file_type().is_fifo());
    assert_eq!(metadata("fifo").mode() & 0o777, 0o600);
    assert_eq!(make(c"socket", FileType::Socket, 0), Ok(()));
    assert!(metadata("socket").file_type().is_socket());
    assert_eq!(make(c"file", FileType::RegularFile, 0), Ok(()));
    assert_eq!((metadata("file").is_file(), metadata("file").len()), (true, 0));

    let null = libc::makedev(1, 3);
    match make(c"null", FileType::CharacterDevice, null) {
        Err(Errno::PERM) => eprintln!("passed over: devices are not made without a privilege"),
        result => assert_eq!((result, metadata("null").rdev()), (Ok(()), null)),
    }
    assert_eq!(make(c"fifo", FileType::Fifo, 0), Err(Errno::EXIST));
    assert_eq!(make(c"folder", FileType::Directory, 0), Err(Errno::PERM));
    assert_eq!(make(c"link", FileType::Symlink, 0), Err(Errno::INVAL));
}
