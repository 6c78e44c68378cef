//! The commands that README and CONTRIBUTING show.

use std::fs;

use anyhow::{Context, Result};

use crate::run::root;

const TESTS: &str = "cargo xtask test";

/// What a person runs in a fresh clone: the README's block that has the tests.
pub(crate) fn first_commands() -> Result<Vec<String>> {
    let readme = fs::read_to_string(root().join("README.md")).context("reading README.md")?;
    let has_tests = |block: &Vec<String>| block.iter().any(|command| command == TESTS);
    let block = blocks(&readme).into_iter().find(has_tests);
    block.with_context(|| format!("no ```console block of README.md has `{TESTS}`"))
}

/// The lines that start with a prompt, for each ```console block.
fn blocks(markdown: &str) -> Vec<Vec<String>> {
    let mut blocks: Vec<Vec<String>> = Vec::new();
    let mut console = false;
    let mut inside = false;
    for line in markdown.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            inside = !inside;
            console = inside && language.trim() == "console";
            if console {
                blocks.push(Vec::new());
            }
        } else if console && let Some(command) = line.strip_prefix("$ ") {
            let block = blocks.last_mut().expect("one was pushed where it began");
            block.push(command.to_owned());
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};

    use clap::Parser;
    use clap::error::ErrorKind;

    use super::*;
    use crate::Cli;
    use crate::run::{cargo, everything, target_folder};

    /// Commands of the blocks, and of tables: the rows that start with one.
    fn commands_of(markdown: &str) -> Vec<String> {
        let tables = markdown.lines().filter_map(table_command).map(str::to_owned);
        blocks(markdown).into_iter().flatten().chain(tables).collect()
    }

    fn table_command(line: &str) -> Option<&str> {
        let (code, _) = line.strip_prefix("| `")?.split_once('`')?;
        ["kumiki ", "cargo "].iter().any(|program| code.starts_with(program)).then_some(code)
    }

    /// Asks the program that a shown command runs for its help with the same arguments,
    /// so that an unknown verb or option is refused and nothing is done.
    fn dry(shown: &str, folder: &Path) -> Result<(), String> {
        let words = shlex::split(shown).ok_or("quotes do not match")?;
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (program, args) = match words.as_slice() {
            ["cargo", "xtask", args @ ..] => {
                let words = ["xtask"].iter().chain(args).chain(&["--help"]);
                let Err(answer) = Cli::try_parse_from(words) else { return Err("ran".into()) };
                return match answer.kind() {
                    ErrorKind::DisplayHelp => Ok(()),
                    _ => Err(answer.to_string()),
                };
            }
            ["cargo", "run", "--release", "--", args @ ..] | ["kumiki", args @ ..] => {
                ("kumiki", args)
            }
            ["cargo", "run", "--release", "-p", program, "--", args @ ..] => (*program, args),
            _ => {
                return Err(
                    "only kumiki, cargo run --release -- and cargo xtask can be checked".into()
                );
            }
        };
        let mut command = Command::new(folder.join(program));
        // What comes after `--` is another program's.
        let own = args.iter().position(|word| *word == "--").unwrap_or(args.len());
        let output = command.args(&args[..own]).arg("--help").stdin(Stdio::null()).output();
        let output = output.map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stdout);
        match output.status.success() && said.contains("Usage:") {
            true => Ok(()),
            false => {
                Err(format!("{}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr)))
            }
        }
    }

    /// Builds the programs and says in which folder they are.
    fn build() -> PathBuf {
        // As `cargo xtask test` built them; or crates would be compiled once more.
        let words = format!("build {} --bins --locked --quiet", everything().unwrap());
        assert!(
            cargo(&words).status().expect("cargo runs").success(),
            "the workspace does not build"
        );
        target_folder().unwrap().join("debug")
    }

    #[test]
    fn shown_commands_exist() {
        let of = |name| commands_of(&fs::read_to_string(root().join(name)).unwrap());
        let (readme, contributing) = (of("README.md"), of("CONTRIBUTING.md"));
        let folder = build();
        for shown in readme.iter().chain(&contributing) {
            dry(shown, &folder).unwrap_or_else(|error| panic!("`{shown}`: {error}"));
        }
    }

    #[test]
    fn a_fresh_clone_makes_a_report_and_runs_the_tests() {
        let commands = first_commands().unwrap();
        assert_eq!(commands, ["cargo run --release -- report", "cargo xtask test"]);
    }

    #[test]
    fn commands_stand_in_console_blocks_and_tables() {
        let markdown = "$ outside\n```console\n$ kumiki doctor\nits output\n```\n\n```rust\n$ no\n```\n\
                        | `kumiki report` | makes `x` |\n| `b` | c |\n\
                        ```console\n$ cargo xtask test\n```\n";
        assert_eq!(commands_of(markdown), ["kumiki doctor", "cargo xtask test", "kumiki report"]);
    }

    #[test]
    fn an_option_that_does_not_exist_is_found() {
        for shown in ["cargo xtask test --no-such-option", "cargo xtask no-such-chore"] {
            assert!(dry(shown, Path::new("unused")).is_err(), "`{shown}` was accepted");
        }
    }
}
