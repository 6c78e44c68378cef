//! What is known, call by call.

use kumiki_sys::syscall::MAX_ARGS;
use syscalls::Sysno;

use super::{Contends, Kind};
use crate::callset::NUMBERS;

/// These take the lock of the memory map. msync is not here: it leaves the lock
/// before it writes. membarrier has a lock of its own and interrupts every cpu
/// on which the process runs, which comes to the same.
const ADDRESS_SPACE: &[Sysno] = &[
    Sysno::brk,
    Sysno::get_mempolicy,
    Sysno::io_destroy,
    Sysno::io_setup,
    Sysno::madvise,
    Sysno::map_shadow_stack,
    Sysno::mbind,
    Sysno::membarrier,
    Sysno::migrate_pages,
    Sysno::mincore,
    Sysno::mlock,
    Sysno::mlock2,
    Sysno::mlockall,
    Sysno::mmap,
    Sysno::modify_ldt,
    Sysno::move_pages,
    Sysno::mprotect,
    Sysno::mremap,
    Sysno::mseal,
    Sysno::munlock,
    Sysno::munlockall,
    Sysno::munmap,
    Sysno::pkey_alloc,
    Sysno::pkey_free,
    Sysno::pkey_mprotect,
    Sysno::process_madvise,
    Sysno::remap_file_pages,
    Sysno::set_mempolicy_home_node,
    Sysno::shmat,
    Sysno::shmdt,
];

/// Calls on one open file, with the argument that names it. Of several the one
/// that is written to: its lock is held longer. The fsync family is not here:
/// it waits for the device, and many at once are what it gains by.
const DESCRIPTORS: &[(u8, &[Sysno])] = &[
    (
        0,
        &[
            Sysno::accept,
            Sysno::accept4,
            Sysno::bind,
            Sysno::cachestat,
            Sysno::connect,
            Sysno::epoll_ctl,
            Sysno::epoll_pwait,
            Sysno::epoll_pwait2,
            Sysno::epoll_wait,
            Sysno::fadvise64,
            Sysno::fallocate,
            Sysno::fanotify_mark,
            Sysno::fchmod,
            Sysno::fchown,
            Sysno::fcntl,
            Sysno::fgetxattr,
            Sysno::flistxattr,
            Sysno::flock,
            Sysno::fremovexattr,
            Sysno::fsetxattr,
            Sysno::fstat,
            Sysno::fstatfs,
            Sysno::ftruncate,
            Sysno::getdents,
            Sysno::getdents64,
            Sysno::getpeername,
            Sysno::getsockname,
            Sysno::getsockopt,
            Sysno::inotify_add_watch,
            Sysno::inotify_rm_watch,
            Sysno::io_uring_enter,
            Sysno::io_uring_register,
            Sysno::ioctl,
            Sysno::listen,
            Sysno::lseek,
            Sysno::mq_getsetattr,
            Sysno::mq_notify,
            Sysno::mq_timedreceive,
            Sysno::mq_timedsend,
            Sysno::pread64,
            Sysno::preadv,
            Sysno::preadv2,
            Sysno::pwrite64,
            Sysno::pwritev,
            Sysno::pwritev2,
            Sysno::read,
            Sysno::readahead,
            Sysno::readv,
            Sysno::recvfrom,
            Sysno::recvmmsg,
            Sysno::recvmsg,
            Sysno::sendfile,
            Sysno::sendmmsg,
            Sysno::sendmsg,
            Sysno::sendto,
            Sysno::setsockopt,
            Sysno::shutdown,
            Sysno::timerfd_gettime,
            Sysno::timerfd_settime,
            Sysno::vmsplice,
            Sysno::write,
            Sysno::writev,
        ],
    ),
    (1, &[Sysno::tee]),
    (2, &[Sysno::copy_file_range, Sysno::splice]),
];

/// Calls that make or take away a name, with the argument from which the path
/// starts. rename locks both directories; one stands for them.
const DIRECTORIES: &[(Option<u8>, &[Sysno])] = &[
    (
        None,
        &[
            Sysno::creat,
            Sysno::link,
            Sysno::mkdir,
            Sysno::mknod,
            Sysno::mq_unlink,
            Sysno::rename,
            Sysno::rmdir,
            Sysno::symlink,
            Sysno::unlink,
        ],
    ),
    (
        Some(0),
        &[Sysno::mkdirat, Sysno::mknodat, Sysno::renameat, Sysno::renameat2, Sysno::unlinkat],
    ),
    (Some(1), &[Sysno::symlinkat]),
    (Some(2), &[Sysno::linkat]),
];

/// Calls that commonly wait, whatever their arguments say; see [`may_sleep`].
const SLEEPING: &[Sysno] = &[
    Sysno::accept,
    Sysno::accept4,
    Sysno::clock_nanosleep,
    Sysno::connect,
    Sysno::epoll_pwait,
    Sysno::epoll_pwait2,
    Sysno::epoll_wait,
    Sysno::fdatasync,
    Sysno::flock,
    Sysno::fsync,
    Sysno::futex,
    Sysno::futex_wait,
    Sysno::futex_waitv,
    Sysno::io_getevents,
    Sysno::io_pgetevents,
    Sysno::io_uring_enter,
    Sysno::mq_timedreceive,
    Sysno::msgrcv,
    Sysno::msync,
    Sysno::nanosleep,
    Sysno::poll,
    Sysno::ppoll,
    Sysno::pselect6,
    Sysno::recvfrom,
    Sysno::recvmmsg,
    Sysno::recvmsg,
    Sysno::select,
    Sysno::semop,
    Sysno::semtimedop,
    Sysno::sync,
    Sysno::sync_file_range,
    Sysno::syncfs,
    Sysno::umount2,
    Sysno::wait4,
    Sysno::waitid,
];

/// What is known about each number.
pub(super) static KINDS: [Kind; NUMBERS] = {
    let mut kinds = [Kind::UNKNOWN; NUMBERS];
    contend(&mut kinds, ADDRESS_SPACE, Contends::AddressSpace);
    let mut i = 0;
    while i < DESCRIPTORS.len() {
        contend(&mut kinds, DESCRIPTORS[i].1, Contends::Descriptor(DESCRIPTORS[i].0));
        i += 1;
    }
    let mut i = 0;
    while i < DIRECTORIES.len() {
        contend(&mut kinds, DIRECTORIES[i].1, Contends::Directory(DIRECTORIES[i].0));
        i += 1;
    }
    let mut i = 0;
    while i < SLEEPING.len() {
        kinds[SLEEPING[i] as usize].sleeps = true;
        i += 1;
    }
    kinds
};

/// In [`PLACE`], for an openat: its argument 0, if it may make a name there.
pub(super) const OPENAT: u8 = MAX_ARGS as u8;

/// One more than the argument that names each call's place, for a look that is
/// one load; 0 where none does.
pub(super) static PLACE: [u8; NUMBERS] = {
    let mut place = [0; NUMBERS];
    let mut i = 0;
    while i < NUMBERS {
        if let Contends::Descriptor(arg) | Contends::Directory(Some(arg)) = KINDS[i].contends {
            assert!(arg < OPENAT, "a call has no such argument");
            place[i] = arg + 1;
        }
        i += 1;
    }
    place[Sysno::openat as usize] = OPENAT + 1;
    place
};

/// Enters `calls`; a call that stands in two lists does not compile.
const fn contend(kinds: &mut [Kind; NUMBERS], calls: &[Sysno], contends: Contends) {
    let mut i = 0;
    while i < calls.len() {
        let kind = &mut kinds[calls[i] as usize];
        assert!(matches!(kind.contends, Contends::Nothing), "a call stands in two lists");
        kind.contends = contends;
        i += 1;
    }
}
