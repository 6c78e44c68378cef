//! The types and constants of `kumiki/parasc.h`, and what they stand for in
//! Rust. A test compiles the header against them.

use std::time::Duration;

use kumiki_parasc::{AllowList, Backend, Config, Policy};
use kumiki_sys::cpuset::CpuSet;

use crate::failure::Failure;

/// A bit of [`ParascConfig::flags`].
pub const KUMIKI_PARASC_NO_THREADS: u32 = 1;
/// A bit of [`ParascConfig::flags`].
pub const KUMIKI_PARASC_NO_HELP: u32 = 2;
/// A bit of [`ParascConfig::flags`].
pub const KUMIKI_PARASC_WRONG_THREAD_ANSWERS: u32 = 4;

/// A value of `timeout_ns`.
pub const KUMIKI_PARASC_FOREVER: u64 = u64::MAX;

/// `enum kumiki_parasc_backend`.
#[allow(missing_docs, reason = "the header has them")]
pub mod backend {
    pub const KUMIKI_PARASC_BACKEND_AUTO: u32 = 0;
    pub const KUMIKI_PARASC_BACKEND_USER: u32 = 1;
    pub const KUMIKI_PARASC_BACKEND_KERNEL: u32 = 3;
}

/// `struct kumiki_parasc_call`: one call of a batch.
pub use kumiki_parasc::Request as Call;

/// `struct kumiki_parasc_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ParascConfig {
    /// Requesters at the same time.
    pub requesters: u32,
    /// Slots for requests.
    pub slots: u32,
    /// Threads for calls that sleep.
    pub threads: u32,
    /// [`KUMIKI_PARASC_NO_THREADS`], [`KUMIKI_PARASC_NO_HELP`], [`KUMIKI_PARASC_WRONG_THREAD_ANSWERS`].
    pub flags: u32,
    /// Backend, a value of [`backend`].
    pub backend: u32,
    /// 0.
    pub reserved: u32,
    /// Time without work after which a thread ends.
    pub retire_ns: u64,
    /// Null: no list.
    pub allowed: *const u16,
    /// Length of the list.
    pub allowed_num: u64,
}

impl Default for ParascConfig {
    /// `KUMIKI_PARASC_CONFIG_INIT`.
    fn default() -> Self {
        ParascConfig {
            requesters: 16,
            slots: 512,
            threads: 64,
            flags: 0,
            backend: backend::KUMIKI_PARASC_BACKEND_AUTO,
            reserved: 0,
            retire_ns: 10_000_000_000,
            allowed: std::ptr::null(),
            allowed_num: 0,
        }
    }
}

impl ParascConfig {
    /// The configuration as Rust has it.
    ///
    /// # Safety
    /// `allowed` is null, or has `allowed_num` numbers.
    pub(crate) unsafe fn config(&self) -> Result<Config, Failure> {
        let flags = self.flags;
        let known =
            KUMIKI_PARASC_NO_THREADS | KUMIKI_PARASC_NO_HELP | KUMIKI_PARASC_WRONG_THREAD_ANSWERS;
        if flags & !known != 0 || self.reserved != 0 {
            return Err(Failure::invalid(format!(
                "flags {flags:#x} and reserved {:#x}: only KUMIKI_PARASC_NO_THREADS, KUMIKI_PARASC_NO_HELP and \
                 KUMIKI_PARASC_WRONG_THREAD_ANSWERS are known, and reserved is 0; start from \
                 KUMIKI_PARASC_CONFIG_INIT",
                self.reserved
            )));
        }
        let no_threads = flags & KUMIKI_PARASC_NO_THREADS != 0;
        Ok(Config {
            // No cpu to sit on, no thread.
            cpus: no_threads.then(CpuSet::new),
            requesters: self.requesters as usize,
            slots: self.slots as usize,
            threads: if no_threads { 0 } else { self.threads as usize },
            retire: Duration::from_nanos(self.retire_ns),
            // SAFETY: the caller's promise.
            allow: unsafe { self.allow_list() }?,
            wrong_thread_answers: flags & KUMIKI_PARASC_WRONG_THREAD_ANSWERS != 0,
            backend: backend_of(self.backend)?,
            help: flags & KUMIKI_PARASC_NO_HELP == 0,
            policy: Policy::from_env().map_err(kumiki_parasc::Error::from)?,
        })
    }

    /// # Safety
    /// As for [`config`](Self::config).
    unsafe fn allow_list(&self) -> Result<Option<AllowList>, Failure> {
        // More than there are numbers would be no list but a mistake.
        if self.allowed_num > 1 << 16 || (self.allowed.is_null() && self.allowed_num > 0) {
            let (at, num) = (self.allowed, self.allowed_num);
            return Err(Failure::invalid(format!(
                "an allow-list of {num} numbers at {at:p}: give a list of at most 65536, or a \
                 null pointer and 0 for none"
            )));
        }
        if self.allowed.is_null() {
            return Ok(None);
        }
        // SAFETY: not null, and so many, the caller says.
        let numbers =
            unsafe { std::slice::from_raw_parts(self.allowed, self.allowed_num as usize) };
        let list = numbers.iter().try_fold(AllowList::none(), |list, n| {
            // The text advises what only Rust has.
            let why = || format!("an allow-list with number {n}: it can have 0 to 511 only");
            list.allow_number(*n).map_err(|_| Failure::invalid(why()))
        });
        list.map(Some)
    }
}

fn backend_of(number: u32) -> Result<Backend, Failure> {
    Ok(match number {
        backend::KUMIKI_PARASC_BACKEND_AUTO => Backend::Auto,
        backend::KUMIKI_PARASC_BACKEND_USER => Backend::User,
        backend::KUMIKI_PARASC_BACKEND_KERNEL => Backend::Kernel,
        other => {
            return Err(Failure::invalid(format!(
                "{other} is not a backend: see enum kumiki_parasc_backend"
            )));
        }
    })
}
