//! Two jobs as one.

use crate::job::Job;
use kumiki_calls::Request;

/// The calls of one job and then, by the same thread, those of another, whatever the first gives: one
/// hand-over for both. If the engine ends in between, the second has the error of its first call.
///
/// ```
/// use kumiki_parasc::op::Getppid;
/// use kumiki_parasc::{Config, Engine, Then};
///
/// let engine = Engine::new(&Config::default())?;
/// let both = engine.submit(Then::new(Getppid::new(), Getppid::new())).wait()?.output;
/// assert_eq!(both, (Ok(std::os::unix::process::parent_id() as i32), both.0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Then<A: Job, B: Job> {
    first: A,
    second: B,
    /// Output of the first, when its calls are over.
    given: Option<A::Output>,
}

impl<A: Job, B: Job> Then<A, B> {
    /// `first`, then `second`.
    pub fn new(first: A, second: B) -> Self {
        Then { first, second, given: None }
    }

    /// Both, with what they hold.
    pub fn into_jobs(self) -> (A, B) {
        (self.first, self.second)
    }
}

// SAFETY: each request is that of a job that stands still within this one, and vouches for it.
unsafe impl<A: Job, B: Job> Job for Then<A, B> {
    type Output = (A::Output, B::Output);

    fn request(&mut self) -> Request {
        match self.given {
            None => self.first.request(),
            Some(_) => self.second.request(),
        }
    }

    unsafe fn goes_on(&mut self, ret_val: i64) -> bool {
        if self.given.is_some() {
            // SAFETY: the result of the second's request, the caller vouches.
            return unsafe { self.second.goes_on(ret_val) };
        }
        // SAFETY: the result of the first's request, the caller vouches.
        if !unsafe { self.first.goes_on(ret_val) } {
            // SAFETY: it has just said that nothing more is due, and is not asked again.
            self.given = Some(unsafe { self.first.complete(ret_val) });
        }
        // The second's first call, at the latest.
        true
    }

    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        let given = self.given.take().unwrap_or_else(|| {
            // SAFETY: its call was due and not made; the caller's promise.
            unsafe { self.first.complete(ret_val) }
        });
        // SAFETY: its last call was made, or was due and not made, or it was never asked: then
        // `ret_val` is in place of a result, too.
        (given, unsafe { self.second.complete(ret_val) })
    }
}
