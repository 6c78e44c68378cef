//! Several operations of one kind as one job.

use crate::job::Job;
use crate::op::Operation;
use kumiki_calls::Request;

/// Operations that one thread makes one after the other, whatever each of them gives: one
/// hand-over for all. The output is theirs, in their order; if the engine ends in between, it has
/// those that were made and the error of the next one.
///
/// ```
/// use kumiki_parasc::op::Getppid;
/// use kumiki_parasc::{Config, Engine, Sequence};
///
/// let engine = Engine::new(&Config::default())?;
/// let made = engine.submit(Sequence::new(vec![Getppid::new(), Getppid::new()])).wait()?;
/// assert_eq!(made.output, [Ok(std::os::unix::process::parent_id() as i32); 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sequence<O: Operation> {
    operations: Vec<O>,
    outputs: Vec<O::Output>,
}

impl<O: Operation> Sequence<O> {
    /// Makes a sequence of these, in this order.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(operations: Vec<O>) -> Self {
        assert!(!operations.is_empty(), "a sequence of no operation");
        let outputs = Vec::with_capacity(operations.len());
        Sequence { operations, outputs }
    }

    /// The operations, with what they hold.
    pub fn into_operations(self) -> Vec<O> {
        self.operations
    }

    fn is_due(&self) -> bool {
        self.outputs.len() < self.operations.len()
    }
}

// SAFETY: each request is that of an operation that stands still in a vector, which is not touched
// until the job is over, and vouches for it.
unsafe impl<O: Operation> Job for Sequence<O> {
    type Output = Vec<O::Output>;

    fn request(&mut self) -> Request {
        match self.operations.get_mut(self.outputs.len()) {
            Some(operation) => operation.request(),
            // Asked though nothing is due: a call that does nothing.
            None => Request::new(libc::SYS_getppid, []),
        }
    }

    unsafe fn goes_on(&mut self, ret_val: i64) -> bool {
        if let Some(operation) = self.operations.get_mut(self.outputs.len()) {
            // SAFETY: the result of this one's request, the caller vouches.
            self.outputs.push(unsafe { operation.complete(ret_val) });
        }
        self.is_due()
    }

    unsafe fn complete(&mut self, ret_val: i64) -> Self::Output {
        if self.is_due() {
            // It was due and not made, or nobody knows.
            // SAFETY: the caller's promise.
            unsafe { self.goes_on(ret_val) };
        }
        std::mem::take(&mut self.outputs)
    }
}
