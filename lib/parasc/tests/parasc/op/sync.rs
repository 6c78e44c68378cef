use kumiki_parasc::op::{Errno, Fdatasync, Fsync, Pwrite, SyncFileRange, Syncfs};

use super::execute;

#[test]
fn files_go_to_the_disk_and_pipes_do_not() {
    let file = tempfile::tempfile().unwrap();
    let (pipe, _writer) = kumiki_sys::descriptors::pipe().unwrap();
    assert_eq!(execute(&mut Pwrite::new(&file, [1; 10_000], 0)), Ok(10_000));
    assert_eq!(execute(&mut Fsync::new(&file)), Ok(()));
    assert_eq!(execute(&mut Fsync::new(&pipe)), Err(Errno::INVAL));
    assert_eq!(execute(&mut Fdatasync::new(&file)), Ok(()));
    assert_eq!(execute(&mut Fdatasync::new(&pipe)), Err(Errno::INVAL));
    let write = libc::SYNC_FILE_RANGE_WRITE;
    assert_eq!(execute(&mut SyncFileRange::new(&file, 0, 4096, write)), Ok(()));
    assert_eq!(execute(&mut SyncFileRange::new(&pipe, 0, 0, write)), Err(Errno::SPIPE));
    assert_eq!(execute(&mut SyncFileRange::new(&file, 0, 0, !0)), Err(Errno::INVAL));
}

#[test]
fn a_whole_file_system_is_synced() {
    // One in memory has nothing to write, so that nobody waits for a disk.
    let path = c"/proc/self";
    let dir = rustix::fs::open(path, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
    assert_eq!(execute(&mut Syncfs::new(dir.unwrap())), Ok(()));
    let only_path = rustix::fs::open(path, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty());
    assert_eq!(execute(&mut Syncfs::new(only_path.unwrap())), Err(Errno::BADF));
}
