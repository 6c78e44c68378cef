//! What only the asking thread itself can tell of what its children have from it. The rest
//! the server sees (`lib/spawn/server/src/asker.rs`).

use std::cell::Cell;

use kumiki_sys::fork::Process;
use rustix::process::Resource;

use kumiki_spawn_wire::TOLD;

/// The calling thread's number, which the kernel is asked for once.
pub(crate) fn thread() -> i32 {
    thread_local!(static NUMBER: Cell<Option<(Process, i32)>> = const { Cell::new(None) });
    let known = NUMBER.get().filter(|(process, _)| process.is_current());
    known.map_or_else(
        || {
            // SAFETY: this one only tells. Where it is refused there is no such thread.
            let number = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
            if let Ok(process) = Process::current() {
                NUMBER.set(Some((process, number)));
            }
            number
        },
        |(_, number)| number,
    )
}

/// Numbers of what children have from the calling thread and only that can tell of: they are the
/// same as long as nothing has changed. What the kernel does not know it has not.
pub(crate) fn inherited() -> [u64; TOLD] {
    /// PR_GET_MDWE of prctl(2), newer than the C library's headers may be.
    const GET_MDWE: i32 = 66;
    const GET_MEMORY_MERGE: i32 = 68;
    // SAFETY: these only tell, by their result.
    let get = |option: i32| unsafe { libc::prctl(option, 0, 0, 0, 0) } as u64;
    let mut time_stamps = 0i32;
    // SAFETY: it writes one number.
    unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut time_stamps, 0, 0, 0) };
    // SAFETY: asks only, as no domain has this number.
    let personality = unsafe { libc::personality(0xffff_ffff) } as u64;
    let [policy, nodes] = memory_policy();
    const SESSION: i64 = -3;
    const GET_KEYRING_ID: i64 = 0;
    // SAFETY: takes numbers, and makes no keyring.
    let keyring = unsafe { libc::syscall(libc::SYS_keyctl, GET_KEYRING_ID, SESSION, 0) } as u64;
    [
        get(libc::PR_GET_SECUREBITS),
        get(GET_MDWE),
        get(libc::PR_GET_TIMERSLACK),
        get(GET_MEMORY_MERGE),
        time_stamps as u64,
        personality,
        policy,
        nodes,
        keyring,
    ]
}

/// Its mode, and its nodes in short.
fn memory_policy() -> [u64; 2] {
    let (mut mode, mut nodes) = (0i32, [0u64; 16]);
    let mut of = |bits: usize| {
        // SAFETY: the kernel writes a number, and so many bits at most.
        let told = unsafe {
            let (mode, nodes) = (&raw mut mode, nodes.as_mut_ptr());
            libc::syscall(libc::SYS_get_mempolicy, mode, nodes, bits, 0usize, 0usize)
        };
        told == 0
    };
    // With fewer bits than there may be nodes it is refused; with more it takes longer.
    if !of(64) && !of(1024) {
        return [u64::MAX, 0];
    }
    [mode as u64, nodes.iter().fold(0, |all: u64, word| all.rotate_left(7) ^ word)]
}

/// True if the calling thread is under no Landlock rules that the server with this number, and with
/// it the server's children, is not under.
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

/// The calling process's soft and hard limit; none where it may not look.
pub(crate) fn limit(resource: Resource) -> [u64; 2] {
    let none = libc::RLIM_INFINITY;
    let mut limit = libc::rlimit { rlim_cur: none, rlim_max: none };
    // SAFETY: it only tells.
    unsafe { libc::getrlimit(resource as _, &raw mut limit) };
    [limit.rlim_cur, limit.rlim_max]
}
