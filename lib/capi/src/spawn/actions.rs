//! File actions: what the child does with its descriptors and its working folder, in order.

use std::ffi::{CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;

use kumiki_spawn::{Action, Command};

use super::{as_errno, text};
use crate::failure::Failure;

/// `kumiki_spawn_file_actions_t`.
#[repr(C)]
#[derive(Debug)]
pub struct FileActions {
    actions: *mut Vec<Action>,
}

/// # Safety
/// Null, or initialised and not destroyed.
pub(super) unsafe fn of<'a>(actions: *const FileActions) -> Result<&'a [Action], Failure> {
    // SAFETY: the caller's promise.
    match unsafe { actions.as_ref() } {
        None => Ok(&[]),
        // SAFETY: as above: a list that only these functions touch.
        Some(FileActions { actions }) => match unsafe { actions.as_ref() } {
            Some(actions) => Ok(actions),
            None => Err(Failure::invalid("file actions that were destroyed")),
        },
    }
}

/// Has the command's child carry them out. `inherits`: its program has all descriptors of the
/// caller that have no FD_CLOEXEC, else only the standard ones of these.
pub(super) fn apply(actions: &[Action], command: &mut Command, inherits: bool) {
    command.close_others(!inherits);
    for action in actions {
        // SAFETY: C's caller has named the descriptors for this.
        unsafe { command.action(action.clone()) };
    }
}

/// See the header.
///
/// # Safety
/// Null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_init(actions: *mut FileActions) -> c_int {
    as_errno(|| {
        if actions.is_null() {
            return Err(Failure::invalid("file actions: a null pointer"));
        }
        let list = Box::into_raw(Box::default());
        // SAFETY: the caller's promise.
        unsafe { actions.write(FileActions { actions: list }) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// Null, or initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_destroy(actions: *mut FileActions) -> c_int {
    as_errno(|| {
        // SAFETY: the caller's promise.
        if let Some(actions) = unsafe { actions.as_mut() } {
            let list = std::mem::replace(&mut actions.actions, std::ptr::null_mut());
            if !list.is_null() {
                // SAFETY: a box of `kumiki_spawn_file_actions_init`, which nobody else has.
                drop(unsafe { Box::from_raw(list) });
            }
        }
        Ok(())
    })
}

fn string(path: &OsStr) -> Result<CString, Failure> {
    CString::new(path.as_bytes()).map_err(Failure::invalid)
}

/// Checks a number as the C library does: one that a descriptor may have by the limit of the
/// process.
fn named(number: c_int) -> Result<(), Failure> {
    // SAFETY: only asks.
    let most = unsafe { libc::sysconf(libc::_SC_OPEN_MAX) };
    if number >= 0 && (most < 0 || i64::from(number) < most) {
        return Ok(());
    }
    let text = format!("descriptor {number}: they are from 0 to below {most} (RLIMIT_NOFILE)");
    Err(Failure::new(libc::EBADF, text))
}

/// # Safety
/// Null, or initialised.
unsafe fn add(
    actions: *mut FileActions,
    numbers: &[c_int],
    action: impl FnOnce() -> Result<Action, Failure>,
) -> c_int {
    as_errno(|| {
        numbers.iter().try_for_each(|number| named(*number))?;
        // SAFETY: the caller's promise.
        let list = unsafe { actions.as_mut() }.map(|actions| actions.actions);
        // SAFETY: as above.
        let list = list.and_then(|list| unsafe { list.as_mut() });
        let list = list.ok_or_else(|| Failure::invalid("file actions that nobody initialised"))?;
        list.push(action()?);
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// Initialised actions; the path ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_addopen(
    actions: *mut FileActions,
    fd: c_int,
    path: *const c_char,
    flags: c_int,
    mode: libc::mode_t,
) -> c_int {
    let open = || {
        // SAFETY: the caller's promise.
        let path = string(unsafe { text(path, "path") }?)?;
        Ok(Action::Open { fd, path, flags, mode })
    };
    // SAFETY: the caller's promise.
    unsafe { add(actions, &[fd], open) }
}

/// See the header.
///
/// # Safety
/// Initialised actions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_addclose(
    actions: *mut FileActions,
    fd: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(actions, &[fd], || Ok(Action::Close(fd))) }
}

/// See the header.
///
/// # Safety
/// Initialised actions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_adddup2(
    actions: *mut FileActions,
    fd: c_int,
    new_fd: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(actions, &[fd, new_fd], || Ok(Action::Dup2 { from: fd, to: new_fd })) }
}

/// See the header.
///
/// # Safety
/// Initialised actions; the path ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_addchdir(
    actions: *mut FileActions,
    path: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let chdir = || Ok(Action::Chdir(string(unsafe { text(path, "path") }?)?));
    // SAFETY: as above.
    unsafe { add(actions, &[], chdir) }
}

/// See the header.
///
/// # Safety
/// Initialised actions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_addfchdir(
    actions: *mut FileActions,
    fd: c_int,
) -> c_int {
    // As the C library's, which looks at the number only when it is used.
    // SAFETY: the caller's promise.
    unsafe { add(actions, &[], || Ok(Action::Fchdir(fd))) }
}

/// See the header.
///
/// # Safety
/// Initialised actions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_addtcsetpgrp(
    actions: *mut FileActions,
    fd: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(actions, &[fd], || Ok(Action::Foreground(fd))) }
}

/// See the header.
///
/// # Safety
/// Initialised actions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_addclosefrom(
    actions: *mut FileActions,
    first: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(actions, &[first], || Ok(Action::CloseFrom(first))) }
}
