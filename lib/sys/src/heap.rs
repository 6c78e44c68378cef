//! The heap of C's library, from which Rust's default allocator takes memory.

/// Bounds what C's library keeps for itself at the end of each thread's heap by so many bytes, and
/// has each block that is larger be mapped, and unmapped when it is freed. Returns whether it could:
/// only while the process has one thread, and where C's library is glibc.
///
/// Without it that end grows to twice the largest block that was ever freed, up to 64 MiB a thread,
/// and [`give_back`] reaches none but the first thread's.
///
/// Source: mallopt(3), M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
pub fn keep_at_most(bytes: u32) -> bool {
    #[cfg(target_env = "gnu")]
    {
        let is_alone = std::fs::read_dir("/proc/self/task").is_ok_and(|all| all.count() == 1);
        let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
        let all = [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD];
        // SAFETY: it sets two numbers of the allocator, which nobody reads meanwhile.
        is_alone && all.into_iter().all(|which| unsafe { libc::mallopt(which, bytes) } == 1)
    }
    #[cfg(not(target_env = "gnu"))]
    {
        let _ = bytes;
        false
    }
}

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
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
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
