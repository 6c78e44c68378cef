//! Descriptors that the child's steps name by their places, and what has to move for them.

use core::slice;

use crate::sys::{self, EBADF};
use crate::table::close_all;

/// Marks a number of a copy, made to be out of the way, and nobody's but the child's.
const MOVED: i32 = 1 << 30;

/// Descriptors by their places.
#[derive(Debug)]
pub struct Places<'a>(&'a mut [i32]);

impl Places<'_> {
    /// Borrows the places of a maker: its numbers, below 0 where nothing is.
    ///
    /// # Safety
    /// So many are there, and nobody else uses them meanwhile.
    pub unsafe fn new<'a>(first: *mut i32, len: usize) -> Places<'a> {
        // SAFETY: the caller's promise.
        Places(unsafe { slice::from_raw_parts_mut(first, len) })
    }

    /// The number of what has this place now; below 0 if nothing has.
    pub fn at(&self, place: u64) -> i32 {
        let fd = self.0.get(place as usize).copied().unwrap_or(-1);
        if fd < 0 { fd } else { fd & !MOVED }
    }

    /// Nobody asks for it any more.
    pub fn is_used(&mut self, place: u64) {
        let Some(fd) = self.0.get_mut(place as usize) else { return };
        if *fd >= 0 && *fd & MOVED != 0 {
            sys::close(*fd & !MOVED);
        }
        *fd = -1;
    }

    /// Gives what has a place this number.
    pub fn put(&mut self, place: u64, number: i32, at_exec: bool) -> isize {
        let fd = self.at(place);
        if fd < 0 {
            return EBADF;
        }
        if fd == number {
            // Its copy, if it is one, stays under that number.
            self.0[place as usize] = -1;
            return sys::close_at_exec(fd, at_exec);
        }
        // `place` itself has another number, so it does not move here.
        let refused = self.make_way(number);
        if refused < 0 {
            return refused;
        }
        let copied = sys::dup2(fd, number);
        self.is_used(place);
        if copied >= 0 && at_exec { sys::close_at_exec(number, true) } else { copied }
    }

    /// Moves what has this number and a place still to be used.
    pub fn make_way(&mut self, number: i32) -> isize {
        for fd in self.0.iter_mut().filter(|fd| **fd >= 0 && **fd & !MOVED == number) {
            let moved = sys::copy_above(number, 3);
            if moved < 0 {
                return moved;
            }
            *fd = moved as i32 | MOVED;
        }
        0
    }

    /// Closes all of these numbers but those at a place still to be used, which exec closes.
    pub fn close_all(&self, mut first: u32, last: u32) -> isize {
        while first <= last {
            let numbers = self.0.iter().filter(|fd| **fd >= 0).map(|fd| (*fd & !MOVED) as u32);
            let kept = numbers.filter(|fd| (first..=last).contains(fd)).min();
            let end = kept.map_or(last, |kept| kept.wrapping_sub(1));
            let closed = if kept == Some(first) { 0 } else { close_all(first, end, false) };
            if closed < 0 {
                return closed;
            }
            match kept {
                Some(kept) if kept < last => first = kept + 1,
                _ => break,
            }
        }
        0
    }
}
