//! A terminal of the host that is a node's console, found by a name that stays.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use crate::{Error, Result};

/// A terminal and its name; both go with the value.
#[derive(Debug)]
pub(super) struct Terminal {
    master: OwnedFd,
    /// The slave, which keeps the master's side open, whoever comes and goes.
    _slave: OwnedFd,
    link: PathBuf,
}

impl Terminal {
    /// Makes one, root's alone, with this name.
    pub(super) fn new(link: PathBuf) -> Result<Self> {
        let failed = |error| Error::os("a terminal for a node's console", error);
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).map_err(failed)?;
        unlockpt(&master).map_err(failed)?;
        // It goes to the process that serves, whose other work is not to wait for it.
        fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK).map_err(failed)?;
        let slave = ioctl_tiocgptpeer(&master, flags).map_err(failed)?;
        // Else what the node says would come back to it as if it was typed.
        let mut modes = tcgetattr(&slave).map_err(failed)?;
        modes.make_raw();
        tcsetattr(&slave, OptionalActions::Now, &modes).map_err(failed)?;
        let path = ptsname(&master, Vec::new()).map_err(failed)?;
        let _ = fs::remove_file(&link);
        symlink(Path::new(std::ffi::OsStr::from_bytes(path.to_bytes())), &link)
            .map_err(|error| Error::file(&link, error))?;
        Ok(Terminal { master, _slave: slave, link })
    }

    /// Another descriptor of the side that is the node's.
    pub(super) fn master(&self) -> Result<File> {
        let copy = self.master.as_fd().try_clone_to_owned();
        copy.map(File::from).map_err(|error| Error::os("copying a descriptor", error))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.link);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn what_nobody_reads_is_kept_for_who_comes_and_does_not_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let terminal = Terminal::new(folder.path().join("n1.console0")).unwrap();
        let mut master = terminal.master().unwrap();
        master.write_all(b"login: ").unwrap();
        let mut user = File::options().read(true).write(true).open(&terminal.link).unwrap();
        let mut bytes = [0; 7];
        user.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"login: ");
        assert_eq!(master.read(&mut bytes).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        user.write_all(b"root\n").unwrap();
        let count = master.read(&mut bytes).unwrap();
        assert_eq!(&bytes[..count], b"root\n");
        // Whoever goes leaves it as it was.
        drop(user);
        assert_eq!(master.read(&mut bytes).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
        let link = terminal.link.clone();
        drop(terminal);
        assert!(!link.is_symlink());
    }
}
