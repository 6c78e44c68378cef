//! `kumiki/spawn.h`: posix_spawn(3) by a spawn server, with the attributes that it lacks.

mod actions;
mod attributes;
mod search;
mod strings;

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::io;
use std::os::unix::ffi::OsStrExt;

use kumiki_spawn::{Command, start_server};

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
    // SAFETY: the caller's promise.
    let itself = || Ok(vec![search::itself(unsafe { text(path, "path") }?)]);
    // SAFETY: as above.
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
    // SAFETY: the caller's promise.
    let places = || Ok(search::places(unsafe { text(file, "file") }?));
    // SAFETY: as above.
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
unsafe fn start(
    pid: *mut libc::pid_t,
    programs: impl FnOnce() -> Result<Vec<OsString>, Failure>,
    actions: *const FileActions,
    attributes: *const Attributes,
    argv: *const *mut c_char,
    envp: *const *mut c_char,
) -> c_int {
    told(|| {
        let programs = programs()?;
        // SAFETY: the caller's promise.
        let args = unsafe { strings(argv, "argv") }?;
        // SAFETY: as above.
        let env = unsafe { strings(envp, "envp") }?;
        let env = pairs(&env)?;
        // SAFETY: as above.
        let attributes = unsafe { attributes::of(attributes) }?;
        // SAFETY: as above.
        let actions = unsafe { actions::of(actions) }?;
        let child = first(&programs, |program| {
            let mut command = Command::new(program);
            command.env_clear().envs(env.iter().copied());
            if let Some((own, others)) = args.split_first() {
                command.arg0(own).args(others);
            }
            attributes.apply(&mut command)?;
            actions.apply(&mut command, attributes.inherits())?;
            Ok(command)
        })?;
        if !pid.is_null() {
            // SAFETY: the caller's promise.
            unsafe { pid.write(child.cast_signed()) };
        }
        Ok(())
    })
}

/// As execvp(3): goes on searching, and tells of a program that may not be executed.
fn first(
    programs: &[OsString],
    command: impl Fn(&OsStr) -> Result<Command, Failure>,
) -> Result<u32, Failure> {
    let mut why = Failure::new(libc::ENOENT, "no folder of PATH has such a program");
    for program in programs {
        let mut command = command(program)?;
        let error = match command.spawn() {
            Ok(child) => return Ok(child.id()),
            Err(error) => error,
        };
        let errno = error.raw_os_error();
        // The program itself is what is mostly refused, and is named.
        let at = command.refused_at().filter(|at| !at.ends_with("the program"));
        let at = at.map_or_else(String::new, |at| format!(": refused at {at}"));
        let shown = program.display();
        let failure = Failure::from(error).about(&format!("starting {shown}{at}"));
        match errno {
            Some(libc::EACCES) => why = failure,
            Some(libc::ENOENT | libc::ENOTDIR) if programs.len() > 1 => {}
            _ => return Err(failure),
        }
    }
    Err(why)
}
