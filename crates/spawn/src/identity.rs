//! What of a process its children have from the spawn server, and must have from it.
//!
//! A server that was started before the process has given up rights would make children
//! that have them still. So with each request the caller compares; what has changed asks
//! for a new server.

use rustix::process::{Gid, Pid, Uid, getgroups, getsid};

/// As far as the kernel tells it cheaply: less than a microsecond together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    users: [Uid; 3],
    groups: [Gid; 3],
    others: Vec<Gid>,
    session: Option<Pid>,
    no_new_privileges: i32,
    seccomp: i32,
}

impl Identity {
    /// Of the calling thread.
    pub(crate) fn current() -> Identity {
        let (mut users, mut groups) = ([0; 3], [0; 3]);
        let [real, effective, saved] = &mut users;
        // SAFETY: three places for numbers.
        unsafe { libc::getresuid(real, effective, saved) };
        let [real, effective, saved] = &mut groups;
        // SAFETY: three places for numbers.
        unsafe { libc::getresgid(real, effective, saved) };
        // SAFETY: these two only tell; a filter that ends the process for it would have
        // ended it for less.
        let no_new_privileges = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) };
        // SAFETY: as above.
        let seccomp = unsafe { libc::prctl(libc::PR_GET_SECCOMP) };
        Identity {
            users: users.map(Uid::from_raw),
            groups: groups.map(Gid::from_raw),
            others: getgroups().unwrap_or_default(),
            session: getsid(None).ok(),
            no_new_privileges,
            seccomp,
        }
    }
}
