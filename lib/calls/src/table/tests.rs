//! The rows against the lists that they have taken the place of.

use std::collections::BTreeSet;

use kumiki_sys::syscall;

use super::*;

/// Calls that take the lock of the memory map.
const ADDRESS_SPACE: &str = "
brk get_mempolicy io_destroy io_setup madvise map_shadow_stack mbind membarrier
migrate_pages mincore mlock mlock2 mlockall mmap modify_ldt move_pages mprotect mremap
mseal munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_madvise
remap_file_pages set_mempolicy_home_node shmat shmdt
";

/// Calls on one open file, by the argument that names it.
const FILES: [(u8, &str); 3] = [
    (
        0,
        "
read write fstat lseek ioctl pread64 pwrite64 readv writev sendfile connect accept
sendto recvfrom sendmsg recvmsg shutdown bind listen getsockname getpeername
setsockopt getsockopt fcntl flock ftruncate getdents fchmod fchown fstatfs readahead
fsetxattr fgetxattr flistxattr fremovexattr getdents64 fadvise64 epoll_wait epoll_ctl
mq_timedsend mq_timedreceive mq_notify mq_getsetattr inotify_add_watch
inotify_rm_watch vmsplice epoll_pwait fallocate timerfd_settime timerfd_gettime
accept4 preadv pwritev recvmmsg fanotify_mark sendmmsg preadv2 pwritev2 io_uring_enter
io_uring_register epoll_pwait2 cachestat
",
    ),
    (1, "tee"),
    (2, "splice copy_file_range"),
];

/// Calls that make or take away a name, by the argument from which its path starts.
const DIRECTORIES: [(Option<u8>, &str); 4] = [
    (None, "rename mkdir rmdir creat link unlink symlink mknod mq_unlink"),
    (Some(0), "mkdirat mknodat unlinkat renameat renameat2"),
    (Some(1), "symlinkat"),
    (Some(2), "linkat"),
];

/// Calls that commonly wait.
const SLEEPING: &str = "
accept accept4 clock_nanosleep connect epoll_pwait epoll_pwait2 epoll_wait fdatasync
flock fsync futex futex_wait futex_waitv io_getevents io_pgetevents io_uring_enter
mq_timedreceive msgrcv msync nanosleep poll ppoll pselect6 recvfrom recvmmsg recvmsg
select semop semtimedop sync sync_file_range syncfs umount2 wait4 waitid
";

/// Calls that have a refusal.
const REFUSED: &str = "
add_key arch_prctl capget capset clock_gettime clone clone3 close_range epoll_pwait
epoll_pwait2 execve execveat exit exit_group fcntl fork futex get_mempolicy
get_robust_list get_thread_area getcpu getpriority getrusage gettid io_pgetevents
io_uring_enter io_uring_register ioperm iopl ioprio_get ioprio_set keyctl
landlock_restrict_self lsm_get_self_attr lsm_set_self_attr pause perf_event_open
personality pidfd_send_signal pkey_alloc ppoll prctl pselect6 ptrace request_key
restart_syscall rseq rseq_slice_yield rt_sigpending rt_sigprocmask rt_sigreturn
rt_sigsuspend rt_sigtimedwait sched_getaffinity sched_getattr sched_getparam
sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr
sched_setparam sched_setscheduler sched_yield seccomp set_mempolicy set_robust_list
set_thread_area set_tid_address setfsgid setfsuid setgid setgroups setns setpriority
setregid setresgid setresuid setreuid setuid sigaltstack timer_create unshare uprobe
uretprobe vfork wait4 waitid
";

/// Calls among them that this processor has.
fn named(names: &str) -> BTreeSet<&str> {
    let here = |name: &&str| ROWS.iter().any(|row| row.name == *name);
    names.split_whitespace().filter(|name| cfg!(target_arch = "x86_64") || here(name)).collect()
}

/// Names of the rows that `is` picks, among those that there were then.
fn rows(is: impl Fn(&Row) -> bool) -> BTreeSet<&'static str> {
    const LAST: u16 = 471;
    ROWS.iter().filter(|row| row.sysnum <= LAST && is(row)).map(|row| row.name).collect()
}

#[test]
fn the_rows_say_what_the_lists_before_them_said() {
    assert_eq!(rows(|row| row.contends == Contends::AddressSpace), named(ADDRESS_SPACE));
    for (arg, names) in FILES {
        assert_eq!(rows(|row| row.contends == Contends::Descriptor(arg)), named(names));
    }
    for (arg, names) in DIRECTORIES {
        assert_eq!(rows(|row| row.contends == Contends::Directory(arg)), named(names));
    }
    assert_eq!(rows(|row| row.sleeps), named(SLEEPING));
    assert_eq!(rows(|row| row.rules().next().is_some()), named(REFUSED));
}

#[test]
fn every_call_of_the_table_of_names_has_a_row() {
    let missing: Vec<_> = (0..=u16::MAX)
        .filter(|&sysnum| row(sysnum).is_none())
        .filter_map(|sysnum| syscall::name(sysnum.into()))
        .collect();
    assert!(
        missing.is_empty(),
        "new in the table of names: {missing:?}; read what each does to the thread that makes it \
         and what it contends on, then give it a row"
    );
}

#[test]
fn a_row_without_a_name_in_the_table_of_names_waits_for_one() {
    for row in ROWS {
        match syscall::name(row.sysnum.into()) {
            Some(name) => assert_eq!(name, row.name),
            None => assert_eq!(row.name, "rseq_slice_yield"),
        }
        assert_eq!(super::row(row.sysnum).map(|row| row.sysnum), Some(row.sysnum));
    }
    assert_eq!(
        syscall::number("rseq_slice_yield"),
        None,
        "it has come: take it from the table of names"
    );
}

#[test]
fn a_refusal_says_when_and_why() {
    for rule in ROWS.iter().flat_map(Row::rules) {
        let Refusal { name, when, reason, .. } = rule.refusal;
        assert_eq!(when.is_some(), rule.applies.is_some(), "{name}");
        assert!(!reason.ends_with('.') && reason.starts_with(char::is_lowercase), "{name}");
    }
}

/// Numbers for which `is` holds, a bit each, as C writes them.
fn c_set(name: &str, is: impl Fn(u16) -> bool) -> String {
    let word = |at: u16| (0..64).fold(0, |word, bit| word | u64::from(is(64 * at + bit)) << bit);
    let words = (0..NUMBERS as u16 / 64).map(|at| format!("\t{:#018x},\n", word(at)));
    format!("static const u64 {name}[PARASC_NUMBERS / 64] = {{\n{}}};\n", words.collect::<String>())
}

/// The module makes calls inside the kernel, where more than a wrong answer is at stake.
/// What is refused with some arguments alone has been checked by the process, and does no
/// harm but to itself, unless it changes which signals the module's loop sees.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the module is for x86-64, and has its numbers")]
fn the_module_has_been_told_the_same() {
    use RefusalKind::{AnswersForWrongThread, ChangesSignalsOfThread};
    let any = |sysnum: u16, holds: fn(&Rule) -> bool| {
        row(sysnum).is_some_and(|row| row.rules().any(holds))
    };
    let refused = |sysnum| {
        any(sysnum, |rule| rule.applies.is_none() && rule.refusal.kind != AnswersForWrongThread)
    };
    // Of a call that is newer than the table nobody knows what it does to its thread.
    let own = |sysnum| {
        row(sysnum).is_none()
            || any(sysnum, |rule| match rule.applies {
                None => rule.refusal.kind == AnswersForWrongThread,
                Some(_) => rule.refusal.kind == ChangesSignalsOfThread,
            })
    };
    let header = format!(
        "/* SPDX-License-Identifier: GPL-2.0 */\n\
         /* Made of the table of calls by a test of lib/calls, which compares it: not written by hand. */\n\
         #ifndef PARASC_CALLS_H\n#define PARASC_CALLS_H\n\n#include <linux/types.h>\n\n\
         #define PARASC_NUMBERS {NUMBERS}\n\n\
         /* Calls that would break the thread that makes them, or change it. */\n{}\n\
         /* Calls that are for the thread itself to make, by a plain system call. */\n{}\n#endif\n",
        c_set("parasc_refused_calls", refused),
        c_set("parasc_own_calls", own),
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../node/kernel/parasc/calls.h");
    if std::env::var_os("KUMIKI_WRITE_HEADERS").is_some() {
        std::fs::write(path, &header).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(there, header, "KUMIKI_WRITE_HEADERS=1 cargo test -p kumiki-calls writes it anew");
}
