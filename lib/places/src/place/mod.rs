//! A place that serves: what may be asked of it, its leases, its answers.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub(crate) mod allow;
pub(crate) mod allow_file;
pub(crate) mod batch_site;
pub(crate) mod chain_site;
pub(crate) mod here;
#[cfg(feature = "run")]
pub(crate) mod keep;
pub(crate) mod keeping;
pub(crate) mod keeping_site;
pub(crate) mod lanes;
pub(crate) mod lease_site;
pub(crate) mod leaving_site;
pub(crate) mod line_site;
#[cfg(test)]
mod million;
pub(crate) mod moved_ids;
pub(crate) mod parts;
pub(crate) mod post;
pub(crate) mod ready;
#[cfg(feature = "run")]
pub mod run;
pub(crate) mod serve;
pub(crate) mod site;
pub mod standard;
pub(crate) mod typed;
#[cfg(feature = "run")]
pub(crate) mod unexecuted;
