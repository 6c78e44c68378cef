//! File actions: what the child's descriptors and working folder become, in their order.
//!
//! Files are opened and copied by the caller, before the child is there, and the child gets
//! what has come of it: so a file that cannot be opened is an error without a child.

use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, c_char, c_int};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use kumiki_spawn::{Command, Stdio};

use super::{text, told};
use crate::failure::Failure;

/// `kumiki_spawn_file_actions_t`.
#[repr(C)]
#[derive(Debug)]
pub struct FileActions {
    actions: *mut Vec<Action>,
}

/// One of them.
#[derive(Debug)]
pub enum Action {
    /// Of the caller's working folder or the one so far.
    Open {
        /// The number that it gets.
        fd: c_int,
        /// The file.
        path: CString,
        /// As open(2) has them.
        flags: c_int,
        /// Of a new file.
        mode: libc::mode_t,
    },
    /// A copy under another number.
    Dup2(c_int, c_int),
    /// Not open.
    Close(c_int),
    /// Nor any from this number on.
    CloseFrom(c_int),
    /// Another working folder.
    Chdir(PathBuf),
    /// The one that a descriptor is.
    Fchdir(c_int),
}

/// # Safety
/// Null, or initialised and not destroyed.
pub(super) unsafe fn of<'a>(actions: *const FileActions) -> Result<Actions<'a>, Failure> {
    // SAFETY: the caller's promise.
    match unsafe { actions.as_ref() } {
        None => Ok(Actions(&[])),
        // SAFETY: as above: a list that only these functions touch.
        Some(FileActions { actions }) => match unsafe { actions.as_ref() } {
            Some(actions) => Ok(Actions(actions)),
            None => Err(Failure::invalid("file actions that were destroyed")),
        },
    }
}

pub(super) struct Actions<'a>(&'a [Action]);

/// What the child has.
struct Table {
    fds: BTreeMap<c_int, Source>,
    folder: Folder,
}

/// The working folder: a path from a folder that is open, or from the caller's.
#[derive(Default)]
struct Folder {
    from: Option<Source>,
    path: PathBuf,
}

impl Folder {
    /// As openat(2) has it, of what is not from the caller's.
    fn number(&self) -> c_int {
        match &self.from {
            None => libc::AT_FDCWD,
            Some(Source::Caller(number)) => *number,
            Some(Source::Opened(fd)) => fd.as_raw_fd(),
        }
    }

    /// Says it to the command.
    fn apply(self, command: &mut Command) -> Result<(), Failure> {
        if self.from.is_none() || self.path.is_absolute() {
            if !self.path.as_os_str().is_empty() {
                command.current_dir(self.path);
            }
            return Ok(());
        }
        // Also of one that is open for something else, without a copy of that.
        let there = if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path };
        let opened = open(self.number(), there, libc::O_PATH | libc::O_DIRECTORY, 0);
        let opened = opened.map_err(|error| {
            Failure::from(error).about(&format!("entering {} by descriptor", there.display()))
        })?;
        command.current_dir_fd(opened);
        Ok(())
    }
}

/// Where a descriptor of the child comes from. The caller's are copied last: one that another
/// takes the place of costs none, of which there may be few left.
#[derive(Clone)]
enum Source {
    Caller(c_int),
    Opened(Rc<OwnedFd>),
}

impl Source {
    fn into_fd(self) -> io::Result<OwnedFd> {
        match self {
            Source::Caller(number) => duplicate(number),
            Source::Opened(fd) => Rc::try_unwrap(fd).or_else(|shared| shared.try_clone()),
        }
    }
}

impl Actions<'_> {
    /// Has the command start with what comes of them. `inherits`: beginning with all
    /// descriptors of the caller that have no FD_CLOEXEC, else with the standard ones.
    pub(super) fn apply(&self, command: &mut Command, inherits: bool) -> Result<(), Failure> {
        if self.0.is_empty() {
            command.close_others(!inherits);
            return Ok(());
        }
        let mut table = Table { fds: inherited(inherits)?, folder: Folder::default() };
        self.0.iter().try_for_each(|action| table.act(action))?;
        let Table { mut fds, folder } = table;
        command.close_others(true);
        let mut standard = |number| match fds.remove(&number) {
            None => Ok(Stdio::closed()),
            Some(Source::Caller(same)) if same == number => Ok(Stdio::inherit()),
            Some(other) => Ok::<_, Failure>(Stdio::from(copied(other, number)?)),
        };
        command.stdin(standard(0)?).stdout(standard(1)?).stderr(standard(2)?);
        for (number, fd) in fds {
            command.fd(copied(fd, number)?, number);
        }
        folder.apply(command)
    }
}

impl Table {
    fn act(&mut self, action: &Action) -> Result<(), Failure> {
        match action {
            Action::Open { fd, path, flags, mode } => {
                let opened = self.open(path, *flags, *mode).map_err(|error| {
                    let shown = OsStr::from_bytes(path.as_bytes()).display().to_string();
                    Failure::from(error).about(&format!("opening {shown} as descriptor {fd}"))
                })?;
                self.fds.insert(*fd, Source::Opened(Rc::new(opened)));
            }
            Action::Dup2(from, to) => {
                let from = self.at(*from)?;
                self.fds.insert(*to, from);
            }
            Action::Close(fd) => _ = self.fds.remove(fd),
            Action::CloseFrom(first) => self.fds.retain(|number, _| number < first),
            Action::Chdir(folder) => self.folder.path.push(folder),
            Action::Fchdir(fd) => {
                self.folder = Folder { from: Some(self.at(*fd)?), path: PathBuf::new() };
            }
        }
        Ok(())
    }

    /// Of a number as the child would have it at this point.
    fn at(&self, number: c_int) -> Result<Source, Failure> {
        if let Some(from) = self.fds.get(&number) {
            return Ok(from.clone());
        }
        // One that would be closed by exec only is still open here.
        // SAFETY: only asks.
        if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
            let error = Failure::from(io::Error::last_os_error());
            return Err(error.about(&format!("copying descriptor {number}")));
        }
        Ok(Source::Caller(number))
    }

    fn open(&self, path: &CString, flags: c_int, mode: libc::mode_t) -> io::Result<OwnedFd> {
        let there = self.folder.path.join(OsStr::from_bytes(path.as_bytes()));
        open(self.folder.number(), &there, flags, mode)
    }
}

/// From a folder, as openat(2); the child's copy has no FD_CLOEXEC.
fn open(from: c_int, path: &Path, flags: c_int, mode: libc::mode_t) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a string that ends with a zero.
    let opened = unsafe { libc::openat(from, path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    if opened < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(opened) })
}

fn copied(from: Source, number: c_int) -> Result<OwnedFd, Failure> {
    let copied = from.into_fd().map_err(Failure::from);
    copied.map_err(|failure| failure.about(&format!("copying a descriptor for {number}")))
}

fn duplicate(number: c_int) -> io::Result<OwnedFd> {
    // SAFETY: a number; of one that is not open nothing comes.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// The caller's that stay open at exec, or the standard ones of these.
fn inherited(all: bool) -> Result<BTreeMap<c_int, Source>, Failure> {
    let numbers: Vec<c_int> = if all {
        let entries = fs::read_dir("/proc/self/fd")?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.parse().ok()).collect()
    } else {
        vec![0, 1, 2]
    };
    let stays = |number: &c_int| {
        // SAFETY: only asks.
        let flags = unsafe { libc::fcntl(*number, libc::F_GETFD) };
        flags >= 0 && flags & libc::FD_CLOEXEC == 0
    };
    Ok(numbers.into_iter().filter(stays).map(|number| (number, Source::Caller(number))).collect())
}

/// See the header.
///
/// # Safety
/// Null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawn_file_actions_init(actions: *mut FileActions) -> c_int {
    told(|| {
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
    told(|| {
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

/// # Safety
/// Null, or initialised.
unsafe fn add(
    actions: *mut FileActions,
    numbers: &[c_int],
    action: impl FnOnce() -> Result<Action, Failure>,
) -> c_int {
    told(|| {
        if let Some(bad) = numbers.iter().find(|number| **number < 0) {
            return Err(Failure::new(libc::EBADF, format!("descriptor {bad}: they begin at 0")));
        }
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
        let path = unsafe { text(path, "path") }?;
        let path = CString::new(path.as_bytes()).map_err(Failure::invalid)?;
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
    unsafe { add(actions, &[fd, new_fd], || Ok(Action::Dup2(fd, new_fd))) }
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
    let chdir = || Ok(Action::Chdir(unsafe { text(path, "path") }?.into()));
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
    // SAFETY: the caller's promise.
    unsafe { add(actions, &[fd], || Ok(Action::Fchdir(fd))) }
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
