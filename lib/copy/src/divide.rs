//! Dividing a copy between the two threads.

use kumiki_wait::Deadline;

use crate::costs::FLOOR;
use crate::error::{Error, Result};
use crate::method::Method;
use crate::pair::Pair;
use crate::region::Region;
use crate::{auto, cold, known};

/// Copies `from` to `to` with both threads of `pair`. If it is not
/// [free](Pair::is_free), [`Method::Auto`] and [`Method::Cold`] copy with one thread, and the
/// other methods wait for what the helper is at, however long that takes; a shadow's job that was
/// forked and not joined is joined so, and if it has panicked, that continues here and
/// nothing is copied. [`copy_timeout`](crate::copy_timeout) does not wait, but fails.
///
/// # Errors
/// [`Error::Length`], [`Error::EmptyBlock`].
#[inline]
pub fn copy<P: Pair>(pair: &mut P, to: &mut [u8], from: &[u8], method: Method) -> Result<()> {
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
) -> Result<()> {
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
pub fn stream(to: &mut [u8], from: &[u8]) -> Result<()> {
    Region::new(to, from)?.stream();
    Ok(())
}

/// Measures what [`Method::Auto`] needs to know of this machine at once, which takes half
/// a millisecond, and up to some 40 if the helper's cpu is busy: for programs that need
/// their first copies fast, too. The first pair of a process is measured for all. With a time
/// limit: [`prepare_timeout`](crate::prepare_timeout).
///
/// Unless all is known, a pair that is not [free](Pair::is_free) is waited for, as by [`copy`] with other
/// methods than [`Method::Auto`]: a shadow's job that was forked and not joined is
/// joined here, and its panic continues here. [`prepare_timeout`](crate::prepare_timeout) does not wait for it,
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

/// True if there is nothing to choose.
#[inline(always)]
fn is_plain(method: Method, len: usize) -> bool {
    method == Method::Auto && len < FLOOR
}

// Apart, or its registers would be saved for a copy of 64 bytes, too, which takes
// a nanosecond.
#[inline(never)]
fn chosen<P: Pair>(pair: &mut P, to: &mut [u8], from: &[u8], method: Method) -> Result<()> {
    let region = Region::new(to, from)?;
    match method {
        // As `divide` does, without the way there: its page may not have been seen for long.
        Method::Auto => auto::copy(pair, region, &Deadline::NEVER),
        method => divide(pair, region, method, &Deadline::NEVER)?,
    }
    Ok(())
}

#[inline(never)]
pub(crate) fn divide<P: Pair>(
    pair: &mut P,
    region: Region<'_>,
    method: Method,
    deadline: &Deadline,
) -> Result<()> {
    match method {
        method if is_plain(method, region.len()) => region.copy(),
        Method::Auto => auto::copy(pair, region, deadline),
        Method::Cold => cold::copy(pair, region, deadline),
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
