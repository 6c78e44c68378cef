//! Copying with a time limit.
//!
//! As of shadows (`lib/shadow/src/timed.rs`): what has not begun at the deadline does
//! not begin, and what has begun is waited for, since nobody may write to the
//! destination once the call has returned.

use std::time::Duration;

use kumiki_wait::Deadline;

use crate::divide::divide;
use crate::error::{Error, Result};
use crate::known;
use crate::method::Method;
use crate::pair::Pair;
use crate::region::Region;

/// Bytes that are begun together, as C's header promises. What a division between two threads costs
/// is a hundredth of what so many take from memory, some 300 µs. No row: a promise.
const STRETCH: usize = 8 << 20;

/// Copies as [`copy`](crate::copy), but in stretches of 8 MiB, the first one first, of which none
/// begins after `timeout`. One that has begun is waited for: this takes the limit and one stretch's
/// time at most, and longer only if the helper loses its cpu in the midst of a part.
/// [`Method::Auto`] measures nothing after the limit.
///
/// ```
/// use std::time::Duration;
///
/// use kumiki_copy::{Error, Method, copy_timeout};
/// use kumiki_shadow::Shadow;
///
/// let mut shadow = Shadow::inline();
/// let (mut to, from) = (vec![0_u8; 20 << 20], vec![7_u8; 20 << 20]);
/// let timeout = Duration::from_micros(100);
/// match copy_timeout(&mut shadow, &mut to, &from, Method::Auto, timeout) {
///     Ok(()) => assert_eq!(to, from),
///     Err(Error::TimedOut { done, .. }) => assert_eq!(to[..done], from[..done]),
///     Err(error) => panic!("{error}"),
/// }
/// ```
///
/// # Errors
/// [`Error::TimedOut`], whose `done` bytes are the first ones:
/// to go on, continue there. [`Error::Busy`] if a pair that `method`
/// cannot do without is not [free](Pair::is_free). What [`copy`](crate::copy) refuses.
pub fn copy_timeout<P: Pair>(
    pair: &mut P,
    to: &mut [u8],
    from: &[u8],
    method: Method,
    timeout: Duration,
) -> Result<()> {
    run_until(pair, Region::new(to, from)?, method, Deadline::after(timeout))
}

/// Copies as [`copy_raw`](crate::copy_raw), with the limit of [`copy_timeout`].
///
/// # Errors
/// As for these two.
///
/// # Safety
/// As for [`copy_raw`](crate::copy_raw).
pub unsafe fn copy_raw_timeout<P: Pair>(
    pair: &mut P,
    to: *mut u8,
    from: *const u8,
    len: usize,
    method: Method,
    timeout: Duration,
) -> Result<()> {
    let deadline = Deadline::after(timeout);
    // SAFETY: the caller promises the same of the two pointers.
    let region = unsafe { Region::from_raw(to, from, len) }?;
    run_until(pair, region, method, deadline)
}

/// Prepares as [`prepare`](crate::prepare), but no step of it begins after `timeout`: this takes
/// the limit and one step's time at most. A step is a fork of nothing, and longer only if the
/// helper loses its cpu in the midst of it; or it is this thread's alone and takes some
/// microseconds. What was measured by then is kept: the next one, or the copies of
/// [`Method::Auto`], go on with it.
///
/// ```
/// use std::time::Duration;
///
/// use kumiki_copy::{Error, prepare_timeout};
/// use kumiki_shadow::Shadow;
///
/// let mut shadow = Shadow::inline();
/// match prepare_timeout(&mut shadow, Duration::from_millis(50)) {
///     Ok(()) => println!("no copy measures any more"),
///     Err(Error::TimedOut { done, of, .. }) => println!("{done} of {of} measurements"),
///     Err(error) => panic!("{error}"),
/// }
/// ```
///
/// # Errors
/// [`Error::TimedOut`]; [`Error::Busy`] if
/// the pair is not [free](Pair::is_free), as its job would be waited for. Neither if all
/// was known before.
pub fn prepare_timeout<P: Pair>(pair: &mut P, timeout: Duration) -> Result<()> {
    let deadline = Deadline::after(timeout);
    if known::is_all() {
        return Ok(());
    }
    if !pair.is_free() {
        return Err(Error::Busy);
    }
    known::measure(pair, &deadline)
}

fn run_until<P: Pair>(
    pair: &mut P,
    mut rest: Region<'_>,
    method: Method,
    deadline: Deadline,
) -> Result<()> {
    if method == Method::Block(0) {
        return Err(Error::EmptyBlock);
    }
    // The job would be waited for. These two go without such a helper.
    if !matches!(method, Method::Auto | Method::Cold) && !pair.is_free() {
        return Err(Error::Busy);
    }
    let of = rest.len();
    while rest.len() > 0 {
        if deadline.passed() {
            return Err(Error::late(deadline, "bytes were copied", of - rest.len(), of));
        }
        let (stretch, others) = rest.split_at(STRETCH);
        divide(pair, stretch, method, &deadline)?;
        rest = others;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_thread::OneThread;

    const LEN: usize = 2 * STRETCH + 77;

    fn copied(time: Duration, timeout: Duration) -> (Result<()>, usize, Vec<u8>) {
        let from: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8 + 1).collect();
        let (mut to, mut pair) = (vec![0; LEN], OneThread { time, ..OneThread::default() });
        let result = copy_timeout(&mut pair, &mut to, &from, Method::Split, timeout);
        let same = to.iter().zip(&from).take_while(|(to, from)| to == from).count();
        (result, pair.forks, to.split_off(same))
    }

    #[test]
    fn a_limit_far_away_is_none() {
        let (result, forks, rest) = copied(Duration::ZERO, Duration::MAX);
        assert!(result.is_ok() && rest.is_empty() && forks == 3, "{result:?} {forks}");
    }

    #[test]
    fn what_has_begun_is_copied_and_no_more() {
        let timeout = Duration::from_millis(20);
        let (result, forks, rest) = copied(2 * timeout, timeout);
        let Err(Error::TimedOut { done, of, .. }) = result else { panic!("{result:?}") };
        // None, if this thread was away before the first look.
        assert_eq!((done, of), (forks * STRETCH, LEN));
        assert!(forks <= 1);
        assert_eq!(rest, vec![0; LEN - done]);
    }

    #[test]
    fn a_limit_of_no_time_copies_nothing() {
        let (result, forks, rest) = copied(Duration::ZERO, Duration::ZERO);
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with("0 of 16777293 bytes were copied when the time"), "{text}");
        assert_eq!((forks, rest.len()), (0, LEN));
        // Of nothing all is copied.
        let mut pair = OneThread::default();
        assert!(copy_timeout(&mut pair, &mut [], &[], Method::Auto, Duration::ZERO).is_ok());
    }

    #[test]
    fn what_no_copy_can_be_is_said_before_the_time() {
        let mut pair = OneThread::default();
        let mut refused = |to: &mut [u8], method| {
            let result = copy_timeout(&mut pair, to, &[1], method, Duration::ZERO);
            matches!(result, Err(Error::EmptyBlock | Error::Length { .. }))
        };
        assert!(refused(&mut [0], Method::Block(0)));
        assert!(refused(&mut [0; 2], Method::Auto));
    }
}
