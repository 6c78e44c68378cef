//! On which cpu a thread runs, for callers that ask often.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// Reader of the cpu on which the calling thread runs.
///
/// The kernel writes the cpu's number to memory that a thread has registered (rseq(2)),
/// as the GNU C library does since 2.35 unless told not to: asking is then one load from
/// a line of the thread's own. Elsewhere it is getcpu(2) in the vDSO, some tens of
/// nanoseconds.
///
/// ```
/// use kumiki_sys::{affinity, here::Here};
///
/// let here = Here::of_this_thread();
/// let _bound = affinity::bind(affinity::current()?.first().unwrap())?;
/// assert!(here.is(_bound.cpu()));
/// # Ok::<(), kumiki_sys::Error>(())
/// ```
#[derive(Debug)]
pub struct Here {
    /// `cpu_id` of this thread's `struct rseq`; [`UNKNOWN`] without one.
    word: NonNull<AtomicU32>,
    _of_this_thread: PhantomData<*mut ()>,
}

/// No cpu's number: the kernel has to be asked (RSEQ_CPU_ID_UNINITIALIZED).
static UNKNOWN: AtomicU32 = AtomicU32::new(u32::MAX);

impl Here {
    /// Finds out how to ask.
    pub fn of_this_thread() -> Here {
        Here::asking(rseq::cpu_id())
    }

    fn asking(word: Option<NonNull<AtomicU32>>) -> Here {
        let word = word.unwrap_or(NonNull::from(&UNKNOWN));
        Here { word, _of_this_thread: PhantomData }
    }

    /// True if asking is a load.
    pub fn is_cheap(&self) -> bool {
        self.word() != UNKNOWN.load(Relaxed)
    }

    /// The cpu. The thread may have moved by the time this returns.
    pub fn cpu(&self) -> usize {
        #[cfg(sim)]
        if let Some(machine) = crate::sim::machine() {
            return machine.cpu();
        }
        if self.is_cheap() { self.word() as usize } else { rustix::thread::sched_getcpu() }
    }

    /// True if the thread runs on `cpu`.
    #[inline(always)]
    pub fn is(&self, cpu: usize) -> bool {
        #[cfg(sim)]
        if let Some(machine) = crate::sim::machine() {
            return machine.cpu() == cpu;
        }
        self.word() as usize == cpu || self.is_by_the_kernel(cpu)
    }

    /// Out of line: where the word has the cpu, the way to here is for those that moved.
    #[cold]
    fn is_by_the_kernel(&self, cpu: usize) -> bool {
        !self.is_cheap() && self.cpu() == cpu
    }

    #[inline(always)]
    fn word(&self) -> u32 {
        // SAFETY: a static, or it belongs to this thread, which this value cannot leave, and
        // stays as long as the thread. Only the kernel writes it, never while this thread
        // runs.
        unsafe { self.word.as_ref() }.load(Relaxed)
    }
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod rseq {
    use std::arch::asm;
    use std::ptr::NonNull;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    /// `cpu_id` in `struct rseq` (include/uapi/linux/rseq.h).
    const CPU_ID: isize = 4;

    /// Address of the calling thread's cpu number, if the C library has registered it.
    pub(super) fn cpu_id() -> Option<NonNull<AtomicU32>> {
        let (offset, size): (*const isize, *const u32);
        // Weak, so that a program also links and runs with an older C library: null then.
        // SAFETY: only computes the addresses of two symbols.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
                "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
                offset = out(reg) offset,
                size = out(reg) size,
                options(nomem, nostack, preserves_flags, pure),
            );
        }
        // SAFETY: null or a constant of the C library (sys/rseq.h).
        let offset = *unsafe { offset.as_ref() }?;
        // SAFETY: the same. 0: it was told not to, or the kernel has refused.
        if *unsafe { size.as_ref() }? == 0 {
            return None;
        }
        let thread: *mut u8;
        // SAFETY: the thread pointer points to its own address (ELF's x86-64 TLS ABI).
        unsafe {
            asm!("mov {}, fs:[0]", out(reg) thread,
                 options(readonly, nostack, preserves_flags, pure));
        }
        let word = thread.wrapping_offset(offset + CPU_ID).cast::<AtomicU32>();
        let word = NonNull::new(word)?;
        // SAFETY: the C library's own place for it in this thread's memory.
        let cpu = unsafe { word.as_ref() }.load(Relaxed);
        // RSEQ_CPU_ID_UNINITIALIZED and …_REGISTRATION_FAILED are negative.
        (cpu as i32 >= 0).then_some(word)
    }
}

#[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
mod rseq {
    use std::ptr::NonNull;
    use std::sync::atomic::AtomicU32;

    pub(super) fn cpu_id() -> Option<NonNull<AtomicU32>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity;

    fn follows(here: &Here) {
        for cpu in affinity::current().unwrap().iter() {
            let _bound = affinity::bind(cpu).unwrap();
            assert!(here.is(cpu) && here.cpu() == cpu);
        }
    }

    #[test]
    fn both_ways_see_each_move() {
        let here = Here::of_this_thread();
        println!("rseq: {}", here.is_cheap());
        follows(&here);
        follows(&Here::asking(None));
        std::thread::spawn(|| follows(&Here::of_this_thread())).join().unwrap();
    }

    /// Runs in a child of its own: the C library reads its tunables when a program starts.
    #[test]
    fn without_a_registration_it_is_the_other_way() {
        const OFF: &str = "glibc.pthread.rseq=0";
        const NAME: &str = "GLIBC_TUNABLES";
        if std::env::var(NAME).as_deref() == Ok(OFF) {
            let here = Here::of_this_thread();
            assert!(!here.is_cheap());
            return follows(&here);
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let test = "here::tests::without_a_registration_it_is_the_other_way";
        let output = child.args(["--exact", test]).env(NAME, OFF).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
}
