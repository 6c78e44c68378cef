//! `kumiki/spawn.h`: posix_spawn(3) by a spawn server, with the attributes that it lacks.

mod actions;
mod attributes;
mod search;
mod strings;

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;

use kumiki_spawn::{Command, start_server};
use kumiki_sys::cancellation::Held;

use crate::failure::{Failure, answer, last_error};

pub use actions::*;
pub use attributes::*;

use self::strings::{pairs, strings};

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let errno = match error.kind() {
            io::ErrorKind::InvalidInput => libc::EINVAL,
            io::ErrorKind::OutOfMemory => libc::ENOMEM,
            _ => libc::EIO,
        };
        Failure::new(error.raw_os_error().unwrap_or(errno), error)
    }
}

/// As posix_spawn(3) tells: 0, or an error above it.
fn told(call: impl FnOnce() -> Result<(), Failure>) -> c_int {
    -answer(|| call().map(|()| 0))
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn kumiki_spawn_last_error() -> *const c_char {
    last_error()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn kumiki_spawn_start_server() -> c_int {
    told(|| Ok(start_server()?))
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
        Ok((path, vec![search::itself(path)]))
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
    told(|| {
        // As posix_spawn(3) this is no point where a thread is cancelled.
        let _held = Held::new();
        let (name, programs) = programs()?;
        // SAFETY: the caller's promise.
        let args = unsafe { strings(argv, "argv") }?;
        // SAFETY: as above.
        let env = unsafe { strings(envp, "envp") }?;
        let env = pairs(&env)?;
        // SAFETY: as above.
        let attributes = unsafe { attributes::of(attributes) }?;
        // SAFETY: as above.
        let actions = unsafe { actions::of(actions) }?;
        let mut command = Command::new(name);
        command.candidates(&programs, false).env_clear().envs(env);
        if let Some((own, others)) = args.split_first() {
            command.arg0(own).args(others);
        }
        attributes.apply(&mut command)?;
        actions::apply(actions, &mut command, attributes.inherits());
        let child = command.spawn().map_err(|error| why(&command, error))?.id();
        if !pid.is_null() {
            // SAFETY: the caller's promise.
            unsafe { pid.write(child.cast_signed()) };
        }
        Ok(())
    })
}

/// What was refused, and at which step.
fn why(command: &Command, error: io::Error) -> Failure {
    // The program itself is what is mostly refused, and is named.
    let at = command.refused_at().filter(|at| !at.ends_with("the program"));
    let at = at.map_or_else(String::new, |at| format!(": refused at {at}"));
    let shown = command.get_program().display();
    Failure::from(error).about(&format!("starting {shown}{at}"))
}
