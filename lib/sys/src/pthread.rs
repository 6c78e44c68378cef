//! Threads by pthread_create(3), whose attributes bind them before they start. A
//! thread of the standard library can only bind itself, or be moved.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;

use rustix::io::Errno;

use crate::error::{Error, Result};

/// The attributes of new threads: bound to one cpu, with the default stack. The C library
/// reuses the stacks of ended threads.
///
/// ```
/// use std::ffi::c_void;
///
/// use kumiki_sys::{affinity, pthread::Attributes};
///
/// extern "C" fn start(argument: *mut c_void) -> *mut c_void {
///     argument
/// }
///
/// let cpu = affinity::current()?.first().unwrap();
/// Attributes::bound_to(cpu)?.create(start, std::ptr::null_mut())?.join()?;
/// # Ok::<(), kumiki_sys::Error>(())
/// ```
#[derive(Debug)]
pub struct Attributes {
    // Boxed: no manual says that they may be moved.
    raw: Box<MaybeUninit<libc::pthread_attr_t>>,
    cpu: usize,
}

impl Attributes {
    /// Attributes of threads that run on `cpu` alone. Whether the kernel allows that cpu shows when
    /// a thread is created.
    ///
    /// # Errors
    /// [`Error::Os`] if memory is exhausted.
    pub fn bound_to(cpu: usize) -> Result<Self> {
        let mut raw = Box::new(MaybeUninit::uninit());
        // SAFETY: the memory is writable and as large as the type.
        let errno = unsafe { libc::pthread_attr_init(raw.as_mut_ptr()) };
        check(errno, || "preparing thread attributes".to_owned())?;
        let mut attributes = Attributes { raw, cpu };
        attributes.bind()?;
        Ok(attributes)
    }

    #[cfg(target_env = "gnu")]
    fn bind(&mut self) -> Result<()> {
        let set = crate::cpuset::CpuSet::from_iter([self.cpu]);
        let (words, bytes) = (set.words().as_ptr().cast(), size_of_val(set.words()));
        let raw = self.raw.as_mut_ptr();
        // SAFETY: initialised before; the set has that many bytes, of which the C
        // library makes a copy.
        let errno = unsafe { libc::pthread_attr_setaffinity_np(raw, bytes, words) };
        check(errno, || format!("binding thread attributes to cpu {}", self.cpu))
    }

    /// musl's attributes have no cpus: `create` is bound itself, which its thread inherits.
    #[cfg(not(target_env = "gnu"))]
    fn bind(&mut self) -> Result<()> {
        Ok(())
    }

    /// Creates a thread that calls `start` with `argument` and ends.
    ///
    /// # Errors
    /// [`Error::Os`] if the kernel refuses the cpu (`EINVAL`) or one more thread
    /// (`EAGAIN`); then `start` is not called. With musl a refused cpu is told as by
    /// [`affinity::bind`](crate::affinity::bind).
    #[inline]
    #[expect(clippy::not_unsafe_ptr_arg_deref, reason = "only `start`, a safe function, gets it")]
    pub fn create(
        &self,
        start: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> Result<Thread> {
        #[cfg(not(target_env = "gnu"))]
        let _bound = crate::affinity::bind(self.cpu)?;
        let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
        // SAFETY: the attributes are initialised, `thread` is writable, and `start`
        // is safe: it may be called with any argument, by any thread.
        let errno = unsafe {
            libc::pthread_create(thread.as_mut_ptr(), self.raw.as_ptr(), start, argument)
        };
        check(errno, || format!("starting a thread on cpu {}", self.cpu))?;
        // SAFETY: a thread was created, so its number was written.
        Ok(Thread(unsafe { thread.assume_init() }))
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised in `bound_to`, destroyed only here.
        unsafe { libc::pthread_attr_destroy(self.raw.as_mut_ptr()) };
    }
}

/// A thread that is to be joined. Its stack stays until then.
#[derive(Debug)]
#[must_use = "a thread that nobody joins keeps its stack"]
pub struct Thread(libc::pthread_t);

// SAFETY: any thread may join another one; musl's number of one is a pointer, glibc's an integer.
unsafe impl Send for Thread {}
// SAFETY: nothing is done by a shared reference.
unsafe impl Sync for Thread {}

impl Thread {
    /// Waits for its end.
    ///
    /// # Errors
    /// [`Error::Os`] in the thread itself (`EDEADLK`).
    #[inline]
    pub fn join(self) -> Result<()> {
        // SAFETY: made by `create`, never detached, and joined only here, which
        // consumes it; the result is not asked for.
        let errno = unsafe { libc::pthread_join(self.0, ptr::null_mut()) };
        check(errno, || "joining a thread".to_owned())
    }
}

/// Checks the error number that these functions return.
fn check(errno: c_int, what: impl FnOnce() -> String) -> Result<()> {
    match errno {
        0 => Ok(()),
        errno => Err(Error::os(what(), Errno::from_raw_os_error(errno))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::affinity;

    #[derive(Default)]
    struct Seen {
        times: AtomicUsize,
        cpu: AtomicUsize,
    }

    extern "C" fn look(seen: *mut c_void) -> *mut c_void {
        // SAFETY: the test joins the thread before it drops what it passes.
        let seen = unsafe { &*seen.cast::<Seen>() };
        seen.times.fetch_add(1, Relaxed);
        seen.cpu.store(rustix::thread::sched_getcpu(), Relaxed);
        ptr::null_mut()
    }

    #[test]
    fn each_thread_runs_once_on_the_cpu_of_its_attributes() {
        let allowed = affinity::current().unwrap();
        for cpu in allowed.iter() {
            let attributes = Attributes::bound_to(cpu).unwrap();
            let seen = Seen::default();
            for times in 1..=100 {
                seen.cpu.store(usize::MAX, Relaxed);
                let thread = attributes.create(look, (&raw const seen).cast_mut().cast());
                thread.unwrap().join().unwrap();
                assert_eq!((seen.times.load(Relaxed), seen.cpu.load(Relaxed)), (times, cpu));
            }
        }
        assert_eq!(affinity::current().unwrap(), allowed);
    }

    #[test]
    fn where_a_cpu_is_refused_nothing_runs() {
        let attributes = Attributes::bound_to(100_000).unwrap();
        let seen = Seen::default();
        let refused = attributes.create(look, (&raw const seen).cast_mut().cast());
        let error = refused.unwrap_err().to_string();
        assert!(error.starts_with("starting a thread on cpu 100000: "), "{error}");
        assert_eq!(seen.times.load(Relaxed), 0);
    }
}
