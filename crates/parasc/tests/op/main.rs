//! Every operation, made for real: one success at least and one error.

mod attr;
mod dir;
mod file;
mod sync;

use kumiki_parasc::Operation;
use kumiki_sys::syscall;

/// Makes the call at once, on this thread.
fn execute<O: Operation>(op: &mut O) -> O::Output {
    let request = op.request();
    let mut args = [0; syscall::MAX_ARGS];
    let used = usize::from(request.args_num);
    args[..used].copy_from_slice(&request.args[..used]);
    // SAFETY: an operation's own request, made while it stays where it is.
    let ret_val = unsafe { syscall::raw(request.sysnum.into(), args) };
    op.complete(ret_val)
}

/// The name of a file in a folder, for the kernel.
fn name(folder: &tempfile::TempDir, file: &str) -> std::ffi::CString {
    kumiki_parasc::op::path::terminated(folder.path().join(file)).unwrap()
}
