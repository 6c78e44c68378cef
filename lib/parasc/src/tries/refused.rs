//! File systems, and filters, that know no form of a call which cannot sleep: remembered by
//! device and group of calls, and asked again later.
//!
//! Which error says so differs: `EOPNOTSUPP` from a file system, `ENOSYS` from an old kernel,
//! `EPERM` or `ENOSYS` from a filter, `EINVAL` from a kernel that has the call and not the
//! flag. So any of them means "not here" if the plain call then answers something else.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use kumiki_calls::Request;

use super::way::Form;
use crate::again::Again;

/// Devices that are remembered at most: the oldest goes.
const MOST: usize = 64;

/// Calls that a file system refuses together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Read,
    Write,
    Open,
}

impl Group {
    pub(super) fn of(form: Form) -> Option<Self> {
        match form {
            Form::Read { .. } => Some(Group::Read),
            Form::Write { .. } => Some(Group::Write),
            Form::Open => Some(Group::Open),
            Form::AsItIs | Form::Socket | Form::Attributes => None,
        }
    }
}

/// A group of calls on a device.
pub(crate) type DeviceGroup = (Group, u64);

#[derive(Debug)]
struct DeviceCall {
    place: DeviceGroup,
    again: Again,
}

/// Calls refused to the whole process: filters and file systems are the same to all its
/// engines.
#[derive(Debug)]
pub(super) struct Refused {
    count: AtomicUsize,
    entries: Mutex<Vec<DeviceCall>>,
}

pub(super) static REFUSED: Refused =
    Refused { count: AtomicUsize::new(0), entries: Mutex::new(Vec::new()) };

/// Advice whether to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    Try,
    /// The place has refused before, and is asked again.
    Probe(DeviceGroup),
    Skip,
}

impl Refused {
    /// Advice whether a call of this group on `fd` is worth a try.
    #[inline(always)]
    pub(super) fn look(&self, group: Group, fd: u64) -> Advice {
        if self.count.load(Relaxed) == 0 { Advice::Try } else { self.look_closer(group, fd) }
    }

    #[cold]
    fn look_closer(&self, group: Group, fd: u64) -> Advice {
        self.look_at((group, device(fd)), Instant::now())
    }

    fn look_at(&self, place: DeviceGroup, now: Instant) -> Advice {
        // Another thread may have had it at fork(2), for ever in the child.
        let Ok(mut entries) = self.entries.try_lock() else { return Advice::Try };
        match entries.iter_mut().find(|entry| entry.place == place) {
            None => Advice::Try,
            Some(entry) => match entry.again.is_due(now) {
                true => Advice::Probe(place),
                false => Advice::Skip,
            },
        }
    }

    /// Notes that it has refused.
    pub(super) fn note(&self, place: DeviceGroup) {
        self.note_at(place, Instant::now());
    }

    fn note_at(&self, place: DeviceGroup, now: Instant) {
        let Ok(mut entries) = self.entries.try_lock() else { return };
        if entries.iter().any(|entry| entry.place == place) {
            return;
        }
        if entries.len() == MOST {
            entries.remove(0);
        }
        entries.push(DeviceCall { place, again: Again::after(now) });
        self.count.store(entries.len(), Relaxed);
    }

    /// Notes that it has answered after all.
    pub(super) fn forget(&self, place: DeviceGroup) {
        let Ok(mut entries) = self.entries.try_lock() else { return };
        entries.retain(|entry| entry.place != place);
        self.count.store(entries.len(), Relaxed);
    }
}

/// The device of an open file; 0 for what has none, as the working directory.
pub(super) fn device(fd: u64) -> u64 {
    stat(fd).map_or(0, |stat| stat.st_dev)
}

/// True if it is a regular file or a block device.
pub(super) fn is_file(fd: u64) -> bool {
    stat(fd)
        .is_some_and(|stat| matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFBLK))
}

fn stat(fd: u64) -> Option<libc::stat> {
    let mut stat = std::mem::MaybeUninit::<libc::stat>::uninit();
    let request = Request::new(libc::SYS_fstat, [fd, stat.as_mut_ptr() as u64]);
    // SAFETY: the kernel writes one `struct stat`, of x86-64.
    let ret_val = unsafe { kumiki_calls::call(&request) };
    // SAFETY: it has written it where it says so.
    (ret_val == 0).then(|| unsafe { stat.assume_init() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::again::FIRST;

    #[test]
    fn who_has_refused_is_left_alone_and_asked_again_ever_more_rarely() {
        let refused = Refused { count: AtomicUsize::new(0), entries: Mutex::new(Vec::new()) };
        let (place, other) = ((Group::Read, 7), (Group::Open, 7));
        let start = Instant::now();
        refused.note_at(place, start);
        refused.note_at(place, start + FIRST / 2);
        assert_eq!(refused.look_at(place, start + FIRST / 2), Advice::Skip);
        assert_eq!(refused.look_at(other, start), Advice::Try);
        let mut now = start + FIRST;
        for pause in [2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(refused.look_at(place, now), Advice::Probe(place));
            assert_eq!(refused.look_at(place, now), Advice::Skip);
            now += Duration::from_secs(pause);
        }
        refused.forget(place);
        assert_eq!(refused.look_at(place, start), Advice::Try);
        assert_eq!(refused.count.load(Relaxed), 0);
    }

    #[test]
    fn the_oldest_of_many_is_forgotten() {
        let refused = Refused { count: AtomicUsize::new(0), entries: Mutex::new(Vec::new()) };
        let now = Instant::now();
        (0..=MOST as u64).for_each(|device| refused.note_at((Group::Read, device), now));
        assert_eq!(refused.count.load(Relaxed), MOST);
        assert_eq!(refused.look_at((Group::Read, 0), now), Advice::Try);
        assert_eq!(refused.look_at((Group::Read, 1), now), Advice::Skip);
    }

    #[test]
    fn a_file_has_a_device_and_the_working_directory_none() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert_ne!(device(std::os::fd::AsRawFd::as_raw_fd(&file) as u64), 0);
        assert_eq!(device(libc::AT_FDCWD as u64), 0);
    }
}
