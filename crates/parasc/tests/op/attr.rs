use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::SystemTime;

use kumiki_parasc::op::{CWD, Errno, Statx};
use rustix::fs::{AtFlags, FileType, StatxFlags};
use tempfile::TempDir;

use crate::{execute, name};

#[test]
fn attributes_are_those_of_the_standard_library() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, vec![1; 100_000]).unwrap();
    fs::hard_link(&path, folder.path().join("second")).unwrap();
    symlink("file", folder.path().join("link")).unwrap();

    let mask = StatxFlags::ALL;
    let mut statx = Statx::new(CWD, name(&folder, "file"), AtFlags::empty(), mask);
    assert!(statx.attributes().is_none());
    assert_eq!(execute(&mut statx), Ok(()));
    let (ours, theirs) = (statx.attributes().unwrap(), fs::metadata(&path).unwrap());
    assert!(ours.mask().contains(StatxFlags::BASIC_STATS));
    assert_eq!(ours.file_type(), FileType::RegularFile);
    assert_eq!(u32::from(ours.mode()), theirs.mode());
    assert_eq!((ours.size(), ours.blocks()), (theirs.size(), theirs.blocks()));
    assert_eq!((ours.ino(), ours.dev()), (theirs.ino(), theirs.dev()));
    assert_eq!((u64::from(ours.nlink()), ours.rdev()), (2, theirs.rdev()));
    assert_eq!((ours.uid(), ours.gid()), (theirs.uid(), theirs.gid()));
    assert_eq!(u64::from(ours.block_size()), theirs.blksize());
    assert_eq!(ours.modified(), theirs.modified().unwrap());
    assert_eq!(ours.accessed(), theirs.accessed().unwrap());
    assert_eq!(ours.created(), theirs.created().ok());
    assert!(ours.changed() > SystemTime::UNIX_EPOCH);

    statx.retarget(CWD, name(&folder, "link"));
    assert!(statx.attributes().is_none());
    assert_eq!(execute(&mut statx), Ok(()));
    assert_eq!(statx.attributes().unwrap().ino(), theirs.ino());

    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let mut statx = Statx::new(CWD, name(&folder, "link"), flags, mask);
    assert_eq!(execute(&mut statx), Ok(()));
    assert_eq!(statx.attributes().unwrap().file_type(), FileType::Symlink);
    assert_eq!(statx.attributes().unwrap().size(), 4);
}

#[test]
fn a_failed_statx_has_no_attributes() {
    let folder = TempDir::new().unwrap();
    let dir = fs::File::open(folder.path()).unwrap();
    let mut statx = Statx::new(&dir, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    assert_eq!(execute(&mut statx), Ok(()));
    assert_eq!(statx.attributes().unwrap().file_type(), FileType::Directory);
    statx.retarget(&dir, c"missing");
    assert_eq!(execute(&mut statx), Err(Errno::NOENT));
    assert!(statx.attributes().is_none());
}
