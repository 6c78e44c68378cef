//! Attributes: posix_spawn's, and those that it lacks.

use std::ffi::{c_int, c_short, c_uint};
use std::mem::MaybeUninit;
use std::slice;

use kumiki_spawn::{Command, Namespaces, Resource};
use kumiki_sys::cpuset::CpuSet;
use libc::{SCHED_BATCH, SCHED_FIFO, SCHED_IDLE, SCHED_OTHER, SCHED_RR};

use super::as_errno;
use crate::failure::Failure;
use crate::spawn_abi::{
    KUMIKI_SPAWN_CLOEXEC_DEFAULT, KUMIKI_SPAWN_RESETIDS, KUMIKI_SPAWN_SETCGROUP,
    KUMIKI_SPAWN_SETPGROUP, KUMIKI_SPAWN_SETSCHEDPARAM, KUMIKI_SPAWN_SETSCHEDULER,
    KUMIKI_SPAWN_SETSID, KUMIKI_SPAWN_SETSIGDEF, KUMIKI_SPAWN_SETSIGMASK, KUMIKI_SPAWN_USEVFORK,
};

/// `kumiki_spawnattr_t`.
#[repr(C)]
#[derive(Debug)]
pub struct Attributes {
    attributes: *mut AttributeSettings,
}

/// `kumiki_spawn_id_range_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct IdRange {
    pub inside: u32,
    pub outside: u32,
    pub count: u32,
}

/// The attributes that were set.
#[derive(Clone, Debug)]
pub struct AttributeSettings {
    flags: c_short,
    group: libc::pid_t,
    mask: Vec<c_int>,
    default: Vec<c_int>,
    ignored: Vec<c_int>,
    uid: Option<libc::uid_t>,
    gid: Option<libc::gid_t>,
    groups: Option<Vec<libc::gid_t>>,
    umask: Option<libc::mode_t>,
    nice: Option<c_int>,
    limits: Vec<(c_int, libc::rlimit)>,
    cgroup: Option<c_int>,
    namespaces: u64,
    users: Vec<IdRange>,
    id_groups: Vec<IdRange>,
    cpus: Option<CpuSet>,
    terminal: Option<c_int>,
    parent_death: Option<c_int>,
    by_server: bool,
    policy: c_int,
    priority: c_int,
    tree: *const super::tree::Inner,
}

impl Default for AttributeSettings {
    fn default() -> Self {
        AttributeSettings {
            flags: 0,
            group: 0,
            mask: Vec::new(),
            default: Vec::new(),
            ignored: Vec::new(),
            uid: None,
            gid: None,
            groups: None,
            umask: None,
            nice: None,
            limits: Vec::new(),
            cgroup: None,
            namespaces: 0,
            users: Vec::new(),
            id_groups: Vec::new(),
            cpus: None,
            terminal: None,
            parent_death: None,
            by_server: false,
            policy: 0,
            priority: 0,
            tree: std::ptr::null(),
        }
    }
}

const KNOWN: c_short = KUMIKI_SPAWN_RESETIDS
    | KUMIKI_SPAWN_SETPGROUP
    | KUMIKI_SPAWN_SETSIGDEF
    | KUMIKI_SPAWN_SETSIGMASK
    | KUMIKI_SPAWN_SETSCHEDPARAM
    | KUMIKI_SPAWN_SETSCHEDULER
    | KUMIKI_SPAWN_USEVFORK
    | KUMIKI_SPAWN_SETCGROUP
    | KUMIKI_SPAWN_SETSID
    | KUMIKI_SPAWN_CLOEXEC_DEFAULT;

/// Signals have the numbers 1 to 64.
const SIGNALS: std::ops::RangeInclusive<c_int> = 1..=64;

/// # Safety
/// Null, or initialised and not destroyed.
pub(super) unsafe fn of(attributes: *const Attributes) -> Result<AttributeSettings, Failure> {
    // SAFETY: the caller's promise.
    match unsafe { attributes.as_ref() } {
        None => Ok(AttributeSettings::default()),
        // SAFETY: as above.
        Some(Attributes { attributes }) => match unsafe { attributes.as_ref() } {
            Some(said) => Ok(said.clone()),
            None => Err(Failure::invalid("attributes that were destroyed")),
        },
    }
}

impl AttributeSettings {
    /// The tree that the child is to be ended with.
    ///
    /// # Safety
    /// It was not destroyed.
    pub(super) unsafe fn tree<'a>(&self) -> Option<&'a super::tree::Inner> {
        // SAFETY: the caller's promise.
        unsafe { self.tree.as_ref() }
    }

    /// True if the child has all descriptors that stay open at exec.
    pub(super) fn inherits(&self) -> bool {
        self.flags & KUMIKI_SPAWN_CLOEXEC_DEFAULT == 0
    }

    fn has(&self, flag: c_short) -> bool {
        self.flags & flag != 0
    }

    /// Says it to the command.
    pub(super) fn apply(&self, command: &mut Command) -> Result<(), Failure> {
        command.reset_ids(self.has(KUMIKI_SPAWN_RESETIDS));
        if self.has(KUMIKI_SPAWN_SETPGROUP) {
            command.process_group(self.group);
        }
        if self.has(KUMIKI_SPAWN_SETSID) {
            command.setsid(true);
        }
        self.signals(command);
        if self.has(KUMIKI_SPAWN_SETSCHEDULER) {
            command.scheduler(self.policy, self.priority);
        } else if self.has(KUMIKI_SPAWN_SETSCHEDPARAM) {
            command.scheduling_priority(self.priority);
        }
        command.kill_tree(!self.tree.is_null());
        self.who(command);
        if let Some(mask) = self.umask {
            command.umask(mask);
        }
        if let Some(nice) = self.nice {
            command.nice(nice);
        }
        for (number, limit) in &self.limits {
            let amount = |limit| (limit != libc::RLIM_INFINITY).then_some(limit);
            command.limit(resource(*number)?, amount(limit.rlim_cur), amount(limit.rlim_max));
        }
        if let Some(fd) = self.cgroup {
            // SAFETY: C's caller has named it for this.
            unsafe { command.cgroup_at(opened(fd, "the cgroup's folder")?) };
        }
        command.namespaces(Namespaces::from_bits_retain(self.namespaces));
        for IdRange { inside, outside, count } in &self.users {
            command.uid_map(*inside, *outside, *count);
        }
        for IdRange { inside, outside, count } in &self.id_groups {
            command.gid_map(*inside, *outside, *count);
        }
        if let Some(cpus) = &self.cpus {
            command.affinity(cpus);
        }
        if let Some(fd) = self.terminal {
            // SAFETY: as above.
            unsafe { command.controlling_terminal_at(opened(fd, "the terminal")?) };
        }
        if let Some(signal) = self.parent_death {
            command.parent_death_signal(signal);
        }
        command.by_server(self.by_server);
        Ok(())
    }

    fn who(&self, command: &mut Command) {
        if let Some(groups) = &self.groups {
            command.groups(groups);
        }
        if let Some(gid) = self.gid {
            command.gid(gid);
        }
        if let Some(uid) = self.uid {
            command.uid(uid);
        }
    }

    /// Sets signals as posix_spawn does: those that are not given are the calling thread's.
    fn signals(&self, command: &mut Command) {
        if self.has(KUMIKI_SPAWN_SETSIGMASK) {
            command.signal_mask(self.mask.iter().copied());
        }
        if self.has(KUMIKI_SPAWN_SETSIGDEF) {
            command.signal_default(self.default.iter().copied());
        }
        command.sigpipe_default(false).signal_ignore(self.ignored.iter().copied());
    }
}

fn numbers(set: &libc::sigset_t) -> Vec<c_int> {
    // SAFETY: a set that was initialised; a number without a signal is in none.
    SIGNALS.filter(|signal| unsafe { libc::sigismember(set, *signal) } == 1).collect()
}

/// Checks a number that a descriptor can have.
fn named(fd: c_int, what: &str) -> Result<c_int, Failure> {
    match fd {
        0.. => Ok(fd),
        _ => Err(Failure::new(libc::EBADF, format!("{what}: descriptor {fd}, they begin at 0"))),
    }
}

fn opened(fd: c_int, what: &str) -> Result<c_int, Failure> {
    // SAFETY: only asks.
    if fd < 0 || unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(Failure::new(libc::EBADF, format!("{what}: descriptor {fd} is not open")));
    }
    Ok(fd)
}

fn resource(number: c_int) -> Result<Resource, Failure> {
    use Resource as R;
    let all = [
        R::Cpu,
        R::Fsize,
        R::Data,
        R::Stack,
        R::Core,
        R::Rss,
        R::Nproc,
        R::Nofile,
        R::Memlock,
        R::As,
        R::Locks,
        R::Sigpending,
        R::Msgqueue,
        R::Nice,
        R::Rtprio,
        R::Rttime,
    ];
    let found = all.into_iter().find(|resource| *resource as c_int == number);
    found.ok_or_else(|| Failure::invalid(format!("{number} is not a resource of setrlimit(2)")))
}

/// See the header.
///
/// # Safety
/// Null, or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawnattr_init(attributes: *mut Attributes) -> c_int {
    as_errno(|| {
        if attributes.is_null() {
            return Err(Failure::invalid("attributes: a null pointer"));
        }
        let said = Box::into_raw(Box::default());
        // SAFETY: the caller's promise.
        unsafe { attributes.write(Attributes { attributes: said }) };
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// Null, or initialised.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawnattr_destroy(attributes: *mut Attributes) -> c_int {
    as_errno(|| {
        // SAFETY: the caller's promise.
        if let Some(attributes) = unsafe { attributes.as_mut() } {
            let said = std::mem::replace(&mut attributes.attributes, std::ptr::null_mut());
            if !said.is_null() {
                // SAFETY: a box of `kumiki_spawnattr_init`, which nobody else has.
                drop(unsafe { Box::from_raw(said) });
            }
        }
        Ok(())
    })
}

/// # Safety
/// Null, or initialised.
unsafe fn change(
    attributes: *mut Attributes,
    change: impl FnOnce(&mut AttributeSettings) -> Result<(), Failure>,
) -> c_int {
    as_errno(|| {
        // SAFETY: the caller's promise.
        let said = unsafe { attributes.as_mut() }.map(|attributes| attributes.attributes);
        // SAFETY: as above.
        let said = said.and_then(|said| unsafe { said.as_mut() });
        change(said.ok_or_else(|| Failure::invalid("attributes that nobody initialised"))?)
    })
}

/// # Safety
/// `attributes` null or initialised, `to` null or writable.
unsafe fn tell<T>(
    attributes: *const Attributes,
    to: *mut T,
    what: impl FnOnce(&AttributeSettings) -> T,
) -> c_int {
    let store = |said: &mut AttributeSettings| {
        if to.is_null() {
            return Err(Failure::invalid("nowhere to store it: a null pointer"));
        }
        // SAFETY: the caller's promise.
        unsafe { to.write(what(said)) };
        Ok(())
    };
    // SAFETY: as above; nothing is changed.
    unsafe { change(attributes.cast_mut(), store) }
}

fn set_of(numbers: &[c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: writes to it.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    for number in numbers {
        // SAFETY: an initialised set.
        unsafe { libc::sigaddset(set.as_mut_ptr(), *number) };
    }
    // SAFETY: initialised above.
    unsafe { set.assume_init() }
}

/// # Safety
/// Null, or readable.
unsafe fn read<T>(from: *const T, what: &str) -> Result<T, Failure>
where
    T: Copy,
{
    if from.is_null() {
        return Err(Failure::invalid(format!("{what}: a null pointer")));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { from.read() })
}

/// # Safety
/// So many of them can be read.
unsafe fn list<T: Copy>(from: *const T, count: usize, what: &str) -> Result<Vec<T>, Failure> {
    if from.is_null() && count > 0 {
        return Err(Failure::invalid(format!("{what}: a null pointer")));
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts(from, count) }.to_vec())
}

/// Functions of initialised attributes that set one of [`AttributeSettings`], and tell it.
macro_rules! setters {
    ($($(#[$doc:meta])* $set:ident($argument:ident: $type:ty) = |$said:ident| $do:expr;)*) => {
        $(
            /// See the header.
            ///
            /// # Safety
            /// Initialised attributes; pointers can be read.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $set(attributes: *mut Attributes, $argument: $type) -> c_int {
                // SAFETY: the caller's promise, also of what `$do` reads.
                unsafe { change(attributes, |$said| $do) }
            }
        )*
    };
}

macro_rules! getters {
    ($($get:ident: $type:ty = |$said:ident| $what:expr;)*) => {
        $(
            /// See the header.
            ///
            /// # Safety
            /// Initialised attributes; the result can be written.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $get(attributes: *const Attributes, to: *mut $type) -> c_int {
                // SAFETY: the caller's promise.
                unsafe { tell(attributes, to, |$said| $what) }
            }
        )*
    };
}

setters! {
    kumiki_spawnattr_setflags(flags: c_short) = |said| {
        if flags & !KNOWN != 0 {
            let text = format!("flags {flags:#x}: only {KNOWN:#x} are known");
            return Err(Failure::invalid(text));
        }
        said.flags = flags;
        Ok(())
    };
    kumiki_spawnattr_setpgroup(group: libc::pid_t) = |said| {
        said.group = group;
        Ok(())
    };
    kumiki_spawnattr_setsigmask(signals: *const libc::sigset_t) = |said| {
        said.mask = numbers(&read(signals, "signals")?);
        Ok(())
    };
    kumiki_spawnattr_setsigdefault(signals: *const libc::sigset_t) = |said| {
        said.default = numbers(&read(signals, "signals")?);
        Ok(())
    };
    kumiki_spawnattr_setsigignore(signals: *const libc::sigset_t) = |said| {
        said.ignored = numbers(&read(signals, "signals")?);
        Ok(())
    };
    kumiki_spawnattr_setuid(uid: libc::uid_t) = |said| {
        said.uid = Some(uid);
        Ok(())
    };
    kumiki_spawnattr_setgid(gid: libc::gid_t) = |said| {
        said.gid = Some(gid);
        Ok(())
    };
    kumiki_spawnattr_setumask(mask: libc::mode_t) = |said| {
        said.umask = Some(mask);
        Ok(())
    };
    kumiki_spawnattr_setnice(nice: c_int) = |said| {
        if !(-20..=19).contains(&nice) {
            let text = format!("{nice} is not a nice value: they are from -20 to 19");
            return Err(Failure::invalid(text));
        }
        said.nice = Some(nice);
        Ok(())
    };
    kumiki_spawnattr_setschedpolicy(policy: c_int) = |said| {
        // Deadlines take more than a priority.
        let all = [SCHED_OTHER, SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE];
        if !all.contains(&policy) {
            let text = format!("policy {policy}: there are SCHED_OTHER, FIFO, RR, BATCH and IDLE");
            return Err(Failure::invalid(text));
        }
        said.policy = policy;
        Ok(())
    };
    kumiki_spawnattr_setschedparam(parameters: *const libc::sched_param) = |said| {
        said.priority = read(parameters, "parameters")?.sched_priority;
        Ok(())
    };
    kumiki_spawnattr_settree(tree: *const super::tree::Tree) = |said| {
        said.tree = super::tree::of(tree)?;
        Ok(())
    };
    kumiki_spawnattr_setcgroup(folder: c_int) = |said| {
        said.cgroup = Some(named(folder, "the cgroup's folder")?);
        Ok(())
    };
    kumiki_spawnattr_setterminal(terminal: c_int) = |said| {
        said.terminal = Some(named(terminal, "the terminal")?);
        Ok(())
    };
    kumiki_spawnattr_setdeathsignal(signal: c_int) = |said| {
        said.parent_death = Some(signal);
        Ok(())
    };
    kumiki_spawnattr_setbyserver(by_server: c_int) = |said| {
        said.by_server = by_server != 0;
        Ok(())
    };
    kumiki_spawnattr_setnamespaces(flags: u64) = |said| {
        let unknown = flags & !Namespaces::all().bits();
        if unknown != 0 {
            let text = format!("namespaces {unknown:#x} are none: take CLONE_NEW… of <sched.h>");
            return Err(Failure::invalid(text));
        }
        said.namespaces = flags;
        Ok(())
    };
}

/// Parameters with this priority; of the other numbers that musl has each is 0.
fn parameters(priority: c_int) -> libc::sched_param {
    // SAFETY: numbers alone.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    parameters
}

getters! {
    kumiki_spawnattr_getschedpolicy: c_int = |said| said.policy;
    kumiki_spawnattr_getschedparam: libc::sched_param = |said| {
        parameters(said.priority)
    };
    kumiki_spawnattr_getcgroup: c_int = |said| said.cgroup.unwrap_or(-1);
    kumiki_spawnattr_getflags: c_short = |said| said.flags;
    kumiki_spawnattr_getpgroup: libc::pid_t = |said| said.group;
    kumiki_spawnattr_getsigmask: libc::sigset_t = |said| set_of(&said.mask);
    kumiki_spawnattr_getsigdefault: libc::sigset_t = |said| set_of(&said.default);
}

/// Functions of initialised attributes that set one of [`AttributeSettings`] to what stands in a list.
macro_rules! list_setters {
    ($($set:ident($list:ident: $type:ty) = |$said:ident| $do:expr;)*) => {
        $(
            /// See the header.
            ///
            /// # Safety
            /// Initialised attributes; so many of the list can be read.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $set(
                attributes: *mut Attributes,
                count: usize,
                $list: *const $type,
            ) -> c_int {
                let set = |$said: &mut AttributeSettings| {
                    // SAFETY: the caller's promise.
                    let $list = unsafe { list($list, count, stringify!($list)) }?;
                    $do
                };
                // SAFETY: as above.
                unsafe { change(attributes, set) }
            }
        )*
    };
}

list_setters! {
    kumiki_spawnattr_setgroups(groups: libc::gid_t) = |said| {
        said.groups = Some(groups);
        Ok(())
    };
    kumiki_spawnattr_setuidmap(ranges: IdRange) = |said| {
        said.users = ranges;
        Ok(())
    };
    kumiki_spawnattr_setgidmap(ranges: IdRange) = |said| {
        said.id_groups = ranges;
        Ok(())
    };
    kumiki_spawnattr_setaffinity(cpus: c_uint) = |said| {
        if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= MOST_CPUS) {
            return Err(Failure::invalid(format!("cpu {cpu}: no kernel has {MOST_CPUS} of them")));
        }
        said.cpus = Some(cpus.into_iter().map(|cpu| cpu as usize).collect());
        Ok(())
    };
}

/// See the header.
///
/// # Safety
/// Initialised attributes; the limit can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kumiki_spawnattr_setlimit(
    attributes: *mut Attributes,
    number: c_int,
    limit: *const libc::rlimit,
) -> c_int {
    let set = |said: &mut AttributeSettings| {
        resource(number)?;
        // SAFETY: the caller's promise.
        let limit = unsafe { read(limit, "limit") }?;
        said.limits.retain(|(other, _)| *other != number);
        said.limits.push((number, limit));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { change(attributes, set) }
}

/// The most cpus of Linux on x86-64.
const MOST_CPUS: c_uint = 8192;
