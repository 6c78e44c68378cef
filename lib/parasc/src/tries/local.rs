//! File systems whose inodes need nobody's answer: what they have in memory is what is true.
//!
//! Which one it is the list of mounts says, `/proc/self/mountinfo`, that is in the kernel's memory.
//! statfs(2) would ask the file system, and that of FUSE its server, which may hang.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_calls::Request;

/// Their names in the list of mounts, and magic numbers of statfs(2) (include/uapi/linux/magic.h,
/// and those of file systems that keep theirs elsewhere). One that is not here is asked by a thread
/// that may sleep.
const LOCAL: &[(&[u8], i64)] = &[
    (b"ext4", 0xef53),
    (b"ext3", 0xef53),
    (b"ext2", 0xef53),
    (b"xfs", 0x5846_5342),
    (b"btrfs", 0x9123_683e),
    (b"tmpfs", 0x0102_1994),
    (b"devtmpfs", 0x0102_1994),
    (b"ramfs", 0x8584_58f6),
    (b"overlay", 0x794c_7630),
    (b"erofs", 0xe0f5_e1e2),
    (b"squashfs", 0x7371_7368),
    (b"f2fs", 0xf2f5_2010),
    (b"iso9660", 0x9660),
    (b"vfat", 0x4d44),
    (b"exfat", 0x2011_bab0),
    (b"zfs", 0x2fc1_2fc1),
    (b"bcachefs", 0xca45_1a4e),
    (b"proc", 0x9fa0),
    (b"sysfs", 0x6265_6572),
    (b"devfs", 0x1373),
    (b"devpts", 0x1cd1),
];

/// The last device that was found to be local: mostly the one asked for next.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Devices that were asked for, and whether they are.
static KNOWN: Mutex<Vec<(u64, bool)>> = Mutex::new(Vec::new());
/// Devices remembered at most.
const MOST: usize = 256;

/// True if the file system of this file, on `device`, needs nobody's answer: its attributes, and
/// the close of a file that was only read, are of the kernel's memory. Not so with FUSE and NFS,
/// whose server may hang: there also close(2) sleeps.
///
/// ```
/// use std::os::linux::fs::MetadataExt;
///
/// let file = std::fs::File::open("/proc/self/stat")?;
/// assert!(kumiki_parasc::tries::asks_nobody(&file, file.metadata()?.st_dev()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[inline]
pub fn asks_nobody(file: impl AsFd, device: u64) -> bool {
    is_local(file.as_fd().as_raw_fd() as u64, device)
}

/// True if the file behind `fd`, on `device`, is on such a file system. A number of a device is
/// used again when that is unmounted; then this may be wrong until the process ends, and an
/// attribute as old as its cache.
#[inline]
pub(super) fn is_local(fd: u64, device: u64) -> bool {
    device != 0 && (LAST.load(Relaxed) == device || is_known_local(fd, device))
}

#[cold]
fn is_known_local(fd: u64, device: u64) -> bool {
    let find = |known: &Vec<(u64, bool)>| known.iter().find(|(of, _)| *of == device).copied();
    // Another thread may have had it at fork(2), for ever in the child.
    let known = KNOWN.try_lock().ok().and_then(|known| find(&known));
    let local = known.map_or_else(|| asks(fd), |(_, local)| local);
    if local {
        LAST.store(device, Relaxed);
    }
    if let Ok(mut list) = KNOWN.try_lock() {
        if known.is_none() && find(&list).is_none() {
            if list.len() == MOST {
                list.remove(0);
            }
            list.push((device, local));
        }
    }
    local
}

/// Asks the kernel what file system it is: its list of mounts, and where that does not have it (in a
/// chroot of chroot(2), whose own file system is mounted outside of it) statfs(2).
fn asks(fd: u64) -> bool {
    let mounts = std::fs::read("/proc/thread-self/mountinfo").unwrap_or_default();
    let listed = mount(fd).and_then(|mount| type_of(&mounts, mount));
    if let Some(name) = listed {
        return LOCAL.iter().any(|(local, _)| *local == name);
    }
    let mut statfs = std::mem::MaybeUninit::<libc::statfs>::uninit();
    let request = Request::new(libc::SYS_fstatfs, [fd, statfs.as_mut_ptr() as u64]);
    // SAFETY: the kernel writes one `struct statfs`.
    let ret_val = unsafe { kumiki_calls::call(&request) };
    if ret_val != 0 {
        return false;
    }
    // SAFETY: it has written it where it says so.
    let statfs = unsafe { statfs.assume_init() };
    #[allow(clippy::unnecessary_cast, reason = "musl's is unsigned")]
    let magic = statfs.f_type as i64;
    LOCAL.iter().any(|(_, local)| *local == magic)
}

/// The number of the mount that an open file is of.
fn mount(fd: u64) -> Option<u64> {
    let mut statx = std::mem::MaybeUninit::<libc::statx>::zeroed();
    let flags = (libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC) as u64;
    let (path, mask) = (c"".as_ptr() as u64, u64::from(libc::STATX_MNT_ID));
    let args = [fd, path, flags, mask, statx.as_mut_ptr() as u64];
    // SAFETY: the kernel reads the path, and writes one `struct statx`.
    let ret_val = unsafe { kumiki_calls::call(&Request::new(libc::SYS_statx, args)) };
    // SAFETY: all its bits are values, and it was zeroed.
    let statx = unsafe { statx.assume_init() };
    // Since Linux 5.8.
    (ret_val == 0 && statx.stx_mask & libc::STATX_MNT_ID != 0).then_some(statx.stx_mnt_id)
}

/// The file system's type of the mount of this number (proc(5): the number is the first word, the type
/// the first one behind a hyphen). A subtype is behind a dot.
fn type_of(mounts: &[u8], mount: u64) -> Option<&[u8]> {
    let words = |line| <[u8]>::split(line, |byte| *byte == b' ');
    let number = mount.to_string();
    let line = mounts
        .split(|byte| *byte == b'\n')
        .find(|line| words(line).next() == Some(number.as_bytes()))?;
    words(line).skip_while(|word| *word != b"-").nth(1)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::super::refused::device;
    use super::*;

    #[test]
    fn proc_is_local_and_a_socket_is_not() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        let fd = file.as_raw_fd() as u64;
        for _ in 0..3 {
            assert!(is_local(fd, device(fd)));
        }
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let fd = socket.as_raw_fd() as u64;
        assert!(!is_local(fd, device(fd)) && !is_local(fd, 0));
    }

    #[test]
    fn the_list_of_mounts_says_what_statfs_would() {
        let mut found = 0;
        for path in ["/", "/proc", "/sys", "/dev", "/dev/pts", "/tmp", "/run"] {
            let Ok(file) = std::fs::File::open(path) else { continue };
            let (fd, mounts) = (file.as_raw_fd() as u64, std::fs::read("/proc/self/mountinfo"));
            let mounts = mounts.unwrap();
            let Some(name) = mount(fd).and_then(|mount| type_of(&mounts, mount)) else { continue };
            let magic = rustix::fs::fstatfs(&file).unwrap().f_type;
            let by_name = LOCAL.iter().any(|(local, _)| *local == name);
            let by_magic = LOCAL.iter().any(|(_, local)| *local == magic);
            assert_eq!(by_name, by_magic, "{path}: {}", String::from_utf8_lossy(name));
            assert_eq!(asks(fd), by_name, "{path}");
            found += 1;
        }
        // Of a process with a root of its own the list may lack some.
        assert!(found > 0);
    }

    #[test]
    fn a_mount_is_found_by_its_number_and_its_type_behind_the_hyphen() {
        const MOUNTS: &[u8] = b"22 1 0:20 / / rw shared:1 - overlay overlay rw,lowerdir=/a\n\
            122 22 0:52 / /srv/a\\040-\\040b rw,nosuid master:2 shared:3 - fuse.sshfs host: rw\n\
            23 22 254:1 / /data rw - ext4 /dev/vdb rw\n";
        let of = |mount| type_of(MOUNTS, mount);
        assert_eq!(of(22), Some(&b"overlay"[..]));
        assert_eq!(of(122), Some(&b"fuse.sshfs"[..]));
        assert_eq!(of(23), Some(&b"ext4"[..]));
        assert_eq!((of(2), of(1)), (None, None));
        assert_eq!(type_of(b"24 22 0:1 / /x rw", 24), None);
    }
}
