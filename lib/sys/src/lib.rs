//! The ground that Kumiki stands on: what the kernel and the processor offer,
//! reached with as little as possible in between. It knows which cpus there
//! are and how near they are to each other, binds threads to them, reads a
//! calibrated clock, sleeps and wakes by futex, maps memory that processes
//! share, makes any system call, and examines what this machine lacks. It
//! keeps no state and starts no thread that it is not asked for.
//!
//! ```text
//!              wait · shadow · parasc · resource · node · measure
//!  ───────────────────────────────────────────────────────────────────────
//!   where           when      asleep     shared     raw         what if not
//!   cpuset          clock     futex      shm        syscall     doctor
//!   topology         │          │         │        pthread        │ tries,
//!   affinity, here   │          │         │           │           │ explains
//!   cpu              │          │         │           │           │
//!  ──┼───────────────┼──────────┼─────────┼───────────┼───────────┼──────
//!   sysfs, CPUID    TSC,      futex(2)  memfd,     SYSCALL     /proc, /sys,
//!                   vDSO                mmap(2)                the calls
//! ```
//!
//! That is x86-64. On aarch64 ticks are the system's counter, in nanoseconds, and there is no CPUID,
//! so no feature is known.
//!
//! Two threads on neighbouring cores, and the time that a wake takes:
//!
//! ```
//! use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
//! use std::thread;
//!
//! use kumiki_sys::clock::Clock;
//! use kumiki_sys::futex::{self, Scope};
//! use kumiki_sys::topology::Topology;
//! use kumiki_sys::affinity;
//!
//! let allowed = affinity::current()?;
//! let cpu = allowed.first().unwrap();
//! let partner = Topology::read()?.nearest_core(cpu, &allowed).unwrap_or(cpu);
//!
//! let clock = Clock::new();
//! let (word, woken) = (AtomicU32::new(0), AtomicU64::new(0));
//! thread::scope(|threads| {
//!     let sleeper = threads.spawn(|| -> kumiki_sys::Result<()> {
//!         let _bound = affinity::bind(partner)?;
//!         while word.load(Ordering::Acquire) == 0 {
//!             let _ = futex::wait(&word, 0, Scope::Private, None)?;
//!         }
//!         woken.store(clock.end(), Ordering::Relaxed);
//!         Ok(())
//!     });
//!     let _bound = affinity::bind(cpu)?;
//!     thread::sleep(std::time::Duration::from_millis(1));
//!     let start = clock.start();
//!     word.store(1, Ordering::Release);
//!     futex::wake(&word, 1, Scope::Private)?;
//!     sleeper.join().unwrap()?;
//!     let ns = clock.between(start, woken.load(Ordering::Relaxed));
//!     println!("cpu {cpu} woke cpu {partner} in {ns:.0} ns");
//!     Ok::<(), kumiki_sys::Error>(())
//! })?;
//! # Ok::<(), kumiki_sys::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!(
    "Kumiki runs on Linux on x86-64 or aarch64: it uses that kernel's system calls and those \
     processors' instructions. Build with --target x86_64-unknown-linux-gnu."
);

pub mod affinity;
pub mod cache;
pub mod cancellation;
pub mod clock;
pub mod cpu;
mod cpulist;
pub mod cpuset;
pub mod cycle;
pub mod descriptors;
pub mod directory;
pub mod error;
pub mod event;
pub mod fork;
pub mod futex;
pub mod heap;
pub mod here;
pub mod life;
pub mod pages;
pub mod pause;
pub mod pthread;
pub mod quota;
pub mod seccomp;
pub mod sentence;
pub mod shm;
pub mod signals;
#[cfg(sim)]
pub mod sim;
#[cfg(feature = "stdio")]
pub mod stdio;
pub mod syscall;
mod ticks;
pub mod topology;
pub mod visible;

pub use error::{Error, Result};
pub use rustix::io::Errno;
pub use rustix::process::Pid;
pub use ticks::ticks;
