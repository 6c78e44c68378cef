//! A batch by an io_uring of the calling thread: what the engine is held against. It was a backend of
//! the engine until it had gained no row.

#![allow(unsafe_code)]

use kumiki_measure::{Error, Result};
use kumiki_parasc::{Operation, Request};
use kumiki_ring::OwnRing;

/// Requests that a ring takes at once; a longer batch goes in several steps.
const AT_ONCE: usize = 512;

/// The calling thread's ring.
pub(super) fn ring() -> Result<OwnRing> {
    let lacks = |lack: kumiki_ring::Lack| {
        Error::unsupported("io_uring", format!("{}; {}", lack.reason, lack.remedy))
    };
    OwnRing::new(AT_ONCE).map_err(lacks)
}

/// Makes the calls of `operations`; a ring that does not have them is an error.
pub(super) fn run<O: Operation>(
    ring: &mut OwnRing,
    operations: &mut [O],
) -> Result<Vec<O::Output>> {
    let requests: Vec<Request> = operations.iter_mut().map(Operation::request).collect();
    if !ring.makes(&requests) {
        return Err(Error::unsupported("io_uring", "a kernel whose ring has these calls"));
    }
    let mut results = vec![0; requests.len()];
    // SAFETY: the operations vouch for their calls, and are borrowed for them.
    unsafe { ring.run(&requests, &mut results) };
    // SAFETY: the results of these operations' calls, each made once just now.
    let outputs =
        operations.iter_mut().zip(results).map(|(one, result)| unsafe { one.complete(result) });
    Ok(outputs.collect())
}
