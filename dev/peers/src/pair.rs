//! The two cpus of every subject.

use std::path::Path;

use anyhow::{Context, Result};
use kumiki_measure::{case, machine};
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

/// The cpu of the forking thread and the cpu of its helper.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Cpu of the thread that forks.
    pub main: usize,
    /// Cpu of the thread that runs what was forked.
    pub helper: usize,
}

impl Pair {
    /// The pair that `kumiki measure` would take.
    ///
    /// # Errors
    /// There are no two cpus that this process may use.
    pub fn choose() -> Result<(Pair, case::Place)> {
        let place = machine::place(None, Path::new("/tmp"))?;
        let helper = place.partner.context("forking needs two cpus; this process may use one")?;
        Ok((Pair { main: place.cpu, helper }, place))
    }

    /// Swaps the cpus.
    pub fn swapped(self) -> Pair {
        Pair { main: self.helper, helper: self.main }
    }

    /// Binds the calling thread to main's cpu for good.
    pub fn bind_main(self) -> Result<()> {
        Ok(affinity::set(&CpuSet::from_iter([self.main]))?)
    }

    /// Binds the calling thread to the helper's cpu for good.
    pub fn bind_helper(self) -> Result<()> {
        Ok(affinity::set(&CpuSet::from_iter([self.helper]))?)
    }

    /// Lets the calling thread, and those that it makes, use both.
    pub fn bind_both(self) -> Result<()> {
        Ok(affinity::set(&CpuSet::from_iter([self.main, self.helper]))?)
    }

    /// Runs `make` on the helper's cpu: threads that it makes inherit that.
    pub fn on_helper<T>(self, make: impl FnOnce() -> T) -> Result<T> {
        let _bound = affinity::bind(self.helper)?;
        Ok(make())
    }
}
