//! File systems whose inodes need nobody's answer: what they have in memory is what is true.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use kumiki_calls::Request;

/// Magic numbers of statfs(2) (include/uapi/linux/magic.h, and those of file systems that
/// keep theirs elsewhere). One that is not here is asked by a thread that may sleep.
const LOCAL: &[i64] = &[
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0xe0f5_e1e2, // erofs
    0x7371_7368, // squashfs
    0xf2f5_2010, // f2fs
    0x9660,      // iso9660
    0x4d44,      // vfat
    0x2011_bab0, // exfat
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x1373,      // devfs
    0x1cd1,      // devpts
];

/// The last device that was found to be local: mostly the one asked for next.
static LAST: AtomicU64 = AtomicU64::new(0);
/// Devices that were asked for, and whether they are.
static KNOWN: Mutex<Vec<(u64, bool)>> = Mutex::new(Vec::new());
/// Devices remembered at most.
const MOST: usize = 256;

/// Whether the file behind `fd`, on `device`, is on such a file system. A number of a device is
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
    if let Ok(mut list) = KNOWN.try_lock()
        && known.is_none()
        && find(&list).is_none()
    {
        if list.len() == MOST {
            list.remove(0);
        }
        list.push((device, local));
    }
    local
}

/// Asks the kernel what file system it is: that stands in memory, except where a server is
/// asked, once for each device.
fn asks(fd: u64) -> bool {
    let mut statfs = std::mem::MaybeUninit::<libc::statfs>::uninit();
    let request = Request::new(libc::SYS_fstatfs, [fd, statfs.as_mut_ptr() as u64]);
    // SAFETY: the kernel writes one `struct statfs`, of x86-64.
    let ret_val = unsafe { kumiki_calls::call(&request) };
    // SAFETY: it has written it where it says so.
    ret_val == 0 && LOCAL.contains(&unsafe { statfs.assume_init() }.f_type)
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
}
