//! Every case of the catalogue runs, and leaves the process as it found it.

use kumiki_cases::catalogue;
use kumiki_measure::case::{Choice, Level};

use crate::child::in_a_child;
use crate::leaves_nothing;

#[test]
fn every_case_runs_and_leaves_nothing() {
    in_a_child("all::every_case_runs_and_leaves_nothing", run_all);
}

fn run_all() {
    let choice = Choice { level: Some(Level::Default), ..Choice::default() };
    // In the build folder: the usual folder for temporary files may be in memory.
    let folder = env!("CARGO_TARGET_TMPDIR").as_ref();
    leaves_nothing::every_case_runs_and_leaves_nothing(&catalogue(&choice), folder);
}
