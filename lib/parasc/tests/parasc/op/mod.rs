//! Every operation, made for real: one success at least and one error.

mod asked;
mod attr;
mod copy;
mod dir;
mod epoll;
mod event;
mod file;
mod lock;
mod memory;
mod message;
mod pair;
mod process;
mod socket;
mod sync;
mod vectored;
mod xattr;

use std::sync::LazyLock;
use std::time::Duration;

use kumiki_parasc::{Completed, Config, Engine, Operation, Pending};
use kumiki_sys::syscall;

/// Makes the call at once, on this thread.
fn execute<O: Operation>(op: &mut O) -> O::Output {
    let request = op.request();
    let mut args = [0; syscall::MAX_ARGS];
    let used = usize::from(request.args_num);
    args[..used].copy_from_slice(&request.args[..used]);
    // SAFETY: an operation's own request, made while it stays where it is.
    let ret_val = unsafe { syscall::raw(request.sysnum.into(), args) };
    // SAFETY: just made, once.
    unsafe { op.complete(ret_val) }
}

/// Gives the operation to an engine.
fn submit<O: Operation + Send + 'static>(op: O) -> Pending<O> {
    static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(&Config::default()).unwrap());
    ENGINE.submit(op)
}

/// Has an engine's thread make the call.
fn completed<O: Operation + Send + 'static>(op: O) -> Completed<O> {
    // A wait without a limit might make it here.
    let ended = submit(op).wait_timeout(Duration::from_secs(120));
    ended.expect("hangs").unwrap()
}

/// The name of a file in a folder, for the kernel.
fn name(folder: &tempfile::TempDir, file: &str) -> std::ffi::CString {
    kumiki_parasc::op::path::terminated(folder.path().join(file)).unwrap()
}

/// What a future needs: it outlives its maker and goes from thread to thread.
#[test]
fn operations_that_own_all_they_need_are_independent() {
    use kumiki_parasc::op::*;
    use std::ffi::CString;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;

    fn independent<O: Operation + std::marker::Send + 'static>() {}
    independent::<Openat<Arc<OwnedFd>, CString>>();
    independent::<Openat2<Arc<OwnedFd>, CString>>();
    independent::<Close>();
    independent::<Pread<Arc<OwnedFd>, Vec<u8>>>();
    independent::<Write<Arc<OwnedFd>, Box<[u8]>>>();
    independent::<CopyFileRange<OwnedFd, OwnedFd>>();
    independent::<Getdents64<OwnedFd, Box<[u8]>>>();
    independent::<Statx<OwnedFd, CString>>();
    independent::<Statfs<CString>>();
    independent::<OfdGetlk<OwnedFd>>();
    independent::<Accept4<OwnedFd>>();
    independent::<Sendto<OwnedFd, Vec<u8>>>();
    independent::<Recvfrom<OwnedFd, Vec<u8>>>();
    independent::<Getsockopt<OwnedFd, Vec<u8>>>();
    independent::<Getsockname<OwnedFd>>();
    independent::<Socketpair>();
    independent::<EpollCtl<OwnedFd, Arc<OwnedFd>>>();
    independent::<EpollWait<OwnedFd>>();
    independent::<Mincore<Vec<u8>>>();
    independent::<Mmap<OwnedFd>>();
    independent::<Poll<OwnedFd>>();
    independent::<ProcessVmReadv<Vec<u8>>>();
    independent::<Readv<OwnedFd, Vec<u8>>>();
    independent::<Preadv2<OwnedFd, Vec<u8>>>();
    independent::<Writev<OwnedFd, Vec<u8>>>();
    independent::<Pwritev2<OwnedFd, Box<[u8]>>>();
    independent::<Sendmsg<OwnedFd, Vec<u8>, Arc<OwnedFd>>>();
    independent::<Recvmsg<OwnedFd, Vec<u8>>>();
    independent::<Raw>();
}
