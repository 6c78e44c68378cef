//! What others did with some cpus while this process, and the children that it waited for,
//! did something: the paper's check, for who measures whole programs.

use crate::activity::{Probe, Snapshot};
use crate::error::{Error, Result};

/// Looks at some cpus.
pub struct Others {
    probe: Probe,
}

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Others").finish_non_exhaustive()
    }
}

/// The cpus' work at one moment.
#[derive(Clone, Debug)]
pub struct Work(Snapshot);

impl Others {
    /// Counts on these cpus.
    ///
    /// # Errors
    /// The kernel has no `/proc/schedstat`: what is left counts in ticks of 10 ms.
    pub fn new(cpus: &[usize]) -> Result<Self> {
        let probe = Probe::new(cpus)?;
        if !probe.is_fine() {
            return Err(Error::Unsupported {
                feature: "other work in nanoseconds".into(),
                needs: "/proc/schedstat (CONFIG_SCHEDSTATS)".into(),
            });
        }
        Ok(Others { probe })
    }

    /// Now.
    ///
    /// # Errors
    /// A file of /proc cannot be read.
    pub fn read(&self) -> Result<Work> {
        self.probe.read_outer().map(Work)
    }
}

impl Work {
    /// Nanoseconds since `earlier` that the cpus worked for others, all of them together, or
    /// that a hypervisor took.
    pub fn since(&self, earlier: &Work) -> f64 {
        self.0.others_since(&earlier.0)
    }
}
