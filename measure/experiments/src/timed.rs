//! Operations between which something happens that is not to be timed.

use kumiki_measure::Result;
use kumiki_measure::meter::{Meter, Sample};

/// Adds up what is timed one by one.
pub(crate) fn one_by_one(
    iterations: u64,
    mut one: impl FnMut() -> Result<Sample>,
) -> Result<Sample> {
    let mut sum = Sample::default();
    for _ in 0..iterations {
        let sample = one()?;
        sum.wall_ns += sample.wall_ns;
        sum.cpu.user_ns += sample.cpu.user_ns;
        sum.cpu.system_ns += sample.cpu.system_ns;
        sum.cpu.children_ns += sample.cpu.children_ns;
    }
    Ok(sum)
}

/// The share of the clocks in such a sum.
pub(crate) fn nothing(iterations: u64, meter: &Meter) -> Result<Sample> {
    one_by_one(iterations, || meter.time(|| Ok(())))
}
