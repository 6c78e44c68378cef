//! The sockets at which processes publish: where they are, and what both sides keep to.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use rustix::process::{Pid, test_kill_process};

use crate::error::{Error, Result};

/// The longest request, bytes, its line's end included.
pub(super) const LONGEST: usize = 4096;
/// Time that a client waits for an answer, from the connection to its last byte, and that a server
/// waits for a client to take it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A stream to this socket that waits for nothing.
///
/// # Errors
/// [`Errno::AGAIN`] if so many wait for its process that no more are let in.
pub(super) fn connect(path: &Path) -> rustix::io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// The processes of this user that publish an interface, by their numbers.
///
/// # Errors
/// The folder of sockets cannot be read.
pub fn processes() -> Result<Vec<u32>> {
    let folder = folder()?;
    let failed =
        |source| Error::Socket { what: "reading the folder", path: folder.clone(), source };
    let mut all = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let process = name.to_str().and_then(|name| name.strip_suffix(".sock"));
        let Some(process) = process.and_then(|process| process.parse().ok()) else { continue };
        match connect(&path_of(&folder, process)) {
            // One that lives is just making its socket, or taking it away.
            Err(Errno::CONNREFUSED) if lives(process) => {}
            // It was killed.
            Err(Errno::CONNREFUSED) => {
                let _ = fs::remove_file(path_of(&folder, process));
            }
            _ => all.push(process),
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// Tells whether there is a process of this number.
fn lives(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) != Err(Errno::SRCH))
}

pub(super) fn path_of(folder: &Path, process: u32) -> PathBuf {
    folder.join(format!("{process}.sock"))
}

/// The folder of sockets, which nobody else can write to; made if need be. Other parts that have sockets
/// of a user's processes have them there, too.
///
/// # Errors
/// It cannot be made, or others can write to it.
pub fn folder() -> Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => PathBuf::from(runtime).join("kumiki"),
        _ => PathBuf::from(format!("/tmp/kumiki-{user}")),
    };
    trusted(&folder)?;
    Ok(folder)
}

/// This folder, if nobody else can write to it.
pub(super) fn trusted(folder: &Path) -> Result<&Path> {
    let user = rustix::process::getuid().as_raw();
    let failed = |what| {
        let path = folder.to_owned();
        move |source| Error::Socket { what, path, source }
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(failed("making the folder"))?;
    let about = fs::symlink_metadata(folder).map_err(failed("looking at the folder"))?;
    if !about.is_dir() || about.uid() != user || about.mode() & 0o022 != 0 {
        let text = "it is another user's, or others may write to it";
        return Err(failed("trusting the folder")(io::Error::other(text)));
    }
    Ok(folder)
}
