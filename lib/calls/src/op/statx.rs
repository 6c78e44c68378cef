//! What is known of a file beside its content, in one call.

use std::ffi::CStr;
use std::fmt;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::time::{Duration, SystemTime};

use kumiki_sys::syscall;
use rustix::fs::{AtFlags, FileType, Stat, StatxFlags};
use rustix::io::Errno;

use super::Operation;
use super::output::{descriptor, name};
use crate::request::Request;

/// statx(2): the attributes of `path`, relative to `dir`; with
/// [`AtFlags::EMPTY_PATH`] and an empty path, those of `dir` itself.
///
/// The kernel writes them into the operation, where [`attributes`](Self::attributes)
/// finds them.
pub struct Statx<F, P> {
    dir: F,
    path: P,
    flags: AtFlags,
    mask: StatxFlags,
    filled: bool,
    attributes: MaybeUninit<Attributes>,
}

impl<F: AsFd, P: AsRef<CStr>> Statx<F, P> {
    /// The call with these arguments, to be made.
    #[inline]
    pub const fn new(dir: F, path: P, flags: AtFlags, mask: StatxFlags) -> Self {
        Statx { dir, path, flags, mask, filled: false, attributes: MaybeUninit::uninit() }
    }

    /// Asks the question about another file, in the same memory.
    #[inline]
    pub fn retarget(&mut self, dir: F, path: P) {
        self.dir = dir;
        self.path = path;
        self.filled = false;
    }

    /// Attributes that the last call found; `None` if it failed or was not made.
    #[inline]
    pub fn attributes(&self) -> Option<&Attributes> {
        match self.filled {
            // SAFETY: the kernel wrote all of it.
            true => Some(unsafe { self.attributes.assume_init_ref() }),
            false => None,
        }
    }

    /// The directory and the path.
    #[inline]
    pub fn into_parts(self) -> (F, P) {
        (self.dir, self.path)
    }
}

// SAFETY: the kernel writes one struct statx, to the field of that size; the
// path is owned or borrowed, for reading.
unsafe impl<F: AsFd, P: AsRef<CStr>> Operation for Statx<F, P> {
    type Output = Result<(), Errno>;

    #[inline]
    fn request(&mut self) -> Request {
        self.filled = false;
        Request::new(
            libc::SYS_statx,
            [
                descriptor(&self.dir),
                name(&self.path),
                self.flags.bits() as u64,
                self.mask.bits() as u64,
                self.attributes.as_mut_ptr() as u64,
            ],
        )
    }

    #[inline]
    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        let result = syscall::result(ret_val);
        self.filled = result.is_ok();
        result.map(drop)
    }
}

impl<F: fmt::Debug, P: fmt::Debug> fmt::Debug for Statx<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statx")
            .field("dir", &self.dir)
            .field("path", &self.path)
            .field("flags", &self.flags)
            .field("mask", &self.mask)
            .finish_non_exhaustive()
    }
}

/// `struct statx` of include/uapi/linux/stat.h. What was not asked for, or what
/// the file system does not have, is zero or made up: [`mask`](Self::mask)
/// says what is real.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Attributes(libc::statx);

impl Attributes {
    /// Attributes that the kernel has told elsewhere, or may tell.
    #[inline]
    pub const fn from_raw(raw: libc::statx) -> Self {
        Attributes(raw)
    }

    /// Mask of the attributes that are real.
    #[inline]
    pub const fn mask(&self) -> StatxFlags {
        StatxFlags::from_bits_retain(self.0.stx_mask)
    }

    /// Type of the file.
    #[inline]
    pub const fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.0.stx_mode as u32)
    }

    /// Type and permissions, as in `st_mode`.
    #[inline]
    pub const fn mode(&self) -> u16 {
        self.0.stx_mode
    }

    /// Length in bytes.
    #[inline]
    pub const fn size(&self) -> u64 {
        self.0.stx_size
    }

    /// Space taken on the disk, in units of 512 bytes.
    #[inline]
    pub const fn blocks(&self) -> u64 {
        self.0.stx_blocks
    }

    /// Best size for reads and writes, in bytes.
    #[inline]
    pub const fn block_size(&self) -> u32 {
        self.0.stx_blksize
    }

    /// Number of names (hard links).
    #[inline]
    pub const fn nlink(&self) -> u32 {
        self.0.stx_nlink
    }

    /// Number of the file within its file system.
    #[inline]
    pub const fn ino(&self) -> u64 {
        self.0.stx_ino
    }

    /// The device that the file system is on, as in `st_dev`.
    #[inline]
    pub const fn dev(&self) -> u64 {
        libc::makedev(self.0.stx_dev_major, self.0.stx_dev_minor)
    }

    /// The device that the file is, if it is one, as in `st_rdev`.
    #[inline]
    pub const fn rdev(&self) -> u64 {
        libc::makedev(self.0.stx_rdev_major, self.0.stx_rdev_minor)
    }

    /// Owner.
    #[inline]
    pub const fn uid(&self) -> u32 {
        self.0.stx_uid
    }

    /// Group.
    #[inline]
    pub const fn gid(&self) -> u32 {
        self.0.stx_gid
    }

    /// Number of the mount, since Linux 5.8.
    #[inline]
    pub const fn mount_id(&self) -> u64 {
        self.0.stx_mnt_id
    }

    /// Last read.
    #[inline]
    pub fn accessed(&self) -> SystemTime {
        time(self.0.stx_atime)
    }

    /// Last change of the content.
    #[inline]
    pub fn modified(&self) -> SystemTime {
        time(self.0.stx_mtime)
    }

    /// Last change of content or attributes.
    #[inline]
    pub fn changed(&self) -> SystemTime {
        time(self.0.stx_ctime)
    }

    /// Birth, if the file system knows it.
    #[inline]
    pub fn created(&self) -> Option<SystemTime> {
        self.mask().contains(StatxFlags::BTIME).then(|| time(self.0.stx_btime))
    }

    /// All that the kernel told.
    #[inline]
    pub const fn as_raw(&self) -> &libc::statx {
        &self.0
    }
}

/// Attributes by an older call, where a filter or kernel knows no statx(2): all but the birth and
/// the number of the mount.
impl From<&Stat> for Attributes {
    fn from(stat: &Stat) -> Attributes {
        // SAFETY: whole numbers, any bits will do.
        let mut told: libc::statx = unsafe { std::mem::zeroed() };
        told.stx_mask = StatxFlags::BASIC_STATS.bits();
        told.stx_mode = stat.st_mode as u16;
        told.stx_size = stat.st_size as u64;
        told.stx_blocks = stat.st_blocks as u64;
        told.stx_blksize = stat.st_blksize as u32;
        #[allow(clippy::unnecessary_cast, reason = "aarch64 has it as wide")]
        let links = stat.st_nlink as u32;
        told.stx_nlink = links;
        (told.stx_ino, told.stx_uid, told.stx_gid) = (stat.st_ino, stat.st_uid, stat.st_gid);
        (told.stx_dev_major, told.stx_dev_minor) =
            (libc::major(stat.st_dev), libc::minor(stat.st_dev));
        (told.stx_rdev_major, told.stx_rdev_minor) =
            (libc::major(stat.st_rdev), libc::minor(stat.st_rdev));
        for (stamp, seconds, nanoseconds) in [
            (&mut told.stx_atime, stat.st_atime, stat.st_atime_nsec),
            (&mut told.stx_mtime, stat.st_mtime, stat.st_mtime_nsec),
            (&mut told.stx_ctime, stat.st_ctime, stat.st_ctime_nsec),
        ] {
            (stamp.tv_sec, stamp.tv_nsec) = (seconds, nanoseconds as u32);
        }
        Attributes(told)
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attributes")
            .field("file_type", &self.file_type())
            .field("mode", &format_args!("{:o}", self.mode()))
            .field("size", &self.size())
            .field("blocks", &self.blocks())
            .field("nlink", &self.nlink())
            .field("ino", &self.ino())
            .field("dev", &self.dev())
            .finish_non_exhaustive()
    }
}

fn time(stamp: libc::statx_timestamp) -> SystemTime {
    // Seconds may be before 1970; nanoseconds always count upwards. A file system may say
    // anything: what no `SystemTime` can tell is cut.
    let seconds = Duration::from_secs(stamp.tv_sec.unsigned_abs());
    let second = match stamp.tv_sec {
        0.. => SystemTime::UNIX_EPOCH.checked_add(seconds),
        _ => SystemTime::UNIX_EPOCH.checked_sub(seconds),
    };
    let second = second.unwrap_or(SystemTime::UNIX_EPOCH);
    second.checked_add(Duration::from_nanos(stamp.tv_nsec.into())).unwrap_or(second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_call_tells_the_same() {
        use std::os::fd::AsFd;
        for path in ["/dev/null", "/etc/passwd", "/", "/proc/self/stat"] {
            let file = std::fs::File::open(path).unwrap();
            let stat = rustix::fs::fstat(&file).unwrap();
            let mut asked =
                Statx::new(file.as_fd(), c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
            // SAFETY: the operation's own request.
            let ret_val = unsafe { crate::call(&asked.request()) };
            // SAFETY: its result.
            unsafe { asked.complete(ret_val) }.unwrap();
            let (one, other) = (Attributes::from(&stat), asked.attributes().unwrap());
            let all = |it: &Attributes| {
                let numbers = [it.size(), it.blocks(), it.ino(), it.dev(), it.rdev()];
                let small = [it.mode().into(), it.block_size(), it.nlink(), it.uid(), it.gid()];
                (numbers, small, [it.accessed(), it.modified(), it.changed()])
            };
            assert_eq!(all(&one), all(other), "{path}");
            assert!(one.mask() == StatxFlags::BASIC_STATS && one.created().is_none());
        }
    }

    #[test]
    fn times_before_1970_count_upwards_too() {
        // SAFETY: whole numbers, any bits will do.
        let mut stamp: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        (stamp.tv_sec, stamp.tv_nsec) = (-2, 250_000_000);
        assert_eq!(time(stamp) + Duration::from_millis(1750), SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn any_stamp_is_a_time() {
        // SAFETY: as above.
        let mut stamp: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        for tv_sec in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX - 3, i64::MAX] {
            for tv_nsec in [0, 999_999_999, u32::MAX] {
                (stamp.tv_sec, stamp.tv_nsec) = (tv_sec, tv_nsec);
                let since = time(stamp).duration_since(SystemTime::UNIX_EPOCH);
                let is_after = tv_sec >= 0 || tv_sec == -1 && tv_nsec > 999_999_999;
                assert_eq!(since.is_ok(), is_after, "{tv_sec} {tv_nsec}");
            }
        }
    }
}
