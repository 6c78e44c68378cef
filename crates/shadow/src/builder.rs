//! What a shadow is to be like, and its creation.

use std::time::Duration;

use kumiki_wait::{Policy, Threshold};

use crate::binding::{self, Binding};
use crate::cpus::{Pair, Wish};
use crate::error::Result;
use crate::shadow::Shadow;
use crate::timed::Deadline;

/// What a [`Shadow`] is to be like.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    main: Option<usize>,
    helper: Option<usize>,
    share: bool,
    policy: Policy,
}

impl Builder {
    /// Main thread where it runs now, helper on its hardware sibling or, without
    /// SMT, on the cpu nearest by shared cache; adaptive wait.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds the main thread to this cpu.
    pub fn main_cpu(mut self, cpu: usize) -> Self {
        self.main = Some(cpu);
        self
    }

    /// Binds the helper to this cpu.
    pub fn helper_cpu(mut self, cpu: usize) -> Self {
        self.helper = Some(cpu);
        self
    }

    /// Allows a cpu on which another shadow of this process, or the main thread
    /// itself, already sits.
    pub fn share(mut self) -> Self {
        self.share = true;
        self
    }

    /// How both sides wait.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Binds the calling thread and starts the helper (the paper's
    /// `shadow_create`). The thread gets its former cpus back when its last
    /// shadow is dropped.
    ///
    /// # Errors
    /// A cpu that is offline, not allowed or taken; no thread to be had; a way
    /// to wait that this machine lacks.
    ///
    /// # Aborts
    /// If memory suffices for the thread's stack but not for its first steps, some
    /// 40 KiB more, as it may under RLIMIT_AS: the standard library and the C
    /// library then end the process.
    pub fn create(self) -> Result<Shadow> {
        self.create_timeout(Duration::MAX)
    }

    /// As [`Builder::create`], but the helper is waited for until `timeout` is over:
    /// a thread of higher priority may keep it from its cpu. Not counted are the
    /// milliseconds, once in a process, in which the cost of a sleep is measured
    /// ([`kumiki_wait::sleep_cost_ticks`], which may be called before), and what this
    /// thread itself is kept waiting by, on the way to its cpu above all.
    ///
    /// # Errors
    /// [`TimedOut`](crate::Error::TimedOut): the helper ends as soon as it gets its
    /// cpu, which no longer counts as taken. Others as [`Builder::create`].
    pub fn create_timeout(self, timeout: Duration) -> Result<Shadow> {
        measure_sleep(&self.policy);
        let deadline = Deadline::after(timeout);
        let wish = Wish { main: self.main, helper: self.helper, share: self.share };
        let pair = Pair::take(&binding::allowed()?, wish)?;
        let bound = Binding::to(pair.main)?;
        Shadow::beside(pair, Some(bound), &self.policy, deadline)
    }
}

/// Has the cost of a sleep measured, once in a process, while this thread may
/// still use several cpus: on one alone a wake is much cheaper than across. With a
/// fixed threshold, too: a copy asks what it costs to wake the helper.
pub(crate) fn measure_sleep(policy: &Policy) {
    if policy.threshold != Threshold::Infinite {
        kumiki_wait::sleep_cost_ticks();
    }
}
