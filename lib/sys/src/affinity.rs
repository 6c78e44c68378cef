//! On which cpus threads may run, and binding them to one.

use std::fs;
use std::marker::PhantomData;
use std::os::unix::thread::JoinHandleExt;
use std::path::Path;
use std::thread::JoinHandle;

use rustix::io::Errno;
use rustix::process::Pid;

use crate::cpuset::CpuSet;
use crate::error::{Error, Result};
use crate::syscall;

mod bindings;

/// The cpus that the calling thread may run on, on a machine of any size.
///
/// # Errors
/// [`Error::Os`] if the kernel refuses, e.g. under a seccomp filter.
pub fn current() -> Result<CpuSet> {
    #[cfg(sim)]
    if let Some(machine) = crate::sim::machine() {
        return Ok((0..machine.cpus()).collect());
    }
    allowed(0)
}

/// The cpus that the calling thread could use if Kumiki had not [bound](bind) it, or the
/// thread that started it. Code that places threads starts from these: otherwise a part
/// of a program would find one cpu after another part has bound the thread.
///
/// ```
/// use kumiki_sys::affinity;
///
/// let allowed = affinity::current()?;
/// let _bound = affinity::bind(allowed.first().unwrap())?;
/// assert_eq!(affinity::current()?.len(), 1);
/// assert_eq!(affinity::unbound()?, allowed);
/// let inherited = std::thread::spawn(affinity::unbound).join().unwrap()?;
/// assert_eq!(inherited, allowed);
/// # Ok::<(), kumiki_sys::Error>(())
/// ```
///
/// # Errors
/// As for [`current`].
pub fn unbound() -> Result<CpuSet> {
    Ok(bindings::without(current()?))
}

/// Cpus that the calling thread might use without our bindings, if it may use others now: no system
/// call while nobody is bound.
///
/// # Errors
/// As for [`current`].
pub fn unbound_if_other() -> Result<Option<CpuSet>> {
    if !bindings::any() {
        return Ok(None);
    }
    let now = current()?;
    let unbound = bindings::without(now.clone());
    Ok((unbound != now).then_some(unbound))
}

/// The cpu of the calling thread's latest [binding](bind) that is still in force.
pub fn bound() -> Option<usize> {
    bindings::last()
}

/// The cpus that the process's first thread may run on, apart from Kumiki's bindings:
/// those that the program was started with, unless it has changed them itself.
///
/// # Errors
/// As for [`current`].
pub fn of_process() -> Result<CpuSet> {
    Ok(bindings::inherited(allowed(u64::from(std::process::id()))?))
}

fn allowed(thread: u64) -> Result<CpuSet> {
    // The kernel answers EINVAL to a mask shorter than its own, whose length
    // it does not tell (sched_getaffinity(2), "Handling systems with more
    // than 1024 CPUs").
    let mut words = vec![0u64; 16];
    loop {
        let bytes = words.len() as u64 * 8;
        let args = [thread, bytes, words.as_mut_ptr() as u64, 0, 0, 0];
        // SAFETY: the kernel writes at most `bytes` bytes into `words`, which
        // is that long and borrowed by nobody else.
        match unsafe { syscall::call(libc::SYS_sched_getaffinity as usize, args) } {
            Ok(_) => return Ok(CpuSet::from_words(words)),
            Err(Errno::INVAL) if words.len() < 1 << 16 => words.resize(words.len() * 2, 0),
            Err(errno) => return Err(Error::os("reading the allowed cpus", errno)),
        }
    }
}

/// Lets the calling thread run on exactly `cpus`. Only the cgroup's cpuset and the online
/// cpus limit it: a set narrowed by `taskset` can be widened again. It counts as the
/// program's own choice: [`unbound`] starts from it, and a [bound](bind) thread returns
/// to it.
///
/// For threads that this one starts, a choice of a single cpu is not remembered: while
/// another thread is bound to that cpu, such a thread is taken for one that the bound
/// thread has started.
///
/// # Errors
/// [`Error::Invalid`] for the empty set; [`Error::CpuOffline`] or
/// [`Error::CpuNotAllowed`] for the first cpu that is refused, and then
/// nothing has changed.
pub fn set(cpus: &CpuSet) -> Result<()> {
    if cpus.is_empty() {
        let text = "a thread cannot run on no cpu: name at least one";
        return Err(Error::Invalid(text.to_owned()));
    }
    place(cpus)?;
    bindings::choose(cpus);
    Ok(())
}

fn place(cpus: &CpuSet) -> Result<()> {
    let former = current()?;
    let outcome = request(None, cpus);
    // The kernel takes silently what it likes of the mask (cpuset_cpus_allowed
    // in kernel/sched/syscalls.c), and answers EINVAL if that is nothing.
    let refused = match outcome {
        Ok(()) => cpus.difference(&current()?),
        Err(Errno::INVAL) => cpus.clone(),
        Err(errno) => return Err(Error::os(format!("running on cpus {cpus}"), errno)),
    };
    let Some(cpu) = refused.first() else {
        return Ok(());
    };
    if outcome.is_ok() {
        request(None, &former)
            .map_err(|errno| Error::os(format!("returning to cpus {former}"), errno))?;
    }
    Err(refusal(cpu, &former)?)
}

/// Reason for which the kernel refuses `cpu` to a thread that may run on `former`.
fn refusal(cpu: usize, former: &CpuSet) -> Result<Error> {
    require(cpu, former)?;
    // Online and among the former cpus, yet refused: the cpuset has just shrunk.
    Ok(Error::CpuNotAllowed { cpu, allowed: current()? })
}

/// sched_setaffinity(2) and nothing else, for a thread by its id or for the calling one
/// (`None`). Neither allocates nor checks the result: for callers that count the
/// nanoseconds of the call or must not allocate. Others should use [`set`] or
/// [`bind_thread`].
///
/// A thread that runs on another cpu has been moved when this returns. Of
/// several cpus the kernel takes those that it allows.
///
/// # Errors
/// The kernel's error number: `EINVAL` if it allows none of the cpus, `ESRCH`
/// if there is no such thread, `EPERM` if it is another user's.
#[inline]
pub fn request(thread: Option<Pid>, cpus: &CpuSet) -> Result<(), Errno> {
    let id = thread.map_or(0, |thread| thread.as_raw_pid() as u64);
    let words = cpus.words();
    let args = [id, words.len() as u64 * 8, words.as_ptr() as u64, 0, 0, 0];
    // SAFETY: the kernel reads that many bytes of `words`, which is that long.
    unsafe { syscall::call(libc::SYS_sched_setaffinity as usize, args) }?;
    Ok(())
}

/// Requests cpus as [`request`] does, for a thread that this process has started, even one that has
/// not run yet: it need not get a turn on its first cpu before it moves.
///
/// # Errors
/// The kernel's error number: `EINVAL` if it allows none of the cpus, `ESRCH`
/// if the thread has ended.
pub fn request_for<T>(thread: &JoinHandle<T>, cpus: &CpuSet) -> Result<(), Errno> {
    request(Some(number(thread)?), cpus)
}

/// Moves a [bound](bind) thread of this process to `cpu`: from then on all its bindings
/// are to this cpu.
///
/// # Errors
/// As [`request_for`].
pub fn move_bound<T>(thread: &JoinHandle<T>, cpu: usize) -> Result<(), Errno> {
    let number = number(thread)?;
    request(Some(number), &CpuSet::from_iter([cpu]))?;
    bindings::moved(number, cpu);
    Ok(())
}

/// The kernel's number of a thread, as long as it has not ended.
///
/// `pthread_setaffinity_np` does not check this: for a thread that has ended the C
/// library passes 0, which the kernel takes for the *calling* thread, and moves that.
fn number<T>(thread: &JoinHandle<T>) -> Result<Pid, Errno> {
    let mut clock = 0;
    // SAFETY: the handle is that of a thread that is neither joined nor detached
    // while it is borrowed; `clock` is writable.
    let refused = unsafe {
        libc::pthread_getcpuclockid(thread.as_pthread_t() as libc::pthread_t, &mut clock)
    };
    if refused != 0 {
        return Err(Errno::from_raw_os_error(refused));
    }
    // The clock's number is the thread's complement, above three bits that name the kind
    // (include/linux/posix-timers_types.h, CPUCLOCK_PID).
    Pid::from_raw(!(clock >> 3)).ok_or(Errno::SRCH)
}

/// Checks that `cpu` is online and in `allowed`: for a cpu that a person
/// chose, before long work starts.
///
/// # Errors
/// [`Error::CpuOffline`] or [`Error::CpuNotAllowed`], which say what to do.
pub fn require(cpu: usize, allowed: &CpuSet) -> Result<()> {
    let online = fs::read_to_string("/sys/devices/system/cpu/online");
    // Without /sys an allowed cpu is online and of another nothing is known.
    let online = online.ok().and_then(|list| list.parse().ok());
    check(cpu, allowed, online)
}

fn check(cpu: usize, allowed: &CpuSet, online: Option<CpuSet>) -> Result<()> {
    match online {
        Some(online) if !online.contains(cpu) => {
            let exists = Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}")).exists();
            Err(Error::CpuOffline { cpu, online, exists })
        }
        _ if !allowed.contains(cpu) => Err(Error::CpuNotAllowed { cpu, allowed: allowed.clone() }),
        _ => Ok(()),
    }
}

/// Binds another thread, by its id, to `cpu` for good; a single-threaded process has the
/// id of its thread. When this returns, the thread no longer runs elsewhere.
///
/// # Errors
/// [`Error::CpuOffline`] or [`Error::CpuNotAllowed`] if the cpu is refused,
/// [`Error::Os`] if there is no such thread or it is another user's.
pub fn bind_thread(thread: Pid, cpu: usize) -> Result<()> {
    match request(Some(thread), &CpuSet::from_iter([cpu])) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL) => Err(refusal(cpu, &current()?)?),
        Err(errno) => Err(Error::os(format!("binding thread {thread} to cpu {cpu}"), errno)),
    }
}

/// Binds the calling thread to `cpu` until the guard is dropped. The thread
/// runs there when this returns.
///
/// ```
/// use kumiki_sys::affinity;
///
/// let allowed = affinity::current()?;
/// let cpu = allowed.first().unwrap();
/// let bound = affinity::bind(cpu)?;
/// assert_eq!(affinity::current()?.to_string(), cpu.to_string());
/// drop(bound);
/// assert_eq!(affinity::current()?, allowed);
/// # Ok::<(), kumiki_sys::Error>(())
/// ```
///
/// # Errors
/// As [`set`].
pub fn bind(cpu: usize) -> Result<Bound> {
    let restore = current()?;
    let former = bindings::without(restore.clone());
    place(&CpuSet::from_iter([cpu]))?;
    let number = bindings::add(cpu, &former, &restore);
    Ok(Bound { cpu, former, number, of_this_thread: PhantomData })
}

/// Runs `start`, and lets the calling thread run on `cpus` too meanwhile.
///
/// A new thread inherits its starter's cpus. If that is one cpu, the new thread waits
/// there until its starter sleeps or has used up its time slice (some milliseconds), only
/// to move to its own cpus then. Cpus that the kernel does not allow are ignored.
pub fn reaching<T>(cpus: &CpuSet, start: impl FnOnce() -> T) -> T {
    let former = current().ok().filter(|former| !cpus.difference(former).is_empty());
    if let Some(former) = &former {
        let _ = request(None, &former.iter().chain(cpus.iter()).collect());
    }
    let result = start();
    if let Some(former) = &former {
        // As in `Bound`: if it is refused there is nothing better to do.
        let _ = request(None, former);
    }
    result
}

/// A binding of the calling thread to one cpu; dropping it restores the thread's former
/// cpus. A thread may have several bindings, dropped in any order: the latest one that is
/// still alive is in force.
#[derive(Debug)]
#[must_use = "the thread is unbound again when this is dropped"]
pub struct Bound {
    cpu: usize,
    former: CpuSet,
    number: u64,
    // Affinity belongs to a thread: the guard must not leave it.
    of_this_thread: PhantomData<*const ()>,
}

impl Bound {
    /// The cpu; another one after a [move](move_bound).
    pub fn cpu(&self) -> usize {
        bindings::cpu(self.number).unwrap_or(self.cpu)
    }

    /// The cpus that the thread might use without any binding, when this one was made.
    pub fn former(&self) -> &CpuSet {
        &self.former
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // If the cpuset has shrunk meanwhile the kernel takes what is left of
        // it; if nothing is left there is nothing better to do than to stay.
        if let Some(cpus) = bindings::remove(self.number, self.cpu) {
            let _ = request(None, &cpus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_agrees_with_proc() {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(current().unwrap(), list.unwrap().parse().unwrap());
    }

    #[test]
    fn bound_threads_run_there_and_return() {
        let allowed = current().unwrap();
        for cpu in allowed.iter() {
            let bound = bind(cpu).unwrap();
            assert_eq!(rustix::thread::sched_getcpu(), cpu);
            assert_eq!((bound.cpu(), bound.former()), (cpu, &allowed));
        }
        assert_eq!(current().unwrap(), allowed);
    }

    #[test]
    fn nested_guards_unwind() {
        let allowed = current().unwrap();
        let (first, last) = (allowed.first().unwrap(), allowed.iter().last().unwrap());
        let outer = bind(first).unwrap();
        let inner = bind(last).unwrap();
        assert_eq!(rustix::thread::sched_getcpu(), last);
        drop(inner);
        assert_eq!(rustix::thread::sched_getcpu(), first);
        drop(outer);
        assert_eq!(current().unwrap(), allowed);
    }

    #[test]
    fn guards_go_in_any_order() {
        let allowed = current().unwrap();
        let (first, last) = (allowed.first().unwrap(), allowed.iter().last().unwrap());
        let guards = [bind(first).unwrap(), bind(last).unwrap(), bind(first).unwrap()];
        let [a, b, c] = guards;
        drop(a);
        drop(c);
        assert_eq!(current().unwrap(), CpuSet::from_iter([last]));
        assert_eq!(unbound().unwrap(), allowed);
        drop(b);
        assert_eq!(current().unwrap(), allowed);
    }

    /// Other tests of this process bind threads, too, and leave theirs known by the cpu.
    #[test]
    fn what_the_program_chose_is_no_binding_of_ours() {
        let (allowed, process) = (current().unwrap(), of_process().unwrap());
        let one = CpuSet::from_iter(allowed.first());
        let bound = bind(allowed.first().unwrap()).unwrap();
        let chosen = std::thread::spawn({
            let one = one.clone();
            move || {
                let inherited = unbound().unwrap();
                set(&one).unwrap();
                (inherited, unbound().unwrap())
            }
        });
        assert_eq!(chosen.join().unwrap(), (allowed.clone(), one.clone()));
        // What is bound last by somebody else counts, too.
        request(None, &allowed).unwrap();
        assert_eq!(unbound().unwrap(), allowed);
        drop(bound);
        assert_eq!(current().unwrap(), allowed);
        assert_eq!(of_process().unwrap(), process);
    }

    #[test]
    fn a_thread_started_beside_may_run_on_the_other_cpu_too() {
        let allowed = current().unwrap();
        let cpus = || std::thread::spawn(|| current().unwrap()).join().unwrap();
        let (first, last) = (allowed.first().unwrap(), allowed.iter().last().unwrap());
        let bound = bind(first).unwrap();
        let reached = |others: &[usize]| reaching(&others.iter().copied().collect(), cpus);
        assert_eq!(reached(&[last]), CpuSet::from_iter([first, last]));
        assert_eq!(reached(&[first]), CpuSet::from_iter([first]));
        // One that does not exist adds nothing.
        assert_eq!(reached(&[last, 100_000]), CpuSet::from_iter([first, last]));
        assert_eq!(current().unwrap(), CpuSet::from_iter([first]));
        drop(bound);
    }

    #[test]
    fn a_thread_is_moved_by_its_handle() {
        let allowed = current().unwrap();
        let one = CpuSet::from_iter([allowed.iter().last().unwrap()]);
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            told.recv().unwrap();
            current().unwrap()
        });
        request_for(&thread, &one).unwrap();
        let absent = CpuSet::from_iter([100_000]);
        assert_eq!(request_for(&thread, &absent), Err(Errno::INVAL));
        tell.send(()).unwrap();
        assert_eq!(thread.join().unwrap(), one);
        assert_eq!(current().unwrap(), allowed);
    }

    #[test]
    fn the_handle_of_an_ended_thread_moves_nobody() {
        let allowed = current().unwrap();
        let one = CpuSet::from_iter([allowed.iter().last().unwrap()]);
        let thread = std::thread::spawn(|| ());
        while !thread.is_finished() {
            std::thread::yield_now();
        }
        // It has some way to go yet, on which it may be moved.
        while request_for(&thread, &one) != Err(Errno::SRCH) {
            assert_eq!(current().unwrap(), allowed);
            std::thread::yield_now();
        }
        assert_eq!(current().unwrap(), allowed);
        thread.join().unwrap();
    }

    #[test]
    fn a_binding_goes_with_its_thread_when_that_is_moved() {
        let allowed = current().unwrap();
        let (first, last) = (allowed.first().unwrap(), allowed.iter().last().unwrap());
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let guard = bind(first).unwrap();
            tell.send(()).unwrap();
            ended.recv().unwrap_err();
            let inherited = std::thread::spawn(|| unbound().unwrap()).join().unwrap();
            let inner = bind(first).unwrap();
            drop(inner);
            let seen = [current().unwrap(), unbound().unwrap(), inherited];
            let cpus = (guard.cpu(), bound());
            drop(guard);
            (seen, cpus, current().unwrap())
        });
        told.recv().unwrap();
        move_bound(&thread, last).unwrap();
        assert_eq!(move_bound(&thread, 100_000), Err(Errno::INVAL));
        drop(end);
        let (seen, cpus, after) = thread.join().unwrap();
        assert_eq!(seen, [CpuSet::from_iter([last]), allowed.clone(), allowed.clone()]);
        assert_eq!((cpus, after), ((last, Some(last)), allowed));
    }

    #[test]
    fn a_binding_gives_back_what_was_chosen_otherwise() {
        let allowed = current().unwrap();
        let (first, last) = (allowed.first().unwrap(), allowed.iter().last().unwrap());
        let one = CpuSet::from_iter([first]);
        let other = bind(first).unwrap();
        let theirs = std::thread::spawn(move || {
            // As pthread_setaffinity_np by the program, which we are not told.
            request(None, &one).unwrap();
            drop(bind(last).unwrap());
            assert_eq!(current().unwrap(), one);
            // Chosen while a binding lives.
            let outer = bind(last).unwrap();
            let inner = bind(last).unwrap();
            set(&one).unwrap();
            assert_eq!(unbound().unwrap(), one);
            drop(inner);
            drop(outer);
            assert_eq!((current().unwrap(), unbound().unwrap()), (one.clone(), one));
        });
        theirs.join().unwrap();
        drop(other);
        assert_eq!(current().unwrap(), allowed);
    }

    #[test]
    fn refused_cpus_change_nothing() {
        let allowed = current().unwrap();
        let absent = 100_000;
        let mut both = allowed.clone();
        both.insert(absent);
        for asked in [both, CpuSet::from_iter([absent])] {
            let error = set(&asked).unwrap_err();
            assert!(matches!(error, Error::CpuOffline { cpu, .. } if cpu == absent), "{error}");
            assert_eq!(current().unwrap(), allowed);
        }
        assert!(matches!(set(&CpuSet::new()), Err(Error::Invalid(_))));
    }

    #[test]
    fn another_thread_is_bound_by_its_id() {
        let allowed = current().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            let _ = ended.recv();
            current().unwrap()
        });
        let id = told.recv().unwrap();
        let cpu = allowed.iter().last().unwrap();
        bind_thread(id, cpu).unwrap();
        let error = bind_thread(id, 100_000).unwrap_err();
        assert!(matches!(error, Error::CpuOffline { cpu: 100_000, .. }), "{error}");
        drop(end);
        assert_eq!(thread.join().unwrap(), CpuSet::from_iter([cpu]));
        assert_eq!(current().unwrap(), allowed);
    }

    #[test]
    fn a_thread_that_does_not_exist_is_an_error() {
        let cpu = current().unwrap().first().unwrap();
        // Linux numbers no thread so high (PID_MAX_LIMIT, include/linux/threads.h).
        let error = bind_thread(Pid::from_raw(1 << 30).unwrap(), cpu).unwrap_err();
        assert!(matches!(error, Error::Os { .. }), "{error}");
        assert!(error.to_string().contains(&format!("thread {} to cpu {cpu}", 1 << 30)));
    }

    #[test]
    fn errors_name_cpu_list_and_way_out() {
        let set = |list: &str| list.parse::<CpuSet>().unwrap();
        let missing = check(99_999, &set("0-1"), Some(set("0-1"))).unwrap_err().to_string();
        assert!(missing.starts_with("cpu 99999 is not online (online: 0-1): "), "{missing}");
        assert!(
            missing.contains("no such cpu, it has 2") && !missing.contains("echo"),
            "{missing}"
        );
        let offline = Error::CpuOffline { cpu: 5, online: set("0-3"), exists: true }.to_string();
        assert!(offline.contains("/sys/devices/system/cpu/cpu5/online"), "{offline}");
        let outside = check(3, &set("0,2"), Some(set("0-3"))).unwrap_err().to_string();
        assert!(outside.starts_with("cpu 3 is outside the allowed cpus 0,2"));
        for way_out in ["--cpu-list 0,2", "taskset", "cpuset"] {
            assert!(outside.contains(way_out), "{outside}");
        }
        assert!(matches!(check(3, &set("0"), None), Err(Error::CpuNotAllowed { .. })));
        assert!(check(2, &set("0,2"), Some(set("0-3"))).is_ok());
    }
}
