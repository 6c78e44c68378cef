//! The steps by which a child becomes what was asked for, in their order.
//!
//! 1. By clone3 itself: cgroup and namespaces. The maps of its user namespace, without which
//!    it is nobody.
//! 2. Descriptors that were given, while no limit forbids their numbers.
//! 3. Session, terminal, process group.
//! 4. Umask, nice value, scheduling policy, cpus, the caller's limits, those asked for: what only root may do comes
//!    before it ceases to be root.
//! 5. The caller's working folder, and from there the root folder.
//! 6. Supplementary groups, group, user. Each may forbid those before it.
//! 7. The working folder that was said, which must be one that the new user may enter.
//! 8. Actions, in the order in which they were added: as posix_spawn(3), after the attributes.
//! 9. A lower limit of descriptors, which would have forbidden some.
//! 10. The parent-death signal, which a change of user clears.
//! 11. Signals, of which none arrives before.

use std::cell::OnceCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use kumiki_sys::cpuset::CpuSet;
use libc::{
    SYS_chdir, SYS_chroot, SYS_fchdir, SYS_ioctl, SYS_prctl, SYS_prlimit64, SYS_rt_sigaction,
    SYS_rt_sigprocmask, SYS_sched_setaffinity, SYS_sched_setparam, SYS_sched_setscheduler,
    SYS_setgroups, SYS_setpgid, SYS_setpriority, SYS_setresgid, SYS_setresuid, SYS_setsid,
    SYS_umask,
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::actions::{self, Action};
use crate::attributes::{Attributes, Resource, Signals};
use crate::identity::{self, blocked};
use crate::request::{Draft, Maker};
use crate::stdio::{Theirs, above};
use kumiki_spawn_wire::{
    CALLERS_CPUS, CALLERS_GROUP, CALLERS_LIMITS, CALLERS_MASK, CLOSE, CLOSE_ALL, CLOSE_AT_EXEC,
    MAPPED, MAY_FAIL, PARENT_LIVES, PUT,
};

/// The purpose of a step, with a number where there are several of a kind ([`Step::what`]).
///
/// [`Step::what`]: kumiki_spawn_wire::Step::what
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum What {
    Maps,
    Descriptors,
    Session,
    Terminal,
    Group,
    Umask,
    Nice,
    Scheduler,
    Cpus,
    Limits,
    Limit,
    Root,
    Groups,
    Gid,
    Uid,
    Folder,
    Action,
    ParentDeath,
    Parent,
    Signals,
    CallersCpus,
    CallersFolder,
}

impl What {
    const ALL: [What; 22] = [
        What::Maps,
        What::Descriptors,
        What::Session,
        What::Terminal,
        What::Group,
        What::Umask,
        What::Nice,
        What::Scheduler,
        What::Cpus,
        What::Limits,
        What::Limit,
        What::Root,
        What::Groups,
        What::Gid,
        What::Uid,
        What::Folder,
        What::Action,
        What::ParentDeath,
        What::Parent,
        What::Signals,
        What::CallersCpus,
        What::CallersFolder,
    ];

    fn number(self, index: usize) -> u32 {
        self as u32 | (index as u32) << 8
    }

    fn of(number: u32) -> Option<(What, usize)> {
        let what = What::ALL.get((number & 0xff) as usize)?;
        Some((*what, (number >> 8) as usize))
    }
}

/// Attributes and actions of a child, apart from its program.
pub(crate) struct ChildSpec<'a> {
    pub(crate) attributes: &'a Attributes,
    pub(crate) folder: Option<&'a Path>,
    pub(crate) actions: &'a [Action],
}

/// CLONE_INTO_CGROUP of clone3(2).
const INTO_CGROUP: u64 = 1 << 33;
/// The caller's own that goes to its child if nothing else is said. A child that the caller makes
/// itself has most of it without a step.
pub(crate) struct Inherited<'a> {
    /// Opened when it has to be sent.
    pub(crate) folder: &'a OnceCell<OwnedFd>,
    /// The calling process's pidfd, opened when it is needed; `None` where there is none to be had.
    pub(crate) parent: &'a OnceCell<Option<OwnedFd>>,
    pub(crate) standard: [Option<&'a Theirs<'a>>; 3],
    /// Further descriptors that a child by a server is to begin with, and whether exec closes them.
    pub(crate) others: Vec<(BorrowedFd<'a>, bool)>,
    /// `None`: those of the calling thread.
    pub(crate) cpus: Option<CpuSet>,
}

impl<'a> Inherited<'a> {
    fn folder(&self) -> io::Result<BorrowedFd<'a>> {
        if let Some(folder) = self.folder.get() {
            return Ok(folder.as_fd());
        }
        let folder = here()?;
        Ok(self.folder.get_or_init(|| folder).as_fd())
    }

    fn parent(&self) -> Option<BorrowedFd<'a>> {
        let open = || above(pidfd_open(getpid(), PidfdFlags::empty()).ok()?).ok();
        self.parent.get_or_init(open).as_ref().map(AsFd::as_fd)
    }
}

/// The calling thread's working folder.
pub(crate) fn here() -> io::Result<OwnedFd> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    above(openat(CWD, ".", folder, Mode::empty())?)
}

/// Writes them.
///
/// # Errors
/// `E2BIG`.
pub(crate) fn write<'a>(
    draft: &mut Draft<'a>,
    said: &ChildSpec<'a>,
    caller: &Inherited<'a>,
) -> io::Result<()> {
    let ChildSpec { attributes, folder, actions } = *said;
    draft.clone_flags = attributes.spaces().bits();
    if let Some(cgroup) = &attributes.cgroup {
        draft.clone_flags |= INTO_CGROUP;
        draft.cgroup = draft.descriptor(cgroup.as_fd());
    }
    maps(draft, attributes)?;
    descriptors(draft, attributes, caller, actions);
    session(draft, attributes);
    if let Some(mask) = attributes.umask {
        draft.step(What::Umask.number(0), SYS_umask as u32, 0, [mask.into()]);
    }
    if let Some(nice) = attributes.nice {
        #[allow(clippy::unnecessary_cast, reason = "musl's is another type")]
        let args = [libc::PRIO_PROCESS as u64, 0, nice as u64];
        draft.step(What::Nice.number(0), SYS_setpriority as u32, 0, args);
    }
    match attributes.scheduler {
        Some((Some(policy), priority)) => {
            let at = draft.words([u64::from(priority as u32)])?;
            let args = [0, policy as u64, at];
            draft.step(What::Scheduler.number(0), SYS_sched_setscheduler as u32, 0, args);
        }
        Some((None, priority)) => {
            let at = draft.words([u64::from(priority as u32)])?;
            draft.step(What::Scheduler.number(0), SYS_sched_setparam as u32, 0, [0, at]);
        }
        None => {}
    }
    cpus(draft, attributes, caller)?;
    if draft.maker != Maker::Caller {
        draft.step(What::Limits.number(0), CALLERS_LIMITS, 0, []);
    }
    limits(draft, attributes, |limit| !is_late(limit))?;
    if draft.maker != Maker::Caller {
        let folder = draft.folder(|| caller.folder())?;
        draft.step(What::CallersFolder.number(0), SYS_fchdir as u32, 1, [folder.into()]);
    }
    if let Some(root) = &attributes.root {
        let at = draft.string(&[root.as_os_str().as_bytes()])?;
        draft.step(What::Root.number(0), SYS_chroot as u32, 0, [at]);
    }
    identity(draft, attributes)?;
    let root = attributes.root.as_ref().map(|_| Path::new("/"));
    if let Some(folder) = &attributes.folder {
        let place = draft.descriptor(folder.as_fd());
        draft.step(What::Folder.number(0), SYS_fchdir as u32, 1, [place.into()]);
    } else if let Some(folder) = folder.or(root) {
        let at = draft.string(&[folder.as_os_str().as_bytes()])?;
        draft.step(What::Folder.number(0), SYS_chdir as u32, 0, [at]);
    }
    for (index, action) in actions.iter().enumerate() {
        action.write(draft, What::Action.number(index))?;
    }
    limits(draft, attributes, is_late)?;
    if let Some(signal) = attributes.parent_death {
        let args = [libc::PR_SET_PDEATHSIG as u64, signal as u64];
        draft.step(What::ParentDeath.number(0), SYS_prctl as u32, 0, args);
        let parent = caller.parent().map_or(0, |parent| u64::from(draft.descriptor(parent)) + 1);
        draft.step(What::Parent.number(0), PARENT_LIVES, 0, [parent]);
    }
    signals(draft, attributes)
}

fn maps(draft: &mut Draft<'_>, attributes: &Attributes) -> io::Result<()> {
    for (number, map) in attributes.maps.iter().enumerate().filter(|(_, map)| !map.is_empty()) {
        let lines =
            map.iter().map(|(inside, outside, count)| format!("{inside} {outside} {count}\n"));
        draft.maps[number] = draft.string(&[lines.collect::<String>().as_bytes()])?;
    }
    if attributes.has_maps() {
        draft.step(What::Maps.number(0), MAPPED, 0, []);
    }
    Ok(())
}

fn descriptors<'a>(
    draft: &mut Draft<'a>,
    attributes: &'a Attributes,
    caller: &Inherited<'a>,
    actions: &[Action],
) {
    let what = What::Descriptors.number(0);
    let by_caller = draft.maker == Maker::Caller;
    if by_caller && !attributes.keep_others {
        draft.step(what, CLOSE_AT_EXEC, 0, [3, u32::MAX.into()]);
    }
    let mut numbers: Vec<i32> = attributes.fds.iter().map(|(_, number)| *number).collect();
    let said = |number: i32| attributes.fds.iter().any(|(_, taken)| *taken == number);
    for (fd, number) in &attributes.fds {
        let place = draft.descriptor(fd.as_fd());
        draft.step(what, PUT, 0, [place.into(), *number as u64, 0]);
    }
    // The caller's own child has them.
    for (fd, at_exec) in &caller.others {
        let number = fd.as_raw_fd();
        if !said(number) {
            let place = draft.descriptor(*fd);
            draft.step(what, PUT, 0, [place.into(), number as u64, (*at_exec).into()]);
            numbers.push(number);
        }
    }
    for (fd, number) in caller.standard.iter().zip(0..).filter(|(_, number)| !said(*number)) {
        let (place, at_exec) = match fd {
            Some(Theirs::Caller(_)) if by_caller => continue,
            Some(Theirs::Caller(fd)) => match actions::flags(number) {
                Some(at_exec) if !at_exec || actions::use_it(actions, number) => {
                    (Some(draft.standard(number as usize, *fd)), at_exec)
                }
                _ => (None, false),
            },
            Some(fd @ (Theirs::Own(_) | Theirs::Given(_))) => {
                (Some(draft.descriptor((**fd).as_fd())), false)
            }
            None => (None, false),
        };
        match place {
            Some(place) => {
                draft.step(what, PUT, 0, [place.into(), number as u64, at_exec.into()]);
                numbers.push(number);
            }
            // It may be closed already.
            None => draft.step(what, CLOSE, MAY_FAIL, [number as u64]),
        }
    }
    if !by_caller && !actions.is_empty() {
        others_closed(draft, numbers);
    }
}

/// Closes a server's own descriptors, which are not there for the child's actions.
fn others_closed(draft: &mut Draft<'_>, mut numbers: Vec<i32>) {
    numbers.sort_unstable();
    numbers.dedup();
    let mut first = 0u64;
    for number in numbers {
        if number as u64 > first {
            let args = [first, number as u64 - 1];
            draft.step(What::Descriptors.number(0), CLOSE_ALL, 0, args);
        }
        first = number as u64 + 1;
    }
    draft.step(What::Descriptors.number(0), CLOSE_ALL, 0, [first, u32::MAX.into()]);
}

fn session<'a>(draft: &mut Draft<'a>, attributes: &'a Attributes) {
    if attributes.session {
        draft.step(What::Session.number(0), SYS_setsid as u32, 0, []);
        if let Some(terminal) = &attributes.terminal {
            let place = draft.descriptor(terminal.as_fd());
            #[allow(clippy::unnecessary_cast, reason = "musl's is another type")]
            let args = [place.into(), libc::TIOCSCTTY as u64, 0];
            draft.step(What::Terminal.number(0), SYS_ioctl as u32, 1, args);
        }
    }
    match attributes.group {
        Some(group) => {
            draft.step(What::Group.number(0), SYS_setpgid as u32, 0, [0, group as u64]);
        }
        None if attributes.session || draft.maker == Maker::Caller => {}
        None => draft.step(What::Group.number(0), CALLERS_GROUP, MAY_FAIL, []),
    }
}

fn cpus(draft: &mut Draft<'_>, attributes: &Attributes, caller: &Inherited<'_>) -> io::Result<()> {
    if let Some(cpus) = attributes.cpus.as_ref().or(caller.cpus.as_ref()) {
        let words = cpus.words();
        let at = draft.words(words.iter().copied())?;
        let args = [0, words.len() as u64 * 8, at];
        draft.step(What::Cpus.number(0), SYS_sched_setaffinity as u32, 0, args);
    } else if draft.maker != Maker::Caller {
        draft.step(What::CallersCpus.number(0), CALLERS_CPUS, 0, []);
    }
    Ok(())
}

/// True if a limit is one of descriptors that the child may set at any time, as it raises nothing.
fn is_late((resource, _, hard): &(Resource, u64, u64)) -> bool {
    *resource == Resource::Nofile && *hard <= identity::limit(Resource::Nofile)[1]
}

fn limits(
    draft: &mut Draft<'_>,
    attributes: &Attributes,
    now: impl Fn(&(Resource, u64, u64)) -> bool,
) -> io::Result<()> {
    for (index, limit) in attributes.limits.iter().enumerate().filter(|(_, limit)| now(limit)) {
        let at = draft.words([limit.1, limit.2])?;
        let args = [0, limit.0 as u64, at, 0];
        draft.step(What::Limit.number(index), SYS_prlimit64 as u32, 0, args);
    }
    Ok(())
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
            let args = [groups.len() as u64, at];
            draft.step(What::Groups.number(0), SYS_setgroups as u32, 0, args);
        }
        None if attributes.uid.is_some() && is_root() => {
            draft.step(What::Groups.number(0), SYS_setgroups as u32, 0, [0, 0]);
        }
        None => {}
    }
    let (mut gid, mut uid) = ([attributes.gid; 3], [attributes.uid; 3]);
    if attributes.reset_ids {
        // The effective ones only, as posix_spawn(3); a saved one goes by the program's exec.
        let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        uid[1] = uid[1].or(Some(own.0));
        gid[1] = gid[1].or(Some(own.1));
    }
    /// Leaves it as it is.
    const AS_IT_IS: u32 = u32::MAX;
    for (what, call, ids) in [(What::Gid, SYS_setresgid, gid), (What::Uid, SYS_setresuid, uid)] {
        if ids.iter().any(Option::is_some) {
            let args = ids.map(|id| u64::from(id.unwrap_or(AS_IT_IS)));
            draft.step(what.number(0), call as u32, 0, args);
        }
    }
    Ok(())
}

fn signals(draft: &mut Draft<'_>, attributes: &Attributes) -> io::Result<()> {
    let what = What::Signals.number(0);
    // As the standard library does: SIGPIPE ends it.
    let broken_pipe = if attributes.keep_pipe { 0 } else { 1 << (libc::SIGPIPE - 1) };
    let default = draft.words([libc::SIG_DFL as u64, 0, 0, 0])?;
    let ignored = draft.words([libc::SIG_IGN as u64, 0, 0, 0])?;
    // Nobody can ask it of these two, which always do so.
    let always = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
    for signal in Signals((attributes.default.0 | broken_pipe) & !always).iter() {
        draft.step(what, SYS_rt_sigaction as u32, 0, [signal as u64, default, 0, 8]);
    }
    for signal in attributes.ignored.iter() {
        draft.step(what, SYS_rt_sigaction as u32, 0, [signal as u64, ignored, 0, 8]);
    }
    match attributes.blocked {
        Some(blocked) => {
            let blocked = draft.words([blocked.0])?;
            let args = [libc::SIG_SETMASK as u64, blocked, 0, 8];
            draft.step(what, SYS_rt_sigprocmask as u32, 0, args);
        }
        None => {
            draft.mask = if draft.maker == Maker::Caller { 0 } else { blocked() };
            draft.step(what, CALLERS_MASK, 0, []);
        }
    }
    Ok(())
}

/// True if this step only makes a server's child what the caller's own child is without it.
pub(crate) fn is_of_server(step: u32) -> bool {
    let all = [What::CallersCpus, What::CallersFolder, What::Descriptors, What::Limits];
    What::of(step).is_some_and(|(what, _)| all.contains(&what))
}

/// Says a step and its value, for messages.
pub(crate) fn said(step: u32, said: &ChildSpec<'_>) -> String {
    let ChildSpec { attributes, folder, actions } = *said;
    let Some((what, index)) = What::of(step) else { return "one of its attributes".to_owned() };
    if what == What::Maps {
        let [users, groups] = &attributes.maps;
        return format!("the maps of its user namespace: users {users:?}, groups {groups:?}");
    }
    if let (What::Action, Some(action)) = (what, actions.get(index)) {
        return action.said();
    }
    let path = |path: Option<&Path>| path.map(|path| path.display().to_string());
    let value = match what {
        What::Group => attributes.group.map(|group| group.to_string()),
        What::Umask => attributes.umask.map(|mask| format!("{mask:#o}")),
        What::Nice => attributes.nice.map(|nice| nice.to_string()),
        What::Scheduler => attributes.scheduler.map(|(policy, priority)| match policy {
            Some(policy) => format!("{policy}, priority {priority}"),
            None => format!("priority {priority}"),
        }),
        What::Cpus => attributes.cpus.as_ref().map(CpuSet::to_string),
        What::Groups => attributes.groups.as_ref().map(|groups| format!("{groups:?}")),
        What::Gid => attributes.gid.map(|gid| gid.to_string()),
        What::Uid => attributes.uid.map(|uid| uid.to_string()),
        What::Root => path(attributes.root.as_deref()),
        What::Folder => path(folder),
        What::ParentDeath => attributes.parent_death.map(|signal| signal.to_string()),
        What::Limit => attributes.limits.get(index).map(|(resource, soft, hard)| {
            let amount = |amount: &u64| match *amount {
                libc::RLIM_INFINITY => "none".to_owned(),
                amount => amount.to_string(),
            };
            format!("{resource:?} {} {}", amount(soft), amount(hard))
        }),
        _ => None,
    };
    let name = name(what);
    value.map_or_else(|| name.to_owned(), |value| format!("{name} {value}"))
}

fn name(what: What) -> &'static str {
    match what {
        What::Maps => "the maps of its user namespace",
        What::Descriptors => "its descriptors",
        What::Session => "its session",
        What::Terminal => "its controlling terminal",
        What::Group => "its process group",
        What::Umask => "its umask",
        What::Nice => "its nice value",
        What::Scheduler => "its scheduling policy",
        What::Cpus | What::CallersCpus => "its cpus",
        What::Limits | What::Limit => "its limits",
        What::Root => "its root folder",
        What::Groups => "its supplementary groups",
        What::Gid => "its group",
        What::Uid => "its user",
        What::Folder | What::CallersFolder => "its working folder",
        What::Action => "one of its file actions",
        What::ParentDeath => "its parent-death signal",
        What::Parent => "finding the parent alive",
        What::Signals => "its signals",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_is_for_comes_back() {
        for (place, what) in What::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, place);
            assert_eq!(What::of(what.number(77)), Some((what, 77)));
        }
    }
}
