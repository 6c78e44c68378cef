use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use kumiki_parasc::op::{Errno, Pipe2, Socketpair};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{FdFlags, fcntl_getfd};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;

use super::{completed, execute, submit};

#[test]
fn a_pipe_leads_from_one_end_to_the_other() {
    let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
    let (reader, writer) = completed(Pipe2::new(flags)).output.unwrap();
    for end in [&reader, &writer] {
        assert_eq!(fcntl_getfd(end), Ok(FdFlags::CLOEXEC));
        assert!(fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK));
    }
    let (mut reader, mut writer) = (File::from(reader), File::from(writer));
    writer.write_all(b"through").unwrap();
    let mut read = [0; 16];
    assert_eq!(reader.read(&mut read).unwrap(), 7);
    assert_eq!(read[..7], *b"through");
    drop(reader);
    assert_eq!(writer.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);

    let unknown = PipeFlags::from_bits_retain(1 << 30);
    assert_eq!(execute(&mut Pipe2::new(unknown)).unwrap_err(), Errno::INVAL);
}

#[test]
fn the_sockets_of_a_pair_are_connected() {
    let pair = |family, flags| Socketpair::new(family, SocketType::STREAM, flags, None);
    let flags = SocketFlags::CLOEXEC;
    let (one, other) = completed(pair(AddressFamily::UNIX, flags)).output.unwrap();
    assert_eq!(
        (fcntl_getfd(&one), fcntl_getfd(&other)),
        (Ok(FdFlags::CLOEXEC), Ok(FdFlags::CLOEXEC))
    );
    let (one, other) = (UnixStream::from(one), UnixStream::from(other));
    for (from, to) in [(&one, &other), (&other, &one)] {
        let (mut from, mut to, mut read) = (from, to, [0; 5]);
        from.write_all(b"bytes").unwrap();
        to.read_exact(&mut read).unwrap();
        assert_eq!(read, *b"bytes");
    }

    let mut inet = pair(AddressFamily::INET, flags);
    assert_eq!(execute(&mut inet).unwrap_err(), Errno::OPNOTSUPP);
}

/// The pipe whose end to write to has `O_DIRECT`, as no other test's has.
fn direct_pipe() -> Option<PathBuf> {
    fs::read_dir("/proc/self/fdinfo").unwrap().find_map(|file| {
        // Other tests close theirs meanwhile.
        let file = file.unwrap();
        let info = fs::read_to_string(file.path()).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let is_direct = u32::from_str_radix(flags.trim(), 8).unwrap() & OFlags::DIRECT.bits() != 0;
        let link = Path::new("/proc/self/fd").join(file.file_name());
        if is_direct { fs::read_link(link).ok() } else { None }
    })
}

/// How many descriptors lead to the pipe.
fn ends(pipe: &Path) -> usize {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    links
        .filter(|link| fs::read_link(link.as_ref().unwrap().path()).is_ok_and(|to| to == pipe))
        .count()
}

#[test]
fn a_pair_that_nobody_takes_is_closed() {
    let until = |is_true: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !is_true() {
            assert!(begin.elapsed() < Duration::from_secs(120));
            thread::sleep(Duration::from_millis(1));
        }
    };
    let pending = submit(Pipe2::new(PipeFlags::CLOEXEC | PipeFlags::DIRECT));
    until(&|| pending.is_done());
    let pipe = direct_pipe().unwrap();
    assert_eq!(ends(&pipe), 2);
    drop(pending);
    // By the thread that has made the call, if that is not over with it.
    until(&|| ends(&pipe) == 0);
}
