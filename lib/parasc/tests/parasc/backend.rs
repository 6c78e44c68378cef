//! The backends, as a program chooses them.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::thread;

use kumiki_parasc::backend::availability;
use kumiki_parasc::{Backend, Config, Engine, Error, Request, Requester};

fn engine(backend: Backend) -> Result<Engine, Error> {
    Engine::new(&Config { backend, ..Config::default() })
}

fn run(requester: &mut Requester, requests: &[Request]) -> Vec<i64> {
    let mut results = vec![i64::MIN; requests.len()];
    // SAFETY: requests of these tests point to what lives in them.
    unsafe { requester.run_raw(requests, &mut results) }.unwrap();
    results
}

/// Reads of 100 bytes each from a file of 950, at their own places.
fn reads(file: &File, buffers: &mut [[u8; 100]]) -> Vec<Request> {
    let fd = file.as_raw_fd() as u64;
    let read = |(at, buffer): (usize, &mut [u8; 100])| {
        Request::new(libc::SYS_pread64, [fd, buffer.as_mut_ptr() as u64, 100, at as u64 * 100])
    };
    buffers.iter_mut().enumerate().map(read).collect()
}

fn check_reads(requester: &mut Requester, file: &File) {
    let mut buffers = [[0; 100]; 12];
    let requests = reads(file, &mut buffers);
    let results = run(requester, &requests);
    assert_eq!(results, [100, 100, 100, 100, 100, 100, 100, 100, 100, 50, 0, 0]);
    let whole: Vec<u8> = buffers.concat();
    assert!(whole[..950].iter().enumerate().all(|(at, byte)| *byte == at as u8));
}

fn a_file() -> File {
    let bytes: Vec<u8> = (0..950).map(|at| at as u8).collect();
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
    file
}

#[test]
fn all_give_the_same() {
    let file = a_file();
    for backend in [Backend::Auto, Backend::User] {
        let engine = engine(backend).unwrap();
        let mut requester = engine.requester().unwrap();
        // Enough for all ways to be tried.
        for _ in 0..1200 {
            check_reads(&mut requester, &file);
        }
        // Calls that learn nothing of each other.
        let parent = std::os::unix::process::parent_id().into();
        let mut mixed = vec![Request::new(libc::SYS_getppid, []); 3];
        assert_eq!(run(&mut requester, &mixed), [parent; 3]);
        mixed.push(Request::new(libc::SYS_close, [u64::MAX]));
        assert_eq!(run(&mut requester, &mixed)[3], -i64::from(libc::EBADF));
    }
}

#[test]
fn a_requester_goes_on_in_another_thread() {
    let engine = engine(Backend::User).unwrap();
    let mut requester = engine.requester().unwrap();
    let file = a_file();
    check_reads(&mut requester, &file);
    thread::scope(|scope| scope.spawn(|| check_reads(&mut requester, &file)).join()).unwrap();
    check_reads(&mut requester, &file);
}

#[test]
fn a_child_of_fork_makes_its_calls_itself() {
    let engine = engine(Backend::User).unwrap();
    let mut requester = engine.requester().unwrap();
    let file = a_file();
    check_reads(&mut requester, &file);
    let mut buffers = [[0; 100]; 12];
    let requests = reads(&file, &mut buffers);
    let mut results = [0; 12];
    // SAFETY: the child makes system calls on memory of its own and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        let ran = unsafe { requester.run_raw(&requests, &mut results) };
        let good = ran.is_ok() && results[0] == 100 && results[9] == 50 && results[11] == 0;
        // SAFETY: ends the child without running what belongs to the parent.
        unsafe { libc::_exit(if good { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    check_reads(&mut requester, &file);
}

#[test]
fn a_backend_that_is_not_there_says_so() {
    if !std::path::Path::new("/dev/kumiki-parasc").exists() {
        let text = engine(Backend::Kernel).unwrap_err().to_string();
        assert!(text.contains("backend kernel is not available: module kumiki-parasc"), "{text}");
        assert!(text.contains("choose backend user"), "{text}");
    }
    let kernel = availability().into_iter().find(|one| one.backend == Backend::Kernel).unwrap();
    assert!(!kernel.auto && kernel.available == kernel.remedy.is_none(), "{kernel:?}");
}

/// Sets a seccomp filter that answers one system call with EPERM. For the
/// calling thread and those that it starts.
fn forbid(sysnum: libc::c_long) {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let deny = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    // The number is the first word of `struct seccomp_data`.
    let mut program = [
        step(load, 0, 0),
        step(equal, 1, sysnum as u32),
        step(answer, 0, deny),
        step(answer, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: takes numbers only; needed by unprivileged users for the next.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    let set = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the kernel copies the program.
    let done = unsafe { libc::syscall(libc::SYS_seccomp, set, 0, &filter) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Runs in a thread of its own, with its own filters.
fn aside(test: impl FnOnce() + Send + 'static) {
    thread::spawn(test).join().unwrap();
}

fn statx_results(backend: Backend, batches: usize) -> Vec<i64> {
    let engine = engine(backend).unwrap();
    let mut requester = engine.requester().unwrap();
    let mut stats = vec![[0u8; 256]; 16];
    let request = |stat: &mut [u8; 256]| {
        let (folder, path) = (libc::AT_FDCWD as u64, c"/".as_ptr() as u64);
        Request::new(libc::SYS_statx, [folder, path, 0, 0x7ff, stat.as_mut_ptr() as u64])
    };
    let requests: Vec<_> = stats.iter_mut().map(request).collect();
    (0..batches).flat_map(|_| run(&mut requester, &requests)).collect()
}

#[test]
fn a_filter_sees_each_call() {
    aside(|| {
        forbid(libc::SYS_statx);
        let refused = -i64::from(libc::EPERM);
        for backend in [Backend::User, Backend::Auto] {
            // More than a thousand batches, so that each way has its turn.
            let results = statx_results(backend, 1100);
            assert!(results.iter().all(|result| *result == refused), "{backend}");
        }
    });
}

#[test]
fn where_a_filter_forbids_io_uring_all_goes_on() {
    aside(|| {
        forbid(libc::SYS_io_uring_setup);
        let engine = engine(Backend::Auto).unwrap();
        let mut requester = engine.requester().unwrap();
        let file = a_file();
        for _ in 0..200 {
            check_reads(&mut requester, &file);
        }
    });
}
