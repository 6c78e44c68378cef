//! One region attached to two processes.

use std::env;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use kumiki_resource::{Attach, Handle, Interface, Region, RegionSpec, Space, UserSpace};
use kumiki_sys::shm::Huge;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Says to the second process that it is the one.
const SECOND: &str = "KUMIKI_TEST_SECOND";
const BYTES: usize = 64 << 10;
const ROUNDS: u64 = 1000;

fn send(socket: &UnixStream, fd: OwnedFd) {
    let fds = [fd.as_fd()];
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut room);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(socket, &[IoSlice::new(b"r")], &mut ancillary, SendFlags::empty()).unwrap();
}

fn receive(socket: &UnixStream) -> OwnedFd {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let (mut byte, flags) = ([0], RecvFlags::CMSG_CLOEXEC);
    recvmsg(socket, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags).unwrap();
    let messages = ancillary.drain();
    let mut passed = messages.filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    passed.next().expect("a descriptor came")
}

fn attached(interface: &Interface, spec: RegionSpec) -> (Handle<Region>, Handle<UserSpace>) {
    let place = interface.places()[0];
    let region = interface.create::<Region>(place, Some("both"), spec).unwrap();
    let space = interface.create::<Space>(place, None, 1 << 20).unwrap();
    let user = interface.attach(place, None, &region, &space, Attach::default()).unwrap();
    (region, user)
}

/// Takes its turn at a counter in the region, odd or even.
fn count(interface: &Interface, user: &Handle<UserSpace>, odd: u64) {
    let at = interface.with(user, |user, _| user.as_ptr().expose_provenance()).unwrap();
    // SAFETY: of the attachment, which stays; all use it by atomics.
    let counter = unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(at)) };
    while counter.load(Ordering::Acquire) < ROUNDS {
        if counter.load(Ordering::Acquire) % 2 == odd {
            counter.fetch_add(1, Ordering::AcqRel);
        } else {
            std::thread::yield_now();
        }
    }
}

#[test]
fn one_region_attached_to_two_processes() {
    let interface = Interface::builder().standard().per_core().unwrap();
    if env::var_os(SECOND).is_some() {
        return second(&interface);
    }
    let spec = RegionSpec::Memory { bytes: BYTES, huge: Huge::Policy };
    let (region, user) = attached(&interface, spec);
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "passed::one_region_attached_to_two_processes"])
        .env(SECOND, "1")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    send(&ours, interface.with(&region, |region, _| region.descriptor()).unwrap().unwrap());
    count(&interface, &user, 0);
    interface.with(&user, |user, _| user.write(BYTES - 5, b"first")).unwrap().unwrap();
    ours.write_all(b"w").unwrap();
    assert!(child.wait().unwrap().success());
    let mut word = [0; 6];
    interface.with(&user, |user, _| user.read(BYTES - 11, &mut word)).unwrap().unwrap();
    assert_eq!(&word, b"second");
}

fn second(interface: &Interface) {
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().unwrap());
    let (_, user) = attached(interface, RegionSpec::Passed(receive(&socket)));
    count(interface, &user, 1);
    socket.read_exact(&mut [0]).unwrap();
    let mut word = [0; 5];
    interface.with(&user, |user, _| user.read(BYTES - 5, &mut word)).unwrap().unwrap();
    assert_eq!(&word, b"first");
    interface.with(&user, |user, _| user.write(BYTES - 11, b"second")).unwrap().unwrap();
}
