//! Every case of the catalogue runs, and leaves the process as it found it.

#[path = "leaves_nothing/mod.rs"]
mod leaves_nothing;

use kumiki_experiments::catalogue;
use kumiki_measure::case::{Choice, Level};

#[test]
fn every_case_runs_and_leaves_nothing() {
    let choice = Choice { level: Some(Level::Default), ..Choice::default() };
    let folder = env!("CARGO_TARGET_TMPDIR").as_ref();
    leaves_nothing::every_case_runs_and_leaves_nothing(&catalogue(&choice), folder);
}
