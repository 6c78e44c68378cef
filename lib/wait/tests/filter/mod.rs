//! A seccomp filter for some system calls.

/// From now on this thread, and those it starts, get `action` for these system
/// calls.
pub(crate) fn filter(calls: &[libc::c_long], action: u32) {
    let op = |code: u32, k: u32, jf| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let nr = std::mem::offset_of!(libc::seccomp_data, nr) as u32;
    let answer = libc::BPF_RET | libc::BPF_K;
    let mut program = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, nr, 0)];
    for call in calls {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.extend([op(equal, *call as u32, 1), op(answer, action, 0)]);
    }
    program.push(op(answer, libc::SECCOMP_RET_ALLOW, 0));
    let length = program.len() as u16;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: changes only what this process may do from now on.
    let promised = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(promised, 0);
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the kernel copies the program, which is as long as it says.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// The answer of a container that forbids it.
pub(crate) const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
