//! An error's `{:?}` is its sentence, and programs say no cause twice.
//!
//! A program whose `main` returns an error has it printed by `{:?}`. What `derive(Debug)` makes of it are
//! names of variants and fields, which its user cannot read. So an error of a library takes
//! `kumiki_sys::debug_is_display!` instead.

use anyhow::{Context, Result, bail};

use crate::first_lines::each_source;
use crate::run::{door, metadata};

/// Crates that know nothing of `kumiki-sys`, and whose errors other crates' errors show.
const WITHOUT: [&str; 2] = ["kumiki-boot", "kumiki-rootfs"];

/// Checks the sources of libraries.
pub(crate) fn check() -> Result<()> {
    let mut faults = Vec::new();
    for package in metadata()?.workspace_packages() {
        let folder = package.manifest_path.parent().context("a manifest is in a folder")?;
        let is_library = ["lib", "measure", "node"].contains(&door(package).as_str());
        if door(package) == "apps" {
            each_source(folder.join("src").as_std_path(), &mut |file, text| {
                faults.extend(says_twice(text).map(|number| {
                    format!(
                        "{file}:{number}: prints an error by {{:#}}, which says some causes twice: \
                         take kumiki_sys::sentence::with_causes"
                    )
                }));
            })?;
        }
        if !is_library || WITHOUT.contains(&package.name.as_str()) {
            continue;
        }
        each_source(folder.join("src").as_std_path(), &mut |file, text| {
            faults.extend(derived(text).map(|number| {
                format!(
                    "{file}:{number}: derives Debug for an error: leave it out, and say \
                     kumiki_sys::debug_is_display!(…) below"
                )
            }));
        })?;
    }
    if !faults.is_empty() {
        bail!("\n  {}", faults.join("\n  "));
    }
    Ok(())
}

/// Lines of a program that print an error with its causes by anyhow's `{:#}`, which says a cause twice
/// where the error says it, too.
fn says_twice(text: &str) -> impl Iterator<Item = usize> {
    let program = text.split("#[cfg(test)]").next().unwrap_or(text);
    let prints = |line: &str| line.contains("{error:#}") || line.contains("{:#}\", error");
    program.lines().enumerate().filter(move |(_, line)| prints(line)).map(|(at, _)| at + 1)
}

/// Lines that derive both for one type.
fn derived(text: &str) -> impl Iterator<Item = usize> {
    let derives = |line: &str| {
        let list = line.trim().strip_prefix("#[derive(").and_then(|list| list.strip_suffix(")]"));
        let names: Vec<&str> =
            list.into_iter().flat_map(|list| list.split(',')).map(str::trim).collect();
        names.contains(&"Debug")
            && names.iter().any(|name| ["Error", "thiserror::Error"].contains(name))
    };
    text.lines().enumerate().filter(move |(_, line)| derives(line)).map(|(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_derives_debug_is_found() {
        const NONE: [usize; 0] = [];
        let of = |text| derived(text).collect::<Vec<_>>();
        assert_eq!(of("a\n#[derive(Debug, thiserror::Error)]\nenum E {}\n"), [2]);
        assert_eq!(of("    #[derive(Clone, Debug, Error)]\n"), [1]);
        assert_eq!(of("#[derive(Clone, thiserror::Error)]\n#[derive(Debug)]\n"), NONE);
        assert_eq!(of("#[derive(Debug, ErrorKind)]\n// #[derive(Debug, Error)]\n"), NONE);
    }

    #[test]
    fn a_program_that_says_a_cause_twice_is_found() {
        let of = |text| says_twice(text).collect::<Vec<_>>();
        assert_eq!(of("a\nsay(format!(\"{error:#}\"));\n"), [2]);
        assert_eq!(of("say(format!(\"{:#}\", error));\n"), [1]);
        assert!(of("say(with_causes(error.as_ref()));\n").is_empty());
        assert!(of("a\n#[cfg(test)]\nlet said = format!(\"{error:#}\");\n").is_empty());
    }

    #[test]
    fn no_library_has_one() {
        check().unwrap();
    }
}
