//! What the kernel knows of pages.

use rustix::io::Errno;
use rustix::param::page_size;

use crate::syscall;

/// True if the page of private memory that holds `address` is present, so that touching it causes
/// no page fault: mincore(2). A page that was only read counts as present, as does any page where
/// the kernel does not tell. Takes some 0.2 µs.
///
/// ```
/// let bytes = vec![7_u8; 10_000];
/// assert!(kumiki_sys::pages::is_present(bytes.as_ptr().addr()));
/// ```
pub fn is_present(address: usize) -> bool {
    let mut state = 0_u8;
    let bytes = page_size();
    let page = address & !(bytes - 1);
    let args = [page as u64, bytes as u64, (&raw mut state) as u64, 0, 0, 0];
    // SAFETY: the kernel writes one byte, for the one page, to `state`; it touches
    // nothing at the address, which may be any.
    match unsafe { syscall::call(libc::SYS_mincore as usize, args) } {
        Ok(_) => state & 1 != 0,
        // Nothing is mapped there.
        Err(Errno::NOMEM) => false,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::{Anon, Huge, Populate};

    #[test]
    fn a_page_is_there_once_it_was_written() {
        let page = page_size();
        let memory = Anon::new(2 * page, Huge::Never, Populate::OnTouch).unwrap();
        let (first, second) = (memory.as_ptr().addr(), memory.as_ptr().addr() + page);
        assert!(!is_present(first) && !is_present(second));
        memory.write(page + 5, &[1]);
        assert!(!is_present(first) && is_present(second) && is_present(second + page - 1));
        drop(memory);
        assert!(!is_present(0));
    }
}
