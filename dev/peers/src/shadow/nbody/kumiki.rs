//! Kumiki's team, in its three ways to divide a loop.

use anyhow::Result;
use kumiki_shadow::{Barrier, Team};

use super::{Loops, half};
use crate::pair::Pair;
use crate::shadow::fork::team;

/// A half for each member.
pub(crate) struct Broadcast(Team);

/// Ranges for whoever asks next.
pub(crate) struct ForEach(Team);

/// Both loops in one broadcast, with a barrier between them.
pub(crate) struct Met {
    team: Team,
    barrier: Barrier,
}

impl Broadcast {
    /// Starts the helper.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(Broadcast(team::team(pair)?))
    }
}

impl ForEach {
    /// Starts the helper.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        Ok(ForEach(team::team(pair)?))
    }
}

impl Met {
    /// Starts the helper.
    pub(crate) fn new(pair: Pair) -> Result<Self> {
        let team = team::team(pair)?;
        Ok(Met { barrier: team.barrier(), team })
    }
}

impl Loops for Broadcast {
    #[inline]
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        self.0.broadcast(|member| half(n, member).for_each(&task));
    }
}

impl Loops for ForEach {
    #[inline]
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        self.0.for_each(n, 1, |range| range.for_each(&task));
    }
}

impl Loops for Met {
    fn each(&mut self, n: usize, task: impl Fn(usize) + Sync + Send) {
        self.team.broadcast(|member| half(n, member).for_each(&task));
    }

    #[inline]
    fn two(
        &mut self,
        n: usize,
        first: impl Fn(usize) + Sync + Send,
        second: impl Fn(usize) + Sync + Send,
    ) {
        let barrier = &self.barrier;
        self.team.broadcast(|member| {
            half(n, member).for_each(&first);
            barrier.wait();
            half(n, member).for_each(&second);
        });
    }
}
