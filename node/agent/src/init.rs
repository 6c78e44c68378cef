//! In a node: a system of its owner's choice. The first process mounts its root, leaves the
//! agent beside it, and becomes its init.
//!
//! ```text
//!   first process --mounts--> root: the image's, or the first disk's
//!        |   \--starts--> watcher --starts, again and again--> agent: in the initramfs still
//!        `--moves the root to /, chroot, exec--> /sbin/init
//! ```

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_node_devices::record::Record;
use kumiki_node_devices::spec::{Assigned, DeviceSpec};
use kumiki_node_wire::brought::TRANSPORT;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind_recursive, mount_move, unmount};
use rustix::process::{chdir, chroot, fchdir};

use super::drivers::load_list;
use super::root::{BROUGHT, ROOT_AT};
use super::{PATH, log, root};
use crate::{Error, ErrorKind, Result, Subject};

/// Init of a whole system, by the file hierarchy's standard.
const USUAL: &str = "/sbin/init";
const BLOCKS: &str = "/sys/block";
/// Time that a disk may take to come: its server is started after the node.
const DISK_LIMIT: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// The init that this node is to have: the one asked for, or the usual one of an image that
/// names no program.
pub(super) fn wanted(record: Option<&Record>, has_root: bool, has_program: bool) -> Option<String> {
    let asked = record.and_then(|record| record.init.clone());
    let usual = has_root && !has_program && is_program(Path::new(ROOT_AT), USUAL);
    asked.or_else(|| usual.then(|| USUAL.to_owned()))
}

/// True if a root has this program; links lead within that root.
fn is_program(root: &Path, path: &str) -> bool {
    let mut path = PathBuf::from(path);
    for _ in 0..40 {
        let below = root.join(path.strip_prefix("/").unwrap_or(&path));
        match fs::symlink_metadata(&below) {
            Ok(about) if about.is_symlink() => match fs::read_link(&below) {
                Ok(target) => {
                    let folder = path.parent().unwrap_or(Path::new("/"));
                    path = folder.join(target);
                }
                Err(_) => return false,
            },
            Ok(about) => return about.is_file(),
            // By way of a folder that is a link, as /sbin is one: the kernel finds it.
            Err(_) => return fs::metadata(below).is_ok(),
        }
    }
    false
}

/// Mounts the root that the init is in, if the image has not brought it. `None`: it is in the
/// initramfs.
pub(super) fn root_for(record: &Record, has_root: bool) -> Result<Option<&'static Path>> {
    if has_root {
        return Ok(Some(Path::new(ROOT_AT)));
    }
    let is_disk = |device: &&Assigned| matches!(device.device, DeviceSpec::Disk(_));
    let Some(disk) = record.devices.iter().find(is_disk) else { return Ok(None) };
    [TRANSPORT, "disk"].into_iter().try_for_each(load_list)?;
    let serial = match &disk.device {
        DeviceSpec::Disk(known) => known.serial.clone().unwrap_or_else(|| disk.name.clone()),
        _ => disk.name.clone(),
    };
    let begin = Instant::now();
    let block = loop {
        if let Some(block) = with_serial(Path::new(BLOCKS), &serial) {
            break block;
        }
        if begin.elapsed() > DISK_LIMIT {
            return Err(Error::refused(
                ErrorKind::TimedOut,
                Subject::Word(disk.name.clone()),
                format!("{} does not come within 30 s", disk.name),
            ));
        }
        thread::sleep(LOOK);
    };
    fs::create_dir_all(ROOT_AT).map_err(|error| Error::file(ROOT_AT, error))?;
    let init = record.init.as_deref().unwrap_or(USUAL);
    for place in places(&block) {
        let device = Path::new("/dev").join(&place);
        if mount(&device, ROOT_AT, "ext4", MountFlags::empty(), None).is_err() {
            continue;
        }
        if is_program(Path::new(ROOT_AT), init) {
            for folder in BROUGHT {
                let at = format!("{ROOT_AT}{folder}");
                let bound =
                    fs::create_dir_all(&at).and_then(|()| Ok(mount_bind_recursive(folder, &at)?));
                bound.map_err(|error| Error::file(&at, error))?;
            }
            return Ok(Some(Path::new(ROOT_AT)));
        }
        let _ = unmount(ROOT_AT, UnmountFlags::empty());
    }
    Err(Error::refused(
        ErrorKind::NotFound,
        Subject::Word(disk.name.clone()),
        format!("{}: neither it nor a partition of it is an ext4 with {init}", disk.name),
    ))
}

/// The block device of this serial number.
fn with_serial(blocks: &Path, serial: &str) -> Option<String> {
    let entries = fs::read_dir(blocks).ok()?.flatten();
    let has = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("serial")).is_ok_and(|text| text.trim() == serial)
    };
    entries.into_iter().find(has).map(|entry| entry.file_name().to_string_lossy().into_owned())
}

/// A disk, and its partitions.
fn places(block: &str) -> Vec<String> {
    let folder = Path::new(BLOCKS).join(block);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut parts: Vec<_> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.starts_with(block))
        .collect();
    parts.sort();
    [block.to_owned()].into_iter().chain(parts).collect()
}

/// Becomes the init; returns only if that fails, and then where it was. Agents wait meanwhile.
pub(super) fn become_it(init: &str, root: Option<&Path>) -> Error {
    let before = match File::open("/") {
        Ok(before) => before,
        Err(error) => return Error::file("/", error),
    };
    let moved = root.map_or(Ok(()), |root| {
        chdir(root)?;
        mount_move(".", "/")?;
        chroot(".")?;
        chdir("/")
    });
    let error = match moved {
        Err(error) => Error::os("moving the root", error),
        Ok(()) => {
            let mut command = Command::new(init);
            command.env_clear().env("PATH", PATH).env("HOME", "/").env("TERM", "linux");
            super::spared::end();
            Error::os(format!("starting {init}"), command.exec())
        }
    };
    match fchdir(before).and_then(|()| chroot(".")) {
        Ok(()) => error,
        Err(lost) => Error::os("going back to the initramfs", lost),
    }
}

/// Waits until the first process has become the init, if it is about to: programs that were
/// begun before would begin in another root.
pub(super) fn wait_for_it() {
    let program = |path: &str| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let own = program("/proc/self/exe");
    while root::of_init().is_some() && program("/proc/1/exe") == own {
        thread::sleep(LOOK);
    }
}

/// Asks the init to switch the node off, in the way that it has for that.
pub(super) fn ask_for_power_off(root: &Path) -> Result<()> {
    if root.join("run/systemd/system").exists() {
        // Its own signal for poweroff.target.
        let signal = libc::SIGRTMIN() + 4;
        // SAFETY: the first process is there, and this changes nothing of ours.
        let sent = unsafe { libc::kill(1, signal) };
        return match sent {
            0 => Ok(()),
            _ => Err(Error::os("asking systemd for the end", std::io::Error::last_os_error())),
        };
    }
    let mut command = Command::new("poweroff");
    command.env("PATH", PATH);
    root::enter(&mut command, "/", None)?;
    let status = command.status().map_err(|error| Error::os("poweroff", error))?;
    if !status.success() {
        log(&format!("poweroff ended with {status}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_init_is_found_through_links_that_stay_in_its_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["usr/sbin", "lib/systemd"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join("lib/systemd/systemd"), "").unwrap();
        std::os::unix::fs::symlink("usr/sbin", root.join("sbin")).unwrap();
        std::os::unix::fs::symlink("/lib/systemd/systemd", root.join("usr/sbin/init")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        assert!(is_program(root, "/usr/sbin/init") && is_program(root, "/sbin/init"));
        assert!(
            !is_program(root, "/loop") && !is_program(root, "/no") && !is_program(root, "/lib")
        );
    }

    #[test]
    fn a_disk_is_found_by_its_serial_number() {
        let folder = tempfile::tempdir().unwrap();
        for (name, serial) in [("vda", "disk0\n"), ("vdb", "data\n")] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("serial"), serial).unwrap();
        }
        assert_eq!(with_serial(folder.path(), "data").as_deref(), Some("vdb"));
        assert_eq!(with_serial(folder.path(), "dat"), None);
    }
}
