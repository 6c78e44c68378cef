//! The ways to start a program, each as one function: from the path to the
//! child's process id.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;
use std::ptr::null;
use std::slice;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus, waitpid};

use super::raw;
use kumiki_measure::error::{Error, Result};

/// A program to start: its path is its first argument, and the environment is
/// empty, so that the strings cost the same everywhere.
#[derive(Debug)]
pub struct Target {
    path: CString,
    /// The path, quoted for a shell, which gets no other argument.
    command: CString,
    /// Pointers into `path` and `_arguments`, and the end.
    argv: Box<[*const libc::c_char]>,
    _arguments: Vec<CString>,
}

impl Target {
    /// The program at `path`, without further arguments.
    ///
    /// # Errors
    /// The path has a zero byte.
    pub fn new(path: &Path) -> Result<Self> {
        Target::with_arguments(path, &[])
    }

    /// The program at `path` with `arguments`.
    pub(super) fn with_arguments(path: &Path, arguments: &[OsString]) -> Result<Self> {
        let path = path.as_os_str().as_bytes();
        let quoted: Vec<u8> = path
            .iter()
            .flat_map(|b| if *b == b'\'' { b"'\\''" } else { slice::from_ref(b) })
            .copied()
            .collect();
        let string = |bytes: Vec<u8>| {
            CString::new(bytes).map_err(|e| Error::Invalid(format!("a path with a zero byte: {e}")))
        };
        let command = string([b"'", &quoted[..], b"'"].concat())?;
        let path = string(path.to_vec())?;
        let arguments = arguments.iter().map(|argument| string(argument.as_bytes().to_vec()));
        let arguments = arguments.collect::<Result<Vec<_>>>()?;
        // Where a CString's bytes are does not change when it is moved.
        let strings = std::iter::once(&path).chain(&arguments);
        let argv = strings.map(|string| string.as_ptr()).chain([null()]).collect();
        Ok(Target { path, command, argv, _arguments: arguments })
    }

    fn words(&self) -> raw::Words {
        raw::Words {
            path: self.path.as_ptr(),
            argv: self.argv.as_ptr(),
            environment: EMPTY.as_ptr(),
        }
    }
}

/// An environment without variables.
const EMPTY: [*const libc::c_char; 1] = [null()];

/// vfork(2) and execve(2), without the C library.
///
/// The child borrows this thread's memory and stack, and this thread sleeps
/// until the child has execed or ended.
///
/// # Errors
/// It cannot be started, or does not end with 0.
pub fn vfork(target: &Target) -> Result<()> {
    // SAFETY: the target's path and arrays live as long as it does.
    let answer = unsafe { raw::vfork(&target.words()) };
    reap("vfork", answer)
}

/// clone3(2) with `CLONE_VM | CLONE_VFORK` and a stack of the child's own, as C
/// libraries do it in posix_spawn, and execve(2).
///
/// # Errors
/// It cannot be started, or does not end with 0.
pub fn clone3(target: &Target) -> Result<()> {
    // Only a signal handler would ever write to it.
    let mut stack = [std::mem::MaybeUninit::<u128>::uninit(); 1024];
    let args = raw::CloneArgs {
        flags: (libc::CLONE_VM | libc::CLONE_VFORK) as u64,
        pidfd: 0,
        child_tid: 0,
        parent_tid: 0,
        exit_signal: libc::SIGCHLD as u64,
        stack: stack.as_mut_ptr() as u64,
        stack_size: size_of_val(&stack) as u64,
        tls: 0,
    };
    // SAFETY: the target's path and arrays live as long as it does, and `stack` is the child's
    // until it has execed or ended: CLONE_VFORK holds this thread until then.
    let answer = unsafe { raw::clone3(&args, &target.words()) };
    // Container runtimes answer ENOSYS so that programs fall back to clone.
    if answer == -(libc::ENOSYS as isize) || answer == -(libc::EPERM as isize) {
        return Err(Error::unsupported("clone3", "Linux 5.3 and a seccomp filter that allows it"));
    }
    reap("clone3", answer)
}

/// The C library's posix_spawn(3).
///
/// # Errors
/// It cannot be started, or does not end with 0.
pub fn posix_spawn(target: &Target) -> Result<()> {
    let argv = &target.argv;
    let mut pid = 0;
    // SAFETY: `pid` is writable, no actions and no attributes are allowed, and
    // path, argv and environment are null-terminated and live on. The C library
    // writes to none of them, whatever its signature says.
    let error = unsafe {
        libc::posix_spawn(
            &mut pid,
            target.path.as_ptr(),
            null(),
            null(),
            argv.as_ptr().cast(),
            EMPTY.as_ptr().cast(),
        )
    };
    if error != 0 {
        return Err(failed("posix_spawn", error));
    }
    reap("posix_spawn", pid as isize)
}

/// fork(2) and execve(2) by the C library.
///
/// # Errors
/// It cannot be started, or does not end with 0.
pub fn fork_exec(target: &Target) -> Result<()> {
    let argv = &target.argv;
    // SAFETY: the child calls only execve and _exit, which are allowed in the
    // child of a process with several threads (signal-safety(7)).
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: path, argv and environment are null-terminated and live on.
        unsafe { libc::execve(target.path.as_ptr(), argv.as_ptr(), EMPTY.as_ptr()) };
        // SAFETY: ends the child without running what the parent registered.
        unsafe { libc::_exit(127) };
    }
    if pid < 0 {
        return Err(Error::last_os("fork"));
    }
    reap("fork", pid as isize)
}

/// `std::process::Command`.
///
/// # Errors
/// It cannot be started, or does not end with 0.
pub fn command(target: &Target) -> Result<()> {
    status(&mut plain(target))
}

/// `std::process::Command` with a hook between fork and exec, for the sake of
/// which it cannot use posix_spawn.
pub(super) fn command_pre_exec(target: &Target) -> Result<()> {
    let mut command = plain(target);
    // SAFETY: the hook does nothing at all.
    unsafe { command.pre_exec(|| Ok(())) };
    status(&mut command)
}

/// system(3): a shell starts the program.
pub(super) fn system(target: &Target) -> Result<()> {
    let _empty = EmptyEnvironment::new();
    // SAFETY: a null-terminated string.
    let status = unsafe { libc::system(target.command.as_ptr()) };
    if status == -1 {
        return Err(Error::last_os("system"));
    }
    // While system() waits, this process ignores a terminal's Ctrl-C, and the
    // child gets it instead: hand it on to whom it was meant for.
    if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGINT {
        // SAFETY: raising a signal touches no memory.
        unsafe { libc::raise(libc::SIGINT) };
        return Ok(());
    }
    ended("system", libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)), status)
}

unsafe extern "C" {
    /// environ(7). An `AtomicPtr` is laid out as the pointer it holds.
    #[link_name = "environ"]
    static ENVIRON: AtomicPtr<*const libc::c_char>;
}

/// This process has no environment while this lives. system(3) hands its own on,
/// and the shell's dynamic linker obeys it: `cargo run` sets `LD_LIBRARY_PATH`,
/// which costs every start of a shell 100 µs that the next person does not pay.
struct EmptyEnvironment {
    former: *mut *const libc::c_char,
    /// Two of them would take each other's for the former one.
    _turn: MutexGuard<'static, ()>,
}

impl EmptyEnvironment {
    fn turn() -> MutexGuard<'static, ()> {
        static TURN: Mutex<()> = Mutex::new(());
        TURN.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new() -> Self {
        let turn = Self::turn();
        let empty: &'static [_; 1] = &EMPTY;
        EmptyEnvironment { former: exchange(empty.as_ptr().cast_mut()), _turn: turn }
    }
}

impl Drop for EmptyEnvironment {
    fn drop(&mut self) {
        exchange(self.former);
    }
}

/// Puts another environment in this process's place. Who looks for a variable in
/// another thread meanwhile finds the one or the other; nobody here sets any.
fn exchange(environment: *mut *const libc::c_char) -> *mut *const libc::c_char {
    // SAFETY: the C library has this variable, of this layout.
    let environ = unsafe { &ENVIRON };
    // Relaxed: what a pointer leads to was there before any thread began.
    environ.swap(environment, Ordering::Relaxed)
}

fn plain(target: &Target) -> Command {
    let mut command = Command::new(OsStr::from_bytes(target.path.to_bytes()));
    command.env_clear();
    command
}

fn status(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|e| Error::os("start by Command", e))?;
    ended("Command", status.code(), status.into_raw())
}

/// Waits for the child that `call` returned, or turns its error into one.
fn reap(call: &str, answer: isize) -> Result<()> {
    if answer < 0 {
        return Err(failed(call, -answer as i32));
    }
    let pid = Pid::from_raw(answer as i32);
    let status = loop {
        match waitpid(pid, WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            Ok(Some((_, status))) => break status,
            Ok(None) => unreachable!("waitpid returns without a child only with NOHANG"),
            Err(e) => return Err(Error::os(format!("wait for the child of {call}"), e)),
        }
    };
    ended(call, status.exit_status(), WaitStatus::as_raw(status))
}

/// Accepts a child that ended with 0.
fn ended(call: &str, code: Option<i32>, status: i32) -> Result<()> {
    let what = match code {
        Some(0) => return Ok(()),
        // Ctrl-C reaches the child of a moment as well; the run is ending.
        None if libc::WTERMSIG(status) == libc::SIGINT => return Ok(()),
        Some(code) => format!("ended with status {code}"),
        None => format!("was killed by signal {}", libc::WTERMSIG(status)),
    };
    Err(Error::Program { program: format!("started by {call}"), what })
}

fn failed(call: &str, errno: i32) -> Error {
    Error::os(call, std::io::Error::from_raw_os_error(errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_given_no_environment_and_this_process_keeps_its_own() {
        const SET_BY_CARGO: &str = "CARGO_MANIFEST_DIR";
        // Other tests take it away for a moment, too.
        let is_set = || {
            let _turn = EmptyEnvironment::turn();
            std::env::var_os(SET_BY_CARGO).is_some()
        };
        if !is_set() {
            eprintln!("skipped: cargo does not run this test");
            return;
        }
        let command = CString::new(format!("test -z \"${SET_BY_CARGO}\"")).unwrap();
        system(&Target { command, ..Target::new(Path::new("")).unwrap() }).unwrap();
        assert!(is_set());
    }
}
