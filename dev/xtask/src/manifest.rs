//! What each crate says of itself in `[package.metadata.kumiki]`.

use std::collections::BTreeMap;

use cargo_metadata::{Package, Target, TargetKind};
use serde::Deserialize;

use crate::part::Part;

/// `[package.metadata.kumiki]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kumiki {
    pub(crate) layer: u32,
    pub(crate) r#unsafe: Option<String>,
    #[serde(default)]
    pub(crate) tests: Tests,
}

/// What its test programs are like, each by its [`Program`]'s words.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tests {
    /// They bind cpus or count time: nothing runs beside them.
    alone: Vec<String>,
    /// They take about so many seconds on two cpus: not among the fast ones, and what takes longest
    /// is begun first.
    long: BTreeMap<String, u32>,
    /// They run on emulated machines of many cpus, too ([`Part::Cpus`]).
    many_cpus: Vec<String>,
    /// The part that a program belongs to, if not to the rest of the workspace.
    part: BTreeMap<String, Part>,
}

impl Kumiki {
    /// What `package` says; the error is a sentence for who wrote it.
    pub(crate) fn of(package: &Package) -> Result<Self, String> {
        let name = &package.name;
        let value = package.metadata.get("kumiki").ok_or_else(|| {
            format!("{name}: its Cargo.toml needs [package.metadata.kumiki] with layer = N")
        })?;
        let said = Kumiki::deserialize(value)
            .map_err(|error| format!("{name}: [package.metadata.kumiki]: {error}"))?;
        let programs: Vec<_> = package.targets.iter().filter_map(Program::of).collect();
        let known = |word: &&String| programs.iter().any(|program| program.is(word));
        let Tests { alone, long, many_cpus, part } = &said.tests;
        let mut named = alone.iter().chain(long.keys()).chain(many_cpus).chain(part.keys());
        match named.find(|word| !known(word)) {
            Some(unknown) => Err(format!(
                "{name}: [package.metadata.kumiki.tests] says `{unknown}`, yet its test programs \
                 are {}",
                programs.iter().map(|program| program.name).collect::<Vec<_>>().join(", ")
            )),
            None => Ok(said),
        }
    }
}

impl Tests {
    pub(crate) fn is_alone(&self, program: &Program<'_>) -> bool {
        self.alone.iter().any(|word| program.is(word))
    }

    /// For how long it runs, in seconds; nothing of one that is quick.
    pub(crate) fn seconds(&self, program: &Program<'_>) -> Option<u32> {
        self.long.iter().find(|(word, _)| program.is(word)).map(|(_, seconds)| *seconds)
    }

    pub(crate) fn is_for_many_cpus(&self, program: &Program<'_>) -> bool {
        self.many_cpus.iter().any(|word| program.is(word))
    }

    pub(crate) fn part(&self, program: &Program<'_>) -> Part {
        let named = self.part.iter().find(|(word, _)| program.is(word));
        named.map_or(Part::Workspace, |(_, part)| *part)
    }
}

/// A program that tests a crate, as its Cargo.toml speaks of it: `lib` or `bin` with the
/// unit tests, or one of its `tests`, which has a name, too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program<'a> {
    kind: &'static str,
    pub(crate) name: &'a str,
}

impl<'a> Program<'a> {
    /// What has the tests of this target; `None` if it has none of its own.
    pub(crate) fn of(target: &'a Target) -> Option<Self> {
        let is = |kind| target.kind.contains(&kind);
        let kind = match () {
            () if !target.test => return None,
            () if is(TargetKind::Test) => "tests",
            () if is(TargetKind::Bin) => "bin",
            () if [TargetKind::Example, TargetKind::Bench, TargetKind::CustomBuild]
                .map(is)
                .contains(&true) =>
            {
                return None;
            }
            () => "lib",
        };
        let name = if kind == "tests" { &target.name } else { kind };
        Some(Program { kind, name })
    }

    fn is(&self, word: &str) -> bool {
        self.kind == word || self.name == word
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(tests: serde_json::Value) -> Package {
        let target = |name: &str, kind: &str, test: bool| {
            json!({
                "name": name, "kind": [kind], "crate_types": [kind], "test": test,
                "src_path": "/w/a.rs", "edition": "2024",
            })
        };
        let targets = [
            target("kumiki_a", "lib", true),
            target("a", "test", true),
            target("loom", "test", true),
            target("shown", "example", false),
        ];
        let package = json!({
            "name": "kumiki-a", "version": "0.1.0", "id": "a", "source": null, "features": {},
            "manifest_path": "/w/Cargo.toml", "targets": targets, "dependencies": [],
            "metadata": { "kumiki": { "layer": 0, "tests": tests } },
        });
        serde_json::from_value(package).unwrap()
    }

    #[test]
    fn a_word_is_for_a_kind_or_for_one_program() {
        let tests =
            json!({ "alone": ["lib", "loom"], "long": { "tests": 30 }, "part": { "a": "page" } });
        let package = package(tests);
        let said = Kumiki::of(&package).unwrap().tests;
        let programs: Vec<_> = package.targets.iter().filter_map(Program::of).collect();
        let facts = programs.iter().map(|program| {
            (program.name, said.is_alone(program), said.seconds(program), said.part(program))
        });
        assert_eq!(
            facts.collect::<Vec<_>>(),
            [
                ("lib", true, None, Part::Workspace),
                ("a", false, Some(30), Part::Page),
                ("loom", true, Some(30), Part::Workspace),
            ]
        );
    }

    #[test]
    fn a_program_that_does_not_exist_is_a_fault() {
        let fault = Kumiki::of(&package(json!({ "alone": ["b"] }))).unwrap_err();
        assert!(fault.contains("`b`") && fault.contains("are lib, a, loom"), "{fault}");
        assert!(Kumiki::of(&package(json!({ "part": { "a": "none" } }))).is_err());
    }
}
