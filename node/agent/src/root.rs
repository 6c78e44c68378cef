//! In a node: the root of its programs, if its image has one: a container image's files where
//! they stay in memory, under what this node writes.
//!
//! ```text
//!   /kumiki/image  erofs, /dev/pmem0: the host's memory, mapped, no copy of it
//!   /kumiki/own    tmpfs: what is written here
//!   /kumiki/root   overlay of both; programs see it as /
//! ```
//!
//! The agent and what it loads stay where they were: no file of an image can take them away.

use std::ffi::{CString, OsString};
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use kumiki_node_wire::brought::PROGRAM;
use kumiki_node_wire::brought::ROOT;
use rustix::mount::{MountFlags, mount, mount_bind_recursive};
use rustix::process::{Gid, Uid, chdir, chroot};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::drivers::load_list;
use super::log;
use super::users::Who;
use crate::{Error, ErrorKind, Result, Subject};

const IMAGE: &str = "/kumiki/image";
const OWN: &str = "/kumiki/own";
pub(super) const ROOT_AT: &str = "/kumiki/root";
/// File that is there while the first process becomes somebody else's init, and is it.
pub(super) const HANDED_OVER: &str = "/run/kumiki-init";
/// The root of that init.
const OF_INIT: &str = "/proc/1/root";
const DEVICE: &str = "/dev/pmem0";
/// Time that the device may take to come once its drivers are there.
const DEVICE_LIMIT: Duration = Duration::from_secs(5);
/// Variable by which a program beside the root is told of it.
const VARIABLE: &str = "KUMIKI_NODE_ROOT";
/// Folders that programs find beside the image's files.
pub(super) const BROUGHT: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The table of memory that the kernel was started with.
pub(super) const MEMORY_MAP: &str = "/sys/firmware/memmap";
/// Its name for a root's kind of memory.
const KIND: &str = "Persistent Memory (legacy)";

/// Address and bytes of the root in the table of memory, if it names one.
pub(super) fn memory(table: &Path) -> Option<(u64, u64)> {
    let read = |entry: &Path, name: &str| fs::read_to_string(entry.join(name)).ok();
    let number = |entry: &Path, name: &str| {
        let text = read(entry, name)?;
        u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
    };
    let entries = fs::read_dir(table).ok()?.flatten().map(|entry| entry.path());
    let is_root = |entry: &PathBuf| read(entry, "type").is_some_and(|kind| kind.trim() == KIND);
    let found = entries.into_iter().find(is_root)?;
    let (start, end) = (number(&found, "start")?, number(&found, "end")?);
    Some((start, end.checked_sub(start)?.checked_add(1)?))
}

/// True if this node's image has a root.
fn is_wanted() -> bool {
    Path::new(PROGRAM).exists()
}

/// Root folder of programs; `None` if it is the agent's own.
pub(super) fn place() -> Option<&'static Path> {
    if of_init().is_some() {
        return of_init();
    }
    Path::new(ROOT_AT).join("proc/self").exists().then(|| Path::new(ROOT_AT))
}

/// The root of the node's own init, if it has one.
pub(super) fn of_init() -> Option<&'static Path> {
    Path::new(HANDED_OVER).exists().then(|| Path::new(OF_INIT))
}

/// A place as programs name it.
pub(super) fn within(path: &Path) -> PathBuf {
    let below = path.strip_prefix("/").unwrap_or(path);
    place().map_or_else(|| path.to_owned(), |root| root.join(below))
}

/// Makes the root in the first process, if there is to be one.
pub(super) fn begin() -> Result<bool> {
    if !is_wanted() {
        return Ok(false);
    }
    load_list(ROOT)?;
    let begin = Instant::now();
    while !Path::new(DEVICE).exists() {
        if begin.elapsed() > DEVICE_LIMIT {
            return Err(Error::refused(
                ErrorKind::TimedOut,
                Subject::File(DEVICE.into()),
                format!(
                    "{DEVICE} does not come: the kernel has not taken its root's memory for a device"
                ),
            ));
        }
        thread::sleep(Duration::from_millis(1));
    }
    for folder in [IMAGE, OWN, ROOT_AT] {
        fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
    }
    let nothing = MountFlags::empty();
    let read_only = MountFlags::RDONLY;
    if let Err(error) = mount(DEVICE, IMAGE, "erofs", read_only, c"dax=always") {
        // As good, but for a copy of what is read.
        log(&format!("the root is read through the page cache: mounting it with dax: {error}"));
        mount(DEVICE, IMAGE, "erofs", read_only, None).map_err(failed(IMAGE))?;
    }
    mount("tmpfs", OWN, "tmpfs", nothing, c"mode=755").map_err(failed(OWN))?;
    for folder in ["upper", "work"] {
        let folder = Path::new(OWN).join(folder);
        fs::create_dir(&folder).map_err(|error| Error::file(folder, error))?;
    }
    let layers = format!("lowerdir={IMAGE},upperdir={OWN}/upper,workdir={OWN}/work");
    let layers = CString::new(layers).expect("no zero is in it");
    mount("overlay", ROOT_AT, "overlay", nothing, &*layers).map_err(failed(ROOT_AT))?;
    // Shared memory is a folder there, which the image cannot bring.
    let _ = fs::create_dir_all("/dev/shm");
    let _ = mount("tmpfs", "/dev/shm", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, None);
    for folder in BROUGHT {
        let at = format!("{ROOT_AT}{folder}");
        fs::create_dir_all(&at).map_err(|error| Error::file(&at, error))?;
        mount_bind_recursive(folder, &at).map_err(failed(&at))?;
    }
    for folder in ["/tmp", "/run", "/etc"] {
        let _ = fs::create_dir_all(format!("{ROOT_AT}{folder}"));
    }
    let hosts = format!("{ROOT_AT}/etc/hosts");
    if !Path::new(&hosts).exists() {
        let _ = fs::write(hosts, "127.0.0.1 localhost\n::1 localhost\n");
    }
    Ok(true)
}

fn failed(what: &str) -> impl FnOnce(rustix::io::Errno) -> Error {
    let what = format!("mounting {what}");
    move |error| Error::os(what, error)
}

/// Has a program begin in the root, in a folder there, as somebody; without a root only in that
/// folder. That the folder is not there would else be said of the program.
pub(super) fn enter(command: &mut Command, folder: &str, who: Option<Who>) -> Result<()> {
    let found = fs::metadata(within(Path::new(folder)));
    match found {
        Ok(found) if found.is_dir() => {}
        Ok(_) => {
            return Err(Error::refused(
                ErrorKind::Invalid,
                Subject::File(folder.into()),
                format!("{folder} is no folder"),
            ));
        }
        Err(error) => return Err(Error::file(folder, error)),
    }
    let root = place();
    let folder = CString::new(folder).map_err(|_| {
        Error::refused(ErrorKind::Invalid, Subject::File(folder.into()), "a folder with a zero")
    })?;
    let step = move || -> std::io::Result<()> {
        if let Some(root) = root {
            chroot(root)?;
        }
        chdir(&*folder)?;
        if let Some(Who { user, group, groups }) = &who {
            let group = Gid::from_raw(*group);
            let user = Uid::from_raw(*user);
            set_thread_groups(groups)?;
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec this makes system calls only, on what was made before; it
    // neither allocates nor takes a lock.
    unsafe { command.pre_exec(step) };
    Ok(())
}

/// A program of ours stays beside the root, and is told where that is.
pub(super) fn tell(command: &mut Command) {
    if let Some(root) = place() {
        command.env(VARIABLE, root);
    }
}

/// Goes into the root, in a program of ours that was told of one: names of files are names there
/// from now on.
pub fn go_in() -> Result<()> {
    let Some(root) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let path = PathBuf::from(OsString::from_vec(root.into_vec()));
    chroot(&path).and_then(|()| chdir("/")).map_err(|error| Error::os("entering the root", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_named_in_the_table_of_memory() {
        let folder = tempfile::tempdir().unwrap();
        for (number, start, end, kind) in [
            ("0", "0x10000", "0x16fff", "System RAM"),
            ("1", "0x8000000", "0xeffffff", "Persistent Memory (legacy)"),
        ] {
            let entry = folder.path().join(number);
            fs::create_dir(&entry).unwrap();
            for (name, text) in [("start", start), ("end", end), ("type", kind)] {
                fs::write(entry.join(name), format!("{text}\n")).unwrap();
            }
        }
        assert_eq!(memory(folder.path()), Some((0x800_0000, 0x700_0000)));
        fs::remove_dir_all(folder.path().join("1")).unwrap();
        assert_eq!(memory(folder.path()), None);
    }
}
