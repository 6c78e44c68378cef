//! Who asks: the server makes children for a thread only as long as that has what the
//! thread had that has started the server. Their children are the same then.
//!
//! The server looks itself, at files of /proc that it keeps open: a file of a thread that
//! has ended is not that of a later thread with the same number.

use crate::sys::*;

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
/// How many seccomp filters it has, since Linux 5.9.
const FILTERS: &[u8] = b"Seccomp_filters:";
/// Who has neither CAP_SYS_CHROOT nor CAP_SYS_ADMIN has the root and the namespaces that it
/// had, unless it has begun a user namespace.
const MAY_MOVE: u64 = 1 << 18 | 1 << 21;
const USER_SPACE: &[u8] = b"ns/user\0";
const NAMESPACES: [&[u8]; 7] = [
    b"ns/mnt\0",
    b"ns/cgroup\0",
    b"ns/ipc\0",
    b"ns/net\0",
    b"ns/pid_for_children\0",
    b"ns/time_for_children\0",
    b"ns/uts\0",
];

const PATH: usize = 0x20_0000;
/// A link itself.
const LINK: usize = PATH | 0x2_0000;
const CLOEXEC: usize = O_CLOEXEC;
const BYTES: usize = 8 << 10;

/// What is known of a thread.
pub(crate) struct Record {
    bytes: [u8; BYTES],
    len: usize,
    /// Signals that its process ignores.
    pub(crate) ignored: u64,
    /// Seccomp filters; `None`: the kernel does not count them.
    filters: Option<u64>,
    /// Where what only some threads can change begins; 0 if it was not looked at.
    rest: usize,
    is_complete: bool,
    /// As far as the rest is concerned.
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
    fn add(&mut self, write: impl FnOnce(*mut u8, usize) -> isize) {
        let room = &mut self.bytes[self.len..];
        let written = write(room.as_mut_ptr(), room.len());
        if written < 0 || written as usize >= room.len() {
            self.is_complete = false;
        } else {
            self.len += written as usize;
        }
    }

    fn number(&mut self, number: isize) {
        let bytes = number.to_ne_bytes();
        self.add(|to, room| {
            if room < bytes.len() {
                return -1;
            }
            // SAFETY: so much room is there.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            bytes.len() as isize
        });
    }

    /// Whether a thread of that record has the children that one of `self` has. Of other
    /// threads than the first one filters are not known to be the same ones.
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
    task: isize,
    status: isize,
    cgroup: isize,
    /// Links that name its namespaces, and the user namespace's.
    spaces: [isize; NAMESPACES.len()],
    user_space: isize,
    /// Labels of a security module, if there is one: its own, and that of what it executes.
    labels: [isize; 2],
}

impl Asker {
    /// Thread `id` of the process in folder `tasks`.
    pub(crate) fn open(tasks: isize, id: i32) -> Asker {
        let mut name = [0; 12];
        let task = sys!(OPENAT, tasks, digits(id, &mut name).as_ptr(), PATH | CLOEXEC);
        let open = |name: &[u8], flags| sys!(OPENAT, task, name.as_ptr(), flags | CLOEXEC);
        Asker {
            id,
            task,
            status: open(b"status\0", 0),
            cgroup: open(b"cgroup\0", 0),
            spaces: NAMESPACES.map(|name| open(name, LINK)),
            user_space: open(USER_SPACE, LINK),
            labels: [b"attr/current\0".as_slice(), b"attr/exec\0"].map(|name| {
                let label = open(name, 0);
                // Without a security module nobody has one, ever.
                match sys!(PREAD, label, name.as_ptr().cast_mut(), 0, 0) {
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

    /// What it is now; `everything`, or what it may have changed.
    pub(crate) fn look(&self, record: &mut Record, everything: bool) {
        record.clear();
        let permitted = self.status(record);
        let mut scheduling = [0u8; 64];
        let len = sys!(SCHED_GETATTR, self.id, scheduling.as_mut_ptr(), scheduling.len(), 0);
        record.number(len);
        for word in scheduling.chunks(8) {
            record.number(word.iter().fold(0, |all, byte| all << 8 | *byte as isize));
        }
        // 0 where it was begun outside of the pid namespace.
        record.number(sys!(GETSID, self.id));
        record.add(|to, room| sys!(PREAD, self.cgroup, to, room, 0));
        for label in self.labels {
            // Without a security module there is no file, or nothing in it.
            if label >= 0 {
                record.add(|to, room| sys!(PREAD, label, to, room, 0).max(0));
            }
            record.number(label.min(0));
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
        let len = sys!(PREAD, self.status, text.as_mut_ptr(), text.len(), 0);
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
            record.add(|to, room| {
                if room < line.len() {
                    return -1;
                }
                // SAFETY: so much room is there.
                unsafe { to.copy_from_nonoverlapping(line.as_ptr(), line.len()) };
                line.len() as isize
            });
        }
        permitted
    }

    /// Opens its working folder.
    pub(crate) fn folder(&self) -> isize {
        const FOLDER: usize = 0x1_0000;
        sys!(OPENAT, self.task, c"cwd".as_ptr(), PATH | FOLDER | CLOEXEC)
    }

    /// The root folder: its mount, device and number.
    fn root(&self, record: &mut Record) -> bool {
        const INODE_AND_MOUNT: usize = 0x1100;
        let mut all = [0u64; 32];
        let name = b"root\0".as_ptr();
        let told = sys!(STATX, self.task, name, 0, INODE_AND_MOUNT, all.as_mut_ptr());
        // stx_ino, stx_dev_major and minor, stx_mnt_id (include/uapi/linux/stat.h).
        for at in [4, 17, 18] {
            record.number(all[at] as isize);
        }
        told == 0
    }
}

fn space(record: &mut Record, link: isize) -> isize {
    let mut result = link;
    if link >= 0 {
        record.add(|to, room| {
            result = sys!(READLINKAT, link, c"".as_ptr(), to, room);
            result.max(0)
        });
    }
    result
}

fn closed(fd: isize) -> isize {
    if fd >= 0 {
        sys!(CLOSE, fd);
    }
    -1
}

/// The folder of the parent's threads; below 0 if there is none, or if /proc counts
/// processes otherwise than this one does.
pub(crate) fn tasks(parent: isize) -> isize {
    let mut own = [0u8; 16];
    let len = sys!(READLINKAT, HERE, c"/proc/self".as_ptr(), own.as_mut_ptr(), own.len());
    if len <= 0 || number(&own[..len as usize], 10) != sys!(GETPID) as u64 {
        return ENOENT;
    }
    let (mut path, mut name) = ([0u8; 32], [0; 12]);
    let id = digits(parent as i32, &mut name);
    let mut at = 0;
    let end = id.iter().position(|byte| *byte == 0).unwrap_or(0);
    for part in [b"/proc/", &id[..end], b"/task\0"] {
        for byte in part {
            path[at] = *byte;
            at += 1;
        }
    }
    sys!(OPENAT, HERE, path.as_ptr(), PATH | CLOEXEC)
}

fn number(text: &[u8], base: u64) -> u64 {
    let digit = |byte: &u8| (*byte as char).to_digit(base as u32);
    text.iter().filter_map(digit).fold(0, |all, digit| all.wrapping_mul(base) + u64::from(digit))
}

/// A number in decimals, with a zero at its end.
fn digits(number: i32, text: &mut [u8; 12]) -> &[u8] {
    let (mut at, mut left) = (text.len() - 1, number.unsigned_abs());
    text[at] = 0;
    loop {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &text[at..];
        }
    }
}
