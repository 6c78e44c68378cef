use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirEntryExt, symlink};
use std::path::Path;

use kumiki_parasc::op::{Errno, Getdents64};
use rustix::fs::FileType;
use tempfile::TempDir;

use crate::execute;

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
