//! Moving the calling thread to another cpu: sched_setaffinity(2) returns
//! there.

use crate::affinity::OneCpu;
use crate::case::{Case, Place, Workload};
use crate::cases::other_end::OtherEnd;
use crate::error::Result;
use crate::meter::{Meter, Sample};

pub(super) fn case() -> Case {
    let setup = |place: &Place| {
        let cpus = [OneCpu::new(OtherEnd::Other.cpu(place)?), OneCpu::new(place.cpu)];
        Ok(Migrate { cpus })
    };
    let about = "sched_setaffinity to another cpu, until the thread runs there";
    Case::new("thread.migrate", about, setup).two_cpus()
}

/// The cpus to move to in turn, the measuring one last.
struct Migrate {
    cpus: [OneCpu; 2],
}

impl Workload for Migrate {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let turns = self.cpus.iter().cycle();
        let sample = meter.time(|| {
            for (cpu, _) in turns.zip(0..iterations) {
                cpu.bind(None)?;
            }
            Ok(())
        });
        // After an odd number it is on the wrong one.
        self.cpus[1].bind(None)?;
        sample
    }
}

impl Drop for Migrate {
    fn drop(&mut self) {
        // Had it failed, so had the sample.
        let _ = self.cpus[1].bind(None);
    }
}
