//! A batch by the calling thread alone, without an engine that would choose: by an io_uring, which
//! was a backend of the engine until it had gained no row, or by one entry into the module `parasc`.

#![allow(unsafe_code)]

use kumiki_measure::{Error, Result};
use kumiki_parasc::backend::Direct;
use kumiki_parasc::{Operation, Request};
use kumiki_ring::{Lack, OwnRing};

use super::errors::failed;

/// Requests that a ring takes at once; a longer batch goes in several steps.
const AT_ONCE: usize = 512;

/// Mechanism by which the calling thread makes a batch.
pub(super) enum Alone {
    /// An io_uring.
    Ring(OwnRing),
    /// One entry into the module, which makes one call, too.
    OneEntry(Direct),
}

impl Alone {
    pub(super) fn ring() -> Result<Self> {
        let lacks =
            |Lack { reason, remedy }| Error::unsupported("io_uring", format!("{reason}; {remedy}"));
        OwnRing::new(AT_ONCE).map(Alone::Ring).map_err(lacks)
    }

    pub(super) fn one_entry() -> Result<Self> {
        open().map(Alone::OneEntry)
    }

    /// Makes the calls of `operations`; a ring that does not have them is an error.
    pub(super) fn run<O: Operation>(&mut self, operations: &mut [O]) -> Result<Vec<O::Output>> {
        let requests: Vec<Request> = operations.iter_mut().map(Operation::request).collect();
        let mut results = vec![0; requests.len()];
        match self {
            Alone::Ring(ring) => {
                if !ring.makes(&requests) {
                    let needs = "a kernel whose ring has these calls";
                    return Err(Error::unsupported("io_uring", needs));
                }
                // SAFETY: the operations vouch for their calls, and are borrowed for them.
                unsafe { ring.run(&requests, &mut results) };
            }
            // SAFETY: as above.
            Alone::OneEntry(direct) => unsafe {
                direct.by_one_entry(&requests, &mut results).map_err(failed)?;
            },
        }
        // SAFETY: the results of these operations' calls, each made once just now.
        let output = |(one, result): (&mut O, i64)| unsafe { one.complete(result) };
        Ok(operations.iter_mut().zip(results).map(output).collect())
    }
}

/// Opens the module for the calling thread.
pub(super) fn open() -> Result<Direct> {
    Direct::open().map_err(failed)
}
