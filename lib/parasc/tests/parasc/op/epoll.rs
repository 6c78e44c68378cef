use std::io::Write;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use kumiki_parasc::op::{EpollCreate1, EpollCtl, EpollWait, Errno};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventFlags};
use rustix::io::{FdFlags, fcntl_getfd};

use super::{completed, execute, submit};

const IN: EventFlags = EventFlags::IN;

fn list() -> Arc<OwnedFd> {
    Arc::new(completed(EpollCreate1::new(CreateFlags::CLOEXEC)).output.unwrap())
}

#[test]
fn a_list_tells_which_files_have_something() {
    let list = list();
    assert_eq!(fcntl_getfd(&list), Ok(FdFlags::CLOEXEC));
    let (quiet, _writer) = kumiki_sys::descriptors::pipe().unwrap();
    let (reader, mut writer) = UnixStream::pair().unwrap();
    let add =
        |file: OwnedFd, data| completed(EpollCtl::add(list.clone(), Arc::new(file), IN, data));
    assert_eq!(add(quiet.try_clone().unwrap().into(), 1).output, Ok(()));
    assert_eq!(execute(&mut EpollCtl::add(&list, &reader, IN, u64::MAX)), Ok(()));
    let mut wait = EpollWait::new(&list, 8, 0);
    assert_eq!((execute(&mut wait), wait.events().len()), (Ok(0), 0));

    // A future waits meanwhile.
    let pending = submit(EpollWait::new(list.clone(), 8, -1));
    writer.write_all(b"x").unwrap();
    let waited = pending.wait().unwrap();
    assert_eq!(waited.output, Ok(1));
    assert!(waited.operation.events().eq([(u64::MAX, IN)]));
    // As by the library.
    let mut events = Vec::with_capacity(8);
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    epoll::wait(&list, rustix::buffer::spare_capacity(&mut events), Some(&at_once)).unwrap();
    let events: Vec<_> = events.into_iter().map(|event| (event.data.u64(), event.flags)).collect();
    assert_eq!(events, [(u64::MAX, IN)]);

    // Other data, and an event that is told without asking.
    assert_eq!(execute(&mut EpollCtl::modify(&list, &reader, IN, 2)), Ok(()));
    // Also while a child of another test still has that end.
    writer.shutdown(Shutdown::Both).unwrap();
    assert_eq!(execute(&mut wait), Ok(1));
    assert!(wait.events().eq([(2, IN | EventFlags::HUP)]));
    assert_eq!(execute(&mut EpollCtl::delete(&list, &reader)), Ok(()));
    assert_eq!((execute(&mut wait), wait.events().len()), (Ok(0), 0));
}

#[test]
fn a_list_tells_of_no_more_than_there_is_room_for() {
    let list = list();
    let (_reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let others = [writer.try_clone().unwrap(), writer.try_clone().unwrap()];
    for (file, data) in others.iter().zip(0..) {
        assert_eq!(execute(&mut EpollCtl::add(&list, file, EventFlags::OUT, data)), Ok(()));
    }
    let mut wait = EpollWait::new(&list, 1, 0);
    assert_eq!((execute(&mut wait), wait.events().len()), (Ok(1), 1));
    let mut wait = EpollWait::new(&list, 2, 0);
    assert_eq!((execute(&mut wait), wait.events().len()), (Ok(2), 2));
}

#[test]
fn errors_pass_through() {
    let unknown = CreateFlags::from_bits_retain(1);
    assert_eq!(execute(&mut EpollCreate1::new(unknown)).unwrap_err(), Errno::INVAL);
    let list = list();
    let (reader, _writer) = kumiki_sys::descriptors::pipe().unwrap();
    assert_eq!(execute(&mut EpollCtl::delete(&list, &reader)), Err(Errno::NOENT));
    assert_eq!(execute(&mut EpollCtl::modify(&list, &reader, IN, 1)), Err(Errno::NOENT));
    assert_eq!(execute(&mut EpollCtl::add(&list, &reader, IN, 1)), Ok(()));
    assert_eq!(execute(&mut EpollCtl::add(&list, &reader, IN, 1)), Err(Errno::EXIST));
    let file = tempfile::tempfile().unwrap();
    assert_eq!(execute(&mut EpollCtl::add(&list, &file, IN, 1)), Err(Errno::PERM));
    assert_eq!(execute(&mut EpollWait::new(&list, 0, 0)), Err(Errno::INVAL));
    let mut no_list = EpollWait::new(&file, 1, 0);
    assert_eq!((execute(&mut no_list), no_list.events().len()), (Err(Errno::INVAL), 0));
}
