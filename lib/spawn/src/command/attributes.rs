//! What the kernel lets a process be, set without a hook in the child.

use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use kumiki_sys::cpuset::CpuSet;

use super::Command;
use crate::actions::Action;
use crate::attributes::{Descriptor, Namespaces, Resource, SignalNumber, Signals};

impl Command {
    /// The user that it runs as, real, effective and saved. Without [`groups`](Self::groups)
    /// a caller that is root takes all its supplementary groups from it, as the standard
    /// library does.
    pub fn uid(&mut self, id: u32) -> &mut Command {
        self.attributes.uid = Some(id);
        self
    }

    /// The group that it runs as, real, effective and saved.
    pub fn gid(&mut self, id: u32) -> &mut Command {
        self.attributes.gid = Some(id);
        self
    }

    /// Its effective user and group are the real ones of the caller, as POSIX_SPAWN_RESETIDS
    /// has it; what [`uid`](Self::uid) and [`gid`](Self::gid) say holds all the same.
    pub fn reset_ids(&mut self, reset: bool) -> &mut Command {
        self.attributes.reset_ids = reset;
        self
    }

    /// Its supplementary groups.
    pub fn groups(&mut self, groups: &[u32]) -> &mut Command {
        self.attributes.groups = Some(groups.to_vec());
        self
    }

    /// Sets the bits that files it makes do not get; the caller's by default.
    pub fn umask(&mut self, mask: u32) -> &mut Command {
        self.attributes.umask = Some(mask & 0o777);
        self
    }

    /// Its nice value, from -20 to 19: the value itself, not an increment.
    pub fn nice(&mut self, nice: i32) -> &mut Command {
        if !(-20..=19).contains(&nice) {
            // The kernel would make the nearest of it.
            self.wrong(format!("{nice} is not a nice value: they are from -20 to 19"));
        }
        self.attributes.nice = Some(nice);
        self
    }

    /// Its scheduling policy (SCHED_OTHER, SCHED_FIFO, …) and real-time priority, as
    /// sched_setscheduler(2) has them.
    pub fn scheduler(&mut self, policy: i32, priority: i32) -> &mut Command {
        self.attributes.scheduler = Some((Some(policy), priority));
        self
    }

    /// Its real-time priority in the policy that the calling thread has (sched_setparam(2)).
    pub fn scheduling_priority(&mut self, priority: i32) -> &mut Command {
        self.attributes.scheduler = Some((None, priority));
        self
    }

    /// The process group that it joins; 0 for one of its own.
    pub fn process_group(&mut self, group: i32) -> &mut Command {
        self.attributes.group = Some(group);
        self
    }

    /// Its root folder, from the caller's working folder, entered before the change of user;
    /// it begins there if no [`current_dir`](Self::current_dir) is said.
    pub fn chroot(&mut self, folder: impl AsRef<Path>) -> &mut Command {
        self.attributes.root = Some(folder.as_ref().to_owned());
        self
    }

    /// Sets the working folder by a descriptor, wherever the folder is by then; in place of
    /// [`current_dir`](Self::current_dir).
    pub fn current_dir_fd(&mut self, folder: impl Into<OwnedFd>) -> &mut Command {
        self.attributes.folder = Some(folder.into());
        self.folder = None;
        self
    }

    /// Lets it begin a session, and with it a process group, of its own, if true.
    pub fn setsid(&mut self, begins: bool) -> &mut Command {
        self.attributes.session = begins;
        self
    }

    /// A terminal that becomes the one of its session, which is a new one.
    pub fn controlling_terminal(&mut self, terminal: impl Into<OwnedFd>) -> &mut Command {
        self.attributes.terminal = Some(Descriptor::Own(terminal.into()));
        self.setsid(true)
    }

    /// Sets the terminal by a number, for callers in C.
    ///
    /// # Safety
    /// It is open whenever a program is started, and may be handed on.
    pub unsafe fn controlling_terminal_at(&mut self, number: RawFd) -> &mut Command {
        // SAFETY: the caller's promise.
        self.attributes.terminal =
            Some(Descriptor::Lent(unsafe { BorrowedFd::borrow_raw(number) }));
        self.setsid(true)
    }

    /// A limit of what it may use; `None` is none. Of one resource the last one holds. What
    /// is not said is the caller's.
    pub fn limit(
        &mut self,
        resource: Resource,
        soft: Option<u64>,
        hard: Option<u64>,
    ) -> &mut Command {
        let all = |limit: Option<u64>| limit.unwrap_or(libc::RLIM_INFINITY);
        self.attributes.limits.retain(|(limited, ..)| *limited != resource);
        self.attributes.limits.push((resource, all(soft), all(hard)));
        self
    }

    /// The cgroup that it begins in: its folder in a cgroup2 file system (CLONE_INTO_CGROUP).
    pub fn cgroup(&mut self, folder: impl Into<OwnedFd>) -> &mut Command {
        self.attributes.cgroup = Some(Descriptor::Own(folder.into()));
        self
    }

    /// Sets the cgroup by a number, for callers in C.
    ///
    /// # Safety
    /// It is open whenever a program is started, and may be handed on.
    pub unsafe fn cgroup_at(&mut self, number: RawFd) -> &mut Command {
        // SAFETY: the caller's promise.
        self.attributes.cgroup = Some(Descriptor::Lent(unsafe { BorrowedFd::borrow_raw(number) }));
        self
    }

    /// Namespaces that it begins anew.
    pub fn namespaces(&mut self, namespaces: Namespaces) -> &mut Command {
        self.attributes.namespaces = namespaces;
        self
    }

    /// One range of users of its user namespace, which it gets by this: `count` of them, of
    /// which the first is `inside` there and `outside` to the caller. Who lacks CAP_SETUID may map
    /// itself only (user_namespaces(7)).
    ///
    /// ```no_run
    /// # fn main() -> std::io::Result<()> {
    /// use kumiki_spawn::Command;
    ///
    /// // Root to itself, and nobody else.
    /// let (uid, gid) = (1000, 1000);
    /// Command::new("id").uid_map(0, uid, 1).gid_map(0, gid, 1).status()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn uid_map(&mut self, inside: u32, outside: u32, count: u32) -> &mut Command {
        self.attributes.maps[0].push((inside, outside, count));
        self
    }

    /// Maps groups, as [`uid_map`](Self::uid_map) users. Where the caller lacks CAP_SETGID the child
    /// may not change its supplementary groups, as the kernel then demands.
    pub fn gid_map(&mut self, inside: u32, outside: u32, count: u32) -> &mut Command {
        self.attributes.maps[1].push((inside, outside, count));
        self
    }

    /// The cpus that it may run on; the caller's apart from bindings of Kumiki, if nothing
    /// is said.
    pub fn affinity(&mut self, cpus: &CpuSet) -> &mut Command {
        self.attributes.cpus = Some(cpus.clone());
        self
    }

    /// Signals that are blocked in it; those of the calling thread, if nothing is said.
    pub fn signal_mask<S: Into<SignalNumber>>(
        &mut self,
        signals: impl IntoIterator<Item = S>,
    ) -> &mut Command {
        self.attributes.blocked = Some(self.signals(signals));
        self
    }

    /// Gives SIGPIPE its default action in the child, if true, which is the default: Rust's
    /// programs ignore it themselves. `false`: it is ignored if the caller ignores it.
    pub fn sigpipe_default(&mut self, default: bool) -> &mut Command {
        self.attributes.keep_pipe = !default;
        self
    }

    /// Signals that do there what they do by default, also if the caller ignores them.
    pub fn signal_default<S: Into<SignalNumber>>(
        &mut self,
        signals: impl IntoIterator<Item = S>,
    ) -> &mut Command {
        self.attributes.default = self.signals(signals);
        self
    }

    /// Signals that it ignores.
    pub fn signal_ignore<S: Into<SignalNumber>>(
        &mut self,
        signals: impl IntoIterator<Item = S>,
    ) -> &mut Command {
        self.attributes.ignored = self.signals(signals);
        self
    }

    /// The signal that it gets when its parent ends; 0 for none. As everywhere the kernel
    /// sends it when the *thread* ends whose child it is: the one that calls
    /// [`spawn`](Self::spawn), which starts a server of its own for it where one is needed, or the
    /// one that has started the [`SpawnServer`](crate::SpawnServer) that makes it.
    pub fn parent_death_signal(&mut self, signal: impl Into<SignalNumber>) -> &mut Command {
        let SignalNumber(signal) = signal.into();
        if !(0..=64).contains(&signal) {
            self.wrong(format!("{signal} is not a signal: they have the numbers 1 to 64"));
        }
        self.attributes.parent_death = Some(signal);
        self
    }

    /// One more descriptor that it has, under this number. Of one number the last one holds;
    /// [`stdin`](Self::stdin) and the others yield to one of 0 to 2.
    pub fn fd(&mut self, descriptor: impl Into<OwnedFd>, number: i32) -> &mut Command {
        if number < 0 {
            self.wrong(format!("descriptor {number}: numbers begin at 0"));
        }
        self.attributes.fds.retain(|(_, taken)| *taken != number);
        self.attributes.fds.push((descriptor.into(), number));
        self
    }

    /// Closes all of the caller's descriptors but those that were given to it, if true, which is
    /// the default. `false`: all of them that have no FD_CLOEXEC, as posix_spawn(3).
    pub fn close_others(&mut self, close: bool) -> &mut Command {
        self.attributes.keep_others = !close;
        self
    }

    /// One more step of the child's on its descriptors and its working folder, for callers in C:
    /// carried out in the order in which they were added, after all else but the signals. It
    /// begins with the descriptors that were said ([`fd`](Self::fd), [`stdin`](Self::stdin), …);
    /// by the others' numbers actions have them also where
    /// [`close_others`](Self::close_others) keeps them from the program.
    ///
    /// # Safety
    /// Descriptors of the caller that actions name may be handed on.
    pub unsafe fn action(&mut self, action: Action) -> &mut Command {
        self.actions.push(action);
        self
    }

    /// Lets a spawn server make it, if true, also where [`spawn`](Self::spawn) could without one.
    /// That takes longer, but the child begins in no memory of the caller's and copies no table of
    /// its descriptors, and less of the work is the caller's own processor time. What becomes
    /// another user, or has namespaces of its own, is always made so.
    pub fn by_server(&mut self, by_server: bool) -> &mut Command {
        self.attributes.by_server = by_server;
        self
    }

    fn signals<S: Into<SignalNumber>>(&mut self, signals: impl IntoIterator<Item = S>) -> Signals {
        Signals::of(signals.into_iter().map(|signal| signal.into().0)).unwrap_or_else(|number| {
            self.wrong(format!("{number} is not a signal: they have the numbers 1 to 64"));
            Signals::default()
        })
    }

    /// Notes a fault that `spawn` tells, as the standard library does with a zero byte.
    fn wrong(&mut self, what: String) {
        self.attributes.wrong.get_or_insert(what);
    }
}
