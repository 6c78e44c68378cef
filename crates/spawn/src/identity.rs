//! What only the asking thread itself can tell of what its children have from it. The rest
//! the server sees (`server/asker.rs`).

use std::cell::Cell;

use kumiki_sys::fork::Process;

/// The calling thread's number, which the kernel is asked for once.
pub(crate) fn thread() -> i32 {
    thread_local!(static NUMBER: Cell<Option<(Process, i32)>> = const { Cell::new(None) });
    let known = NUMBER.get().filter(|(process, _)| process.is_current());
    known.map_or_else(
        || {
            let number = rustix::thread::gettid().as_raw_nonzero().get();
            if let Ok(process) = Process::current() {
                NUMBER.set(Some((process, number)));
            }
            number
        },
        |(_, number)| number,
    )
}

/// The calling thread's securebits.
pub(crate) fn secure_bits() -> i32 {
    // SAFETY: this one only tells.
    unsafe { libc::prctl(libc::PR_GET_SECUREBITS, 0, 0, 0, 0) }
}

/// Whether the calling thread is under no Landlock rules that the server with this number,
/// and with it the server's children, is not under.
///
/// Nothing tells of such rules, but they are kept by what they forbid: a thread may look into
/// a process only if that is under all of the thread's rules, too (hook_ptrace_access_check
/// in security/landlock/task.c). The cheapest such look is at the list of its robust futexes,
/// which it has none of. That other reasons forbid it, too, does no harm: then a new server
/// is started.
pub(crate) fn may_look_into(server: i32) -> bool {
    let (mut head, mut len) = (0usize, 0usize);
    // SAFETY: the kernel writes two words.
    let told =
        unsafe { libc::syscall(libc::SYS_get_robust_list, server, &raw mut head, &raw mut len) };
    told == 0
}

/// Signals that the calling thread blocks.
pub(crate) fn blocked() -> u64 {
    let mut mask = 0u64;
    // SAFETY: this one only tells, and the kernel writes one word.
    unsafe {
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, 0usize, &raw mut mask, 8usize);
    }
    mask
}
