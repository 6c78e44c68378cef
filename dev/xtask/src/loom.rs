//! `cargo xtask loom`: the protocols between threads, under every interleaving.

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};
use cargo_metadata::{Metadata, Package, TargetKind};

use crate::run::{cargo, metadata, run, target_folder};

/// The checker, and the test target or module that holds a model.
const MODEL: &str = "loom";
/// Times that loom takes the cpu away from a thread in one execution. The
/// faults known from the literature need two; without a limit the number of
/// executions explodes.
const PREEMPTIONS: &str = "3";

/// Runs the model of every crate that has one.
pub(crate) fn loom() -> Result<ExitCode> {
    let commands = commands(|_| true)?;
    ensure!(!commands.is_empty(), "no crate depends on {MODEL}");
    for mut command in commands {
        run(&mut command)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Commands that run the models of the packages that `chosen` says yes to, one a crate.
pub(crate) fn commands(chosen: impl Fn(&Package) -> bool) -> Result<Vec<Command>> {
    // Other flags rebuild the world: in a folder of its own, and once only.
    let folder = target_folder()?.join("loom");
    let flags = format!("{} --cfg loom", env::var("RUSTFLAGS").unwrap_or_default());
    let preemptions = env::var("LOOM_MAX_PREEMPTIONS").unwrap_or(PREEMPTIONS.to_owned());
    let command = |(package, place)| {
        let words = format!("test --profile loom --locked --package {package} {place}");
        let mut command = cargo(&words);
        command.env("RUSTFLAGS", flags.trim()).env("CARGO_TARGET_DIR", &folder);
        command.env("LOOM_MAX_PREEMPTIONS", &preemptions);
        command
    };
    Ok(modelled(&metadata()?, chosen).into_iter().map(command).collect())
}

/// Packages that depend on loom, each with where its model is: in a test target
/// of its own, or where private things are modelled, in a module of that name.
fn modelled(metadata: &Metadata, chosen: impl Fn(&Package) -> bool) -> Vec<(String, String)> {
    let packages = metadata.workspace_packages().into_iter().filter(|package| chosen(package));
    let has_model =
        packages.filter(|package| package.dependencies.iter().any(|on| on.name == MODEL));
    has_model
        .map(|package| {
            let mut targets = package.targets.iter();
            let own = targets.any(|t| t.name == MODEL && t.kind.contains(&TargetKind::Test));
            let place = if own { format!("--test {MODEL}") } else { format!("--lib {MODEL}::") };
            (package.name.to_string(), place)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_with_a_model_are_found() {
        let packages = modelled(&metadata().unwrap(), |_| true);
        let place = |name: &str| packages.iter().find(|(n, _)| n == name).map(|(_, p)| p.as_str());
        assert_eq!(place("kumiki-wait"), Some("--test loom"));
        assert_eq!(place("kumiki-shadow"), Some("--lib loom::"));
        assert_eq!(place("kumiki-parasc"), Some("--lib loom::"));
        assert_eq!(place("xtask"), None);
    }
}
