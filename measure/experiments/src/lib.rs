//! The papers' experiments on the machine at hand: cases for
//! [`kumiki_measure::sampler`] that use the higher parts of Kumiki.
//!
//! ```text
//! kumiki measure shadow          kumiki_measure::sampler
//!        │                               ▲
//!        └── kumiki_experiments::catalogue: shadow.null, .threshold, .pair,
//!                                           .idle, .idle_power, .idle_over,
//!                                           .idle_doze,
//!                                           .copy, .message, .chase
//!                                           parasc.steps, .requests, .calls
//!                                           resource.memory, .process (and as in the
//!                                           paper), .call, .spawn
//! ```
//!
//! ```
//! use kumiki_measure::case::{Choice, Level};
//!
//! let choice = Choice { level: Some(Level::Quick), sizes: None };
//! let cases = kumiki_experiments::catalogue(&choice);
//! assert!(cases.iter().any(|case| case.name == "shadow.null"));
//! ```

#![deny(unsafe_code)]

mod parasc;
pub mod resource;
mod shadow;
mod timed;
mod widened;

use widened::Widened;

use kumiki_measure::case::{Case, Choice, Level, Place};
use kumiki_measure::{Error, Result};
use kumiki_wait::Policy;

/// Every case that `choice` includes. The pairs of cpus, and whether energy is
/// measured, depend on the machine and on what this process may use of it.
pub fn catalogue(choice: &Choice) -> Vec<Case> {
    let level = choice.level.unwrap_or(Level::Full);
    let mut cases = shadow::cases(choice);
    cases.extend(parasc::cases());
    cases.extend(resource::cases());
    cases.retain(|case| case.level <= level);
    cases
}

/// Policy by which every experiment waits, but for its subject: as the user has chosen by
/// `KUMIKI_WAIT`.
///
/// # Errors
/// Those of [`Policy::from_env`].
pub fn policy() -> std::result::Result<Policy, kumiki_wait::Error> {
    Policy::from_env()
}

/// Policy that the command has looked at before.
fn chosen() -> Policy {
    policy().unwrap_or_default()
}

/// The place's other cpu.
fn partner(place: &Place) -> Result<usize> {
    let needs = "allow at least two cpus (taskset, cgroup cpuset)";
    place.partner.ok_or_else(|| Error::unsupported("a second cpu", needs))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn at(level: Level) -> Vec<Case> {
        catalogue(&Choice { level: Some(level), ..Choice::default() })
    }

    fn title(case: &Case) -> String {
        format!("{} {:?}", case.name, case.params)
    }

    #[test]
    fn a_name_and_its_parameters_are_one_row() {
        let mut seen = HashSet::new();
        for case in at(Level::Full) {
            assert!(seen.insert(title(&case)), "twice: {}", title(&case));
            assert!(!case.about.is_empty() && !case.about.contains('\n'), "{}", title(&case));
        }
    }

    #[test]
    fn a_shorter_run_is_part_of_a_longer_one() {
        let rows = |level| -> Vec<String> { at(level).iter().map(title).collect() };
        let (quick, default, full) = (rows(Level::Quick), rows(Level::Default), rows(Level::Full));
        assert!(quick.len() < default.len() && default.len() < full.len());
        assert!(quick.iter().all(|row| default.contains(row)));
        assert!(default.iter().all(|row| full.contains(row)));
    }

    #[test]
    fn chosen_sizes_replace_the_sweeps_own() {
        let sizes = Some(vec![12_288, 0, 12_288]);
        let cases = catalogue(&Choice { level: Some(Level::Default), sizes });
        let copies: Vec<_> = cases.iter().filter(|case| case.name == "shadow.copy").collect();
        assert!(copies.iter().all(|case| case.params["bytes"] == 12_288_u64.into()));
        assert_eq!(copies.len(), 7);
    }

    #[test]
    fn without_a_second_cpu_what_needs_one_is_skipped_by_type() {
        let place = Place { cpu: 0, partner: None, scratch: std::env::temp_dir() };
        let mut seen = HashSet::new();
        for case in at(Level::Full).iter().filter(|case| case.two_cpus) {
            match (case.setup)(&place) {
                Err(Error::Unsupported { feature, .. }) => {
                    assert_eq!(feature, "a second cpu", "{}", title(case));
                }
                Err(error) => panic!("{}: {error}", title(case)),
                Ok(_) => panic!("{} runs on one", title(case)),
            }
            seen.insert(case.name);
        }
        for name in ["shadow.null", "shadow.threshold", "shadow.threshold_both", "shadow.idle"] {
            assert!(seen.contains(name), "{name}");
        }
        for name in ["shadow.idle_over", "shadow.copy", "shadow.message", "shadow.chase"] {
            assert!(seen.contains(name), "{name}");
        }
        for name in ["parasc.steps", "parasc.requests", "parasc.calls", "resource.call"] {
            assert!(seen.contains(name), "{name}");
        }
    }
}
