//! A process's own table of descriptors: all of a range closed, also where close_range(2) is
//! refused, as older kernels and the filters of older containers do.

use crate::sys::{
    self, AT_FDCWD, CLOSE_RANGE_CLOEXEC, ENOSYS, EPERM, O_CLOEXEC, O_DIRECTORY, RLIMIT_NOFILE,
};

/// Numbers that are looked at where nothing tells which there are, if the limit is lower: it may
/// have been higher before.
const AT_LEAST: u64 = 1 << 16;
/// The kernel's own limit of numbers, if nobody has raised it (fs.nr_open).
const AT_MOST: u64 = 1 << 20;

/// Closes descriptors `first` to `last`, at once or by exec.
pub fn close_all(first: u32, last: u32, at_exec: bool) -> isize {
    let flags = if at_exec { CLOSE_RANGE_CLOEXEC } else { 0 };
    if sys::close_range(first, last, flags) == 0 {
        return 0;
    }
    let listed = each_open(first, last, at_exec);
    listed.unwrap_or_else(|| {
        let mut limit = [0u64; 2];
        if sys::limit(0, RLIMIT_NOFILE, None, Some(&mut limit)) < 0 {
            limit[1] = AT_MOST;
        }
        let end = limit[1].max(AT_LEAST).min(u64::from(last) + 1) as u32;
        (first..end).map(|fd| close(fd, at_exec)).fold(0, isize::min)
    })
}

/// Closes a descriptor; below 0 if it was refused; of one that is not open nothing is to be done.
fn close(fd: u32, at_exec: bool) -> isize {
    let closed = match at_exec {
        true => sys::close_at_exec(fd as i32, true),
        false => sys::close(fd as i32),
    };
    if closed == EPERM || closed == ENOSYS { closed } else { 0 }
}

/// Makes descriptors that /proc lists; `None` if it lists none, or not this process's.
fn each_open(first: u32, last: u32, at_exec: bool) -> Option<isize> {
    let folder = sys::open(AT_FDCWD, c"/proc/self/fd", O_DIRECTORY | O_CLOEXEC) as i32;
    if folder < 0 {
        return None;
    }
    let (mut result, mut is_own, mut entries) = (0, false, [0u64; 128]);
    let told = loop {
        let len = sys::entries(folder, &mut entries);
        if len <= 0 {
            break len;
        }
        let mut at = 0;
        while at < len as usize {
            // Of struct linux_dirent64: two words, its length, its type, its name.
            let entry = entries.as_ptr().cast::<u8>().wrapping_add(at);
            // SAFETY: the kernel has written whole entries there.
            let size = unsafe { entry.wrapping_add(16).cast::<u16>().read_unaligned() };
            at += usize::from(size);
            let Some(fd) = number(entry.wrapping_add(19)) else { continue };
            if fd == folder as u32 {
                is_own = true;
            } else if (first..=last).contains(&fd) {
                result = close(fd, at_exec).min(result);
            }
        }
    };
    sys::close(folder);
    (told == 0 && is_own).then_some(result)
}

/// The value of the decimals at `text`, which a zero ends; `None` if it is something else.
fn number(mut text: *const u8) -> Option<u32> {
    let mut number = 0u32;
    loop {
        // SAFETY: not beyond the zero.
        let byte = unsafe { text.read() };
        match byte {
            0 => return Some(number),
            b'0'..=b'9' => number = number.wrapping_mul(10).wrapping_add(u32::from(byte - b'0')),
            _ => return None,
        }
        text = text.wrapping_add(1);
    }
}
