//! The system calls by which a child becomes what was asked for, in their order.
//!
//! 1. By clone3 itself: cgroup and namespaces. The maps of its user namespace, without which
//!    it is nobody.
//! 2. Descriptors, while no limit forbids their numbers.
//! 3. Session, terminal, process group.
//! 4. Nice value, cpus, the caller's limits, those asked for: what only root may do comes
//!    before it ceases to be root.
//! 5. The caller's working folder, and from there the root folder.
//! 6. Supplementary groups, group, user. Each may forbid those before it.
//! 7. The working folder that was said, which must be one that the new user may enter.
//! 8. The parent-death signal, which a change of user clears.
//! 9. Signals, of which none arrives before.

use std::cell::OnceCell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kumiki_sys::cpuset::CpuSet;
use libc::{
    SYS_chdir, SYS_chroot, SYS_close, SYS_close_range, SYS_dup2, SYS_fchdir, SYS_fcntl, SYS_ioctl,
    SYS_prctl, SYS_prlimit64, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_sched_setaffinity,
    SYS_setgroups, SYS_setpgid, SYS_setpriority, SYS_setresgid, SYS_setresuid, SYS_setsid,
    SYS_umask,
};

use rustix::fs::{Mode, OFlags};

use crate::attributes::{Attributes, Resource, Signals};
use crate::request::{Draft, Maker};
use crate::stdio::{Theirs, above};
use crate::wire::{
    CALLERS_CPUS, CALLERS_GROUP, CALLERS_LIMITS, EXECUTE, MAKE, MAPPED, MAY_FAIL, PARENT_LIVES,
};

/// Of clone3(2).
const INTO_CGROUP: u64 = 1 << 33;
/// What of the caller goes to its child if nothing else is said. A child that the caller makes
/// itself has most of it without a step.
pub(crate) struct Caller<'a> {
    /// Opened when it has to be sent.
    pub(crate) folder: &'a OnceCell<OwnedFd>,
    pub(crate) standard: [Option<&'a Theirs<'a>>; 3],
    pub(crate) others: Vec<BorrowedFd<'a>>,
    /// `None`: those of the calling thread.
    pub(crate) cpus: Option<CpuSet>,
}

impl<'a> Caller<'a> {
    fn folder(&self) -> io::Result<BorrowedFd<'a>> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.as_fd());
        }
        let folder = here()?;
        Ok(self.folder.get_or_init(|| folder).as_fd())
    }
}

/// The calling thread's working folder.
pub(crate) fn here() -> io::Result<OwnedFd> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    above(rustix::fs::open(".", folder, Mode::empty())?)
}

/// Writes them.
///
/// # Errors
/// `E2BIG`.
pub(crate) fn write<'a>(
    draft: &mut Draft<'a>,
    attributes: &'a Attributes,
    folder: Option<&[u8]>,
    caller: &Caller<'a>,
) -> io::Result<()> {
    draft.clone_flags = attributes.spaces().bits();
    if let Some(cgroup) = &attributes.cgroup {
        draft.clone_flags |= INTO_CGROUP;
        draft.cgroup = draft.descriptor(cgroup.as_fd());
    }
    if attributes.has_maps() {
        for (number, map) in attributes.maps.iter().enumerate().filter(|(_, map)| !map.is_empty()) {
            let lines =
                map.iter().map(|(inside, outside, count)| format!("{inside} {outside} {count}\n"));
            draft.maps[number] = draft.string(&[lines.collect::<String>().as_bytes()])?;
        }
        draft.step(MAPPED.into(), 0, []);
    }
    descriptors(draft, attributes, caller);
    session(draft, attributes);
    if let Some(mask) = attributes.umask {
        draft.step(SYS_umask, 0, [mask.into()]);
    }
    if let Some(nice) = attributes.nice {
        draft.step(SYS_setpriority, 0, [libc::PRIO_PROCESS.into(), 0, nice as u64]);
    }
    if let Some(cpus) = attributes.cpus.as_ref().or(caller.cpus.as_ref()) {
        let words = cpus.words();
        let at = draft.words(words.iter().copied())?;
        draft.step(SYS_sched_setaffinity, 0, [0, words.len() as u64 * 8, at]);
    } else if draft.maker != Maker::Caller {
        draft.step(CALLERS_CPUS.into(), 0, []);
    }
    if draft.maker != Maker::Caller {
        draft.step(CALLERS_LIMITS.into(), 0, []);
    }
    for (resource, soft, hard) in &attributes.limits {
        let at = draft.words([*soft, *hard])?;
        draft.step(SYS_prlimit64, 0, [0, *resource as u64, at, 0]);
    }
    if draft.maker != Maker::Caller {
        let folder = draft.folder(|| caller.folder())?;
        draft.step(SYS_fchdir, 1, [folder.into()]);
    }
    if let Some(root) = &attributes.root {
        let at = draft.string(&[root.as_os_str().as_bytes()])?;
        draft.step(SYS_chroot, 0, [at]);
    }
    identity(draft, attributes)?;
    if let Some(folder) = &attributes.folder {
        let place = draft.descriptor(folder.as_fd());
        draft.step(SYS_fchdir, 1, [place.into()]);
    } else if let Some(folder) = folder.or(attributes.root.as_ref().map(|_| b"/".as_slice())) {
        let at = draft.string(&[folder])?;
        draft.step(SYS_chdir, 0, [at]);
    }
    if let Some(signal) = attributes.parent_death {
        draft.step(SYS_prctl, 0, [libc::PR_SET_PDEATHSIG as u64, signal as u64]);
        draft.step(PARENT_LIVES.into(), 0, []);
    }
    signals(draft, attributes)
}

fn descriptors<'a>(draft: &mut Draft<'a>, attributes: &'a Attributes, caller: &Caller<'a>) {
    if draft.maker == Maker::Caller && !attributes.keep_others {
        const CLOEXEC: u64 = libc::CLOSE_RANGE_CLOEXEC as u64;
        draft.step(SYS_close_range, 0, [3, u32::MAX.into(), CLOEXEC]);
    }
    let said = |number| attributes.fds.iter().any(|(_, taken)| *taken == number);
    let mut give = |fd: BorrowedFd<'a>, number: i32| {
        let place = draft.descriptor(fd);
        draft.step(SYS_dup2, 1, [place.into(), number as u64]);
        if number > 2 {
            draft.above = draft.above.max(number as u32 + 1);
        }
    };
    for (fd, number) in &attributes.fds {
        give(fd.as_fd(), *number);
    }
    for fd in &caller.others {
        let number = std::os::fd::AsRawFd::as_raw_fd(fd);
        if !said(number) {
            give(*fd, number);
        }
    }
    for (fd, number) in caller.standard.iter().zip(0..) {
        match fd {
            _ if said(number) => {}
            // It is the child's already, unless it is closed at exec; or it is closed.
            Some(Theirs::Caller(_)) if draft.maker == Maker::Caller => {
                draft.step(SYS_fcntl, MAY_FAIL, [number as u64, libc::F_SETFD as u64, 0]);
            }
            Some(fd) => {
                let place = match fd {
                    Theirs::Own(_) | Theirs::Given(_) => draft.descriptor((**fd).as_fd()),
                    Theirs::Caller(fd) => draft.standard(number as usize, *fd),
                };
                draft.step(SYS_dup2, 1, [place.into(), number as u64]);
            }
            // Of a caller that makes the child itself it may be closed already.
            None => draft.step(SYS_close, MAY_FAIL, [number as u64]),
        }
    }
}

fn session<'a>(draft: &mut Draft<'a>, attributes: &'a Attributes) {
    if attributes.session {
        draft.step(SYS_setsid, 0, []);
        if let Some(terminal) = &attributes.terminal {
            let place = draft.descriptor(terminal.as_fd());
            draft.step(SYS_ioctl, 1, [place.into(), libc::TIOCSCTTY, 0]);
        }
    }
    match attributes.group {
        Some(group) => draft.step(SYS_setpgid, 0, [0, group as u64]),
        None if attributes.session || draft.maker == Maker::Caller => {}
        None => draft.step(CALLERS_GROUP.into(), MAY_FAIL, []),
    }
}

fn identity(draft: &mut Draft<'_>, attributes: &Attributes) -> io::Result<()> {
    // SAFETY: only tells.
    let is_root = || unsafe { libc::getuid() } == 0;
    match &attributes.groups {
        Some(groups) => {
            let words = groups.chunks(2).map(|pair| {
                let [low, high] = [0, 1].map(|n| u64::from(pair.get(n).copied().unwrap_or(0)));
                low | high << 32
            });
            let at = draft.words(words)?;
            draft.step(SYS_setgroups, 0, [groups.len() as u64, at]);
        }
        None if attributes.uid.is_some() && is_root() => draft.step(SYS_setgroups, 0, [0, 0]),
        None => {}
    }
    if let Some(gid) = attributes.gid {
        draft.step(SYS_setresgid, 0, [gid.into(); 3]);
    }
    if let Some(uid) = attributes.uid {
        draft.step(SYS_setresuid, 0, [uid.into(); 3]);
    }
    Ok(())
}

fn signals(draft: &mut Draft<'_>, attributes: &Attributes) -> io::Result<()> {
    // As the standard library does: no signal blocked, and SIGPIPE ends it.
    let broken_pipe = Signals(1 << (libc::SIGPIPE - 1));
    let default = draft.words([libc::SIG_DFL as u64, 0, 0, 0])?;
    let ignored = draft.words([libc::SIG_IGN as u64, 0, 0, 0])?;
    for signal in Signals(attributes.default.0 | broken_pipe.0).iter() {
        draft.step(SYS_rt_sigaction, 0, [signal as u64, default, 0, 8]);
    }
    for signal in attributes.ignored.iter() {
        draft.step(SYS_rt_sigaction, 0, [signal as u64, ignored, 0, 8]);
    }
    let blocked = draft.words([attributes.blocked.0])?;
    draft.step(SYS_rt_sigprocmask, 0, [libc::SIG_SETMASK as u64, blocked, 0, 8]);
    Ok(())
}

/// What a step does and by which value, for messages.
#[expect(non_upper_case_globals, reason = "the C library's names")]
pub(crate) fn said(call: u32, attributes: &Attributes, folder: Option<&Path>) -> String {
    if call == MAPPED {
        let [users, groups] = &attributes.maps;
        return format!("{}: users {users:?}, groups {groups:?}", name(call));
    }
    let path = |path: Option<&Path>| path.map(|path| path.display().to_string());
    let value = match i64::from(call) {
        SYS_setpgid => attributes.group.map(|group| group.to_string()),
        SYS_setpriority => attributes.nice.map(|nice| nice.to_string()),
        SYS_sched_setaffinity => attributes.cpus.as_ref().map(CpuSet::to_string),
        SYS_setgroups => attributes.groups.as_ref().map(|groups| format!("{groups:?}")),
        SYS_setresgid => attributes.gid.map(|gid| gid.to_string()),
        SYS_setresuid => attributes.uid.map(|uid| uid.to_string()),
        SYS_chroot => path(attributes.root.as_deref()),
        SYS_chdir => path(folder),
        SYS_prctl => attributes.parent_death.map(|signal| signal.to_string()),
        SYS_prlimit64 => {
            let amount = |amount| match amount {
                libc::RLIM_INFINITY => "none".to_owned(),
                amount => amount.to_string(),
            };
            let one = |(resource, soft, hard): &(Resource, u64, u64)| {
                format!("{resource:?} {} {}", amount(*soft), amount(*hard))
            };
            Some(attributes.limits.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        _ => None,
    };
    let name = name(call);
    value.map_or_else(|| name.to_owned(), |value| format!("{name} {value}"))
}

#[expect(non_upper_case_globals, reason = "the C library's names")]
fn name(call: u32) -> &'static str {
    match call {
        MAKE => "making the process",
        EXECUTE => "executing the program",
        PARENT_LIVES => "finding the parent alive",
        CALLERS_CPUS => "its cpus",
        MAPPED => "the maps of its user namespace",
        call => match i64::from(call) {
            SYS_dup2 | SYS_close | SYS_close_range | SYS_fcntl => "its descriptors",
            SYS_setsid => "its session",
            SYS_ioctl => "its controlling terminal",
            SYS_setpgid => "its process group",
            SYS_setpriority => "its nice value",
            SYS_sched_setaffinity => "its cpus",
            SYS_prlimit64 => "its limits",
            SYS_setgroups => "its supplementary groups",
            SYS_setresgid => "its group",
            SYS_setresuid => "its user",
            SYS_chroot => "its root folder",
            SYS_fchdir | SYS_chdir => "its working folder",
            SYS_prctl => "its parent-death signal",
            SYS_rt_sigaction | SYS_rt_sigprocmask => "its signals",
            _ => "one of its attributes",
        },
    }
}
