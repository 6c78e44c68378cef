//! What is tried gives what the plain call gives.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use kumiki_parasc::op::{
    Accept4, CWD, Errno, Getppid, Openat, Openat2, Pread, Preadv2, Pwrite, Read, Recv, Send, Statx,
    Write as WriteOp,
};
use kumiki_parasc::tries::{NotMade, attempt};
use kumiki_parasc::{AllowList, Config, Engine, Operation};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, StatxFlags};
use rustix::io::ReadWriteFlags;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};

use super::{engine, file, make_cold};

const BYTES: usize = 300_000;

fn content() -> Vec<u8> {
    (0..BYTES).map(|at| (at % 251) as u8).collect()
}

#[test]
fn reads_at_any_offset_warm_and_cold_give_what_a_plain_read_gives() {
    let engine = engine();
    let temporary = file(&content());
    let file = Arc::new(temporary.reopen().unwrap());
    let end = BYTES as u64;
    let offsets = [0, 1, 4095, 4096, 100_000, end - 70_000, end - 10, end, end + 5, 1 << 40];
    for cold in [false, true] {
        for offset in offsets {
            for room in [0, 1, 4096, 65_536] {
                if cold {
                    make_cold(&file);
                }
                let buffer = || vec![0xee_u8; room].into_boxed_slice();
                let tried = engine.attempt(Pread::new(Arc::clone(&file), offset, buffer()));
                let tried = tried.wait().unwrap();
                let mut plain = Pread::new(&file, offset, buffer());
                assert_eq!(tried.output, plain.call(), "{offset} {room} {cold}");
                assert_eq!(tried.operation.into_buffer(), plain.into_buffer());
            }
        }
    }
    let negative = engine.attempt(Pread::new(Arc::clone(&file), u64::MAX, [0; 8]));
    assert_eq!(negative.wait().unwrap().output, Err(Errno::INVAL));
}

#[test]
fn a_half_cold_read_is_whole() {
    let engine = engine();
    let temporary = file(&content());
    let file = Arc::new(temporary.reopen().unwrap());
    for _ in 0..20 {
        make_cold(&file);
        let mut first = [0; 4096];
        assert_eq!(Pread::new(&file, 0, &mut first[..]).call(), Ok(4096));
        let whole = vec![0; BYTES].into_boxed_slice();
        let read = engine.attempt(Pread::new(Arc::clone(&file), 0, whole)).wait().unwrap();
        assert_eq!(read.output, Ok(BYTES));
        assert!(*read.operation.into_buffer() == content()[..]);
        // The same by several buffers.
        make_cold(&file);
        let buffers: Vec<Box<[u8]>> = vec![vec![0; 1000].into(), vec![0; BYTES].into()];
        let flags = ReadWriteFlags::empty();
        let read = engine.attempt(Preadv2::new(Arc::clone(&file), 0, flags, buffers));
        let read = read.wait().unwrap();
        assert_eq!(read.output, Ok(BYTES));
        let buffers = read.operation.into_buffers();
        assert!(
            *buffers[0] == content()[..1000] && buffers[1][..BYTES - 1000] == content()[1000..]
        );
    }
}

#[test]
fn a_read_at_the_position_moves_it_once() {
    let engine = engine();
    let temporary = file(&content());
    let mut file = temporary.reopen().unwrap();
    let mut seen = Vec::new();
    while seen.len() < BYTES {
        if seen.len() % 3 == 0 {
            make_cold(&file);
        }
        let read = engine.attempt(Read::new(file.try_clone().unwrap(), [0; 10_007]));
        let read = read.wait().unwrap();
        assert!(read.output.unwrap() > 0);
        seen.extend_from_slice(read.operation.filled());
        assert_eq!(file.stream_position().unwrap(), seen.len() as u64);
    }
    assert!(seen == content());
    file.seek(SeekFrom::End(0)).unwrap();
    assert_eq!(engine.attempt(Read::new(file, [0; 8])).wait().unwrap().output, Ok(0));
}

#[test]
fn writes_at_an_offset_give_what_plain_writes_give() {
    let engine = engine();
    let temporary = file(b"");
    let file = Arc::new(temporary.reopen().unwrap());
    for at in 0..50_u64 {
        let data = vec![at as u8; 7000];
        let write = engine.attempt(Pwrite::new(Arc::clone(&file), data, at * 5000));
        assert_eq!(write.wait().unwrap().output, Ok(7000));
    }
    let written = std::fs::read(temporary.path()).unwrap();
    assert_eq!(written.len(), 49 * 5000 + 7000);
    let by = |at: usize| (at / 5000).min(49) as u8;
    assert!(written.iter().enumerate().all(|(at, byte)| *byte == by(at)));
}

fn name(path: &std::path::Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

#[test]
fn opens_give_descriptors_and_errors_as_plain_opens_do() {
    let engine = engine();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(folder.path().join("file"), "content").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("out")).unwrap();
    let dir = Arc::new(File::open(folder.path()).unwrap());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let open = |path: &'static CStr| {
        let mode = Mode::from_raw_mode(0o644);
        engine.attempt(Openat::new(Arc::clone(&dir), path, flags, mode)).wait().unwrap().output
    };
    let mut read = String::new();
    std::io::Read::read_to_string(&mut File::from(open(c"file").unwrap()), &mut read).unwrap();
    assert_eq!(read, "content");
    for _ in 0..2 {
        // Not known not to be there, and then known.
        assert_eq!(open(c"none").unwrap_err(), Errno::NOENT);
    }
    assert_eq!(open(c"file/below").unwrap_err(), Errno::NOTDIR);
    let beneath = Openat2::new(dir, c"out", flags, Mode::empty(), ResolveFlags::BENEATH);
    assert_eq!(engine.attempt(beneath).wait().unwrap().output.unwrap_err(), Errno::XDEV);
    let path = name(&folder.path().join("file"));
    let absolute = engine.attempt(Openat::new(CWD, path, flags, Mode::empty())).wait().unwrap();
    assert!(absolute.output.is_ok());
}

#[test]
fn an_open_that_could_wait_for_a_fifo_is_not_tried() {
    let mut open = Openat::new(CWD, c"/etc/passwd", OFlags::RDONLY, Mode::empty());
    let Err(NotMade::Cannot(cannot)) = attempt(&mut open) else { panic!("tried") };
    let text = cannot.to_string();
    assert!(text.contains("openat (257)") && text.contains("add O_NONBLOCK"), "{text}");
    for flags in [OFlags::CREATE, OFlags::TRUNC, OFlags::TMPFILE] {
        let flags = flags | OFlags::RDWR | OFlags::NONBLOCK;
        let mut open = Openat::new(CWD, c"/tmp", flags, Mode::empty());
        assert!(matches!(attempt(&mut open), Err(NotMade::Cannot(_))), "{flags:?}");
    }
}

#[test]
fn a_statx_of_a_path_is_not_tried_and_one_of_a_descriptor_is() {
    let temporary = file(&content());
    let mask = StatxFlags::BASIC_STATS;
    let mut by_path = Statx::new(CWD, name(temporary.path()), AtFlags::empty(), mask);
    let Err(NotMade::Cannot(cannot)) = attempt(&mut by_path) else { panic!("tried") };
    assert!(cannot.to_string().contains("AT_STATX_DONT_SYNC"), "{cannot}");
    let mut by_descriptor = Statx::new(&temporary, c"", AtFlags::EMPTY_PATH, mask);
    // The folder may be on a file system that asks a server.
    match attempt(&mut by_descriptor) {
        Ok(result) => {
            result.unwrap();
            assert_eq!(by_descriptor.attributes().unwrap().size(), BYTES as u64);
        }
        Err(NotMade::WouldSleep) => {
            println!("skipped: the build's folder is on no local file system")
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn calls_without_such_a_form_are_submitted_and_say_why() {
    let engine = engine();
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let mut write = WriteOp::new(&writer, b"by a thread");
    let Err(NotMade::Cannot(cannot)) = attempt(&mut write) else { panic!("tried") };
    assert!(cannot.to_string().contains("position"), "{cannot}");
    let attempt = engine.attempt(WriteOp::new(OwnedFd::from(writer), b"by a thread"));
    assert!(!attempt.is_made());
    assert_eq!(attempt.wait().unwrap().output, Ok(11));
    assert_eq!(Read::new(&reader, [0; 32]).call(), Ok(11));
    assert!(engine.attempt(Getppid::new()).is_made());
}

#[test]
fn a_socket_is_asked_without_waiting_and_handed_over() {
    let engine = engine();
    let (one, mut other) = UnixStream::pair().unwrap();
    let recv = |flags| Recv::new(one.try_clone().unwrap(), flags, [0; 16]);
    let none = RecvFlags::empty();
    assert_eq!(attempt(&mut recv(none)), Err(NotMade::WouldSleep));
    let waiting = engine.attempt(recv(none));
    assert!(!waiting.is_made());
    other.write_all(b"later").unwrap();
    let received = waiting.wait().unwrap();
    assert_eq!(received.operation.filled(), b"later");
    other.write_all(b"at once").unwrap();
    assert_eq!(engine.attempt(recv(none)).made().unwrap().output, Ok(7));
    // A socket that does not wait answers itself.
    one.set_nonblocking(true).unwrap();
    assert_eq!(attempt(&mut recv(none)), Ok(Err(Errno::AGAIN)));
    one.set_nonblocking(false).unwrap();
    assert_eq!(attempt(&mut recv(RecvFlags::DONTWAIT)), Ok(Err(Errno::AGAIN)));
    assert!(matches!(attempt(&mut recv(RecvFlags::WAITALL)), Err(NotMade::Cannot(_))));
    let mut send = Send::new(&one, b"out", SendFlags::empty());
    assert_eq!(attempt(&mut send), Ok(Ok(3)));
}

#[test]
fn a_listening_socket_is_tried_only_if_it_does_not_wait() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let accept = || Accept4::new(&listener, SocketFlags::CLOEXEC);
    assert!(matches!(attempt(&mut accept()), Err(NotMade::Cannot(_))));
    listener.set_nonblocking(true).unwrap();
    assert!(matches!(attempt(&mut accept()), Ok(Err(Errno::AGAIN))));
    let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    assert!(matches!(attempt(&mut accept()), Ok(Ok(_))));
}

#[test]
fn a_pipe_that_does_not_wait_answers_itself() {
    let (reader, _writer) = kumiki_sys::descriptors::pipe().unwrap();
    rustix::io::ioctl_fionbio(&reader, true).unwrap();
    match attempt(&mut Read::new(&reader, [0; 8])) {
        Ok(answer) => assert_eq!(answer, Err(Errno::AGAIN)),
        // Pipes know the flag since Linux 6.4.
        Err(NotMade::NotHere(errno)) => assert_eq!(errno, Errno::OPNOTSUPP),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn an_allow_list_without_the_tried_form_has_the_plain_call_made() {
    let only = AllowList::none().allow("pread64").unwrap();
    let engine = Engine::new(&Config { allow: Some(only), ..Config::default() }).unwrap();
    let temporary = file(&content());
    let read = engine.attempt(Pread::new(temporary.reopen().unwrap(), 0, [0; 16]));
    assert!(!read.is_made());
    assert_eq!(read.wait().unwrap().output, Ok(16));
    let refused = engine.attempt(Getppid::new()).wait();
    assert!(refused.unwrap_err().to_string().contains("allow-list"));
}

#[test]
fn a_read_from_the_disk_itself_is_made_by_a_thread_that_may_sleep() {
    let engine = engine();
    let temporary = file(&content());
    temporary.as_file().sync_all().unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(temporary.path(), flags, Mode::empty()) else {
        println!("skipped: the file system has no O_DIRECT");
        return;
    };
    let file = Arc::new(file);
    #[repr(align(4096))]
    struct Aligned([u8; 65_536]);
    // SAFETY: the bytes are the box's own.
    unsafe impl kumiki_parasc::op::BufferMut for Aligned {
        fn spare(&mut self) -> (*mut u8, usize) {
            (self.0.as_mut_ptr(), self.0.len())
        }

        unsafe fn advance(&mut self, _: usize) {}

        unsafe fn filled(&self, count: usize) -> &[u8] {
            &self.0[..count]
        }
    }
    for _ in 0..3 {
        let read = Pread::new(Arc::clone(&file), 0, Box::new(Aligned([0; 65_536])));
        let read = engine.attempt(read).wait().unwrap();
        assert_eq!(read.output, Ok(65_536));
        assert!(read.operation.filled() == &content()[..65_536]);
    }
}

#[test]
fn an_attempt_is_waited_for_so_long_and_taken_back_as_a_pending_is() {
    let engine = Engine::new(&Config { threads: 1, ..Config::default() }).unwrap();
    let file = file(b"cached");
    let made = engine.attempt(Pread::new(file.as_file().try_clone().unwrap(), 0, [0; 6]));
    if made.is_made() {
        assert!(made.is_done());
        let made = made.cancel().expect_err("its call was made");
        let completed = made.wait_timeout(Duration::ZERO).unwrap().unwrap();
        assert_eq!(completed.output, Ok(6));
    }
    // The thread waits at a pipe: what comes then is begun by nobody.
    let (reader, first_writer) = rustix::pipe::pipe().unwrap();
    let first = engine.attempt(Read::new(reader, [0; 2]));
    let (mut taken, mut left) = (0, Vec::new());
    for _ in 0..200 {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let attempt = engine.attempt(Read::new(reader, [0; 2]));
        assert!(!attempt.is_done());
        match attempt.cancel() {
            Ok(operation) => {
                taken += 1;
                assert_eq!(operation.into_parts().1, [0; 2]);
            }
            Err(attempt) => left.push((attempt, writer)),
        }
    }
    assert!(taken > 0, "all {} were begun", left.len());
    left.push((first, first_writer));
    for (attempt, writer) in left {
        let attempt = attempt.wait_timeout(Duration::ZERO).expect_err("the pipe is empty");
        rustix::io::write(&writer, b"ok").unwrap();
        let completed = attempt.wait_timeout(Duration::MAX).unwrap().unwrap();
        assert_eq!(completed.output, Ok(2));
    }
}
