//! What each crate says of itself in `[package.metadata.kumiki]`.

use std::collections::BTreeMap;

use cargo_metadata::{Package, TargetKind};
use serde::Deserialize;

use crate::test::part::Part;

/// `[package.metadata.kumiki]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kumiki {
    pub(crate) layer: u32,
    pub(crate) r#unsafe: Option<String>,
    #[serde(default)]
    pub(crate) tests: Tests,
}

/// What its test programs are like, each by its target's name; `lib` and `bin` are the
/// unit tests.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tests {
    /// They bind cpus or count time: nothing runs beside them.
    pub(crate) alone: Vec<String>,
    /// They take many seconds: not among the fast ones.
    pub(crate) long: Vec<String>,
    /// The part that a program belongs to, if not to the rest of the workspace.
    pub(crate) part: BTreeMap<String, Part>,
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
        let programs: Vec<_> = package.targets.iter().filter_map(program_name).collect();
        let Tests { alone, long, part } = &said.tests;
        match alone
            .iter()
            .chain(long)
            .chain(part.keys())
            .find(|one| !programs.contains(&one.as_str()))
        {
            Some(unknown) => Err(format!(
                "{name}: [package.metadata.kumiki.tests] names `{unknown}`, yet its test programs \
                 are {}",
                programs.join(", ")
            )),
            None => Ok(said),
        }
    }
}

/// What a target's tests are called; `None` if it has none of its own.
pub(crate) fn program_name(target: &cargo_metadata::Target) -> Option<&str> {
    let is = |kind: &TargetKind| target.kind.contains(kind);
    match () {
        () if !target.test => None,
        () if is(&TargetKind::Test) => Some(&target.name),
        () if is(&TargetKind::Bin) => Some("bin"),
        () if is(&TargetKind::Example)
            || is(&TargetKind::Bench)
            || is(&TargetKind::CustomBuild) =>
        {
            None
        }
        () => Some("lib"),
    }
}
