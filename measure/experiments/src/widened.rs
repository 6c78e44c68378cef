//! More cpus than the sampler lets the thread have.

use kumiki_measure::Result;
use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

/// The sampler binds the thread to one cpu; what it starts may need others, and chooses
/// among those that its maker may use. Gives the former ones back on drop.
pub(crate) struct Widened(CpuSet);

impl Widened {
    pub(crate) fn to(cpus: impl IntoIterator<Item = usize>) -> Result<Self> {
        let former = affinity::current()?;
        affinity::set(&CpuSet::from_iter(cpus))?;
        Ok(Widened(former))
    }
}

impl Drop for Widened {
    fn drop(&mut self) {
        // What it had a moment ago; there is nothing to do about a refusal.
        let _ = affinity::set(&self.0);
    }
}
