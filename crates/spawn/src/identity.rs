//! What of a thread its children have from the spawn server, and must have from it.
//!
//! A server that was started before the thread has given up rights would make children
//! that have them still. So with each request the caller compares; what has changed asks
//! for a new server, which the calling thread starts, and which inherits all of it.

use std::ffi::CString;
use std::fs;
use std::thread::{self, ThreadId};

use rustix::fs::{AtFlags, CWD, StatxFlags, readlink, statx};
use rustix::process::getpriority_process;

/// Fields of /proc/thread-self/status: who the thread is, and what it may not do.
const FIELDS: [&str; 14] = [
    "Uid",
    "Gid",
    "Groups",
    "Umask",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
    FILTERS,
    "Seccomp",
    "Speculation_Store_Bypass",
    "SpeculationIndirectBranch",
];
/// How many seccomp filters it has, since Linux 5.9.
const FILTERS: &str = "Seccomp_filters";
/// The namespaces that a child begins in.
const NAMESPACES: [&str; 8] =
    ["cgroup", "ipc", "mnt", "net", "pid_for_children", "time_for_children", "user", "uts"];

/// What the kernel tells of it.
#[derive(Debug)]
pub(crate) struct Identity {
    /// [`FIELDS`], as the kernel writes them; empty if they are not to be read.
    status: Vec<String>,
    namespaces: [Option<CString>; NAMESPACES.len()],
    /// The root folder: its mount, device and number.
    root: Option<[u64; 4]>,
    cgroup: Option<Vec<u8>>,
    /// Labels of a security module: the thread's, and that of what it executes.
    labels: [Option<Vec<u8>>; 2],
    secure_bits: i32,
    /// 0 where it was begun outside of the pid namespace.
    session: i32,
    nice: Option<i32>,
    scheduling: i32,
    thread: ThreadId,
}

impl Identity {
    /// Of the calling thread.
    pub(crate) fn current() -> Identity {
        let status = fs::read_to_string("/proc/thread-self/status").ok();
        let is_one =
            |line: &&str| line.split_once(':').is_some_and(|(field, _)| FIELDS.contains(&field));
        let of = |name: &str| fs::read(format!("/proc/thread-self/{name}")).ok();
        let link = |name: &str| readlink(format!("/proc/thread-self/ns/{name}"), Vec::new()).ok();
        let root = statx(CWD, "/", AtFlags::empty(), StatxFlags::INO | StatxFlags::MNT_ID).ok();
        let root = root.map(|root| {
            let device = [root.stx_dev_major, root.stx_dev_minor].map(u64::from);
            [root.stx_mnt_id, device[0], device[1], root.stx_ino]
        });
        // SAFETY: this one only tells.
        let secure_bits = unsafe { libc::prctl(libc::PR_GET_SECUREBITS, 0, 0, 0, 0) };
        // SAFETY: as above; 0 is the calling thread.
        let scheduling = unsafe { libc::sched_getscheduler(0) };
        // SAFETY: as above. rustix takes 0 for impossible.
        let session = unsafe { libc::getsid(0) };
        let status = status.unwrap_or_default();
        Identity {
            status: status.lines().filter(is_one).map(str::to_owned).collect(),
            namespaces: NAMESPACES.map(link),
            root,
            cgroup: of("cgroup"),
            labels: ["attr/current", "attr/exec"].map(of),
            secure_bits,
            session,
            nice: getpriority_process(None).ok(),
            scheduling,
            thread: thread::current().id(),
        }
    }

    /// Whether a server that `self` has started makes the children that `caller` would.
    ///
    /// Filters are the thread's that has put them on, and of two threads with as many they
    /// may be different ones: there a server is for the thread that has started it. Where the
    /// kernel does not count them it is for nobody.
    pub(crate) fn fits(&self, caller: &Identity) -> bool {
        let same = self.status == caller.status
            && self.namespaces == caller.namespaces
            && self.root == caller.root
            && self.cgroup == caller.cgroup
            && self.labels == caller.labels
            && (self.secure_bits, self.session, self.nice, self.scheduling)
                == (caller.secure_bits, caller.session, caller.nice, caller.scheduling);
        let filters = match (caller.number("Seccomp"), caller.number(FILTERS)) {
            (Some(0), _) => Some(0),
            (_, filters) => filters,
        };
        match filters {
            Some(0) => same,
            Some(_) => same && self.thread == caller.thread,
            None => false,
        }
    }

    fn number(&self, field: &str) -> Option<u64> {
        let line = self.status.iter().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line?.trim().parse().ok()
    }
}

/// Whether the calling thread is under no Landlock rules that the server with this number,
/// and with it the server's children, is not under.
///
/// Nothing tells of such rules, but they are kept by what they forbid: a thread may look into
/// a process only if that is under all of the thread's rules, too (hook_ptrace_access_check
/// in security/landlock/task.c). The name of its program is such a look. That other reasons
/// forbid it, too, does no harm: then a new server is started.
pub(crate) fn may_look_into(server: u32) -> bool {
    let program = readlink(format!("/proc/{server}/exe"), Vec::new());
    program.is_ok_and(|program| program.to_bytes().starts_with(b"/memfd:kumiki-spawn"))
}
