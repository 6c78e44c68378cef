//! Resource limits: those of the caller, where they are others than this program's.

use crate::child::{Job, LIMITS};
use crate::sys::*;

const NPROC: usize = 6;
const NOFILE: usize = 7;

pub(crate) struct Limits {
    /// This program's, with which its children begin.
    own: [[u64; 2]; LIMITS],
    /// The caller's when it has started this program.
    first: [[u64; 2]; LIMITS],
}

impl Limits {
    pub(crate) fn new() -> Limits {
        let mut own = [[0u64; 2]; LIMITS];
        for (number, limit) in own.iter_mut().enumerate() {
            sys!(PRLIMIT, 0, number, 0, limit.as_mut_ptr());
        }
        let first = own;
        // A child may want a descriptor beyond the caller's limit of now.
        own[NOFILE][0] = own[NOFILE][1];
        if sys!(PRLIMIT, 0, NOFILE, own[NOFILE].as_ptr(), 0) < 0 {
            own = first;
        }
        Limits { own, first }
    }

    /// Finds what the child has to set; `false` if the kernel does not let this program look, and
    /// they may have changed since the start (`is_new`: they have not).
    pub(crate) fn of(&mut self, job: &mut Job, is_new: bool) -> bool {
        for (number, own) in self.own.iter_mut().enumerate() {
            let mut its = [0; 2];
            if sys!(PRLIMIT, job.parent, number, 0, its.as_mut_ptr()) < 0 {
                if !is_new {
                    return false;
                }
                its = self.first[number];
            }
            // This one holds for who makes the child.
            if number == NPROC && its != *own && sys!(PRLIMIT, 0, NPROC, its.as_ptr(), 0) == 0 {
                *own = its;
            }
            job.limits[number] = (its != *own).then_some(its);
        }
        true
    }
}
