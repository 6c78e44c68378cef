//! The heap of C's library, from which Rust's default allocator takes memory.

/// Gives the kernel all pages of the heap that nothing is in. glibc does so by itself at the heap's
/// end only: what is free below something that is still there stays resident.
///
/// Walks the lists of what is free, so it takes microseconds to milliseconds. Does nothing where C's
/// library is another one, or where the program has an allocator of its own.
///
/// Source: malloc_trim(3).
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the allocator's own locks, and moves nothing that is allocated.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use std::fs;

    /// Resident bytes of this process (proc(5)).
    fn resident() -> usize {
        let pages = fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn what_is_free_below_something_that_stays_is_given_back() {
        // Small enough for the heap, as what is large is mapped and unmapped by itself.
        let mut all: Vec<Vec<u8>> = (0..2048).map(|_| vec![1; 32 << 10]).collect();
        let stays = all.pop();
        let before = resident();
        drop(all);
        super::give_back();
        let after = resident();
        assert!(before > after + (48 << 20), "{before} bytes before, {after} after");
        drop(stays);
    }
}
