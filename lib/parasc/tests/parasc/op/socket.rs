use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use kumiki_parasc::op::{
    Accept4, Bind, Connect, Errno, Getpeername, Getsockname, Getsockopt, Listen, Recv, Recvfrom,
    Recvmsg, Send, Sendto, Setsockopt, ShutdownSocket, Socket,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrAny, SocketAddrUnix, SocketFlags,
    SocketType, getsockname,
};

use super::{completed, execute};

const LOOPBACK: &str = "127.0.0.1:0";

fn socket(kind: SocketType) -> OwnedFd {
    let (family, flags) = (AddressFamily::INET, SocketFlags::CLOEXEC);
    execute(&mut Socket::new(family, kind, flags, None)).unwrap()
}

fn address(any: SocketAddrAny) -> SocketAddr {
    any.try_into().unwrap()
}

#[test]
fn a_connection_is_made_used_and_ended() {
    let any: SocketAddr = LOOPBACK.parse().unwrap();
    let listener = socket(SocketType::STREAM);
    assert_eq!(execute(&mut Bind::new(&listener, &any)), Ok(()));
    assert_eq!(execute(&mut Bind::new(&listener, &any)), Err(Errno::INVAL));
    assert_eq!(execute(&mut Listen::new(&listener, 4)), Ok(()));
    let server = address(getsockname(&listener).unwrap());

    let client = socket(SocketType::STREAM);
    assert_eq!(execute(&mut Connect::new(&client, &server)), Ok(()));
    assert_eq!(execute(&mut Connect::new(&client, &server)), Err(Errno::ISCONN));
    let mut accept = Accept4::new(&listener, SocketFlags::CLOEXEC);
    assert_eq!(accept.peer(), None);
    let accepted = execute(&mut accept).unwrap();
    assert_eq!(address(accept.peer().unwrap()), address(getsockname(&client).unwrap()));

    let none = SendFlags::NOSIGNAL;
    assert_eq!(execute(&mut Send::new(&client, b"request", none)), Ok(7));
    let mut recv = Recvfrom::new(&accepted, RecvFlags::empty(), [0; 64]);
    assert_eq!(execute(&mut recv), Ok(7));
    assert_eq!((recv.filled(), recv.sender()), (&b"request"[..], None));

    assert_eq!(execute(&mut ShutdownSocket::new(&client, Shutdown::Write)), Ok(()));
    assert_eq!(execute(&mut Send::new(&client, b"x", none)), Err(Errno::PIPE));
    assert_eq!(execute(&mut Recv::new(&accepted, RecvFlags::empty(), [0; 1])), Ok(0));
    let fresh = socket(SocketType::STREAM);
    assert_eq!(execute(&mut ShutdownSocket::new(&fresh, Shutdown::Read)), Err(Errno::NOTCONN));
}

#[test]
fn datagrams_tell_their_sender() {
    let (one, other) = (UdpSocket::bind(LOOPBACK).unwrap(), UdpSocket::bind(LOOPBACK).unwrap());
    let there = other.local_addr().unwrap();
    let none = SendFlags::empty();
    assert_eq!(execute(&mut Sendto::new(&one, b"datagram", none, &there)), Ok(8));
    let mut recv = Recvfrom::new(&other, RecvFlags::empty(), vec![0; 64].into_boxed_slice());
    assert_eq!(execute(&mut recv), Ok(8));
    assert_eq!(recv.filled(), b"datagram");
    assert_eq!(address(recv.sender().unwrap()), one.local_addr().unwrap());

    // Cut off, and told how long it was.
    assert_eq!(execute(&mut Sendto::new(&one, b"datagram", none, &there)), Ok(8));
    let mut recv = Recv::new(&other, RecvFlags::TRUNC, Vec::with_capacity(3));
    assert_eq!(execute(&mut recv), Ok(8));
    assert_eq!(recv.filled(), b"dat");

    // Shorter than the room, which is not looked at behind it.
    assert_eq!(execute(&mut Sendto::new(&one, b"datagram", none, &there)), Ok(8));
    let mut recv = Recvfrom::new(&other, RecvFlags::TRUNC, Vec::with_capacity(64));
    assert_eq!(execute(&mut recv), Ok(8));
    assert_eq!(recv.filled(), b"datagram");

    let mut recv = Recvfrom::new(&other, RecvFlags::DONTWAIT, [0; 8]);
    assert_eq!(execute(&mut recv), Err(Errno::AGAIN));
    assert_eq!((recv.filled(), recv.sender()), (&b""[..], None));
    assert_eq!(execute(&mut Send::new(&one, b"x", none)), Err(Errno::DESTADDRREQ));
    let other_family: SocketAddr = "[::1]:9".parse().unwrap();
    let mut sendto = Sendto::new(&one, b"x", none, &other_family);
    assert_eq!(execute(&mut sendto), Err(Errno::AFNOSUPPORT));
}

/// TCP counts what it throws away, and writes nothing: what was in the memory
/// before must not be taken for received.
#[test]
fn bytes_thrown_away_are_zeros() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let send = || {
        let mut send = Send::new(&client, [b'x'; 8], SendFlags::NOSIGNAL);
        assert_eq!(execute(&mut send), Ok(8));
    };
    let flags = RecvFlags::TRUNC;
    let old = || [MaybeUninit::new(b'?'); 8];

    send();
    let mut recv = Recv::new(&server, flags, old());
    assert_eq!(execute(&mut recv), Ok(8));
    assert_eq!(recv.filled(), [0; 8]);
    send();
    let mut recv = Recvfrom::new(&server, flags, old());
    assert_eq!(execute(&mut recv), Ok(8));
    assert_eq!(recv.filled(), [0; 8]);
    send();
    let mut recv = Recvmsg::new(&server, flags, vec![old(), old()]);
    assert_eq!(execute(&mut recv), Ok(8));
    assert!(recv.filled().eq([&[0; 8][..], b""]));

    // The spare room of a vector, which then is longer.
    send();
    let mut buffer = b"head????????".to_vec();
    buffer.truncate(4);
    let mut recv = Recv::new(&server, flags, &mut buffer);
    assert_eq!(execute(&mut recv), Ok(8));
    assert_eq!(buffer, b"head\0\0\0\0\0\0\0\0");

    // All four times the bytes were taken.
    send();
    let mut recv = Recv::new(&server, RecvFlags::empty(), [0; 64]);
    assert_eq!(execute(&mut recv), Ok(8));
    assert_eq!(recv.filled(), [b'x'; 8]);
}

#[test]
fn a_peer_without_a_name_has_an_address_without_one() {
    let folder = tempfile::TempDir::new().unwrap();
    let name = SocketAddrUnix::new(folder.path().join("socket")).unwrap();
    let new = || {
        let (family, flags) = (AddressFamily::UNIX, SocketFlags::NONBLOCK);
        execute(&mut Socket::new(family, SocketType::STREAM, flags, None)).unwrap()
    };
    let (listener, client) = (new(), new());
    assert_eq!(execute(&mut Connect::new(&client, &name)), Err(Errno::NOENT));
    assert_eq!(execute(&mut Bind::new(&listener, &name)), Ok(()));
    assert_eq!(execute(&mut Listen::new(&listener, 1)), Ok(()));
    assert_eq!(execute(&mut Connect::new(&client, &name)), Ok(()));
    let mut accept = Accept4::new(&listener, SocketFlags::NONBLOCK);
    execute(&mut accept).unwrap();
    assert_eq!(accept.peer().unwrap().address_family(), AddressFamily::UNIX);
    assert_eq!(execute(&mut accept).unwrap_err(), Errno::AGAIN);
    assert_eq!(accept.peer(), None);
}

#[test]
fn a_socket_tells_its_address_and_its_peers() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (own, peer) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
    let client = std::sync::Arc::new(client);
    let told = completed(Getsockname::new(client.clone())).output;
    assert_eq!(address(told.unwrap().unwrap()), own);
    let told = completed(Getpeername::new(client)).output;
    assert_eq!(address(told.unwrap().unwrap()), peer);

    let (one, _other) = UnixStream::pair().unwrap();
    let told = execute(&mut Getsockname::new(&one)).unwrap().unwrap();
    assert_eq!((told.address_family(), told.addr_len()), (AddressFamily::UNIX, 2));
    assert_eq!(execute(&mut Getpeername::new(&listener)).unwrap_err(), Errno::NOTCONN);
    let file = tempfile::tempfile().unwrap();
    assert_eq!(execute(&mut Getsockname::new(&file)).unwrap_err(), Errno::NOTSOCK);
}

#[test]
fn options_are_set_and_told() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let (level, reuse) = (libc::SOL_SOCKET, libc::SO_KEEPALIVE);
    // SAFETY: an int.
    let mut set = unsafe { Setsockopt::new(&listener, level, reuse, 1i32.to_ne_bytes()) };
    assert_eq!(execute(&mut set), Ok(()));
    // SAFETY: an int.
    let mut get = unsafe { Getsockopt::new(&listener, level, reuse, [0; 16]) };
    assert_eq!(execute(&mut get), Ok(4));
    assert_eq!(get.filled(), 1i32.to_ne_bytes());
    // SAFETY: too short to be looked at.
    let mut set = unsafe { Setsockopt::new(&listener, level, reuse, [1]) };
    assert_eq!(execute(&mut set), Err(Errno::INVAL));
    // SAFETY: no such option.
    let mut get = unsafe { Getsockopt::new(&listener, level, 9_999, [0; 4]) };
    assert_eq!(execute(&mut get), Err(Errno::NOPROTOOPT));
    assert_eq!(get.filled(), b"");
}

#[test]
fn a_socket_of_no_kind_is_refused() {
    let kind = SocketType::from_raw(15);
    let none = SocketFlags::empty();
    let mut socket = Socket::new(AddressFamily::INET, kind, none, None);
    assert_eq!(execute(&mut socket).unwrap_err(), Errno::INVAL);
    let (pair, _other) = UnixStream::pair().unwrap();
    assert_eq!(execute(&mut Listen::new(&pair, 1)), Err(Errno::INVAL));
    let file = tempfile::tempfile().unwrap();
    assert_eq!(execute(&mut Accept4::new(&file, none)).unwrap_err(), Errno::NOTSOCK);
}
