//! What a request's messages have brought.

use core::cell::UnsafeCell;

use kumiki_spawn_wire::sys::{MSG_CMSG_CLOEXEC, MSG_CTRUNC, RECVMSG};
use kumiki_spawn_wire::{FDS, PLACES, SENT, sys};

/// Descriptors by their places; pages that none needs are never there.
static HERE_NOW: Table = Table(UnsafeCell::new([0; PLACES]));
/// A copy for the child, which moves some: it runs while this program sleeps.
static CHILD_S: Table = Table(UnsafeCell::new([0; PLACES]));

struct Table(UnsafeCell<[i32; PLACES]>);

// SAFETY: `serve` is called once, by the only thread.
unsafe impl Sync for Table {}

pub(crate) struct Received {
    fds: &'static mut [i32; PLACES],
    /// Number of messages that have brought something.
    pub(crate) got: usize,
    /// The number of the message that was received last, if there is one.
    pub(crate) number: Option<u32>,
    /// True if it brought nothing.
    pub(crate) is_empty: bool,
    /// Some could not be received: no number was left for them.
    pub(crate) is_cut: bool,
}

impl Received {
    /// Makes the only one: to be called once.
    pub(crate) fn new() -> Received {
        // SAFETY: nobody else has it.
        let fds = unsafe { &mut *HERE_NOW.0.get() };
        fds[..SENT].fill(-1);
        Received { fds, got: 0, number: None, is_empty: true, is_cut: false }
    }

    /// Descriptor of a place; `None` if there is none.
    pub(crate) fn at(&self, place: usize) -> Option<i32> {
        self.fds[..SENT + self.got].get(place).copied().filter(|fd| *fd >= 0)
    }

    pub(crate) fn set(&mut self, place: usize, fd: i32) {
        self.fds[place] = fd;
    }

    /// All places, for the child to change.
    pub(crate) fn for_child(&self) -> (*mut i32, usize) {
        let all = &self.fds[..SENT + self.got];
        // SAFETY: only this program and its child use it, one after the other.
        let its = unsafe { &mut *CHILD_S.0.get() };
        its[..all.len()].copy_from_slice(all);
        (its.as_mut_ptr(), all.len())
    }

    /// Closes what is open for one request only.
    pub(crate) fn clear(&mut self, is_kept: impl Fn(i32) -> bool) {
        for fd in self.fds[..SENT + self.got].iter_mut().filter(|fd| **fd >= 0) {
            if !is_kept(*fd) {
                sys::close(*fd);
            }
            *fd = -1;
        }
        (self.got, self.is_cut) = (0, false);
    }

    /// Waits for a message; `false` if nobody is left to send one.
    pub(crate) fn receive(&mut self, socket: i32) -> bool {
        #[repr(C)]
        struct Message {
            name: usize,
            name_len: usize,
            parts: *mut [usize; 2],
            parts_len: usize,
            control: *mut usize,
            control_len: usize,
            flags: usize,
        }
        let mut number = 0u32;
        let mut part = [&raw mut number as usize, size_of::<u32>()];
        // Its length, level and kind, before the descriptors, two in a word.
        let mut control = [0usize; 2 + FDS.div_ceil(2)];
        let mut message = Message {
            name: 0,
            name_len: 0,
            parts: &raw mut part,
            parts_len: 1,
            control: control.as_mut_ptr(),
            control_len: size_of_val(&control),
            flags: 0,
        };
        let all = size_of::<u32>() as isize;
        // SAFETY: the message names memory of this function, as long as it says.
        if unsafe { sys!(RECVMSG, socket, &raw mut message, MSG_CMSG_CLOEXEC) } != all {
            self.number = None;
            return false;
        }
        // SAFETY: the kernel has written it, behind the compiler's back.
        let number = unsafe { (&raw const number).read_volatile() };
        if self.number != Some(number) {
            self.clear(|_| false);
        }
        let bytes = if message.control_len == 0 { 0 } else { control[0].saturating_sub(16) };
        let brings = (bytes / 4).min(FDS);
        let room = PLACES - SENT - self.got;
        for at in 0..brings {
            let fd = (control[2 + at / 2] >> (at % 2 * 32)) as i32;
            match at < room {
                true => self.fds[SENT + self.got + at] = fd,
                false => _ = sys::close(fd),
            }
        }
        self.got += brings.min(room);
        (self.number, self.is_empty) = (Some(number), brings == 0);
        self.is_cut |= message.flags & MSG_CTRUNC != 0 || brings > room;
        true
    }
}
