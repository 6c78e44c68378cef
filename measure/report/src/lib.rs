//! Results as files and as a page: CSV, Markdown and JSON for programs, and one
//! HTML file with charts for people. Nothing is measured here.
//!
//! ```text
//! Results ──┬─ export    csv · markdown · json
//!           ├─ headline  a dozen figures, held against the references; advice
//!           └─ html ──── page ───┬─ headline   the first screen
//!                                ├─ questions  each with its answer and charts
//!                                ├─ figures    cost against size, as inline SVG
//!                                ├─ papers     their figures beside the machine's
//!                                └─ tables     every row, with its interval, folded
//! ```
//!
//! ```
//! use kumiki_measure::schema::{Machine, Results, Run, SCHEMA};
//!
//! let results = Results {
//!     schema: SCHEMA,
//!     run: Run::default(),
//!     machine: Machine { hostname: "here".into(), ..Machine::default() },
//!     rows: Vec::new(),
//!     slopes: Vec::new(),
//!     skipped: Vec::new(),
//! };
//! let page = kumiki_report::html(&[results]);
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! ```

#![forbid(unsafe_code)]

mod answers;
mod bench;
mod beside;
pub mod export;
mod figures;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fixtures;
mod frame;
pub mod headline;
mod machine;
mod nodes;
mod page;
mod paper;
mod papers;
mod parasc;
mod places;
pub mod prometheus;
mod questions;
pub mod reference;
mod resource;
mod rows;
mod servers;
mod shadow;
mod steps;
mod tables;
mod trend;
#[cfg(test)]
mod truth;

pub use bench::Bench;
pub use kumiki_measure::format;
pub use nodes::{Owner, Owners, nodes_html};
pub use page::html;
pub use places::places_html;
pub use servers::servers_html;
pub use trend::{Point, Trend, mark_changes, trend_html};

/// Version of the tool and the commit it was built from, where that is known:
/// `0.1.0 (e3db26c2f1)`.
pub fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("KUMIKI_COMMIT") {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    }
}
