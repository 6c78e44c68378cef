//! Whole results that are shipped with the tool, to hold others against.
//!
//! Each lies as a compressed file in the folder `references`, whose README says
//! how to add one. It is unpacked when it is first asked for.

mod nearest;
mod pack;

use std::io::Read as _;
use std::sync::OnceLock;

use kumiki_measure::schema::Results;
use lzma_rust2::XzReader;

use crate::format::{count, number};

pub use nearest::nearest;
use pack::Packed;
pub use pack::pack;

// `static ALL: [Reference; …]`, written by build.rs from the folder.
include!(concat!(env!("OUT_DIR"), "/references.rs"));

/// Every reference, by name.
pub fn all() -> &'static [Reference] {
    &ALL
}

/// The reference of this name.
pub fn find(name: &str) -> Option<&'static Reference> {
    ALL.iter().find(|reference| reference.name == name)
}

/// A result that is shipped with the tool.
#[derive(Debug)]
pub struct Reference {
    name: &'static str,
    file: &'static [u8],
    packed: OnceLock<Packed>,
}

impl Reference {
    const fn new(name: &'static str, file: &'static [u8]) -> Self {
        Reference { name, file, packed: OnceLock::new() }
    }

    /// Processor, place and kernel: `epyc-zen4-kvm-6.18`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The day it was measured: `2026-11-24`.
    pub fn date(&self) -> &str {
        let started = &self.results().run.started;
        started.split_once('T').map_or(started, |(day, _)| day)
    }

    /// Conditions of the measurement, in one sentence: the words of the person who measured it, and
    /// the result's own.
    pub fn conditions(&self) -> String {
        let Packed { conditions, samples_a_visit, results } = self.unpacked();
        let Results { machine, run, rows, .. } = results;
        let place = match &machine.hypervisor {
            Some(name) => format!("guest of {name}"),
            None => "no hypervisor".to_owned(),
        };
        let load = machine.load.map(|load| format!("load {} at the start, ", number(load)));
        format!(
            "{conditions}; {} cpus, {place}, {}{} of {} rows disturbed; by `{}`; at most \
             {samples_a_visit} samples of each visit are kept",
            machine.cpus,
            load.unwrap_or_default(),
            count(rows.iter().filter(|row| row.disturbed).count() as u64),
            count(rows.len() as u64),
            run.command,
        )
    }

    /// The result itself.
    pub fn results(&self) -> &Results {
        &self.unpacked().results
    }

    fn unpacked(&self) -> &Packed {
        self.packed.get_or_init(|| {
            let mut json = Vec::new();
            XzReader::new(self.file, false)
                .read_to_end(&mut json)
                .and_then(|_| Ok(serde_json::from_slice(&json)?))
                .expect("a test has unpacked each file that is compiled in")
        })
    }
}

#[cfg(test)]
mod tests {
    use kumiki_measure::schema::{Row, SCHEMA};

    use super::*;

    #[test]
    fn there_is_one_and_each_is_found_by_its_name() {
        assert!(!all().is_empty());
        for reference in all() {
            assert_eq!(find(reference.name()).map(Reference::name), Some(reference.name()));
        }
        assert!(find("unheard-of").is_none());
    }

    #[test]
    fn each_says_when_and_how_it_was_measured() {
        for reference in all() {
            let (name, results) = (reference.name(), reference.results());
            assert_eq!(results.schema, SCHEMA, "{name}");
            assert!(results.run.complete, "{name} was interrupted");
            let day: Vec<&str> = reference.date().split('-').collect();
            assert_eq!(day.iter().map(|part| part.len()).collect::<Vec<_>>(), [4, 2, 2], "{name}");
            let kernel = name.rsplit_once('-').expect("the kernel comes last").1;
            assert!(
                results.machine.kernel.starts_with(kernel),
                "{name}: {}",
                results.machine.kernel
            );
            let said = reference.conditions();
            assert!(said.contains(" rows disturbed; by `kumiki "), "{said}");
            let home = ["/home/", "/root/", "/tmp/"].iter().any(|path| said.contains(path));
            assert!(!home, "a path of somebody's machine: {said}");
        }
    }

    /// A file that was packed by older statistics says other figures than the
    /// same visits give today; its folder's README says how to pack it again.
    #[test]
    fn the_figures_of_each_are_those_that_its_visits_give_today() {
        for reference in all() {
            let results = reference.results();
            let again = |row: &Row| {
                let (params, cpus) = (row.params.clone(), row.cpus.clone());
                Row::summarise(&row.case, params, row.unit, cpus, row.visits.clone())
            };
            let rows: Vec<Row> = results.rows.iter().map(again).collect();
            let (run, machine) = (results.run.clone(), results.machine.clone());
            let again = Results::new(run, machine, rows, results.skipped.clone());
            let differs = again.rows.iter().zip(&results.rows).find(|(again, row)| again != row);
            let differs = differs.map(|(_, row)| (&row.case, &row.params));
            assert!(again == *results, "{}: pack it again, as of {differs:?}", reference.name());
        }
    }
}
