use std::fs::{self, File};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use kumiki_parasc::Operation;
use kumiki_parasc::op::{
    CWD, Close, Errno, Fadvise, Fallocate, Ftruncate, Lseek, Openat, Openat2, Pread, Pwrite, Read,
    Truncate, Write,
};
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags, ResolveFlags, SeekFrom};
use tempfile::TempDir;

use super::{completed, execute, name};

#[test]
fn a_file_is_opened_written_read_and_closed() {
    let folder = TempDir::new().unwrap();
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    let mut open = Openat::new(CWD, name(&folder, "new"), flags, Mode::RUSR | Mode::WUSR);
    let file = Arc::new(execute(&mut open).unwrap());

    assert_eq!(execute(&mut Write::new(&file, b"written")), Ok(7));
    assert_eq!(execute(&mut Pwrite::new(&file, vec![b'W'], 0)), Ok(1));
    let mut read = Pread::new(file.clone(), 1, Vec::with_capacity(100));
    assert_eq!(execute(&mut read), Ok(6));
    assert_eq!(read.filled(), b"ritten");
    // Position: behind what was written.
    let mut read = Read::new(&file, [0; 10]);
    assert_eq!(execute(&mut read), Ok(0));
    assert_eq!(read.filled(), b"");

    let file = Arc::into_inner(file);
    assert!(file.is_none(), "the operation still holds one");
    assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"Written");
}

#[test]
fn opening_what_is_not_there_fails() {
    let folder = TempDir::new().unwrap();
    let mut open = Openat::new(CWD, name(&folder, "no"), OFlags::RDONLY, Mode::empty());
    assert_eq!(execute(&mut open).unwrap_err(), Errno::NOENT);
    // Once more, now that it is there.
    File::create(folder.path().join("no")).unwrap();
    execute(&mut open).unwrap();
}

#[test]
fn a_vector_is_filled_behind_what_it_holds() {
    let file = tempfile::tempfile().unwrap();
    execute(&mut Pwrite::new(&file, "tail", 0)).unwrap();
    let mut buffer = Vec::with_capacity(64);
    buffer.extend_from_slice(b"head ");
    let mut read = Pread::new(&file, 0, &mut buffer);
    assert_eq!(execute(&mut read), Ok(4));
    assert_eq!(read.filled(), b"tail");
    // A failure adds nothing.
    let mut nowhere = Pread::new(&file, u64::MAX, &mut buffer);
    assert_eq!(execute(&mut nowhere), Err(Errno::INVAL));
    assert_eq!(nowhere.filled(), b"");
    assert_eq!(buffer, b"head tail");
}

#[test]
fn uninitialised_memory_is_filled() {
    let zero = File::open("/dev/zero").unwrap();
    let mut memory = [MaybeUninit::uninit(); 4096];
    let mut read = Read::new(&zero, &mut memory[..]);
    assert_eq!(execute(&mut read), Ok(4096));
    assert_eq!(read.filled(), [0; 4096]);
    let mut read = Read::new(&zero, Box::<[u8]>::new_uninit_slice(16));
    assert_eq!(read.filled(), b"");
    assert_eq!(execute(&mut read), Ok(16));
    assert_eq!(read.filled(), [0; 16]);
}

#[test]
fn a_file_open_for_reading_takes_no_bytes() {
    let file = File::open("/dev/null").unwrap();
    assert_eq!(execute(&mut Write::new(&file, "x")), Err(Errno::BADF));
    assert_eq!(execute(&mut Pwrite::new(&file, "x", 0)), Err(Errno::BADF));
    let (reader, _writer) = kumiki_sys::descriptors::pipe().unwrap();
    assert_eq!(execute(&mut Pread::new(&reader, 0, [0; 1])), Err(Errno::SPIPE));
    let folder = TempDir::new().unwrap();
    let directory = File::open(folder.path()).unwrap();
    assert_eq!(execute(&mut Read::new(&directory, [0; 1])), Err(Errno::ISDIR));
}

/// The other end of a pipe tells whether this one is closed, whatever numbers
/// other tests open at the same time.
#[test]
fn close_closes_once() {
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let mut close = Close::new(reader);
    assert_eq!(execute(&mut close), Ok(()));
    assert_eq!(execute(&mut Write::new(&writer, "x")), Err(Errno::PIPE));
    // The number may be another file's by now.
    assert_eq!(execute(&mut close), Err(Errno::BADF));
}

#[test]
fn close_not_requested_closes_when_dropped() {
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let close = Close::new(OwnedFd::from(reader));
    assert_eq!(execute(&mut Write::new(&writer, "x")), Ok(1));
    drop(close);
    assert_eq!(execute(&mut Write::new(&writer, "x")), Err(Errno::PIPE));
}

#[test]
fn close_requested_in_vain_closes_when_dropped() {
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let mut close = Close::new(reader);
    close.request();
    drop(close);
    assert_eq!(execute(&mut Write::new(&writer, "x")), Err(Errno::PIPE));
}

#[test]
fn close_requested_in_vain_can_be_requested_again() {
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let mut close = Close::new(reader);
    assert_eq!(close.request(), close.request());
    assert_eq!(execute(&mut Write::new(&writer, "x")), Ok(1));
    assert_eq!(execute(&mut close), Ok(()));
    assert_eq!(execute(&mut Write::new(&writer, "x")), Err(Errno::PIPE));
}

#[test]
fn openat2_resolves_as_told() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "x").unwrap();
    let dir = File::open(folder.path()).unwrap();
    let open = |path, flags, mode| {
        execute(&mut Openat2::new(&dir, path, flags, mode, ResolveFlags::BENEATH))
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    match open(c"file", flags, Mode::empty()) {
        Err(Errno::NOSYS) => return eprintln!("passed over: this machine has no openat2"),
        file => assert_eq!(execute(&mut Read::new(file.unwrap(), [0; 8])), Ok(1)),
    }
    assert_eq!(open(c"../file", flags, Mode::empty()).unwrap_err(), Errno::XDEV);
    assert_eq!(open(c"file", flags, Mode::RUSR).unwrap_err(), Errno::INVAL);
    let made = open(c"made", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR);
    assert!(made.is_ok() && folder.path().join("made").exists());
}

#[test]
fn position_and_length() {
    let file = tempfile::tempfile().unwrap();
    let length = || file.metadata().unwrap().len();
    assert_eq!(execute(&mut Ftruncate::new(&file, 10_000)), Ok(()));
    assert_eq!(length(), 10_000);
    assert_eq!(execute(&mut Ftruncate::new(&file, u64::MAX)), Err(Errno::INVAL));

    let seek = |to| execute(&mut Lseek::new(&file, to));
    assert_eq!(seek(SeekFrom::End(-1)), Ok(9_999));
    assert_eq!(seek(SeekFrom::Current(-9)), Ok(9_990));
    assert_eq!(seek(SeekFrom::Start(5)), Ok(5));
    assert_eq!(seek(SeekFrom::Hole(10_000)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::Data(10_000)), Err(Errno::NXIO));
    assert_eq!(seek(SeekFrom::Current(-6)), Err(Errno::INVAL));

    let none = FallocateFlags::empty();
    match execute(&mut Fallocate::new(&file, none, 0, 20_000)) {
        Err(Errno::OPNOTSUPP) => eprintln!("passed over: this file system has no fallocate"),
        result => assert_eq!((result, length()), (Ok(()), 20_000)),
    }
    assert_eq!(execute(&mut Fallocate::new(&file, none, 0, 0)), Err(Errno::INVAL));

    assert_eq!(execute(&mut Fadvise::new(&file, 0, 0, Advice::Sequential)), Ok(()));
    let (pipe, _writer) = kumiki_sys::descriptors::pipe().unwrap();
    assert_eq!(execute(&mut Lseek::new(&pipe, SeekFrom::Start(0))), Err(Errno::SPIPE));
    assert_eq!(execute(&mut Fadvise::new(&pipe, 0, 0, Advice::Normal)), Err(Errno::SPIPE));
}

#[test]
fn a_name_tells_which_file_to_cut() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "0123456789").unwrap();
    std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
    assert_eq!(completed(Truncate::new(name(&folder, "link"), 4)).output, Ok(()));
    assert_eq!(fs::read(&path).unwrap(), b"0123");
    let mut longer = Truncate::new(name(&folder, "file"), 6);
    assert_eq!(execute(&mut longer), Ok(()));
    assert_eq!(fs::read(&path).unwrap(), b"0123\0\0");
    let truncate = |file, length| execute(&mut Truncate::new(name(&folder, file), length));
    assert_eq!(truncate("no", 0), Err(Errno::NOENT));
    assert_eq!(truncate("", 0), Err(Errno::ISDIR));
    assert_eq!(truncate("file", u64::MAX), Err(Errno::INVAL));
}

#[test]
fn what_was_given_comes_back() {
    let file = tempfile::tempfile().unwrap();
    let mut write = Pwrite::new(file, vec![7; 3], 9);
    assert_eq!(execute(&mut write), Ok(3));
    let (file, data, offset) = write.into_parts();
    assert_eq!((data, offset), (vec![7; 3], 9));
    let mut read = Pread::new(file, 9, Vec::with_capacity(8));
    assert_eq!(execute(&mut read), Ok(3));
    let (_, _, buffer) = read.into_parts();
    assert_eq!(buffer, [7; 3]);
}
