//! What a child does with its descriptors and its working folder, in the order that was said.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use libc::{SYS_chdir, SYS_fchdir};

use crate::request::Draft;
use kumiki_spawn_wire::{CLOSE, CLOSE_ALL, COPY, FOREGROUND, MAY_FAIL, OPEN};

/// A file action for [`Command::action`](crate::Command::action): carried out by the child, in the
/// order in which they were added, on a table of descriptors and a working folder of its own. As
/// the file actions of posix_spawn(3), with whose numbers and errors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Opens a file, from the working folder so far and as the user that the child is by then;
    /// what had the number is closed first.
    Open {
        /// The number that it gets.
        fd: RawFd,
        /// The file.
        path: CString,
        /// Flags of open(2).
        flags: i32,
        /// Mode of a new file.
        mode: u32,
    },
    /// Copies a descriptor to another number. Where both are the same the program has it, also if
    /// it has FD_CLOEXEC; `EBADF` if it is not open.
    Dup2 {
        /// The number that is there.
        from: RawFd,
        /// The number that it gets.
        to: RawFd,
    },
    /// Closes one; nothing if it is not open.
    Close(RawFd),
    /// Closes this one and all with higher numbers.
    CloseFrom(RawFd),
    /// Enters a folder.
    Chdir(CString),
    /// Enters a folder that a descriptor is.
    Fchdir(RawFd),
    /// Makes the child's process group that of the foreground of a terminal (tcsetpgrp(3)).
    Foreground(RawFd),
}

impl Action {
    /// The number of what has to be there already.
    fn takes(&self) -> Option<RawFd> {
        match self {
            Action::Dup2 { from: fd, .. } | Action::Fchdir(fd) | Action::Foreground(fd) => {
                Some(*fd)
            }
            Action::Open { path, .. } => named(path),
            Action::Close(_) | Action::CloseFrom(_) | Action::Chdir(_) => None,
        }
    }

    /// Writes it as a step, which `what` names.
    pub(crate) fn write(&self, draft: &mut Draft<'_>, what: u32) -> io::Result<()> {
        let path = |draft: &mut Draft<'_>, path: &CStr| draft.string(&[path.to_bytes()]);
        match self {
            Action::Open { fd, path: file, flags, mode } => {
                let at = path(draft, file)?;
                draft.step(what, OPEN, 0, [number(*fd), at, *flags as u64, (*mode).into()]);
            }
            Action::Dup2 { from, to } => {
                draft.step(what, COPY, 0, [number(*from), number(*to)]);
            }
            Action::Close(fd) => draft.step(what, CLOSE, MAY_FAIL, [number(*fd)]),
            Action::CloseFrom(fd) => {
                draft.step(what, CLOSE_ALL, 0, [number(*fd), u32::MAX.into()]);
            }
            Action::Chdir(folder) => {
                let at = path(draft, folder)?;
                draft.step(what, SYS_chdir as u32, 0, [at]);
            }
            Action::Fchdir(fd) => draft.step(what, SYS_fchdir as u32, 0, [number(*fd)]),
            Action::Foreground(fd) => draft.step(what, FOREGROUND, 0, [number(*fd)]),
        }
        Ok(())
    }

    /// The action in words.
    pub(crate) fn said(&self) -> String {
        let shown = |path: &CStr| path.to_string_lossy().into_owned();
        match self {
            Action::Open { fd, path, .. } => format!("opening {} as descriptor {fd}", shown(path)),
            Action::Dup2 { from, to } => format!("copying descriptor {from} to {to}"),
            Action::Close(fd) => format!("closing descriptor {fd}"),
            Action::CloseFrom(fd) => format!("closing descriptors from {fd} on"),
            Action::Chdir(folder) => format!("its working folder {}", shown(folder)),
            Action::Fchdir(fd) => format!("its working folder, descriptor {fd}"),
            Action::Foreground(fd) => format!("the foreground of its terminal, descriptor {fd}"),
        }
    }
}

/// The number as the kernel's registers have it.
fn number(fd: RawFd) -> u64 {
    u64::from(fd as u32)
}

/// The descriptor that a path names by its number, as `/dev/stdin` does.
fn named(path: &CStr) -> Option<RawFd> {
    let text = path.to_str().ok()?;
    match text {
        "/dev/stdin" => Some(0),
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        text => {
            let folders = ["/dev/fd/", "/proc/self/fd/"];
            folders.iter().find_map(|folder| text.strip_prefix(folder))?.parse().ok()
        }
    }
}

/// Descriptors of the caller that actions begin with: numbers, and whether exec would close them.
pub(crate) fn begin_with(actions: &[Action]) -> Vec<(BorrowedFd<'static>, bool)> {
    let mut numbers: Vec<RawFd> = actions.iter().filter_map(Action::takes).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let of = |number: RawFd| {
        let flags = (number > 2).then(|| flags(number)).flatten()?;
        // SAFETY: it was just open; who has said the action has promised that it stays so.
        Some((unsafe { BorrowedFd::borrow_raw(number) }, flags))
    };
    numbers.into_iter().filter_map(of).collect()
}

/// True if actions use this descriptor.
pub(crate) fn use_it(actions: &[Action], number: RawFd) -> bool {
    actions.iter().any(|action| action.takes() == Some(number))
}

/// Returns true if exec closes a descriptor of the caller's; `None` if it is not open.
pub(crate) fn flags(number: RawFd) -> Option<bool> {
    // SAFETY: only asks.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    (flags >= 0).then_some(flags & libc::FD_CLOEXEC != 0)
}
