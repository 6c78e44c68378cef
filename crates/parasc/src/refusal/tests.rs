use std::collections::{BTreeMap, BTreeSet};

use kumiki_sys::syscall;
use proptest::prelude::*;

use super::*;

/// The calls of the table that were looked at and found to do for another thread
/// what they do for their own. A number that comes new into the table stands
/// neither here nor among the rules, and a test fails until somebody has read
/// what it does to the thread that makes it.
const LOOKED_AT: &str = "
read write open close stat fstat lstat poll lseek mmap mprotect munmap brk
rt_sigaction ioctl pread64 pwrite64 readv writev access pipe select mremap msync
mincore madvise shmget shmat shmctl dup dup2 nanosleep getitimer alarm setitimer
getpid sendfile socket connect accept sendto recvfrom sendmsg recvmsg shutdown bind
listen getsockname getpeername socketpair setsockopt getsockopt kill uname semget
semop semctl shmdt msgget msgsnd msgrcv msgctl flock fsync fdatasync truncate
ftruncate getdents getcwd chdir fchdir rename mkdir rmdir creat link unlink symlink
readlink chmod fchmod chown fchown lchown umask gettimeofday getrlimit sysinfo times
getuid syslog getgid geteuid getegid setpgid getppid getpgrp setsid getgroups
getresuid getresgid getpgid getsid rt_sigqueueinfo utime mknod uselib ustat statfs
fstatfs sysfs sched_get_priority_max sched_get_priority_min mlock munlock mlockall
munlockall vhangup modify_ldt pivot_root _sysctl adjtimex setrlimit chroot sync acct
settimeofday mount umount2 swapon swapoff reboot sethostname setdomainname
create_module init_module delete_module get_kernel_syms query_module quotactl
nfsservctl getpmsg putpmsg afs_syscall tuxcall security readahead setxattr lsetxattr
fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr
lremovexattr fremovexattr tkill time io_setup io_destroy io_getevents io_submit
io_cancel lookup_dcookie epoll_create epoll_ctl_old epoll_wait_old remap_file_pages
getdents64 semtimedop fadvise64 timer_settime timer_gettime timer_getoverrun
timer_delete clock_settime clock_getres clock_nanosleep epoll_wait epoll_ctl tgkill
utimes vserver mbind mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify
mq_getsetattr kexec_load inotify_init inotify_add_watch inotify_rm_watch migrate_pages
openat mkdirat mknodat fchownat futimesat newfstatat unlinkat renameat linkat
symlinkat readlinkat fchmodat faccessat splice tee sync_file_range vmsplice move_pages
utimensat signalfd timerfd_create eventfd fallocate timerfd_settime timerfd_gettime
accept4 signalfd4 eventfd2 epoll_create1 dup3 pipe2 inotify_init1 preadv pwritev
rt_tgsigqueueinfo recvmmsg fanotify_init fanotify_mark prlimit64 name_to_handle_at
open_by_handle_at clock_adjtime syncfs sendmmsg process_vm_readv process_vm_writev
kcmp finit_module renameat2 getrandom memfd_create kexec_file_load bpf userfaultfd
membarrier mlock2 copy_file_range preadv2 pwritev2 pkey_mprotect pkey_free statx
io_uring_setup open_tree move_mount fsopen fsconfig fsmount fspick pidfd_open openat2
pidfd_getfd faccessat2 process_madvise mount_setattr quotactl_fd
landlock_create_ruleset landlock_add_rule memfd_secret process_mrelease futex_waitv
set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait
futex_requeue statmount listmount lsm_list_modules mseal setxattrat getxattrat
listxattrat removexattrat open_tree_attr file_getattr file_setattr
";

/// In the kernel's table, and not in that of names.
const UNNAMED: &[(u16, &str)] = &[(471, "rseq_slice_yield")];

fn number(name: &str) -> u16 {
    if let Some((number, _)) = UNNAMED.iter().find(|(_, unnamed)| *unnamed == name) {
        return *number;
    }
    syscall::number(name).unwrap_or_else(|| panic!("no call is called {name}")) as u16
}

#[test]
fn every_call_of_the_table_is_refused_or_looked_at() {
    let mut allowed = BTreeSet::new();
    for name in LOOKED_AT.split_whitespace() {
        assert!(syscall::number(name).is_some(), "{name} is not in the table");
        assert!(allowed.insert(name), "{name} stands twice");
    }
    let ruled: BTreeSet<&str> = refusals().map(|refusal| refusal.name).collect();
    let both: Vec<_> = allowed.intersection(&ruled).collect();
    assert!(both.is_empty(), "both allowed and refused: {both:?}");

    let neither: Vec<_> = (0..NUMBERS)
        .filter_map(syscall::name)
        .filter(|name| !allowed.contains(name) && !ruled.contains(name))
        .collect();
    assert!(
        neither.is_empty(),
        "new in the table: {neither:?}; read whether each acts on the calling thread, then give \
         it a rule or enter it in LOOKED_AT"
    );
    for name in allowed {
        assert_eq!(refusal_of(number(name), 6, &[u64::MAX; 6]), None, "{name}");
    }
}

#[test]
fn the_table_reaches_no_further_than_the_bits() {
    assert_eq!((NUMBERS..=u16::MAX.into()).find_map(syscall::name), None);
}

#[test]
fn rules_stand_where_they_are_found() {
    let mut last_of = BTreeMap::new();
    for (i, rule) in RULES.iter().enumerate() {
        let Refusal { name, when, reason, .. } = rule.refusal;
        assert_eq!(rule.sysnum(), number(name));
        assert_eq!(when.is_some(), rule.applies.is_some(), "{name}");
        assert!(!reason.ends_with('.') && reason.starts_with(char::is_lowercase), "{name}");
        if let Some(last) = last_of.insert(name, i) {
            assert_eq!(last + 1, i, "the rules of {name} do not stand together");
            assert!(RULES[last].applies.is_some(), "a rule of {name} is never reached");
        }
    }
}

#[test]
fn what_is_refused_always_is_refused_with_any_arguments() {
    let named = RULES.iter().map(|rule| (rule.sysnum(), &rule.refusal));
    for (sysnum, refusal) in named.chain(X32_NUMBERS.map(|sysnum| (sysnum, &X32))) {
        let always = refusal.when.is_none().then_some(refusal);
        assert_eq!(super::refusal(sysnum), always);
        for args in [[0; 6], [u64::MAX; 6], [1, 2, 3, 4, 5, 6]] {
            if always.is_some() {
                assert_eq!(refusal_of(sysnum, 6, &args), always);
            }
        }
    }
}

#[test]
fn the_calls_that_break_a_processing_thread_are_refused_always() {
    let names = "execve execveat exit exit_group fork vfork clone clone3 rt_sigreturn \
                 restart_syscall rt_sigsuspend pause setuid setgid setreuid setregid setresuid \
                 setresgid setfsuid setfsgid setgroups capset prctl arch_prctl seccomp ptrace \
                 setns unshare rseq set_tid_address set_robust_list iopl ioperm set_mempolicy \
                 landlock_restrict_self keyctl add_key request_key gettid getcpu personality \
                 rseq_slice_yield";
    for name in names.split_whitespace() {
        assert_eq!(refusal(number(name)).map(|refusal| refusal.name), Some(name));
    }
    let harmless: BTreeSet<&str> = refusals()
        .filter(|refusal| refusal.kind == RefusalKind::AnswersForWrongThread)
        .map(|refusal| refusal.name)
        .collect();
    assert!(harmless.contains("gettid"));
    let changes = ["set", "exec", "exit", "clone", "fork"];
    for name in harmless {
        assert!(!changes.iter().any(|change| name.starts_with(change)), "{name}");
    }
}

#[test]
fn a_call_without_a_name_is_entered_by_its_number_until_it_has_one() {
    for (sysnum, name) in UNNAMED {
        assert_eq!(syscall::name((*sysnum).into()), None, "{name} has come: take it from there");
        assert_eq!(refusal(*sysnum).map(|refusal| refusal.name), Some(*name));
    }
}

/// Kernels before 5.4 make execve by 520.
#[test]
fn the_calls_of_x32_are_refused_and_nothing_beside_them() {
    for sysnum in [512, 513, 520, 545, 547] {
        assert_eq!(refusal(sysnum), Some(&X32));
        assert_eq!(refusal_of(sysnum, 0, &[0; 6]), Some(&X32));
    }
    for sysnum in [511, 548, 512 | 1 << 14] {
        assert_eq!(refusal_of(sysnum, 6, &[0; 6]), None);
    }
    assert!(refusals().any(|refusal| *refusal == X32));
}

#[test]
fn unknown_numbers_are_left_to_the_kernel() {
    let refused = |n: &u16| X32_NUMBERS.contains(n) || UNNAMED.iter().any(|(of, _)| of == n);
    let unknown = (0..=u16::MAX).filter(|&n| syscall::name(n.into()).is_none());
    for sysnum in unknown.filter(|n| !refused(n)) {
        assert_eq!(refusal(sysnum), None);
        assert_eq!(refusal_of(sysnum, 6, &[0; 6]), None);
    }
}

/// Calls with arguments, and what they are refused for.
const CASES: &[(&str, [u64; 6], Option<RefusalKind>)] = {
    use RefusalKind::*;
    const ADDRESS: u64 = 0x7000;
    /// Garbage in the upper half, which the kernel does not look at.
    const UP: u64 = 0xdead_beef << 32;
    const ACTS: Option<RefusalKind> = Some(ActsOnCallingThread);
    const ANSWERS: Option<RefusalKind> = Some(AnswersForWrongThread);
    const SIGNALS: Option<RefusalKind> = Some(ChangesSignalsOfThread);
    &[
        ("rt_sigprocmask", [0, ADDRESS, 0, 8, 0, 0], SIGNALS),
        ("rt_sigprocmask", [0, ADDRESS, ADDRESS, 8, 0, 0], SIGNALS),
        ("rt_sigprocmask", [0, 0, ADDRESS, 8, 0, 0], ANSWERS),
        ("sigaltstack", [ADDRESS, 0, 0, 0, 0, 0], SIGNALS),
        ("sigaltstack", [0, ADDRESS, 0, 0, 0, 0], ANSWERS),
        ("ppoll", [ADDRESS, 1, ADDRESS, ADDRESS, 8, 0], SIGNALS),
        ("ppoll", [ADDRESS, 1, ADDRESS, 0, 8, 0], None),
        ("pselect6", [1, ADDRESS, 0, 0, ADDRESS, ADDRESS], SIGNALS),
        ("pselect6", [1, ADDRESS, 0, 0, ADDRESS, 0], None),
        ("epoll_pwait", [3, ADDRESS, 1, 0, ADDRESS, 8], SIGNALS),
        ("epoll_pwait", [3, ADDRESS, 1, 0, 0, 8], None),
        ("epoll_pwait2", [3, ADDRESS, 1, ADDRESS, ADDRESS, 8], SIGNALS),
        ("epoll_pwait2", [3, ADDRESS, 1, ADDRESS, 0, 8], None),
        ("io_pgetevents", [ADDRESS, 1, 1, ADDRESS, 0, ADDRESS], SIGNALS),
        ("io_pgetevents", [ADDRESS, 1, 1, ADDRESS, 0, 0], None),
        ("pidfd_send_signal", [-10000i64 as u64, 10, 0, 0, 0, 0], ACTS),
        ("pidfd_send_signal", [-10000i32 as u32 as u64, 10, 0, 1, 0, 0], ACTS),
        ("pidfd_send_signal", [-10000i64 as u64, 10, 0, 2, 0, 0], None),
        ("pidfd_send_signal", [-10000i64 as u64, 10, 0, 4, 0, 0], None),
        ("pidfd_send_signal", [-10001i64 as u64, 10, 0, 0, 0, 0], None),
        ("pidfd_send_signal", [3, 10, 0, 0, 0, 0], None),
        ("close_range", [3, 9, 2, 0, 0, 0], ACTS),
        ("close_range", [3, 9, 2 | 4, 0, 0, 0], ACTS),
        ("close_range", [3, 9, 4, 0, 0, 0], None),
        ("fcntl", [3, 1024, 0, 0, 0, 0], ACTS),
        ("fcntl", [3, UP | 1024, 1, 0, 0, 0], ACTS),
        ("fcntl", [3, 1024, UP | 2, 0, 0, 0], None),
        ("fcntl", [3, 1025, 0, 0, 0, 0], None),
        ("fcntl", [3, 1026, 4, 0, 0, 0], ACTS),
        ("fcntl", [3, 1040, ADDRESS, 0, 0, 0], ACTS),
        ("fcntl", [3, 1039, ADDRESS, 0, 0, 0], None),
        ("fcntl", [3, 8, 77, 0, 0, 0], None),
        ("get_robust_list", [UP, ADDRESS, ADDRESS, 0, 0, 0], ANSWERS),
        ("get_robust_list", [1, ADDRESS, ADDRESS, 0, 0, 0], None),
        ("futex", [ADDRESS, 0, 0, 0, 0, 0], None),
        ("futex", [ADDRESS, 128 | 1, 1, 0, 0, 0], None),
        ("futex", [ADDRESS, 128 | 256 | 9, 1, 0, 0, 1], None),
        ("futex", [ADDRESS, 12, 1, 0, ADDRESS, 0], None),
        ("futex", [ADDRESS, 6, 0, 0, 0, 0], ACTS),
        ("futex", [ADDRESS, 128 | 7, 0, 0, 0, 0], ACTS),
        ("futex", [ADDRESS, UP | 128 | 8, 0, 0, 0, 0], ACTS),
        ("futex", [ADDRESS, 128 | 256 | 11, 0, 0, ADDRESS, 0], ACTS),
        ("futex", [ADDRESS, 256 | 13, 0, 0, 0, 0], ACTS),
        ("get_mempolicy", [ADDRESS, 0, 0, 0, 0, 0], ANSWERS),
        ("get_mempolicy", [0, ADDRESS, 64, 0, 4, 0], ANSWERS),
        ("get_mempolicy", [ADDRESS, 0, 0, ADDRESS, 2 | 1, 0], None),
        ("wait4", [-1i64 as u64, 0, 0x2000_0000, 0, 0, 0], ACTS),
        ("wait4", [-1i64 as u64, 0, 0x4000_0000 | 1, 0, 0, 0], None),
        ("waitid", [0, 0, ADDRESS, 0x2000_0000 | 4, 0, 0], ACTS),
        ("waitid", [0, 0, ADDRESS, 4, 0, 0], None),
        ("timer_create", [3, 0, ADDRESS, 0, 0, 0], ACTS),
        ("timer_create", [-2i64 as u64, 0, ADDRESS, 0, 0, 0], ACTS),
        ("timer_create", [2, 0, ADDRESS, 0, 0, 0], None),
        ("clock_gettime", [3, ADDRESS, 0, 0, 0, 0], ANSWERS),
        ("clock_gettime", [UP | 3, ADDRESS, 0, 0, 0, 0], ANSWERS),
        ("clock_gettime", [-2i32 as u32 as u64, ADDRESS, 0, 0, 0, 0], ANSWERS),
        ("clock_gettime", [-3i64 as u64, ADDRESS, 0, 0, 0, 0], ANSWERS),
        ("clock_gettime", [-4i64 as u64, ADDRESS, 0, 0, 0, 0], ANSWERS),
        ("clock_gettime", [1, ADDRESS, 0, 0, 0, 0], None),
        // The process's clock; the clock of descriptor 0; of thread 1.
        ("clock_gettime", [-6i64 as u64, ADDRESS, 0, 0, 0, 0], None),
        ("clock_gettime", [-5i64 as u64, ADDRESS, 0, 0, 0, 0], None),
        ("clock_gettime", [(!1i64 << 3 | 6) as u64, ADDRESS, 0, 0, 0, 0], None),
        ("perf_event_open", [ADDRESS, 0, -1i64 as u64, 0, 0, 0], ACTS),
        ("perf_event_open", [ADDRESS, 0, 0, -1i64 as u64, 8, 0], ACTS),
        ("perf_event_open", [ADDRESS, 0, 0, -1i64 as u64, 4, 0], None),
        ("perf_event_open", [ADDRESS, -1i64 as u64, 0, 0, 0, 0], None),
        ("io_uring_enter", [3, 1, 0, 0, 0, 0], ACTS),
        ("io_uring_enter", [3, 0, 1, 1, ADDRESS, 8], SIGNALS),
        ("io_uring_enter", [3, 0, 1, 1 | 16, 0, 0], ACTS),
        ("io_uring_enter", [3, 0, 1, 1, 0, 0], None),
        ("io_uring_register", [0, 1 << 31 | 9, 0, 0, 0, 0], ACTS),
        ("io_uring_register", [3, 20, ADDRESS, 1, 0, 0], ACTS),
        ("io_uring_register", [3, 12, 0, 0, 0, 0], ACTS),
        ("io_uring_register", [3, 17, ADDRESS, 8, 0, 0], ACTS),
        ("io_uring_register", [3, 19, ADDRESS, 2, 0, 0], ACTS),
        ("io_uring_register", [3, 2, ADDRESS, 4, 0, 0], None),
        ("sched_setaffinity", [0, 8, ADDRESS, 0, 0, 0], ACTS),
        ("sched_setaffinity", [UP, 8, ADDRESS, 0, 0, 0], ACTS),
        ("sched_setaffinity", [77, 8, ADDRESS, 0, 0, 0], None),
        ("sched_setscheduler", [0, 0, ADDRESS, 0, 0, 0], ACTS),
        ("sched_setscheduler", [77, 0, ADDRESS, 0, 0, 0], None),
        ("sched_setparam", [0, ADDRESS, 0, 0, 0, 0], ACTS),
        ("sched_setparam", [77, ADDRESS, 0, 0, 0, 0], None),
        ("sched_setattr", [0, ADDRESS, 0, 0, 0, 0], ACTS),
        ("sched_setattr", [77, ADDRESS, 0, 0, 0, 0], None),
        ("setpriority", [0, 0, 5, 0, 0, 0], ACTS),
        ("setpriority", [0, 77, 5, 0, 0, 0], None),
        ("setpriority", [1, 0, 5, 0, 0, 0], None),
        ("ioprio_set", [1, 0, 0x4000, 0, 0, 0], ACTS),
        ("ioprio_set", [1, 77, 0x4000, 0, 0, 0], None),
        ("ioprio_set", [2, 0, 0x4000, 0, 0, 0], None),
        ("sched_getaffinity", [0, 8, ADDRESS, 0, 0, 0], ANSWERS),
        ("sched_getaffinity", [77, 8, ADDRESS, 0, 0, 0], None),
        ("sched_getscheduler", [0, 0, 0, 0, 0, 0], ANSWERS),
        ("sched_getscheduler", [77, 0, 0, 0, 0, 0], None),
        ("sched_getparam", [0, ADDRESS, 0, 0, 0, 0], ANSWERS),
        ("sched_getparam", [77, ADDRESS, 0, 0, 0, 0], None),
        ("sched_getattr", [0, ADDRESS, 56, 0, 0, 0], ANSWERS),
        ("sched_getattr", [77, ADDRESS, 56, 0, 0, 0], None),
        ("sched_rr_get_interval", [0, ADDRESS, 0, 0, 0, 0], ANSWERS),
        ("sched_rr_get_interval", [77, ADDRESS, 0, 0, 0, 0], None),
        ("getpriority", [0, 0, 0, 0, 0, 0], ANSWERS),
        ("getpriority", [0, 77, 0, 0, 0, 0], None),
        ("getpriority", [2, 0, 0, 0, 0, 0], None),
        ("ioprio_get", [1, 0, 0, 0, 0, 0], ANSWERS),
        ("ioprio_get", [1, 77, 0, 0, 0, 0], None),
        ("getrusage", [1, ADDRESS, 0, 0, 0, 0], ANSWERS),
        ("getrusage", [0, ADDRESS, 0, 0, 0, 0], None),
        ("getrusage", [-1i64 as u64, ADDRESS, 0, 0, 0, 0], None),
    ]
};

#[test]
fn arguments_decide_where_they_must() {
    let mut hit = BTreeSet::new();
    let mut passed = BTreeSet::new();
    for (name, args, expected) in CASES {
        let refusal = refusal_of(number(name), 6, args);
        assert_eq!(refusal.map(|refusal| refusal.kind), *expected, "{name} {args:x?}");
        match refusal {
            Some(refusal) => drop(hit.insert((*name, refusal.when))),
            None => drop(passed.insert(*name)),
        }
    }
    for refusal in refusals().filter(|refusal| refusal.when.is_some()) {
        let Refusal { name, when, .. } = refusal;
        assert!(hit.contains(&(name, *when)), "no case for {name} with {when:?}");
        // Of these two either form is refused: to change and to ask.
        let both = ["rt_sigprocmask", "sigaltstack"].contains(name);
        assert!(both || passed.contains(name), "no case in which {name} is allowed");
    }
}

#[test]
fn arguments_that_were_not_given_count_as_zero() {
    let of_thread_77 = [77, 8, 0x7000, 0, 0, 0];
    let sysnum = number("sched_setaffinity");
    assert_eq!(refusal_of(sysnum, 3, &of_thread_77), None);
    assert_eq!(refusal_of(sysnum, 1, &of_thread_77), None);
    assert!(refusal_of(sysnum, 0, &of_thread_77).is_some());
    // More than there are do not count either; they are the area's to refuse.
    assert_eq!(refusal_of(sysnum, u16::MAX, &of_thread_77), None);
    assert_eq!(refusal_of(number("ppoll"), 3, &[0x7000; 6]), None);
    assert!(refusal_of(number("ppoll"), 5, &[0x7000; 6]).is_some());
}

#[test]
fn a_refusal_says_which_call_when_and_why() {
    let text = |name: &str| refusal_of(number(name), 6, &[0; 6]).unwrap().to_string();
    assert_eq!(
        text("gettid"),
        "gettid is not made for another thread: it gives the id of the calling thread"
    );
    assert_eq!(
        text("sched_getparam"),
        "sched_getparam with pid 0 (the calling thread) is not made for another thread: it gives \
         the schedule of the calling thread"
    );
}

proptest! {
    #[test]
    fn the_quick_answer_is_that_of_the_table(
        sysnum in 0u16..600,
        args_num in 0u16..8,
        args in proptest::array::uniform6(prop_oneof![0u64..8, any::<u64>()]),
    ) {
        let counted: [u64; 6] =
            std::array::from_fn(|i| if i < usize::from(args_num) { args[i] } else { 0 });
        let slow = RULES
            .iter()
            .find(|rule| {
                rule.sysnum() == sysnum && rule.applies.is_none_or(|applies| applies(&counted))
            })
            .map(|rule| &rule.refusal)
            .or(X32_NUMBERS.contains(&sysnum).then_some(&X32));
        prop_assert_eq!(refusal_of(sysnum, args_num, &args), slow);
        if let Some(always) = refusal(sysnum) {
            prop_assert_eq!(slow, Some(always));
        }
    }
}
