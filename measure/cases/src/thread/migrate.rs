//! Moving the calling thread to another cpu: sched_setaffinity(2) returns
//! there.

use kumiki_sys::affinity;
use kumiki_sys::cpuset::CpuSet;

use crate::other_end::OtherEnd;
use kumiki_measure::case::{Case, Place, Workload};
use kumiki_measure::error::{Error, Result};
use kumiki_measure::meter::{Meter, Sample};

pub(super) fn case() -> Case {
    let setup = |place: &Place| {
        let cpus = [OtherEnd::Other.cpu(place)?, place.cpu].map(|cpu| CpuSet::from_iter([cpu]));
        Ok(Migrate { cpus })
    };
    let about = "sched_setaffinity to another cpu, until the thread runs there";
    Case::new("thread.migrate", about, setup).two_cpus()
}

/// The cpus to move to in turn, the measuring one last.
struct Migrate {
    cpus: [CpuSet; 2],
}

/// The bare call, which is what is measured.
#[inline]
fn move_to(cpu: &CpuSet) -> Result<()> {
    affinity::request(None, cpu).map_err(|e| Error::os(format!("move to cpu {cpu}"), e))
}

impl Workload for Migrate {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let turns = self.cpus.iter().cycle();
        let sample = meter.time(|| {
            for (cpu, _) in turns.zip(0..iterations) {
                move_to(cpu)?;
            }
            Ok(())
        });
        // After an odd number it is on the wrong one.
        move_to(&self.cpus[1])?;
        sample
    }
}

impl Drop for Migrate {
    fn drop(&mut self) {
        // Had it failed, so had the sample.
        let _ = move_to(&self.cpus[1]);
    }
}
