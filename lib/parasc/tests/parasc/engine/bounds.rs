//! What is refused: with an error that says why, and nothing executed.

use std::os::fd::AsRawFd;

use kumiki_parasc::{AllowList, Config, Engine, Error, Request};
use kumiki_sys::cpuset::CpuSet;
use rustix::event::{EventfdFlags, eventfd};

use super::{engine, getppid, parents};

/// Runs a batch that must fail, whose every other call adds to a counter.
/// Nothing must have been added.
fn fails(config: Config, bad: Request, at: usize, count: usize) -> Error {
    let engine = engine(config);
    let mut requester = engine.requester().unwrap();
    let counter = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    let one = 1u64;
    let args = [counter.as_raw_fd() as u64, &raw const one as u64, 8];
    let mut requests = vec![Request::new(libc::SYS_write, args); count];
    requests[at] = bad;
    let mut results = vec![-1; count];
    // SAFETY: one number is read from a local.
    let error = unsafe { requester.run_raw(&requests, &mut results) }.unwrap_err();
    assert_eq!(results, vec![-1; count]);
    // Empty: a counter of 0 is not read.
    let read = rustix::io::read(&counter, &mut [0; 8]);
    assert_eq!(read, Err(rustix::io::Errno::AGAIN));
    // The lane goes on.
    if engine_allows_getppid(&error) {
        parents(&mut requester, 10);
    }
    error
}

fn engine_allows_getppid(error: &Error) -> bool {
    !matches!(error, Error::NotAllowed { .. })
}

#[test]
fn refused_calls() {
    for (at, count) in [(0, 1), (0, 2), (1, 2), (299, 300), (513, 1200)] {
        let bad = Request::new(libc::SYS_exit_group, [3]);
        let error = fails(Config::default(), bad, at, count);
        assert!(matches!(error, Error::Refused { index, .. } if index == at), "{error}");
        assert!(error.to_string().contains("exit_group"), "{error}");
        assert!(error.to_string().ends_with("nothing was executed"), "{error}");
    }
}

#[test]
fn calls_that_are_refused_for_their_arguments_among_others_of_the_same_number() {
    let engine = engine(Config::default());
    let mut requester = engine.requester().unwrap();
    // Of another thread it may be asked, of the calling one, 0, not.
    let own = u64::from(std::process::id());
    for (at, count) in [(0, 2), (1, 2), (7, 10), (299, 300), (513, 1200)] {
        let mut params = vec![0u64; count];
        let ask =
            |param: &mut u64| Request::new(libc::SYS_sched_getparam, [own, &raw mut *param as u64]);
        let mut requests: Vec<Request> = params.iter_mut().map(ask).collect();
        let mut results = vec![-1; count];
        // SAFETY: each has room of its own.
        unsafe { requester.run_raw(&requests, &mut results) }.unwrap();
        assert_eq!(results, vec![0; count]);
        requests[at].args[0] = 0;
        results.fill(-1);
        // SAFETY: as above.
        let error = unsafe { requester.run_raw(&requests, &mut results) }.unwrap_err();
        assert!(matches!(error, Error::Refused { index, .. } if index == at), "{error}");
        assert_eq!(results, vec![-1; count]);
    }
}

#[test]
fn calls_that_are_not_allowed() {
    for (at, count) in [(0, 1), (3, 4), (700, 1200)] {
        let allow = Some(AllowList::none().allow("write").unwrap());
        let error = fails(Config { allow, ..Config::default() }, getppid(), at, count);
        assert!(matches!(error, Error::NotAllowed { index, .. } if index == at), "{error}");
        let text = error.to_string();
        assert!(text.contains("getppid") && text.contains("allow-list"), "{text}");
        assert!(!text.contains("::"), "a C program gets it too: {text}");
    }
}

#[test]
fn too_many_arguments() {
    for (at, count) in [(0, 1), (3, 4), (700, 1200)] {
        let bad = Request { args_num: 7, ..getppid() };
        let error = fails(Config::default(), bad, at, count);
        assert!(
            matches!(error, Error::TooManyArguments { index, count: 7 } if index == at),
            "{error}"
        );
    }
}

#[test]
fn a_number_that_is_no_call_is_the_kernels_to_refuse() {
    let engine = engine(Config::default());
    let mut requester = engine.requester().unwrap();
    let unknown = Request::new(40_000, []);
    let refused = -i64::from(libc::ENOSYS);
    assert_eq!(super::run(&mut requester, &[unknown; 20]), [refused; 20]);
}

#[test]
fn lengths_that_differ() {
    let engine = engine(Config::default());
    let mut requester = engine.requester().unwrap();
    for (requests, room) in [(0, 1), (1, 0), (1, 2), (2, 1), (600, 599)] {
        let mut results = vec![-1; room];
        // SAFETY: getppid takes nothing and changes nothing.
        let ran = unsafe { requester.run_raw(&vec![getppid(); requests], &mut results) };
        let error = ran.unwrap_err();
        assert!(
            matches!(error, Error::Lengths { requests: r, results: l } if r == requests && l == room),
            "{error}"
        );
        assert_eq!(results, vec![-1; room]);
    }
}

#[test]
fn lanes_are_exhausted_and_come_back() {
    for count in [1, 61] {
        let engine = engine(Config { requesters: count, ..Config::default() });
        let mut requesters: Vec<_> = (0..count).map(|_| engine.requester().unwrap()).collect();
        let error = engine.requester().unwrap_err();
        assert!(matches!(error, Error::NoLane { lanes, most: 61 } if lanes == count), "{error}");
        requesters.swap_remove(count / 2);
        let mut again = engine.requester().unwrap();
        parents(&mut again, 100);
        engine.requester().unwrap_err();
    }
}

#[test]
fn a_cpu_that_is_not_there() {
    // Linux has no cpu of that number (CONFIG_NR_CPUS is at most 8192).
    let cpus = Some(CpuSet::from_iter([0, 100_000]));
    let error = Engine::new(&Config { cpus, ..Config::default() }).unwrap_err();
    assert!(error.to_string().contains("cpu 100000 is not online"), "{error}");
}

#[test]
fn a_configuration_out_of_range() {
    let default = Config::default;
    for (config, what) in [
        (Config { requesters: 0, ..default() }, "requesters of 0 is out of range: choose 1 to 61"),
        (Config { requesters: 62, ..default() }, "requesters of 62"),
        (Config { slots: 1, ..default() }, "slots of 1 is out of range: choose 2 to 4096"),
        (Config { slots: 4097, ..default() }, "slots of 4097"),
        (Config { slots: usize::MAX, ..default() }, "out of range"),
        (Config { threads: 65, ..default() }, "threads of 65 is out of range: choose 0 to 64"),
    ] {
        let error = Engine::new(&config).unwrap_err();
        assert!(matches!(error, Error::Config { .. }), "{error}");
        assert!(error.to_string().contains(what), "{error}");
    }
}
