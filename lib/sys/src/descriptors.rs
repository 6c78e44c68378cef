//! Descriptors that go with bytes over a Unix socket (`SCM_RIGHTS`, unix(7)), and pipes.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Descriptors that one message takes at most: the kernel's own limit (`SCM_MAX_FD`).
pub const MOST: usize = 253;

/// A pipe, its reader and its writer, closed at exec: std's asks for Rust 1.87.
///
/// # Errors
/// The kernel's.
pub fn pipe() -> Result<(File, File), Errno> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    Ok((reader.into(), writer.into()))
}

/// Sends bytes, and duplicates of these descriptors with the first of them; returns how many bytes
/// went. A signal does not end the wait, and a peer that is gone sends none.
///
/// # Errors
/// The kernel's; `EINVAL` for more descriptors than [`MOST`].
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::INVAL);
    }
    let part = [IoSlice::new(bytes)];
    retry_on_intr(|| sendmsg(&socket, &part, &mut control, SendFlags::NOSIGNAL))
}

/// Receives bytes and the descriptors that come with them, closed at exec; returns how many bytes
/// came, 0 once the peer is gone. A signal does not end the wait.
///
/// # Errors
/// The kernel's.
pub fn receive(socket: impl AsFd, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut part = [IoSliceMut::new(bytes)];
    let got = retry_on_intr(|| recvmsg(&socket, &mut part, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            fds.extend(some);
        }
    }
    Ok((got.bytes, fds))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::unix::net::UnixStream;

    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::io::{FdFlags, fcntl_getfd};

    use super::*;

    #[test]
    fn descriptors_arrive_with_their_bytes_and_are_closed_at_exec() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut file = File::from(memfd_create("passed", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(b"content").unwrap();
        file.rewind().unwrap();
        let many = vec![file.as_fd(); MOST];
        assert_eq!(send(&near, b"one", &many), Ok(3));
        assert_eq!(send(&near, b"two", &[]), Ok(3));
        let mut bytes = [0; 16];
        let (count, fds) = receive(&far, &mut bytes).unwrap();
        assert_eq!((&bytes[..count], fds.len()), (&b"one"[..], MOST));
        assert!(fds.iter().all(|fd| fcntl_getfd(fd).unwrap().contains(FdFlags::CLOEXEC)));
        let mut content = String::new();
        File::from(fds.into_iter().next().unwrap()).read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
        let (count, fds) = receive(&far, &mut bytes).unwrap();
        assert_eq!((&bytes[..count], fds.len()), (&b"two"[..], 0));
        assert_eq!(send(&near, b"x", &vec![file.as_fd(); MOST + 1]), Err(Errno::INVAL));
        drop(near);
        assert_eq!(receive(&far, &mut bytes).map(|(count, fds)| (count, fds.len())), Ok((0, 0)));
    }

    #[test]
    fn who_sends_to_nobody_is_told() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        assert_eq!(send(&near, b"one", &[]), Err(Errno::PIPE));
    }

    #[test]
    fn a_signal_ends_no_wait() {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: all zeroes is an action; without SA_RESTART a call that waits is interrupted.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
        // SAFETY: the handler does nothing, and no other test uses this signal.
        let set =
            unsafe { libc::sigaction(libc::SIGWINCH, &raw const action, std::ptr::null_mut()) };
        assert_eq!(set, 0);
        let (near, far) = UnixStream::pair().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let waits = std::thread::spawn(move || {
            // SAFETY: takes nothing.
            tell.send((rustix::thread::gettid(), unsafe { libc::pthread_self() })).unwrap();
            receive(&far, &mut [0]).map(|(count, _)| count)
        });
        let (number, thread) = told.recv().unwrap();
        let stat = format!("/proc/self/task/{number}/stat");
        for _ in 0..3 {
            while !std::fs::read_to_string(&stat).unwrap().contains(") S ") {
                std::thread::yield_now();
            }
            // SAFETY: it is not joined.
            assert_eq!(unsafe { libc::pthread_kill(thread, libc::SIGWINCH) }, 0);
        }
        assert_eq!(send(&near, b"x", &[]), Ok(1));
        assert_eq!(waits.join().unwrap(), Ok(1));
    }
}
