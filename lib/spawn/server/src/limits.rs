//! Resource limits: those of the caller, where they are others than this program's.

use kumiki_spawn_wire::child::{Job, LIMITS};
use kumiki_spawn_wire::sys::{self, RLIMIT_NOFILE, RLIMIT_NPROC};

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
            sys::limit(0, number, None, Some(limit));
        }
        let first = own;
        // A child may want a descriptor beyond the caller's limit of now.
        own[RLIMIT_NOFILE][0] = own[RLIMIT_NOFILE][1];
        if sys::limit(0, RLIMIT_NOFILE, Some(&own[RLIMIT_NOFILE]), None) < 0 {
            own = first;
        }
        Limits { own, first }
    }

    /// Finds what the child has to set; `false` if the kernel does not let this program look, and
    /// they may have changed since the start (`is_new`: they have not).
    pub(crate) fn of(&mut self, job: &mut Job, is_new: bool) -> bool {
        for (number, own) in self.own.iter_mut().enumerate() {
            let mut its = [0; 2];
            if sys::limit(job.parent, number, None, Some(&mut its)) < 0 {
                if !is_new {
                    return false;
                }
                its = self.first[number];
            }
            // This one holds for who makes the child.
            if number == RLIMIT_NPROC
                && its != *own
                && sys::limit(0, RLIMIT_NPROC, Some(&its), None) == 0
            {
                *own = its;
            }
            job.limits[number] = (its != *own).then_some(its);
        }
        true
    }
}
