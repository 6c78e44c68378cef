use std::collections::BTreeSet;

use kumiki_sys::syscall;
use proptest::prelude::*;

use super::*;
use crate::callset::NUMBERS;

/// Calls that are in the kernel's table, and not in that of names.
const UNNAMED: &[(u16, &str)] = &[(471, "rseq_slice_yield")];

fn number(name: &str) -> u16 {
    if let Some((number, _)) = UNNAMED.iter().find(|(_, unnamed)| *unnamed == name) {
        return *number;
    }
    syscall::number(name).unwrap_or_else(|| panic!("no call is called {name}")) as u16
}

#[test]
fn a_call_without_a_refusal_is_allowed_with_any_arguments() {
    let refused: BTreeSet<&str> = refusals().map(|refusal| refusal.name).collect();
    for (sysnum, name) in (0..NUMBERS).filter_map(|number| Some((number, syscall::name(number)?))) {
        if !refused.contains(name) {
            assert_eq!(refusal_of(sysnum as u16, 6, &[u64::MAX; 6]), None, "{name}");
        }
    }
}

#[test]
fn the_table_reaches_no_further_than_the_bits() {
    assert_eq!((NUMBERS..=u16::MAX.into()).find_map(syscall::name), None);
}

#[test]
fn what_is_refused_always_is_refused_with_any_arguments() {
    let rows = ROWS.iter().flat_map(|row| row.rules().map(|rule| (row.sysnum, &rule.refusal)));
    for (sysnum, refusal) in rows.chain(X32_NUMBERS.map(|sysnum| (sysnum, &X32))) {
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
    // Later processors lack the oldest ones.
    let is_here = |name: &&str| {
        cfg!(target_arch = "x86_64")
            || syscall::number(name).is_some()
            || UNNAMED.iter().any(|(_, unnamed)| unnamed == name)
    };
    for name in names.split_whitespace().filter(is_here) {
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
        let slow = ROWS
            .iter()
            .filter(|row| row.sysnum == sysnum)
            .flat_map(|row| row.rules())
            .find(|rule| rule.applies.is_none_or(|applies| applies(&counted)))
            .map(|rule| &rule.refusal)
            .or(X32_NUMBERS.contains(&sysnum).then_some(&X32));
        prop_assert_eq!(refusal_of(sysnum, args_num, &args), slow);
        if let Some(always) = refusal(sysnum) {
            prop_assert_eq!(slow, Some(always));
        }
    }
}
