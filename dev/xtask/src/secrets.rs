//! Secrets, and names that nobody is to guess, come from getrandom(2) alone.
//!
//! `fastrand` and fast hashers are seeded by the clock, a thread's number or an address, and what one of them has
//! given tells what it gives next: a lease's key that came from one was found in 0.75 s. So a source that uses one, or a
//! hasher of std's, stands below, with the reason why nobody gains by guessing. What a test or a bench draws is no secret.

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::first_lines::each_source;
use crate::run::metadata;

/// Generators that can be guessed.
const GENERATORS: [&str; 4] = ["fastrand", "RandomState", "DefaultHasher", "oorandom"];

/// Sources that may use one, and why.
const PERMITTED: [(&str, &str); 21] = [
    ("apps/httpd/src/conditions.rs", "an entity tag, of what whoever asks for the file is told"),
    (
        "apps/kv/src/shared.rs",
        "a run's name, by std's hasher, which draws its keys by getrandom(2)",
    ),
    (
        "apps/kv/src/store/followed.rs",
        "a table's hash, and which key is given up where there are too many: shows nothing",
    ),
    (
        "apps/kv/src/store/keys/hash.rs",
        "a table's seed, by std's hasher, which draws its keys by getrandom(2)",
    ),
    (
        "apps/kv/src/store/watch.rs",
        "a table's hash: collisions make lookups slow, and show nothing",
    ),
    ("measure/ab/src/process.rs", "tells whether two outputs are equal"),
    ("measure/ab/src/trial.rs", "the order of pairs"),
    ("measure/cases/src/program/image.rs", "noise with a fixed seed"),
    (
        "node/lab/src/command.rs",
        "tells one program's lines in a log from another's, of one's own machine",
    ),
    ("node/lab/src/debug.rs", "a cache's file name, by its content"),
    ("node/lab/src/kbuild.rs", "a cache's file name, by its content"),
    ("node/lab/src/machine.rs", "a log's file name in a folder of one's own"),
    (
        "node/lab/src/place.rs",
        "a folder's name in a folder of one's own; one that is there is refused",
    ),
    ("measure/measure/src/compare/runs.rs", "which exchanges of runs are looked at"),
    ("measure/measure/src/sampler/mod.rs", "the order of cases, by a fixed seed"),
    ("measure/measure/src/stats/bootstrap.rs", "resamples"),
    ("measure/measure/src/stats/change.rs", "resamples"),
    ("measure/measure/src/stats/simulate.rs", "simulated samples"),
    ("measure/measure/src/stopwatch.rs", "noise of less than a clock's step"),
    ("lib/parasc/src/cost/many.rs", "scenes of a test"),
    ("lib/places/src/client/loads.rs", "which of several places is asked first"),
];

/// Sources that may use one for tables: they hold what is ours, or say why not.
const TABLES: [(&str, &str); 1] =
    [("lib/resource/src/word.rs", "a table's hash, of names that its own process makes")];

/// Checks the sources of all that is no bench, soak or chore.
pub(crate) fn check() -> Result<()> {
    let permitted: Vec<&str> = PERMITTED.iter().chain(&TABLES).map(|(file, _)| *file).collect();
    let (mut faults, mut used) = (Vec::new(), Vec::new());
    for package in metadata()?.workspace_packages() {
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        if ["kumiki-bench", "kumiki-bench-peers", "kumiki-ship", "kumiki-soak", "xtask"]
            .contains(&package.name.as_str())
            || !folder.join("src").is_dir()
        {
            continue;
        }
        each_source(folder.join("src").as_std_path(), &mut |file, text| {
            let Some((number, generator)) = found(file, text) else { return };
            match permitted.contains(&file) {
                true => used.push(file.to_owned()),
                false => faults.push(format!(
                    "{file}:{number}: {generator} can be guessed: take a secret from getrandom(2), or say in \
                     dev/xtask/src/secrets.rs why this is none"
                )),
            }
        })?;
    }
    let gone = permitted.iter().filter(|file| !used.iter().any(|one| one == *file));
    faults.extend(
        gone.map(|file| {
            format!("{file} uses none any more: strike it from dev/xtask/src/secrets.rs")
        }),
    );
    if !faults.is_empty() {
        bail!("\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// The first line of a source, before its tests, that uses a generator.
fn found(file: &str, text: &str) -> Option<(usize, &'static str)> {
    let name = Path::new(file).file_name()?;
    if name == "tests.rs" {
        return None;
    }
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let is_tests = |two: &[&str]| {
        two[0].starts_with("#[cfg(") && two[0].contains("test") && two[1].starts_with("mod ")
    };
    let end = lines.windows(2).position(is_tests).unwrap_or(lines.len());
    let mut code = lines[..end].iter().enumerate().filter(|(_, line)| !line.starts_with("//"));
    code.find_map(|(number, line)| {
        let used = GENERATORS.into_iter().find(|generator| line.contains(generator))?;
        Some((number + 1, used))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_draws_is_no_secret_and_what_code_draws_may_be() {
        let text = "// fastrand\nlet key = fastrand::u64(1..);\n";
        assert_eq!(found("lib/a/src/b.rs", text), Some((2, "fastrand")));
        assert_eq!(found("lib/a/src/tests.rs", text), None);
        let tests = "#[cfg(test)]\nmod tests {\n    use fastrand::Rng;\n}\n";
        assert_eq!(found("lib/a/src/b.rs", tests), None);
        let one = "#[cfg(test)]\nuse std::thread;\nlet key = fastrand::u64(1..);\n";
        assert_eq!(found("lib/a/src/b.rs", one), Some((3, "fastrand")));
    }

    #[test]
    fn the_list_is_true() {
        check().unwrap();
    }
}
