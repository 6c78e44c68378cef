//! `cargo xtask lint`: everything about the sources that a machine can judge.

use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::run::{cargo, everything, run};
use crate::{
    aarch64, bools, chains, deny, documents, doors, errors, features, figures, first_lines,
    interfaces, layers, modules, package, secrets, wakes,
};

type Check = fn() -> Result<()>;

/// Runs every check, or those in `only` if it names some, also after a failure, and
/// fails if one did.
pub(crate) fn lint(only: &[String]) -> Result<ExitCode> {
    let checks: [(&str, Check); 22] = [
        ("format", || run(&mut cargo("fmt --all --check"))),
        ("layers", layers::check),
        ("doors", doors::check),
        ("modules", modules::check),
        ("clippy", || {
            let what = everything()?;
            run(&mut cargo(&format!("clippy {what} --all-targets --locked -- -D warnings")))
        }),
        // What is published, and that each crate packs: seconds, of what is here already.
        ("packages", || {
            package::check()?;
            package::pack().map(drop)
        }),
        ("features", features::check),
        ("interfaces", interfaces::check),
        ("clippy for aarch64", aarch64::clippy),
        ("documentation", || {
            let what = everything()?;
            run(cargo(&format!("doc {what} --locked --no-deps")).env("RUSTDOCFLAGS", "-D warnings"))
        }),
        ("documents", documents::check),
        ("errors", errors::check),
        ("figures", figures::check),
        ("first lines", first_lines::check),
        ("type names", modules::types::check),
        ("crate sizes", modules::sizes::check),
        ("bools", bools::check),
        ("chains of let", chains::check),
        ("secrets", secrets::check),
        ("wakes", wakes::check),
        // Of no workspace, so nothing else sees whether they still compile.
        ("fuzz targets", || {
            let clippy = "clippy --manifest-path dev/fuzz/Cargo.toml --locked -- -D warnings";
            run(cargo(clippy).env("RUSTFLAGS", "--cfg fuzzing"))
        }),
        ("dependencies", deny::check),
    ];
    let names = checks.map(|(name, _)| name);
    let unknown: Vec<_> = only.iter().filter(|name| !names.contains(&name.as_str())).collect();
    ensure!(unknown.is_empty(), "no check is called {unknown:?}: there are {}", names.join(", "));
    let mut failed = Vec::new();
    for (name, check) in checks {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        if let Err(error) = check() {
            eprintln!("error: {name}: {error:#}");
            failed.push(name);
        }
    }
    if failed.is_empty() {
        println!("lint: clean");
        return Ok(ExitCode::SUCCESS);
    }
    println!("lint: failed: {}", failed.join(", "));
    Ok(ExitCode::FAILURE)
}
