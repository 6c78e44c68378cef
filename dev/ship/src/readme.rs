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

/// The first program in Rust that the README shows, after what it depends on.
pub(crate) fn first_program() -> Result<(String, String)> {
    let readme = fs::read_to_string(root().join("README.md")).context("reading README.md")?;
    let first = |language| {
        let block = block_of(&readme, language);
        block.with_context(|| format!("README.md has no ```{language} block"))
    };
    Ok((first("toml")?, first("rust")?))
}

/// The first block of a language.
fn block_of(markdown: &str, language: &str) -> Option<String> {
    let mut lines = markdown.lines();
    lines.find(|line| line.strip_prefix("```") == Some(language))?;
    Some(lines.take_while(|line| *line != "```").map(|line| format!("{line}\n")).collect())
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
    use super::*;

    #[test]
    fn a_fresh_clone_makes_a_report_and_runs_the_tests() {
        let commands = first_commands().unwrap();
        assert_eq!(commands, ["cargo run --release -- report", "cargo xtask test"]);
    }

    #[test]
    fn a_first_program_depends_on_the_facade() {
        let (dependencies, program) = first_program().unwrap();
        assert!(dependencies.starts_with("[dependencies]\nkumiki = "), "{dependencies}");
        assert!(program.contains("fn main()"), "{program}");
        assert_eq!(block_of("```c\na\n```\n```rust\nb\n```\n", "rust").unwrap(), "b\n");
    }

    #[test]
    fn commands_stand_in_console_blocks() {
        let markdown = "$ outside\n```console\n$ kumiki doctor\nits output\n```\n\n```rust\n$ no\n```\n\
                        ```console\n$ cargo xtask test\n```\n";
        assert_eq!(blocks(markdown), [["kumiki doctor"], ["cargo xtask test"]]);
    }
}
