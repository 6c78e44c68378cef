//! The ring answers as the plain calls do, and loses nothing when it breaks.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use kumiki_calls::op::{Operation, Preadv2, Pwritev2};
use kumiki_sys::syscall;
use proptest::prelude::*;
use proptest::sample::select;
use rustix::io::ReadWriteFlags;
use tempfile::TempDir;

use super::*;

/// A ring, or `None` where io_uring is forbidden.
fn ring(slots: usize) -> Option<Ring> {
    match Ring::new(slots) {
        Ok(ring) => Some(ring),
        Err(lack) => {
            println!("skipped: io_uring: {}; {}", lack.reason, lack.remedy);
            None
        }
    }
}

fn through(ring: &mut Ring, requests: &[Request]) -> Vec<i64> {
    let mut results = vec![i64::MIN; requests.len()];
    // SAFETY: the requests of these tests point to what lives in them, or to
    // nothing at all.
    assert!(unsafe { ring.run(requests, &mut results) });
    results
}

fn plainly(request: &Request) -> i64 {
    // SAFETY: as above.
    unsafe { call(request) }
}

/// Things that requests can be made on: the same in each, apart from numbers.
struct Ground {
    _folder: TempDir,
    folder: OwnedFd,
    file: OwnedFd,
    read_only: OwnedFd,
    empty: OwnedFd,
    pipe: (OwnedFd, OwnedFd),
    sockets: (UnixDatagram, UnixDatagram),
    epoll: OwnedFd,
    buffer: Vec<u8>,
}

const BUFFER: usize = 16384;
const NAMES: [&CStr; 9] =
    [c"file", c"none", c"folder", c"file/x", c"", c"link", c"folder/", c"folder/x", c"user.kumiki"];

fn open(path: &std::path::Path, write: bool) -> OwnedFd {
    File::options().read(true).write(write).open(path).unwrap().into()
}

impl Ground {
    fn new() -> Ground {
        let dir = TempDir::new().unwrap();
        let contents: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
        fs::write(dir.path().join("file"), contents).unwrap();
        fs::write(dir.path().join("empty"), []).unwrap();
        fs::create_dir(dir.path().join("folder")).unwrap();
        std::os::unix::fs::symlink("file", dir.path().join("link")).unwrap();
        let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        let pipe = (OwnedFd::from(reader), OwnedFd::from(writer));
        rustix::io::write(&pipe.1, b"in the pipe").unwrap();
        let sockets = UnixDatagram::pair().unwrap();
        sockets.1.send(b"in the socket").unwrap();
        // SAFETY: makes a descriptor.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        Ground {
            folder: open(dir.path(), false),
            file: open(&dir.path().join("file"), true),
            read_only: open(&dir.path().join("file"), false),
            empty: open(&dir.path().join("empty"), true),
            pipe,
            sockets,
            // SAFETY: made just now.
            epoll: unsafe { OwnedFd::from_raw_fd(epoll) },
            buffer: (0..BUFFER).map(|i| i as u8).collect(),
            _folder: dir,
        }
    }

    fn fd(&self, which: usize) -> u64 {
        let fd: RawFd = match which {
            0 => self.file.as_raw_fd(),
            1 => self.read_only.as_raw_fd(),
            2 => self.empty.as_raw_fd(),
            3 => self.folder.as_raw_fd(),
            4 => self.pipe.0.as_raw_fd(),
            5 => self.pipe.1.as_raw_fd(),
            6 => self.sockets.0.as_raw_fd(),
            7 => self.epoll.as_raw_fd(),
            8 => -1,
            _ => 1 << 20,
        };
        fd as u64
    }

    /// Value of an argument.
    fn arg(&mut self, arg: Arg) -> u64 {
        match arg {
            Arg::Fd(which) => self.fd(which),
            Arg::Name(which) => NAMES[which].as_ptr() as u64,
            Arg::Buffer => self.buffer.as_mut_ptr() as u64,
            Arg::Number(number) => number,
        }
    }

    fn request(&mut self, call: &Call) -> Request {
        let mut args = [0; syscall::MAX_ARGS];
        for (at, arg) in call.args.iter().enumerate() {
            args[at] = self.arg(*arg);
        }
        let (sysnum, args_num) = (call.sysnum as u16, call.args.len() as u16);
        Request { sysnum, args_num, args }
    }

    /// All that a call may have changed.
    fn state(&self) -> impl PartialEq + fmt::Debug {
        let path = self._folder.path();
        let mut names: Vec<_> = fs::read_dir(path)
            .unwrap()
            .chain(fs::read_dir(path.join("folder")).into_iter().flatten())
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), entry.metadata().unwrap().len()))
            .map(|(name, len)| (name.into_string().unwrap(), len))
            .filter(|(name, _)| name != "folder")
            .collect();
        names.sort();
        let mut contents = vec![0; 32_768];
        let length = rustix::io::pread(&self.file, &mut contents, 0).unwrap();
        contents.truncate(length);
        (names, contents, self.buffer.clone())
    }
}

#[derive(Clone, Copy, Debug)]
enum Arg {
    Fd(usize),
    Name(usize),
    Buffer,
    Number(u64),
}

#[derive(Clone, Debug)]
struct Call {
    sysnum: libc::c_long,
    args: Vec<Arg>,
}

fn number(numbers: &'static [u64]) -> BoxedStrategy<Arg> {
    select(numbers).prop_map(Arg::Number).boxed()
}

/// A FIFO is not among the names, so none of these waits.
const OPENS: &[i32] = {
    use libc::*;
    &[
        O_RDONLY,
        O_RDWR,
        O_PATH,
        O_DIRECTORY,
        O_CREAT | O_RDWR,
        O_NONBLOCK,
        O_TRUNC | O_RDWR,
        O_CREAT | O_EXCL,
        O_NOFOLLOW,
        O_TMPFILE | O_RDWR,
        O_TMPFILE,
    ]
};

fn a_call() -> impl Strategy<Value = Call> {
    let fd = || (0..10usize).prop_map(Arg::Fd).boxed();
    let pipe = || prop_oneof![(4..6usize).prop_map(Arg::Fd), Just(Arg::Fd(0))].boxed();
    let folder = || prop_oneof![4 => Just(Arg::Fd(3)), 1 => fd()].boxed();
    let name = || {
        prop_oneof![9 => (0..NAMES.len()).prop_map(Arg::Name), 1 => number(&[0, 1, 1 << 50])]
            .boxed()
    };
    let buffer = || prop_oneof![6 => Just(Arg::Buffer), 1 => number(&[0, 1, 1 << 50])].boxed();
    let length = || number(&[0, 1, 100, 4096, BUFFER as u64, BUFFER as u64]);
    let offset = || number(&[0, 5000, 9_990, 10_000, 1 << 40, u64::MAX, i64::MIN as u64]);
    let place = || number(&[0, 5000, 20_000, u64::MAX]);
    let small = || number(&[0, 0, 1, 2, 4, 8, 16, 0x100, 0x400, 0x1000, 1 << 31, u64::MAX]);
    let opens =
        || select(OPENS).prop_map(|flags| Arg::Number((flags | libc::O_CLOEXEC) as u64)).boxed();
    let send = || number(&[(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u64]);
    let receive = || number(&[libc::MSG_DONTWAIT as u64, (libc::MSG_DONTWAIT | 2) as u64]);
    let no_wait = || number(&[2, 3, 1 << 31 | 2]);
    let mode = || number(&[0o644, 0o7777, 0x1_01ff]);
    let zero = || number(&[0]);
    let call = |sysnum, args: Vec<BoxedStrategy<Arg>>| {
        args.prop_map(move |args| Call { sysnum, args }).boxed()
    };
    prop_oneof![
        call(libc::SYS_pread64, vec![fd(), buffer(), length(), offset()]),
        call(libc::SYS_pread64, vec![fd(), buffer(), length(), offset()]),
        call(libc::SYS_pwrite64, vec![fd(), buffer(), length(), place()]),
        // The buffer holds no vectors: what stands there is no address.
        call(libc::SYS_preadv, vec![fd(), buffer(), number(&[0, 1, 1025]), offset(), zero()]),
        call(libc::SYS_pwritev2, vec![fd(), buffer(), number(&[0, 1]), offset(), zero(), small()]),
        call(libc::SYS_fsync, vec![fd()]),
        call(libc::SYS_fdatasync, vec![fd()]),
        call(libc::SYS_sync_file_range, vec![fd(), offset(), length(), small()]),
        call(
            libc::SYS_statx,
            vec![folder(), name(), small(), number(&[0x7ff, 0, 1 << 31]), buffer()]
        ),
        call(libc::SYS_fallocate, vec![fd(), number(&[0, 1, 3, 64]), place(), length()]),
        call(libc::SYS_ftruncate, vec![fd(), number(&[0, 500, 20_000, u64::MAX])]),
        call(libc::SYS_fadvise64, vec![fd(), offset(), length(), small()]),
        call(libc::SYS_madvise, vec![number(&[0, 1, 1 << 50]), length(), small()]),
        call(libc::SYS_unlinkat, vec![folder(), name(), number(&[0, 0x200, 1])]),
        call(libc::SYS_renameat2, vec![folder(), name(), folder(), name(), small()]),
        call(libc::SYS_mkdirat, vec![folder(), name(), mode()]),
        call(libc::SYS_symlinkat, vec![name(), folder(), name()]),
        call(libc::SYS_linkat, vec![folder(), name(), folder(), name(), small()]),
        call(libc::SYS_openat, vec![folder(), name(), opens(), mode()]),
        call(
            libc::SYS_openat2,
            vec![folder(), name(), number(&[0, 1]), number(&[0, 23, 24, 1 << 20])]
        ),
        call(libc::SYS_fgetxattr, vec![fd(), name(), buffer(), length()]),
        call(libc::SYS_fsetxattr, vec![fd(), name(), buffer(), length(), small()]),
        call(libc::SYS_epoll_ctl, vec![fd(), small(), fd(), buffer()]),
        call(libc::SYS_sendto, vec![fd(), buffer(), length(), send(), zero(), zero()]),
        call(libc::SYS_recvfrom, vec![fd(), buffer(), length(), receive(), zero(), zero()]),
        call(libc::SYS_shutdown, vec![fd(), small()]),
        call(libc::SYS_splice, vec![pipe(), zero(), pipe(), zero(), length(), no_wait()]),
        call(libc::SYS_tee, vec![pipe(), pipe(), length(), no_wait()]),
        call(libc::SYS_close, vec![number(&[u64::MAX, 1 << 20])]),
    ]
}

/// A result without what differs between two grounds.
fn comparable(call: &Call, result: i64) -> i64 {
    let opens = [libc::SYS_openat, libc::SYS_openat2].contains(&call.sysnum);
    if !opens || result < 0 {
        return result;
    }
    // SAFETY: the descriptor that the call has made.
    drop(unsafe { OwnedFd::from_raw_fd(result as RawFd) });
    0
}

/// Offsets at which the attributes of two files may differ.
fn forget_attributes(ground: &mut Ground, call: &Call) {
    if call.sysnum == libc::SYS_statx {
        ground.buffer.fill(0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_ring_answers_as_the_calls_do(calls in prop::collection::vec(a_call(), 1..12)) {
        let Some(mut ring) = ring(16) else { return Ok(()) };
        let (mut mine, mut other) = (Ground::new(), Ground::new());
        for call in &calls {
            let request = mine.request(call);
            let here = comparable(call, through(&mut ring, &[request])[0]);
            let there = comparable(call, plainly(&other.request(call)));
            let name = syscall::name(call.sysnum as usize).unwrap();
            forget_attributes(&mut mine, call);
            forget_attributes(&mut other, call);
            prop_assert_eq!(here, there, "{} {:?}", name, call);
            prop_assert_eq!(mine.state(), other.state(), "{} {:?}", name, call);
        }
    }
}

#[test]
fn attributes_are_those_of_the_file() {
    let Some(mut ring) = ring(2) else { return };
    let ground = Ground::new();
    let mut stat = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let (folder, name) = (ground.fd(3), c"file".as_ptr() as u64);
    let args = [folder, name, 0, u64::from(libc::STATX_SIZE), stat.as_mut_ptr() as u64];
    assert_eq!(through(&mut ring, &[Request::new(libc::SYS_statx, args)]), [0]);
    // SAFETY: filled, and zeros before.
    assert_eq!(unsafe { stat.assume_init() }.stx_size, 10_000);
}

#[test]
fn several_buffers_are_written_and_filled_in_order() {
    let Some(mut ring) = ring(2) else { return };
    let ground = Ground::new();
    let none = ReadWriteFlags::empty();
    let mut write = Pwritev2::new(&ground.file, vec!["a", "bcd"], 100, none);
    let mut read = Preadv2::new(&ground.file, 99, none, vec![[0; 2], [0; 2], [0; 2]]);
    for (request, count) in [(write.request(), 4), (read.request(), 6)] {
        assert!(translate(&request, &mut Files::default()).is_some());
        assert_eq!(through(&mut ring, &[request]), [count]);
    }
    // SAFETY: made just now, with this result.
    assert_eq!(unsafe { read.complete(6) }, Ok(6));
    assert!(read.filled().eq([&[99, b'a'], b"bc", &[b'd', 104]]));
}

#[test]
fn every_call_in_the_table_has_its_entry() {
    let ground = Ground::new();
    let mut vector = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let own = 0..syscall::MAX_ARGS as u16;
    for sysnum in crate::table::numbers() {
        let call = i64::from(sysnum);
        let mut args = [0; syscall::MAX_ARGS];
        args[0] = ground.fd(0);
        args[1] = match call {
            libc::SYS_preadv | libc::SYS_pwritev | libc::SYS_preadv2 | libc::SYS_pwritev2 => {
                (&raw mut vector) as u64
            }
            // Splice has no position of its own; others a short length.
            libc::SYS_splice | libc::SYS_madvise => 0,
            _ => NAMES[0].as_ptr() as u64,
        };
        // What follows is a length, and flags.
        args[2] = match call {
            libc::SYS_unlinkat | libc::SYS_statx => 0,
            _ => 1,
        };
        args[3] = match call {
            libc::SYS_openat2 => 24,
            libc::SYS_sendto => (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as u64,
            libc::SYS_recvfrom => libc::MSG_DONTWAIT as u64,
            _ => 0,
        };
        let request = Request { sysnum, args_num: own.end, args };
        let name = syscall::name(sysnum.into()).unwrap();
        assert!(translate(&request, &mut Files::default()).is_some(), "{name}");
    }
}

#[test]
fn what_would_wait_or_mean_something_else_is_left_out() {
    let ground = Ground::new();
    let left_out = |request| translate(&request, &mut Files::default()).is_none();
    let (file, pipe, socket) = (ground.fd(0), ground.fd(4), ground.fd(6));
    assert!(left_out(Request::new(libc::SYS_read, [file, 0, 10])));
    assert!(left_out(Request::new(libc::SYS_pread64, [file, 0, 10, u64::MAX])));
    assert!(left_out(Request::new(libc::SYS_pread64, [pipe, 0, 10, 0])));
    assert!(left_out(Request::new(libc::SYS_pread64, [file, 0, 1 << 32, 0])));
    assert!(left_out(Request::new(libc::SYS_recvfrom, [socket, 0, 10, 0, 0, 0])));
    assert!(left_out(Request::new(libc::SYS_sendto, [socket, 0, 10, 0, 0, 0])));
    assert!(left_out(Request::new(libc::SYS_accept4, [socket, 0, 0, 0])));
    let proc = open(std::path::Path::new("/proc/self/comm"), true).into_raw_fd() as u64;
    assert!(left_out(Request::new(libc::SYS_pwrite64, [proc, 0, 1, 1])));
    assert_eq!(plainly(&Request::new(libc::SYS_close, [proc])), 0);
}

#[test]
fn a_fifo_is_opened_only_when_its_other_end_is() {
    let Some(mut ring) = ring(2) else { return };
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let there = std::thread::spawn(move || {
        // Opens when there is a reader; gives the ring time to be wrong.
        std::thread::sleep(Duration::from_millis(20));
        fs::write(path, "written").unwrap();
    });
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as u64;
    let args = [libc::AT_FDCWD as u64, name.as_ptr() as u64, flags];
    let fd = through(&mut ring, &[Request::new(libc::SYS_openat, args)])[0];
    // SAFETY: the descriptor that the call has made.
    let mut file = File::from(unsafe { OwnedFd::from_raw_fd(fd as RawFd) });
    let mut text = String::new();
    // A reader that had not waited would see the end at once.
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "written");
    there.join().unwrap();
}

#[test]
fn a_ring_can_be_closed_through_another() {
    let (Some(mut one), Some(other)) = (ring(2), ring(2)) else { return };
    // SAFETY: it is open as long as `other` lives.
    let its = unsafe { BorrowedFd::borrow_raw(other.ring.as_raw_fd()) };
    let copy = its.try_clone_to_owned().unwrap().into_raw_fd();
    let close = Request::new(libc::SYS_close, [copy as u64]);
    assert_eq!(through(&mut one, &[close]), [0]);
    assert_eq!(through(&mut one, &[close]), [-i64::from(libc::EBADF)]);
}

/// Each request appends a byte of its own; whatever breaks, the file has each
/// byte once.
fn breaks_after(enters: usize, entries: usize) {
    let Some(mut ring) = ring(64) else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "start").unwrap();
    let append = File::options().append(true).open(file.path()).unwrap();
    let bytes: Vec<u8> = (b'0'..b'0' + 50).collect();
    let fd = append.as_raw_fd() as u64;
    let request = |byte| {
        // With O_APPEND the position does not matter (BUGS in pwrite(2)).
        Request::new(libc::SYS_pwrite64, [fd, std::ptr::from_ref::<u8>(byte) as u64, 1, 0])
    };
    let requests: Vec<_> = bytes.iter().map(request).collect();
    ring.cut = Some((enters, entries));
    let mut results = vec![i64::MIN; requests.len()];
    // SAFETY: the bytes live on.
    let whole = unsafe { ring.run(&requests, &mut results) };
    assert!(!whole, "it broke");
    assert_eq!(results, vec![1; requests.len()]);
    let mut written = fs::read(file.path()).unwrap().split_off("start".len());
    written.sort_unstable();
    assert_eq!(written, bytes, "each once");
}

#[test]
fn a_ring_that_breaks_loses_nothing_and_doubles_nothing() {
    breaks_after(0, 0);
    breaks_after(1, 1);
    breaks_after(1, 17);
    breaks_after(3, 16);
}
