use std::fs::File;
use std::io::{self, Write};
use std::mem::offset_of;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::sync::Arc;

use kumiki_parasc::op::{CWD, Errno, Operation, Recvmsg, Sendmsg};
use rustix::cmsg_space;
use rustix::io::{FdFlags, fcntl_getfd};
use rustix::net::{RecvFlags, ReturnFlags, SendFlags, sockopt};
use rustix::process::{getgid, getpid, getuid};

use super::execute;

const LOOPBACK: &str = "127.0.0.1:0";
const NONE: SendFlags = SendFlags::empty();
/// A test that finds nothing fails, and does not hang.
const NOW: RecvFlags = RecvFlags::DONTWAIT;

#[test]
fn a_datagram_is_gathered_and_scattered_and_tells_its_sender() {
    let (one, other) = (UdpSocket::bind(LOOPBACK).unwrap(), UdpSocket::bind(LOOPBACK).unwrap());
    let there = other.local_addr().unwrap();
    let mut send = Sendmsg::new(&one, vec!["data", "", "gram"], NONE).to(&there);
    assert_eq!(execute(&mut send), Ok(8));
    let mut recv = Recvmsg::new(&other, NOW, vec![[0; 3], [0; 3], [0; 3], [0; 3]]);
    assert_eq!((recv.sender(), recv.flags()), (None, ReturnFlags::empty()));
    assert_eq!(execute(&mut recv), Ok(8));
    assert!(recv.filled().eq([&b"dat"[..], b"agr", b"am", b""]));
    let sender: SocketAddr = recv.sender().unwrap().try_into().unwrap();
    assert_eq!((sender, recv.flags()), (one.local_addr().unwrap(), ReturnFlags::empty()));

    // Nothing more: nothing is left of what there was.
    assert_eq!(execute(&mut recv), Err(Errno::AGAIN));
    assert!(recv.filled().all(<[u8]>::is_empty));
    assert_eq!((recv.sender(), recv.control()), (None, &b""[..]));

    // Cut off, and told how long it was.
    assert_eq!(execute(&mut send), Ok(8));
    let buffers = vec![Vec::with_capacity(2), Vec::with_capacity(3)];
    let mut recv = Recvmsg::new(&other, NOW | RecvFlags::TRUNC, buffers);
    assert_eq!(execute(&mut recv), Ok(8));
    assert_eq!(recv.flags() & ReturnFlags::TRUNC, ReturnFlags::TRUNC);
    assert_eq!(recv.into_parts().1, [&b"da"[..], b"tag"]);
}

#[test]
fn a_connection_has_no_sender_and_an_end() {
    let (one, other) = UnixStream::pair().unwrap();
    let mut send = Sendmsg::new(&one, vec!["ab", "c"], NONE);
    assert_eq!(execute(&mut send), Ok(3));
    let mut recv = Recvmsg::new(&other, NOW, vec![[0; 2], [0; 2]]);
    assert_eq!(execute(&mut recv), Ok(3));
    assert!(recv.filled().eq([&b"ab"[..], b"c"]) && recv.sender().is_none());
    let (_, data, _) = send.into_parts();
    assert_eq!(data, ["ab", "c"]);
    drop(one);
    assert_eq!(execute(&mut recv), Ok(0));
    assert_eq!(execute(&mut Sendmsg::new(&other, vec!["x"], NONE)), Err(Errno::PIPE));
}

/// Whether somebody has a pipe's reader still.
fn is_read(mut writer: &File) -> bool {
    match writer.write_all(b"x") {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
            false
        }
    }
}

/// A socket in which descriptors wait, and what writes to those.
fn sent<const N: usize>() -> (UnixStream, [File; N]) {
    let (one, other) = UnixStream::pair().unwrap();
    let pipes: [(File, File); N] =
        std::array::from_fn(|_| kumiki_sys::descriptors::pipe().unwrap());
    let (readers, writers): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
    let mut send = Sendmsg::new(one, vec!["x"], NONE).with_descriptors(readers);
    assert_eq!(execute(&mut send), Ok(1));
    (other, writers.try_into().unwrap())
}

#[test]
fn descriptors_are_passed_to_whoever_takes_them() {
    let (socket, [first, second]) = sent();
    let mut recv =
        Recvmsg::new(&socket, NOW, vec![[0; 8]]).with_control_room(cmsg_space!(ScmRights(2)));
    assert_eq!(execute(&mut recv), Ok(1));
    assert_eq!(recv.flags(), ReturnFlags::empty());
    let taken: [OwnedFd; 2] = recv.take_descriptors().try_into().unwrap();
    assert!(recv.take_descriptors().is_empty());
    drop(recv);
    // In their order.
    let [one, other] = taken;
    assert_eq!(fcntl_getfd(&one), Ok(FdFlags::empty()));
    drop(one);
    assert!(!is_read(&first) && is_read(&second));
    drop(other);
    assert!(!is_read(&second));
}

#[test]
fn descriptors_that_nobody_takes_are_closed() {
    let receive = |socket| {
        let mut recv = Recvmsg::new(socket, NOW | RecvFlags::CMSG_CLOEXEC, vec![[0; 8]])
            .with_control_room(cmsg_space!(ScmRights(1)));
        assert_eq!(execute(&mut recv), Ok(1));
        recv
    };
    let (socket, [writer]) = sent();
    let recv = receive(socket);
    assert!(is_read(&writer));
    drop(recv);
    assert!(!is_read(&writer));

    let (socket, [writer]) = sent();
    let mut recv = receive(socket);
    assert!(is_read(&writer));
    recv.request();
    assert!(!is_read(&writer));

    let (socket, [_writer]) = sent();
    let mut recv = receive(socket);
    assert_eq!(fcntl_getfd(&recv.take_descriptors()[0]), Ok(FdFlags::CLOEXEC));
}

#[test]
fn descriptors_without_room_are_closed_and_told_of() {
    let (socket, [writer]) = sent();
    let mut recv = Recvmsg::new(socket, NOW, vec![[0; 8]]);
    assert_eq!(execute(&mut recv), Ok(1));
    assert_eq!((recv.flags(), recv.control()), (ReturnFlags::CTRUNC, &b""[..]));
    assert!(!is_read(&writer));

    // A header and one descriptor: eight bytes of room take two.
    let (socket, [first, second, third]) = sent();
    let mut recv = Recvmsg::new(socket, NOW, vec![[0; 8]]).with_control_room(20);
    assert_eq!(execute(&mut recv), Ok(1));
    assert_eq!((recv.flags(), recv.take_descriptors().len()), (ReturnFlags::CTRUNC, 2));
    assert!(!is_read(&first) && !is_read(&second) && !is_read(&third));
}

/// A control message without what fills it up to the next one.
fn message(level: i32, kind: i32, data: &[u8]) -> Vec<u8> {
    assert_eq!(offset_of!(libc::cmsghdr, cmsg_type), 12);
    let length = size_of::<libc::cmsghdr>() + data.len();
    let head = [level.to_ne_bytes(), kind.to_ne_bytes()].concat();
    [&length.to_ne_bytes(), &head[..], data].concat()
}

#[test]
fn control_messages_of_the_callers_travel_with_descriptors() {
    let (one, other) = UnixDatagram::pair().unwrap();
    sockopt::set_socket_passcred(&other, true).unwrap();
    let me = [getpid().as_raw_pid() as u32, getuid().as_raw(), getgid().as_raw()];
    let me: Vec<u8> = me.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let credentials = message(libc::SOL_SOCKET, libc::SCM_CREDENTIALS, &me);
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let reader = Arc::new(OwnedFd::from(reader));

    let send = Sendmsg::new(&one, vec!["x"], NONE).with_descriptors(vec![reader.clone()]);
    // SAFETY: neither descriptors nor addresses.
    let mut send = unsafe { send.with_control(credentials.clone()) };
    // Twice: the descriptor is not added again.
    for _ in 0..2 {
        assert_eq!(execute(&mut send), Ok(1));
        let room = cmsg_space!(ScmCredentials(1), ScmRights(1));
        let mut recv = Recvmsg::new(&other, NOW, vec![[0; 8]]).with_control_room(room);
        assert_eq!(execute(&mut recv), Ok(1));
        assert_eq!(recv.flags(), ReturnFlags::empty());
        assert!(recv.control().windows(credentials.len()).any(|bytes| bytes == credentials));
        assert_eq!(recv.take_descriptors().len(), 1);
    }
    let (_, _, descriptors) = send.into_parts();
    drop((reader, descriptors));
    assert!(!is_read(&writer));
}

#[test]
fn an_operation_may_move_after_a_request() {
    let (one, other) = UnixDatagram::pair().unwrap();
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let mut send =
        Sendmsg::new(one, vec![[b'a'; 2], [b'b'; 2]], NONE).with_descriptors(vec![reader.as_fd()]);
    let before = send.request();
    let mut send = Box::new(send);
    assert_ne!(send.request(), before);
    assert_eq!(execute(&mut *send), Ok(4));
    let mut recv =
        Recvmsg::new(other, NOW, vec![[0; 3], [0; 3]]).with_control_room(cmsg_space!(ScmRights(1)));
    let before = recv.request();
    let mut recv = Box::new(recv);
    assert_ne!(recv.request(), before);
    assert_eq!(execute(&mut *recv), Ok(4));
    assert!(recv.filled().eq([&b"aab"[..], b"b"]));
    drop(reader);
    assert!(is_read(&writer));
    drop(recv);
    assert!(!is_read(&writer));
}

#[test]
fn errors_pass_through() {
    let (one, other) = UnixStream::pair().unwrap();
    let send = |descriptors| {
        execute(&mut Sendmsg::new(&one, vec!["x"], NONE).with_descriptors(descriptors))
    };
    assert_eq!(send(vec![CWD]), Err(Errno::BADF));
    assert_eq!(send(vec![one.as_fd(); 254]), Err(Errno::INVAL));
    assert_eq!(send(vec![one.as_fd(); 253]), Ok(1));
    let too_short = message(libc::SOL_SOCKET, libc::SCM_CREDENTIALS, b"me");
    let send = Sendmsg::new(&one, vec!["x"], NONE);
    // SAFETY: neither descriptors nor addresses.
    assert_eq!(execute(&mut unsafe { send.with_control(too_short) }), Err(Errno::INVAL));
    let mut many = Sendmsg::new(&one, vec!["x"; 1025], NONE);
    assert_eq!(execute(&mut many), Err(Errno::MSGSIZE));
    let mut many = Recvmsg::new(&other, NOW, vec![[0; 1]; 1025]);
    assert_eq!(execute(&mut many), Err(Errno::MSGSIZE));
    let file = tempfile::tempfile().unwrap();
    assert_eq!(execute(&mut Sendmsg::new(&file, vec!["x"], NONE)), Err(Errno::NOTSOCK));
    assert_eq!(execute(&mut Recvmsg::new(&file, NOW, vec![[0; 1]])), Err(Errno::NOTSOCK));
}
