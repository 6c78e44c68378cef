//! Ways that carry no message, only the fact that something happened:
//! eventfd(2), futex(2) on a shared word, System V semaphores.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, read, write};
use rustix::thread::futex::Flags;

use super::caller::Caller;
use super::token;
use super::transport::{Direction, Transport};
use crate::shared::Shared;
use kumiki_measure::cache_line::CacheLine;
use kumiki_measure::error::{Error, Result, last_errno};

/// One eventfd each way.
pub(super) struct Eventfds([OwnedFd; 2]);

impl Eventfds {
    /// Opens both.
    pub(super) fn open() -> Result<Self> {
        let open =
            || eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| Error::os("make an eventfd", e));
        Ok(Eventfds([open()?, open()?]))
    }
}

impl Transport for Eventfds {
    #[inline]
    fn send<C: Caller>(&self, caller: &C, way: Direction, _: &[u8]) -> Result<(), C::Error> {
        let one = 1u64.to_ne_bytes();
        caller.call("write to an eventfd", || write(&self.0[way as usize], &one)).map(drop)
    }

    #[inline]
    fn receive<C: Caller>(&self, caller: &C, way: Direction, _: &mut [u8]) -> Result<(), C::Error> {
        let mut count = [0; 8];
        caller.call("read an eventfd", || read(&self.0[way as usize], &mut count)).map(drop)
    }
}

/// One word each way, in shared memory.
pub(super) struct Futexes(Shared<[CacheLine<AtomicU32>; 2]>);

impl Futexes {
    /// Maps both.
    pub(super) fn open() -> Result<Self> {
        Ok(Futexes(Shared::new()?))
    }
}

impl Transport for Futexes {
    #[inline]
    fn send<C: Caller>(&self, caller: &C, way: Direction, _: &[u8]) -> Result<(), C::Error> {
        let word = &self.0[way as usize].0;
        caller.call("wake a futex", || token::pass(word, 1, Flags::empty())).map(drop)
    }

    #[inline]
    fn receive<C: Caller>(&self, caller: &C, way: Direction, _: &mut [u8]) -> Result<(), C::Error> {
        token::take(caller, &self.0[way as usize].0, Flags::empty()).map(drop)
    }
}

/// A set of two semaphores, one each way.
///
/// Unlike everything else here it belongs to no process: the kernel keeps it
/// until somebody removes it. Dropping does; a `kill -9` of the measuring
/// process leaves it behind (`ipcs -s`, `ipcrm`).
pub(super) struct Semaphores {
    set: libc::c_int,
}

impl Semaphores {
    /// Makes the set, nameless and only for this user.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kernel has none or no more.
    pub(super) fn open() -> Result<Self> {
        // SAFETY: takes no pointer.
        let set = unsafe { libc::semget(libc::IPC_PRIVATE, 2, libc::IPC_CREAT | 0o600) };
        if set >= 0 {
            return Ok(Semaphores { set });
        }
        let error = io::Error::last_os_error();
        let needs = match Errno::from_io_error(&error) {
            Some(Errno::NOSYS) => "a kernel with CONFIG_SYSVIPC",
            Some(Errno::NOSPC) => "a free semaphore set: see `ipcs -s` and kernel.sem",
            _ => return Err(Error::os("make a System V semaphore set", error)),
        };
        Err(Error::unsupported("a System V semaphore", needs))
    }

    #[inline]
    fn add(&self, way: Direction, amount: i16) -> Result<(), Errno> {
        let mut operation = libc::sembuf { sem_num: way as u16, sem_op: amount, sem_flg: 0 };
        // SAFETY: one operation is passed, and one is said to be.
        match unsafe { libc::semop(self.set, &mut operation, 1) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }
}

impl Transport for Semaphores {
    #[inline]
    fn send<C: Caller>(&self, caller: &C, way: Direction, _: &[u8]) -> Result<(), C::Error> {
        caller.call("release a semaphore", || self.add(way, 1))
    }

    #[inline]
    fn receive<C: Caller>(&self, caller: &C, way: Direction, _: &mut [u8]) -> Result<(), C::Error> {
        caller.call("acquire a semaphore", || self.add(way, -1))
    }
}

impl Drop for Semaphores {
    fn drop(&mut self) {
        // SAFETY: IPC_RMID takes no fourth argument.
        unsafe { libc::semctl(self.set, 0, libc::IPC_RMID) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_semaphore_set_is_gone() {
        let semaphores = Semaphores::open().unwrap();
        let set = semaphores.set;
        // SAFETY: GETVAL takes no fourth argument.
        let value = || unsafe { libc::semctl(set, 0, libc::GETVAL) };
        assert_eq!(value(), 0);
        drop(semaphores);
        assert_eq!(value(), -1);
        assert!(matches!(last_errno(), Errno::INVAL | Errno::IDRM));
    }
}
