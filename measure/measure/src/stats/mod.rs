//! Statistics of repeated timings: few assumptions about their distribution,
//! because timings are skewed, often have several modes, and are not
//! independent within one visit.

pub mod bootstrap;
pub mod change;
pub mod describe;
pub mod distance;
pub mod doubt;
pub mod false_discovery;
pub mod line;
pub mod mann_whitney;
pub mod quiet;
pub mod scaling;
pub mod slope;
pub mod widen;
mod wls;

#[cfg(test)]
pub(crate) mod simulate;
