use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::{Duration, SystemTime};

use kumiki_parasc::op::{
    CWD, Errno, Faccessat2, Fchmod, Fchmodat, Fchownat, Fstatat, Fstatfs, Futimens, Statfs, Statx,
    Utimensat,
};
use rustix::fs::{Access, AtFlags, FileType, Gid, Mode, StatxFlags, Timespec, UTIME_OMIT, Uid};
use tempfile::TempDir;

use super::{execute, name};

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

#[test]
fn fstatat_tells_what_stat_does() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, vec![1; 100_000]).unwrap();
    let dir = fs::File::open(folder.path()).unwrap();

    let mut found = Fstatat::new(&dir, c"file", AtFlags::SYMLINK_NOFOLLOW);
    assert!(found.stat().is_none());
    assert_eq!(execute(&mut found), Ok(()));
    let (ours, theirs) = (found.stat().unwrap(), fs::metadata(&path).unwrap());
    assert_eq!((ours.st_ino, ours.st_dev), (theirs.ino(), theirs.dev()));
    assert_eq!((ours.st_size as u64, ours.st_blocks as u64), (theirs.size(), theirs.blocks()));
    assert_eq!((ours.st_mode, ours.st_nlink), (theirs.mode(), theirs.nlink()));

    fs::remove_file(&path).unwrap();
    assert_eq!(execute(&mut found), Err(Errno::NOENT));
    assert!(found.stat().is_none());
}

#[test]
fn permissions_and_owners_change() {
    let folder = TempDir::new().unwrap();
    let dir = fs::File::open(folder.path()).unwrap();
    let path = folder.path().join("file");
    let file = fs::File::create(&path).unwrap();
    let mode = || fs::metadata(&path).unwrap().mode() & 0o777;

    assert_eq!(execute(&mut Fchmodat::new(&dir, c"file", Mode::RUSR)), Ok(()));
    assert_eq!(mode(), 0o400);
    assert_eq!(execute(&mut Fchmodat::new(&dir, c"no", Mode::RUSR)), Err(Errno::NOENT));
    assert_eq!(execute(&mut Fchmod::new(&file, Mode::RWXU)), Ok(()));
    assert_eq!(mode(), 0o700);
    assert_eq!(execute(&mut Fchmod::new(CWD, Mode::RWXU)), Err(Errno::BADF));

    // To oneself, which everybody may.
    let theirs = file.metadata().unwrap();
    let owner = (Some(Uid::from_raw(theirs.uid())), Some(Gid::from_raw(theirs.gid())));
    let none = AtFlags::empty();
    assert_eq!(execute(&mut Fchownat::new(&dir, c"file", owner.0, owner.1, none)), Ok(()));
    let empty = AtFlags::EMPTY_PATH;
    assert_eq!(execute(&mut Fchownat::new(&file, c"", None, None, empty)), Ok(()));
    assert_eq!(file.metadata().unwrap().uid(), theirs.uid());
    assert_eq!(execute(&mut Fchownat::new(&dir, c"no", None, None, none)), Err(Errno::NOENT));
}

#[test]
fn times_are_set() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    let file = fs::File::create(&path).unwrap();
    let dir = fs::File::open(folder.path()).unwrap();
    let second = |tv_sec| Timespec { tv_sec, tv_nsec: 500_000_000 };
    let times = || {
        let data = fs::metadata(&path).unwrap();
        [data.accessed().unwrap(), data.modified().unwrap()]
            .map(|time| time.duration_since(SystemTime::UNIX_EPOCH).unwrap())
    };
    let set = |path, times| execute(&mut Utimensat::new(&dir, path, times, AtFlags::empty()));
    assert_eq!(set(c"file", [second(10), second(20)]), Ok(()));
    assert_eq!(times(), [10_500, 20_500].map(Duration::from_millis));
    assert_eq!(set(c"no", [second(10), second(20)]), Err(Errno::NOENT));

    let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    assert_eq!(execute(&mut Futimens::new(&file, [omit, second(30)])), Ok(()));
    assert_eq!(times(), [10_500, 30_500].map(Duration::from_millis));
    let wrong = Timespec { tv_sec: 0, tv_nsec: -1 };
    assert_eq!(execute(&mut Futimens::new(&file, [wrong, wrong])), Err(Errno::INVAL));
}

#[test]
fn access_is_asked_for() {
    let folder = TempDir::new().unwrap();
    let dir = fs::File::open(folder.path()).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    fs::set_permissions(
        folder.path().join("file"),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .unwrap();
    let may = |path, access| execute(&mut Faccessat2::new(&dir, path, access, AtFlags::empty()));
    if may(c"file", Access::EXISTS) == Err(Errno::NOSYS) {
        return eprintln!("passed over: this machine has no faccessat2");
    }
    assert_eq!(may(c"file", Access::READ_OK | Access::WRITE_OK), Ok(()));
    // Nobody may execute it, not even root.
    assert_eq!(may(c"file", Access::EXEC_OK), Err(Errno::ACCESS));
    assert_eq!(may(c"no", Access::EXISTS), Err(Errno::NOENT));
}

#[test]
fn file_systems_are_told() {
    let proc = fs::File::open("/proc").unwrap();
    assert_eq!(execute(&mut Fstatfs::new(&proc)).unwrap().f_type, libc::PROC_SUPER_MAGIC);
    assert_eq!(execute(&mut Statfs::new(c"/proc")).unwrap().f_type, libc::PROC_SUPER_MAGIC);
    let folder = TempDir::new().unwrap();
    let ours = execute(&mut Statfs::new(name(&folder, ""))).unwrap();
    let theirs = rustix::fs::statfs(folder.path()).unwrap();
    assert_eq!((ours.f_blocks, ours.f_bsize as u64), (theirs.f_blocks, theirs.f_bsize as u64));
    assert_eq!(execute(&mut Statfs::new(name(&folder, "no"))).unwrap_err(), Errno::NOENT);
    assert_eq!(execute(&mut Fstatfs::new(CWD)).unwrap_err(), Errno::BADF);
}
