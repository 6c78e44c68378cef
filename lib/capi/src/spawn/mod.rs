//! `kumiki/spawn.h`: posix_spawn(3) by a spawn server, with the attributes that it lacks.

mod actions;
mod attributes;
mod search;
mod strings;
mod tree;

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::ffi::OsStrExt;

use kumiki_spawn::{Command, Refusal, start_server};
use kumiki_sys::cancellation::Held;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};

use crate::failure::{Failure, answer};

pub use actions::*;
pub use attributes::*;
pub use tree::*;

use self::strings::strings;

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let errno = match error.kind() {
            io::ErrorKind::InvalidInput => libc::EINVAL,
            io::ErrorKind::OutOfMemory => libc::ENOMEM,
            _ => libc::EIO,
        };
        Failure::new(Refusal::number(&error).unwrap_or(errno), error)
    }
}

/// Returns as posix_spawn(3) does: 0, or an error above it.
fn as_errno(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    -answer(|| call().map(|()| 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn kumiki_spawn_start_server() -> c_int {
    as_errno(|| Ok(start_server()?))
}

/// See the header.
///
/// # Safety
/// As posix_spawn(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    let itself = || {
        // SAFETY: the caller's promise.
        let path = unsafe { text(path, "path") }?;
        Ok((path, vec![path.to_owned()]))
    };
    // SAFETY: the caller's promise.
    unsafe { start(pid, itself, actions, attributes, argv, envp) }
}

/// See the header.
///
/// # Safety
/// As posix_spawnp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawnp(
    pid: *mut libc::pid_t,
    file: *const c_char,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    let places = || {
        // SAFETY: the caller's promise.
        let file = unsafe { text(file, "file") }?;
        Ok((file, search::places(file)))
    };
    // SAFETY: the caller's promise.
    unsafe { start(pid, places, actions, attributes, argv, envp) }
}

/// # Safety
/// `text` is null or ends with a zero, and lives on.
unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a OsStr, Failure> {
    if text.is_null() {
        return Err(Failure::invalid(format!("{name} is a null pointer")));
    }
    // SAFETY: the caller's promise.
    Ok(OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()))
}

/// Starts the first of these programs that can be, and stores its process id.
///
/// # Safety
/// As posix_spawn(3).
unsafe fn start<'a>(
    pid: *mut libc::pid_t,
    programs: impl FnOnce() -> Result<(&'a OsStr, Vec<OsString>), Failure>,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    as_errno(|| {
        // SAFETY: the caller's promise.
        let child = unsafe { launch(programs, actions, attributes, argv, envp) }?;
        if !pid.is_null() {
            // SAFETY: as above.
            unsafe { pid.write(child as i32) };
        }
        Ok(())
    })
}

/// The process id of what was started.
///
/// # Safety
/// As posix_spawn(3).
unsafe fn launch<'a>(
    programs: impl FnOnce() -> Result<(&'a OsStr, Vec<OsString>), Failure>,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> Result<u32, Failure> {
    // As posix_spawn(3) this is no point where a thread is cancelled.
    let _held = Held::new();
    let (name, programs) = programs()?;
    let mut command = Command::new(name);
    command.candidates(&programs);
    // SAFETY: the caller's promise.
    unsafe { describe(&mut command, actions, attributes, argv, envp) }?;
    // SAFETY: as above.
    let attributes = unsafe { attributes::of(attributes) }?;
    let child = command.spawn().map_err(|error| why(&command, error))?;
    let pid = child.id();
    // SAFETY: C's caller keeps it as long as the attributes that name it.
    if let Some(tree) = unsafe { attributes.tree() } {
        tree.hold(child);
    }
    Ok(pid)
}

/// Has a command begin as C says, with these arguments and these variables.
///
/// # Safety
/// As posix_spawn(3).
unsafe fn describe(
    command: &mut Command,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> Result<(), Failure> {
    if argv.is_null() {
        return Err(Failure::invalid("argv is a null pointer"));
    }
    // SAFETY: the caller's promise.
    let args = unsafe { strings(argv) };
    // SAFETY: as above.
    let env = unsafe { strings(envp) };
    // SAFETY: as above.
    let attributes = unsafe { attributes::of(attributes) }?;
    // SAFETY: as above.
    let actions = unsafe { actions::of(actions) }?;
    command.environment(env);
    let bytes = |text: &CStr| OsStr::from_bytes(text.to_bytes()).to_owned();
    // Of a program without arguments the kernel makes one with an empty name.
    let (own, others) = args.split_first().map_or((c"", &[][..]), |(own, others)| (*own, others));
    command.arg0(bytes(own)).args(others.iter().map(|arg| bytes(arg)));
    attributes.apply(command)?;
    actions::apply(actions, command, attributes.inherits());
    Ok(())
}

/// The command of a file that is searched for, or of `program`, for a process that is a resource.
///
/// # Safety
/// As posix_spawnp(3).
pub(crate) unsafe fn command(
    file: *const c_char,
    program: Option<Command>,
    (actions, attributes): (*const FileActions, *const Attributes),
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> Result<Command, Failure> {
    let mut command = match program {
        Some(program) => program,
        None => {
            // SAFETY: the caller's promise.
            let file = unsafe { text(file, "file") }?;
            let mut command = Command::new(file);
            command.candidates(search::places(file));
            command
        }
    };
    // SAFETY: the caller's promise.
    unsafe { describe(&mut command, actions, attributes, argv, envp) }?;
    Ok(command)
}

/// See the header.
///
/// # Safety
/// As posix_spawn(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_pidfd_spawn(
    pidfd: *mut c_int,
    path: *const c_char,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let itself = || unsafe { text(path, "path") }.map(|path| (path, vec![path.to_owned()]));
    // SAFETY: as above.
    unsafe { start_with_pidfd(pidfd, itself, actions, attributes, argv, envp) }
}

/// See the header.
///
/// # Safety
/// As posix_spawnp(3).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_pidfd_spawnp(
    pidfd: *mut c_int,
    file: *const c_char,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let places = || unsafe { text(file, "file") }.map(|file| (file, search::places(file)));
    // SAFETY: as above.
    unsafe { start_with_pidfd(pidfd, places, actions, attributes, argv, envp) }
}

/// # Safety
/// As posix_spawn(3).
unsafe fn start_with_pidfd<'a>(
    pidfd: *mut c_int,
    programs: impl FnOnce() -> Result<(&'a OsStr, Vec<OsString>), Failure>,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    as_errno(|| {
        // The number that it needs is there, before there is a child.
        let spare = std::fs::File::open("/dev/null");
        let spare =
            spare.map_err(|error| Failure::from(error).about("a descriptor for a pidfd"))?;
        // SAFETY: the caller's promise.
        let child = unsafe { launch(programs, actions, attributes, argv, envp) }?;
        drop(spare);
        let child = Pid::from_raw(child as i32).expect("a process has a number");
        match pidfd_open(child, PidfdFlags::empty()) {
            Ok(opened) if !pidfd.is_null() => {
                // SAFETY: the caller's promise.
                unsafe { pidfd.write(opened.into_raw_fd()) };
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => {
                // Where SIGCHLD is ignored, or somebody waits for any child, it has ended and
                // is gone: its number may be another process's.
                if error != Errno::SRCH {
                    let _ = kill_process(child, Signal::KILL);
                    while let Err(Errno::INTR) = waitpid(Some(child), WaitOptions::empty()) {}
                }
                Err(Failure::from(io::Error::from(error)).about("opening its pidfd"))
            }
        }
    })
}

/// The failure of a start, with the step that was refused.
fn why(command: &Command, error: io::Error) -> Failure {
    let shown = command.get_program().to_string_lossy();
    let Some(refusal) = Refusal::of(&error) else {
        return Failure::from(error).about(&format!("starting {shown}"));
    };
    // The program itself is what is mostly refused, and is named.
    let at = match refusal.is_program() {
        true => String::new(),
        false => format!(": refused at {}", refusal.step()),
    };
    let text = format!("starting {shown}{at}: {}", refusal.error());
    Failure::new(Refusal::number(&error).unwrap_or(libc::EIO), text)
}
