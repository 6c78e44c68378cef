//! Results as files and as a page: CSV, Markdown and JSON for programs, and one
//! HTML file with charts for people. Nothing is measured here.
//!
//! ```text
//! Results ──┬─ export    csv · markdown · json
//!           └─ html ──── render ─┬─ verdict   what the machine costs, in sentences
//!                                ├─ figures   cost against size, drawn by plotly.js
//!                                └─ tables    every row, with its interval
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

pub mod export;
mod figures;
pub mod format;
mod machine;
mod paper;
mod parasc;
pub mod reference;
mod render;
mod rows;
mod shadow;
mod tables;
pub mod verdict;

pub use render::html;
