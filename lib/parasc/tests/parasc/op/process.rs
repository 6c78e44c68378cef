use std::io::Write;
use std::mem::MaybeUninit;

use kumiki_parasc::op::{self, Errno, Getppid, Getrandom, Ioctl, ProcessVmReadv, ProcessVmWritev};
use rustix::process::getpid;
use rustix::rand::GetRandomFlags;

use super::execute;

#[test]
fn the_parent_is_the_one_that_the_standard_library_tells() {
    let parent = execute(&mut Getppid::new()).unwrap();
    assert_eq!(parent, std::os::unix::process::parent_id() as i32);
}

#[test]
fn random_bytes_differ() {
    let random = || {
        let mut op = Getrandom::new(GetRandomFlags::empty(), [MaybeUninit::uninit(); 32]);
        assert_eq!(execute(&mut op), Ok(32));
        <[u8; 32]>::try_from(op.filled()).unwrap()
    };
    assert_ne!(random(), random());
    let unknown = GetRandomFlags::from_bits_retain(1 << 20);
    assert_eq!(execute(&mut Getrandom::new(unknown, [0; 1])), Err(Errno::INVAL));
}

#[test]
fn memory_of_a_process_is_read_and_written() {
    let (source, mut target) = (*b"of this one", [0; 4]);
    let address = source.as_ptr() as u64;
    // SAFETY: initialised and not written to.
    let mut read = unsafe { ProcessVmReadv::new(getpid(), address, Vec::with_capacity(7)) };
    match execute(&mut read) {
        Err(Errno::NOSYS | Errno::PERM) => {
            return eprintln!("passed over: processes may not read each other's memory here");
        }
        result => assert_eq!(result, Ok(7)),
    }
    assert_eq!(read.filled(), b"of this");

    let address = target.as_mut_ptr() as u64;
    // SAFETY: the test's own array.
    let mut write = unsafe { ProcessVmWritev::new(getpid(), address, b"here") };
    assert_eq!(execute(&mut write), Ok(4));
    // SAFETY: written by the call above.
    assert_eq!(unsafe { std::ptr::read_volatile(&target) }, *b"here");

    // SAFETY: nothing is mapped there.
    let mut nowhere = unsafe { ProcessVmReadv::new(getpid(), 8, [0; 8]) };
    assert_eq!(execute(&mut nowhere), Err(Errno::FAULT));
    assert_eq!(nowhere.filled(), b"");
    // SAFETY: as above.
    let mut nowhere = unsafe { ProcessVmWritev::new(getpid(), 8, [0; 8]) };
    assert_eq!(execute(&mut nowhere), Err(Errno::FAULT));
}

#[test]
fn ioctl_asks_a_pipe_how_much_it_holds() {
    let (reader, mut writer) = kumiki_sys::descriptors::pipe().unwrap();
    writer.write_all(b"12345").unwrap();
    let mut count = 0i32;
    // SAFETY: FIONREAD writes an int, and `count` outlives the call.
    let mut ioctl = unsafe { Ioctl::new(&reader, libc::FIONREAD as u32, &raw mut count as u64) };
    assert_eq!(execute(&mut ioctl), Ok(0));
    // SAFETY: written by the call above.
    assert_eq!(unsafe { std::ptr::read_volatile(&count) }, 5);
    // SAFETY: no pipe is a terminal: refused before the argument is looked at.
    let mut ioctl = unsafe { Ioctl::new(&reader, libc::TCGETS as u32, 0) };
    assert_eq!(execute(&mut ioctl), Err(Errno::NOTTY));
}

#[test]
fn raw_gives_what_the_kernel_returned() {
    // SAFETY: no arguments, no effect.
    let mut getppid = unsafe { op::raw(libc::SYS_getppid as u16, []) };
    assert_eq!(execute(&mut getppid), std::os::unix::process::parent_id().into());
    // SAFETY: no such call.
    let mut unknown = unsafe { op::raw(9_999, [1, 2, 3, 4, 5, 6]) };
    assert_eq!(execute(&mut unknown), -i64::from(libc::ENOSYS));
}
