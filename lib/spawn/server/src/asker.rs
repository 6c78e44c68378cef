//! Who asks: the server makes children for a thread only as long as that has what the
//! thread had that has started the server. Their children are the same then.
//!
//! The server looks itself, at files of /proc that it keeps open: a file of a thread that
//! has ended is not that of a later thread with the same number.

use core::ffi::CStr;

use kumiki_spawn_wire::sys::{
    self, AT_FDCWD, EINVAL, ENOENT, O_CLOEXEC, O_DIRECTORY, O_NOFOLLOW, O_PATH,
};

/// Fields of /proc/PID/task/TID/status: who the thread is, and what it may not do.
const FIELDS: [&[u8]; 15] = [
    b"Umask:",
    b"Uid:",
    b"Gid:",
    b"Groups:",
    b"CapInh:",
    PERMITTED,
    b"CapEff:",
    b"CapBnd:",
    b"CapAmb:",
    b"NoNewPrivs:",
    b"Seccomp:",
    FILTERS,
    b"THP_enabled:",
    b"Speculation_Store_Bypass:",
    b"SpeculationIndirectBranch:",
];
const IGNORED: &[u8] = b"SigIgn:";
const PERMITTED: &[u8] = b"CapPrm:";
/// Line with the number of its seccomp filters, since Linux 5.9.
const FILTERS: &[u8] = b"Seccomp_filters:";
/// A thread with neither CAP_SYS_CHROOT nor CAP_SYS_ADMIN has the root and the namespaces that it
/// had, unless it has begun a user namespace.
const MAY_MOVE: u64 = 1 << 18 | 1 << 21;
const USER_SPACE: &CStr = c"ns/user";
const NAMESPACES: [&CStr; 7] = [
    c"ns/mnt",
    c"ns/cgroup",
    c"ns/ipc",
    c"ns/net",
    c"ns/pid_for_children",
    c"ns/time_for_children",
    c"ns/uts",
];

/// A link itself.
const LINK: usize = O_PATH | O_NOFOLLOW;
const BYTES: usize = 8 << 10;

/// A thread's rights, limits and surroundings, as bytes to be compared.
pub(crate) struct Record {
    bytes: [u8; BYTES],
    len: usize,
    /// Signals that its process ignores.
    pub(crate) ignored: u64,
    /// Seccomp filters; `None`: the kernel does not count them.
    filters: Option<u64>,
    /// Offset of the state that only some threads can change; 0 if it was not looked at.
    rest: usize,
    is_complete: bool,
    /// True if the record is complete as far as the rest is concerned.
    rest_is_complete: bool,
}

impl Record {
    pub(crate) const fn new() -> Record {
        Record {
            bytes: [0; BYTES],
            len: 0,
            ignored: 0,
            filters: None,
            rest: 0,
            is_complete: false,
            rest_is_complete: false,
        }
    }

    fn clear(&mut self) {
        (self.len, self.filters, self.rest) = (0, None, 0);
        (self.is_complete, self.rest_is_complete) = (true, true);
    }

    /// Room for what a call writes; it answers with a length.
    fn add(&mut self, write: impl FnOnce(&mut [u8]) -> isize) {
        let room = &mut self.bytes[self.len..];
        let len = room.len();
        match usize::try_from(write(room)) {
            Ok(written) if written < len => self.len += written,
            _ => self.is_complete = false,
        }
    }

    fn copy(&mut self, bytes: &[u8]) {
        self.add(|room| match room.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                bytes.len() as isize
            }
            None => -1,
        });
    }

    fn number(&mut self, number: isize) {
        self.copy(&number.to_ne_bytes());
    }

    /// True if a thread of that record has the children that one of `self` has. Of other threads
    /// than the first one filters are not known to be the same ones.
    pub(crate) fn allows(&self, asker: &Record, is_the_same: bool) -> bool {
        let common = if asker.rest == 0 { self.rest } else { self.len };
        self.is_complete
            && asker.is_complete
            && (asker.rest == 0 || self.rest_is_complete && asker.rest_is_complete)
            && asker.len == common
            && self.bytes[..common] == asker.bytes[..common]
            && match self.filters {
                Some(0) => true,
                Some(_) => is_the_same,
                None => false,
            }
    }
}

/// A thread, by what is open of it.
pub(crate) struct Asker {
    pub(crate) id: i32,
    task: i32,
    status: i32,
    cgroup: i32,
    /// Links that name its namespaces, and the user namespace's.
    spaces: [i32; NAMESPACES.len()],
    user_space: i32,
    /// Labels of a security module, if there is one: its own, and that of what it executes.
    labels: [i32; 2],
}

impl Asker {
    /// Thread `id` of the process in folder `tasks`.
    pub(crate) fn open(tasks: i32, id: i32) -> Asker {
        let mut name = [0; 12];
        let task = sys::open(tasks, digits(id, &mut name), O_PATH | O_CLOEXEC) as i32;
        let open = |name: &CStr, flags| sys::open(task, name, flags | O_CLOEXEC) as i32;
        Asker {
            id,
            task,
            status: open(c"status", 0),
            cgroup: open(c"cgroup", 0),
            spaces: NAMESPACES.map(|name| open(name, LINK)),
            user_space: open(USER_SPACE, LINK),
            labels: [c"attr/current", c"attr/exec"].map(|name| {
                let label = open(name, 0);
                // Without a security module nobody has one, ever.
                match sys::read(label, &mut []) {
                    EINVAL => closed(label),
                    _ => label,
                }
            }),
        }
    }

    pub(crate) fn close(&self) {
        let all = [self.task, self.status, self.cgroup, self.user_space];
        for fd in all.iter().chain(&self.spaces).chain(&self.labels) {
            closed(*fd);
        }
    }

    /// Records what it is now; `everything`, or what it may have changed.
    pub(crate) fn look(&self, record: &mut Record, everything: bool) {
        record.clear();
        let permitted = self.status(record);
        let mut scheduling = [0u8; 64];
        let len = sys::scheduling(self.id, &mut scheduling);
        record.number(len);
        for word in scheduling.chunks(8) {
            record.number(word.iter().fold(0, |all, byte| all << 8 | *byte as isize));
        }
        // 0 where it was begun outside of the pid namespace.
        record.number(sys::getsid(self.id));
        record.add(|room| sys::read(self.cgroup, room));
        for label in self.labels {
            // Without a security module there is no file, or nothing in it.
            if label >= 0 {
                record.add(|room| sys::read(label, room).max(0));
            }
            record.number(label.min(0) as isize);
        }
        // Of a process that has changed its user it is not to be read (PR_SET_DUMPABLE). Then
        // the caller's own look tells, which only who is in it may have
        // (cap_ptrace_access_check in security/commoncap.c).
        let readable = space(record, self.user_space);
        record.number(readable.min(0));
        record.rest = 0;
        if everything || permitted & MAY_MOVE != 0 {
            record.rest = record.len;
            for link in self.spaces {
                // An older kernel has fewer kinds.
                let read = space(record, link);
                record.rest_is_complete &= read > 0 || read == ENOENT;
            }
            record.rest_is_complete &= self.root(record);
        }
    }

    /// The fields; what it is permitted.
    fn status(&self, record: &mut Record) -> u64 {
        let mut text = [0u8; 4096];
        let len = sys::read(self.status, &mut text);
        if len <= 0 || len as usize == text.len() {
            record.is_complete = false;
            return u64::MAX;
        }
        let mut permitted = u64::MAX;
        for line in text[..len as usize].split(|byte| *byte == b'\n') {
            if line.get(3) == IGNORED.get(3) && line.starts_with(IGNORED) {
                record.ignored = number(&line[IGNORED.len()..], 16);
            }
            // Most lines are none of them.
            let is_it = |field: &&&[u8]| line.first() == field.first() && line.starts_with(field);
            let Some(field) = FIELDS.iter().find(is_it) else { continue };
            let value = &line[field.len()..];
            if *field == PERMITTED {
                permitted = number(value, 16);
            } else if *field == FILTERS {
                record.filters = Some(number(value, 10));
            } else if *field == b"Seccomp:" && number(value, 10) == 0 {
                record.filters = Some(0);
            }
            record.copy(line);
        }
        permitted
    }

    /// Opens its working folder.
    pub(crate) fn folder(&self) -> isize {
        sys::open(self.task, c"cwd", O_PATH | O_DIRECTORY | O_CLOEXEC)
    }

    /// The root folder: its mount, device and number.
    fn root(&self, record: &mut Record) -> bool {
        const INODE_AND_MOUNT: usize = 0x1100;
        let mut all = [0u64; 32];
        let told = sys::statx(self.task, c"root", INODE_AND_MOUNT, &mut all);
        // stx_ino, stx_dev_major and minor, stx_mnt_id (include/uapi/linux/stat.h).
        for at in [4, 17, 18] {
            record.number(all[at] as isize);
        }
        told == 0
    }
}

fn space(record: &mut Record, link: i32) -> isize {
    let mut result = link as isize;
    if link >= 0 {
        record.add(|room| {
            result = sys::read_link(link, c"", room);
            result.max(0)
        });
    }
    result
}

fn closed(fd: i32) -> i32 {
    if fd >= 0 {
        sys::close(fd);
    }
    -1
}

/// The folder of the parent's threads; below 0 if there is none, or if /proc counts
/// processes otherwise than this one does.
pub(crate) fn tasks(parent: i32) -> i32 {
    let mut own = [0u8; 16];
    let len = sys::read_link(AT_FDCWD, c"/proc/self", &mut own);
    if len <= 0 || number(&own[..len as usize], 10) != sys::getpid() as u64 {
        return ENOENT as i32;
    }
    let (mut path, mut name) = ([0u8; 32], [0; 12]);
    let id = digits(parent, &mut name);
    let mut at = 0;
    for part in [b"/proc/", id.to_bytes(), b"/task"] {
        path[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    match CStr::from_bytes_until_nul(&path) {
        Ok(path) => sys::open(AT_FDCWD, path, O_PATH | O_CLOEXEC) as i32,
        Err(_) => ENOENT as i32,
    }
}

fn number(text: &[u8], base: u64) -> u64 {
    let digit = |byte: &u8| (*byte as char).to_digit(base as u32);
    text.iter().filter_map(digit).fold(0, |all, digit| all.wrapping_mul(base) + u64::from(digit))
}

/// A number, not below 0, in decimals.
fn digits(number: i32, text: &mut [u8; 12]) -> &CStr {
    let (mut at, mut left) = (text.len() - 1, number.unsigned_abs());
    text[at] = 0;
    loop {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            // The last byte is the only zero.
            return CStr::from_bytes_with_nul(&text[at..]).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_and_read() {
        for wanted in [0, 7, 10, 4_194_304, i32::MAX] {
            let mut text = [0; 12];
            let said = digits(wanted, &mut text).to_bytes();
            assert_eq!(number(said, 10), wanted as u64);
        }
        assert_eq!(number(b"\t00000000000400a0", 16), 0x400a0);
    }

    #[test]
    fn what_does_not_fit_makes_a_record_incomplete() {
        let mut record = Record::new();
        record.clear();
        record.copy(&[1; BYTES - 1]);
        assert!(record.is_complete && record.len == BYTES - 1);
        record.number(1);
        assert!(!record.is_complete && record.len == BYTES - 1);
    }

    #[test]
    fn other_threads_are_allowed_without_filters_alone() {
        let mut record = Record::new();
        record.clear();
        record.copy(b"Uid:\t0");
        record.rest = record.len;
        let mut other = Record::new();
        other.clear();
        other.copy(b"Uid:\t0");
        for (filters, first, another) in
            [(None, false, false), (Some(0), true, true), (Some(1), true, false)]
        {
            record.filters = filters;
            assert_eq!(record.allows(&other, true), first, "{filters:?}");
            assert_eq!(record.allows(&other, false), another, "{filters:?}");
        }
        other.copy(b"Gid:\t0");
        assert!(!record.allows(&other, true));
    }
}
