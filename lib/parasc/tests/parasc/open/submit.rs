use std::future::Future;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use kumiki_parasc::op::{CWD, Close, Errno, Openat, Pread, Read};
use kumiki_parasc::{AllowList, Config, Engine, Error, Operation, Pending};
use rustix::fs::{Mode, OFlags};

use super::{engine, getppid, ppid, read_of_pipe, release, until_made};

/// A waker for a thread that parks.
struct Unpark(thread::Thread, AtomicUsize);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, SeqCst);
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let unpark = Arc::new(Unpark(thread::current(), AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&unpark));
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn zero() -> Read<std::fs::File, Box<[u8]>> {
    Read::new(std::fs::File::open("/dev/zero").unwrap(), vec![1; 100].into())
}

#[test]
fn a_future_gives_output_and_operation() {
    let engine = engine();
    for _ in 0..100 {
        let completed = block_on(engine.submit(zero())).unwrap();
        assert_eq!(completed.output, Ok(100));
        assert_eq!(completed.operation.filled(), [0; 100]);
    }
}

#[test]
fn a_thread_waits_with_and_without_a_limit() {
    let engine = engine();
    assert_eq!(engine.submit(zero()).wait().unwrap().output, Ok(100));
    let (read, writer) = read_of_pipe();
    let pending = engine.submit(read);
    let pending = pending.wait_timeout(Duration::from_millis(20)).unwrap_err();
    let pending = pending.wait_timeout(Duration::ZERO).unwrap_err();
    release(writer);
    let completed = pending.wait_timeout(Duration::MAX).unwrap().unwrap();
    assert_eq!(completed.output, Ok(2));
    assert_eq!(completed.operation.filled(), b"go");
}

#[test]
fn an_error_of_the_kernel_is_an_output() {
    let (read, _writer) = read_of_pipe();
    let pread = Pread::new(read.into_parts().0, 0, [0; 8]);
    assert_eq!(engine().submit(pread).wait().unwrap().output, Err(Errno::SPIPE));
}

#[test]
fn a_close_that_is_not_made_leaves_nothing_open() {
    let list = AllowList::none().allow("getppid").unwrap();
    let strict = Engine::new(&Config { allow: Some(list), ..Config::default() }).unwrap();
    let over = engine();
    over.shut_down_timeout(Duration::from_secs(60));
    for engine in [&strict, &over] {
        let (reader, mut writer) = kumiki_sys::descriptors::pipe().unwrap();
        drop(engine.submit(Close::new(reader)));
        assert_eq!(writer.write(b"x").unwrap_err().kind(), std::io::ErrorKind::BrokenPipe);
    }
    // Taken back, or made: which of the two is a matter of time.
    let engine = engine();
    for _ in 0..200 {
        let (reader, mut writer) = kumiki_sys::descriptors::pipe().unwrap();
        drop(engine.submit(Close::new(reader)));
        // Fewer than the pipe holds.
        let closes = (0..60_000).any(|_| {
            let closed = writer.write(b"x").is_err();
            thread::sleep(Duration::from_millis(u64::from(!closed)));
            closed
        });
        assert!(closes);
    }
}

#[test]
fn what_may_not_be_made_comes_back() {
    let list = AllowList::none().allow("getppid").unwrap();
    let engine = Engine::new(&Config { allow: Some(list), ..Config::default() }).unwrap();
    let failed = engine.submit(zero()).wait().unwrap_err();
    assert!(matches!(failed.error, Error::NotAllowed { index: 0, .. }));
    assert_eq!(failed.operation.into_buffer()[..], [1; 100]);
    // SAFETY: refused.
    let exit = unsafe { engine.submit_raw(kumiki_parasc::Request::new(libc::SYS_exit, [0])) };
    assert!(matches!(block_on(exit).unwrap_err().error, Error::Refused { .. }));
    // SAFETY: takes no argument.
    let pending = unsafe { engine.submit_raw(getppid()) };
    assert_eq!(pending.wait().unwrap().output, ppid());
}

#[test]
fn more_requests_than_slots_are_all_made() {
    let engine = Engine::new(&Config { slots: 2, ..Config::default() }).unwrap();
    // SAFETY: takes no argument.
    let pending: Vec<_> = (0..500).map(|_| unsafe { engine.submit_raw(getppid()) }).collect();
    for pending in pending {
        assert_eq!(block_on(pending).unwrap().output, ppid());
    }
}

#[test]
fn many_threads_submit_at_once() {
    let engine = Engine::new(&Config { slots: 8, ..Config::default() }).unwrap();
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let engine = &engine;
            scope.spawn(move || {
                for round in 0..200 {
                    let offset = thread * 1000 + round;
                    let mut file = tempfile::tempfile().unwrap();
                    std::io::Write::write_all(&mut file, &offset.to_ne_bytes()).unwrap();
                    let pending: Vec<_> = (0..4)
                        .map(|_| engine.submit(Pread::new(file.try_clone().unwrap(), 0, [0; 8])))
                        .collect();
                    for pending in pending {
                        let completed = block_on(pending).unwrap();
                        assert_eq!(completed.output, Ok(8));
                        assert_eq!(completed.operation.filled(), offset.to_ne_bytes());
                    }
                }
            });
        }
    });
}

#[test]
fn calls_that_block_do_not_hold_up_others() {
    let engine = engine();
    let mut blocked = Vec::new();
    let mut cheap = Vec::new();
    for _ in 0..40 {
        let (read, writer) = read_of_pipe();
        blocked.push((engine.submit(read), writer));
        // SAFETY: takes no argument.
        cheap.push(unsafe { engine.submit_raw(getppid()) });
    }
    for pending in cheap {
        // A future: nobody but processing threads makes it.
        assert_eq!(block_on(pending).unwrap().output, ppid());
    }
    for (pending, writer) in blocked {
        release(writer);
        assert_eq!(block_on(pending).unwrap().output, Ok(2));
    }
}

#[test]
fn calls_that_block_unexpectedly_do_not_hold_up_others() {
    // splice(2) of an empty pipe is not known to sleep.
    let engine = engine();
    let out = std::fs::File::options().write(true).open("/dev/null").unwrap();
    let mut blocked = Vec::new();
    let mut cheap = Vec::new();
    for _ in 0..20 {
        let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
        let args = [reader.as_raw_fd() as u64, 0, out.as_raw_fd() as u64, 0, 2, 0];
        let splice = kumiki_parasc::Request::new(libc::SYS_splice, args);
        assert!(!kumiki_parasc::may_sleep(&splice), "choose another call");
        // SAFETY: no pointers, and descriptors that stay open.
        blocked.push((unsafe { engine.submit_raw(splice) }, writer, reader));
        // SAFETY: takes no argument.
        cheap.push(unsafe { engine.submit_raw(getppid()) });
    }
    for pending in cheap {
        assert_eq!(block_on(pending).unwrap().output, ppid());
    }
    for (pending, writer, _reader) in blocked {
        release(writer);
        assert_eq!(block_on(pending).unwrap().output, 2);
    }
}

#[test]
fn a_request_is_taken_back_or_goes_on() {
    let config = Config { threads: 1, ..Config::default() };
    let engine = Engine::new(&config).unwrap();
    let (first, writer) = read_of_pipe();
    let first = engine.submit(first);
    let (mut taken, mut left) = (0, Vec::new());
    for _ in 0..600 {
        let (second, writer) = read_of_pipe();
        match engine.submit(second).cancel() {
            Ok(operation) => {
                taken += 1;
                // It can be submitted again.
                assert!(!operation.into_parts().1.is_empty());
            }
            Err(pending) => left.push((pending, writer)),
        }
    }
    assert!(taken > 500, "{taken} of 600: one thread is in the pool, and it blocks");
    left.into_iter().for_each(|(pending, writer)| {
        release(writer);
        assert_eq!(pending.wait().unwrap().output, Ok(2));
    });
    release(writer);
    let done = block_on(first).unwrap();
    assert_eq!(done.output, Ok(2));
    // One that has ended cannot be cancelled.
    // SAFETY: takes no argument.
    let pending = unsafe { engine.submit_raw(getppid()) };
    while !pending.is_done() {
        thread::yield_now();
    }
    assert_eq!(pending.cancel().unwrap_err().wait().unwrap().output, ppid());
}

/// Counts itself, to be seen when it is dropped and completed.
struct Counted<O>(O, Arc<[AtomicUsize; 2]>);

// SAFETY: those of the operation within.
unsafe impl<O: Operation> Operation for Counted<O> {
    type Output = O::Output;

    fn request(&mut self) -> kumiki_parasc::Request {
        self.0.request()
    }

    unsafe fn complete(&mut self, ret_val: i64) -> O::Output {
        self.1[0].fetch_add(1, SeqCst);
        // SAFETY: the caller vouches for it.
        unsafe { self.0.complete(ret_val) }
    }
}

impl<O> Drop for Counted<O> {
    fn drop(&mut self) {
        self.1[1].fetch_add(1, SeqCst);
    }
}

fn wait_for(counter: &AtomicUsize, value: usize) {
    while counter.load(SeqCst) != value {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_buffer_stays_until_the_call_is_over() {
    let engine = engine();
    let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let (read, writer) = read_of_pipe();
    let mut read = Counted(read, Arc::clone(&counts));
    let request = read.request();
    let pending = engine.submit(read);
    until_made(&request);
    drop(pending);
    assert_eq!(counts[1].load(SeqCst), 0);
    release(writer);
    wait_for(&counts[1], 1);
    assert_eq!(counts[0].load(SeqCst), 1);
}

#[test]
fn an_opened_file_that_nobody_wants_is_closed() {
    let engine = engine();
    let counts = Arc::new([const { AtomicUsize::new(0) }; 2]);
    let folder = tempfile::tempdir().unwrap();
    let fifo = kumiki_parasc::op::path::terminated(folder.path().join("fifo")).unwrap();
    rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let open = Openat::new(CWD, fifo.clone(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let mut open = Counted(open, Arc::clone(&counts));
    let request = open.request();
    let pending = engine.submit(open);
    // It blocks until there is a writer.
    until_made(&request);
    drop(pending);
    let writer = rustix::fs::open(&fifo, OFlags::WRONLY, Mode::empty()).unwrap();
    wait_for(&counts[0], 1);
    wait_for(&counts[1], 1);
    // Nobody reads any more.
    assert_eq!(rustix::io::write(&writer, b"x"), Err(Errno::PIPE));
}

#[test]
fn close_is_made_once() {
    let engine = engine();
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    let closed = engine.submit(Close::new(writer)).wait().unwrap();
    assert_eq!(closed.output, Ok(()));
    assert_eq!(rustix::io::read(&reader, &mut [0; 1][..]), Ok(0));
}

#[test]
fn without_any_thread_the_caller_makes_the_call() {
    let cpus = Some(kumiki_sys::cpuset::CpuSet::default());
    let engine = Engine::new(&Config { cpus, threads: 0, ..Config::default() }).unwrap();
    let mut pending = engine.submit(zero());
    assert!(pending.is_done());
    let polled = pin!(&mut pending).poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(polled, Poll::Ready(Ok(done)) if done.output == Ok(100)));
    assert_eq!(engine.threads(), 0);
}

#[test]
fn pending_is_send() {
    fn send<T: Send>(_: &T) {}
    let pending: Pending<_> = engine().submit(zero());
    send(&pending);
}
