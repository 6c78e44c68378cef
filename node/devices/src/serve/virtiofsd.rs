//! virtiofsd, started for one shared folder.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::vhost_user::TAG_BYTES;
use crate::spec::{Assigned, Share};
use crate::{Error, ErrorKind, Result, Subject};

/// Paths at which distributions put it. Not `/usr/lib/qemu/virtiofsd`, QEMU's former one in C: it
/// maps a memory's descriptor from its beginning, which this one's has not.
const PLACES: [&str; 5] = [
    "/usr/libexec/virtiofsd",
    "/usr/lib/virtiofsd",
    "/usr/bin/virtiofsd",
    "/usr/local/bin/virtiofsd",
    "/bin/virtiofsd",
];
const START_LIMIT: Duration = Duration::from_secs(10);

/// A virtiofsd; ended with the value, as it ends with its connection.
#[derive(Debug)]
pub(super) struct Daemon(Child);

impl Daemon {
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts one, and gives it with the connection.
pub(super) fn start(node: &str, device: &Assigned, share: &Share) -> Result<(Daemon, File)> {
    debug_assert!(device.name.len() < TAG_BYTES);
    if !share.folder.is_dir() {
        return Err(Error::refused(
            ErrorKind::Invalid,
            Subject::File(share.folder.clone()),
            format!("{} is no folder", share.folder.display()),
        ));
    }
    let program = PLACES.iter().map(Path::new).find(|path| path.exists()).ok_or_else(|| {
        Error::Unsupported {
            feature: "a shared folder (virtiofsd)".into(),
            needs: "install the package virtiofsd, which Debian has from 13 on".into(),
        }
    })?;
    let socket = socket(node, device)?;
    let _ = fs::remove_file(&socket);
    let mut command = Command::new(program);
    command.arg(format!("--socket-path={}", socket.display()));
    command.arg(format!("--shared-dir={}", share.folder.display()));
    command.arg("--announce-submounts");
    if root_cannot_change() {
        command.arg("--sandbox=none");
    }
    if share.read_only {
        command.arg("--readonly");
    }
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut daemon = Daemon(child.map_err(|error| Error::file(program, error))?);
    let connected = connect(&socket, &mut daemon);
    let _ = fs::remove_file(&socket);
    Ok((daemon, File::from(OwnedFd::from(connected?))))
}

fn socket(node: &str, device: &Assigned) -> Result<PathBuf> {
    super::place(&format!("{node}-{}", device.name))
}

/// A file that virtiofsd leaves beside its socket.
pub(super) fn pid_file(node: &str, device: &Assigned) -> Result<PathBuf> {
    let mut path = socket(node, device)?.into_os_string();
    path.push(".pid");
    Ok(path.into())
}

fn connect(socket: &PathBuf, daemon: &mut Daemon) -> Result<UnixStream> {
    let begin = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Ok(stream) => return Ok(stream),
            Err(error) if daemon.has_ended() || begin.elapsed() > START_LIMIT => {
                return Err(Error::refused(
                    ErrorKind::Lost,
                    Subject::Program("virtiofsd".into()),
                    format!(
                        "virtiofsd did not begin to listen: {error}; its words are in the server's log"
                    ),
                ));
            }
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// True if the root of the file system is an initramfs, which nobody can leave: then virtiofsd has
/// no sandbox.
fn root_cannot_change() -> bool {
    fs::read_to_string("/proc/self/mounts").is_ok_and(|text| {
        text.lines().any(|line| line.starts_with("rootfs / ") || line.starts_with("none / rootfs"))
    })
}
