//! Copying memory with two threads.
//!
//! One core cannot fill the memory bus: it waits for the few cache lines that
//! it may have under way at a time. A helper on another core brings its own.
//!
//! ```text
//!            Prefetch                Block(b)                 Split, Auto
//!  main    ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓    ▓▓  ▓▓  ▓▓  ▓▓  ▓▓        ▓▓▓▓▓▓▓▓
//!  helper  ░░░░░░░░░░░░░░░░      ▓▓  ▓▓  ▓▓  ▓▓  ▓▓              ▓▓▓▓▓▓▓▓
//!          touches, ahead      every second block           the other half
//! ```
//!
//! The methods are those of Hori et al., "A Ultra-light Thread Library Using
//! Hardware Synchronization" (Fig. 9–12), and [`Method::Auto`].
//!
//! ```
//! use kumiki_shadow::Shadow;
//! use kumiki_shadow::copy::{Method, copy};
//!
//! let mut shadow = Shadow::create().unwrap_or_else(|_| Shadow::inline());
//! let from = vec![7_u8; 1 << 20];
//! let mut to = vec![0_u8; 1 << 20];
//! copy(&mut shadow, &mut to, &from, Method::Auto)?;
//! assert_eq!(to, from);
//! # Ok::<(), kumiki_shadow::Error>(())
//! ```

mod auto;
mod costs;
mod known;
mod line;
mod measuring;
#[cfg(test)]
mod one_thread;
mod prefetch;
mod probe;
mod region;
mod share;
mod timed;

pub(crate) use known::caches;
use region::Region;
pub use timed::{copy_raw_timeout, copy_timeout, prepare_timeout};

use crate::Shadow;
use crate::timed::Deadline;

/// Two threads that work at the same time: the caller and its helper.
pub trait Pair {
    /// Runs `theirs` on the helper while `ours` runs here; returns when both
    /// are done. A helper that has not begun when `ours` is done need not
    /// begin: `theirs` may then run here. Neither closure may still run when
    /// this unwinds.
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send);

    /// Ticks of the time stamp counter that would pass now before the helper
    /// begins, beyond what a fork to a spinning helper takes: 0 while it spins,
    /// the cost of a wake while it sleeps, `u64::MAX` if it is not to be asked. While
    /// it is 0 [`Method::Auto`] forks before it knows whether there is anything to
    /// share, if a fork takes little beside the copy: `theirs` then waits for `ours`,
    /// for some microseconds at most.
    fn wake_ticks(&self) -> u64 {
        0
    }

    /// Whether [`both`](Self::both) would begin now: not while the helper is at
    /// something else that would be waited for. [`Method::Auto`] then copies alone.
    fn is_free(&self) -> bool {
        true
    }
}

/// How the two threads divide a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// The caller copies; the helper runs ahead and asks for the lines of both
    /// sides. Pays where the two share a cache.
    Prefetch,
    /// Each copies every second block of so many bytes; the paper has 256,
    /// 1024 and 4096.
    Block(usize),
    /// Each copies one half with the C library's `memcpy`, so that what fits
    /// there is in the caches afterwards: for a destination that is read next.
    Split,
    /// Whatever is fastest, and not slower than `memcpy`: that itself below
    /// 1 MiB; one thread for what is already in a cache; both threads for the
    /// rest, and past the caches (non-temporal stores) when it would not fit in
    /// the core's own anyway. A reader that comes right after such a copy
    /// fetches it from memory.
    ///
    /// A process knows nothing of its machine at first. Copies of 1 MiB or more are made
    /// by `memcpy` then, and each spends a fortieth of its time, or some microseconds
    /// now and then, on measuring: some hundred copies. [`prepare`] does that at once.
    Auto,
}

/// Why a copy was refused: a kind of the crate's [`Error`](crate::Error), apart
/// because it is all that can happen here. Nothing was written then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The two sides differ in length.
    #[error(
        "copy of {from} bytes to a destination of {to} bytes: both must have the same length; \
         take a part of the longer one"
    )]
    Length {
        /// Of the destination, bytes.
        to: usize,
        /// Of the source, bytes.
        from: usize,
    },
    /// The two sides have bytes in common.
    #[error(
        "copy of {len} bytes from {from:#x} to {to:#x}: the two overlap, and two threads keep \
         no order between their bytes; use memmove"
    )]
    Overlap {
        /// Address of the destination.
        to: usize,
        /// Address of the source.
        from: usize,
        /// Bytes asked for.
        len: usize,
    },
    /// A null pointer with a length above 0.
    #[error("copy of {len} bytes: the {side} is a null pointer")]
    Null {
        /// `destination` or `source`.
        side: &'static str,
        /// Bytes asked for.
        len: usize,
    },
    /// More than an object can have, or past the end of the address space.
    #[error("copy of {len} bytes at {start:#x}: no memory is that long; check the length")]
    TooLong {
        /// Address of the side that is too long.
        start: usize,
        /// Bytes asked for.
        len: usize,
    },
    /// [`Method::Block`] with blocks of no bytes.
    #[error("copy by blocks of 0 bytes never ends; use 256, 1024 or 4096")]
    EmptyBlock,
}

/// Copies `from` to `to` with both threads of `pair`. If it is not
/// [free](Pair::is_free), [`Method::Auto`] copies with one thread, and the other methods
/// wait for what the helper is at, however long that takes; a shadow's job that was
/// forked and not joined is joined so, and if it has panicked, that continues here and
/// nothing is copied. [`copy_timeout`] does not wait, but fails.
///
/// # Errors
/// [`Error::Length`], [`Error::EmptyBlock`].
#[inline]
pub fn copy<P: Pair>(
    pair: &mut P,
    to: &mut [u8],
    from: &[u8],
    method: Method,
) -> Result<(), Error> {
    // A small copy takes as long as the way to the code that would choose: before all
    // else, here in the caller, and without a region in memory.
    if is_plain(method, from.len()) && to.len() == from.len() {
        to.copy_from_slice(from);
        return Ok(());
    }
    chosen(pair, to, from, method)
}

/// Copies `len` bytes as `memcpy` does, with both threads of `pair`, which it waits for
/// as [`copy`] does. With `len` 0 the pointers are not looked at.
///
/// # Errors
/// [`Error::Overlap`], where `memcpy` would be undefined; [`Error::Null`],
/// [`Error::TooLong`], [`Error::EmptyBlock`].
///
/// # Safety
/// If `len` is not 0: `len` bytes at `from` can be read and `len` bytes at `to` read and
/// written, and nobody else writes the former or touches the latter until this returns.
#[inline]
pub unsafe fn copy_raw<P: Pair>(
    pair: &mut P,
    to: *mut u8,
    from: *const u8,
    len: usize,
    method: Method,
) -> Result<(), Error> {
    // SAFETY: the caller promises the same of the two pointers.
    let region = unsafe { Region::from_raw(to, from, len) }?;
    if is_plain(method, len) {
        region.copy();
        return Ok(());
    }
    divide(pair, region, method, &Deadline::NEVER)
}

/// Copies `from` to `to` with this thread alone and non-temporal stores: the
/// destination is in no cache afterwards. What [`Method::Auto`] is compared
/// with; pays alone, too, for what is read much later or never.
///
/// # Errors
/// [`Error::Length`].
pub fn stream(to: &mut [u8], from: &[u8]) -> Result<(), Error> {
    Region::new(to, from)?.stream();
    Ok(())
}

/// Measures what [`Method::Auto`] needs to know of this machine at once, which takes half
/// a millisecond, and up to some 40 if the helper's cpu is busy: for programs that need
/// their first copies fast, too. The first pair of a process is measured for all. With a time
/// limit: [`prepare_timeout`].
///
/// Unless all is known, a pair that is not [free](Pair::is_free) is waited for, as by [`copy`] with other
/// methods than [`Method::Auto`]: a shadow's job that was forked and not joined is
/// joined here, and its panic continues here. [`prepare_timeout`] does not wait for it,
/// but fails.
pub fn prepare<P: Pair>(pair: &mut P) {
    if !known::is_all() {
        if !pair.is_free() {
            // What the helper is at would be measured, too.
            pair.both(|| (), || ());
        }
        // Without a limit nothing fails.
        let _ = known::measure(pair, &Deadline::NEVER);
    }
}

/// Whether there is nothing to choose.
#[inline(always)]
fn is_plain(method: Method, len: usize) -> bool {
    method == Method::Auto && len < auto::FLOOR
}

// Apart, or its registers would be saved for a copy of 64 bytes, too, which takes
// a nanosecond.
#[inline(never)]
fn chosen<P: Pair>(pair: &mut P, to: &mut [u8], from: &[u8], method: Method) -> Result<(), Error> {
    let region = Region::new(to, from)?;
    match method {
        // As `divide` does, without the way there: its page may not have been seen for long.
        Method::Auto => auto::copy(pair, region, &Deadline::NEVER),
        method => divide(pair, region, method, &Deadline::NEVER)?,
    }
    Ok(())
}

#[inline(never)]
fn divide<P: Pair>(
    pair: &mut P,
    region: Region<'_>,
    method: Method,
    deadline: &Deadline,
) -> Result<(), Error> {
    match method {
        method if is_plain(method, region.len()) => region.copy(),
        Method::Auto => auto::copy(pair, region, deadline),
        Method::Prefetch => {
            let ahead = region.footprint();
            pair.both(|| region.copy(), || ahead.prefetch());
        }
        Method::Block(0) => return Err(Error::EmptyBlock),
        Method::Block(bytes) => {
            let (ours, theirs) = region.interleave(bytes);
            pair.both(|| ours.for_each(Region::copy), || theirs.for_each(Region::copy));
        }
        Method::Split => {
            let (ours, theirs) = region.halves();
            pair.both(|| ours.copy(), || theirs.copy());
        }
    }
    Ok(())
}

impl Pair for Shadow {
    fn both(&mut self, ours: impl FnOnce() + Send, theirs: impl FnOnce() + Send) {
        let ((), ()) = Shadow::both(self, ours, theirs);
    }

    fn wake_ticks(&self) -> u64 {
        self.wake_ticks()
    }

    fn is_free(&self) -> bool {
        !self.is_busy()
    }
}
